//! The devices of one partition by their attributes. For each value of a label and of a built-in
//! key it has the slots of the devices with that value.
//!
//! So the devices that a selection means are found without looking at each, and counted without
//! listing them. The index answers of every device exactly as [`crate::Selection::matches`] would.
//! It is in memory only. Whoever has it feeds it what is committed, and loads it after a start.

mod counts;
mod device_set;
mod evaluate;
mod ids;
mod loading;
mod slots;

use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation};
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use records::{Connection, DeviceProfile, DeviceSlot};

pub use counts::{CountsByValue, SelectionCount, ValueCount};
pub use device_set::DeviceSet;
pub use loading::LoadingIndex;
pub use roaring::RoaringBitmap;

use ids::SlotIds;
use slots::SlotSet;

/// Keys are names that operators chose, as for the maps of the engine's hot path.
type Hashing = foldhash::fast::RandomState;

/// The devices that have each value of a key. A value that no device has is not there.
type SlotsByValue = HashMap<Box<str>, SlotSet, Hashing>;

/// The devices of a partition, by their attributes.
#[derive(Debug, Default)]
pub struct FleetIndex {
    all: SlotSet,
    ids: SlotIds,
    kinds: SlotsByValue,
    labels: HashMap<Box<str>, LabelSlots, Hashing>,
    clients: HashMap<Incarnation, SlotSet, Hashing>,
    /// By [`Connection`]; see [`of_connection`].
    connections: [SlotSet; 3],
    connected: SlotSet,
    mute: SlotSet,
}

/// The devices that have a label.
#[derive(Debug, Default)]
struct LabelSlots {
    with: SlotSet,
    values: SlotsByValue,
}

/// The clients that there are. A link to one that is gone counts for nothing.
pub trait KnownClients {
    /// The client of that id.
    fn incarnation(&self, id: &str) -> Option<Incarnation>;
    /// The id of that client.
    fn id(&self, client: Incarnation) -> Option<ClientId>;
}

/// What changes a device in the index.
#[derive(Clone, Debug)]
pub enum IndexChange {
    /// A device was registered, changed or deleted: what it was, and what it is.
    Profile {
        /// `None` before it is registered.
        was: Option<Arc<DeviceProfile>>,
        /// `None` once it is deleted.
        is: Option<Arc<DeviceProfile>>,
    },
    /// Whether a device is heard of.
    Connection(DeviceSlot, Connection),
    /// Whether a session of a device lives.
    Connected(DeviceSlot, bool),
    /// Whether a device answers what it is asked.
    Answering(DeviceSlot, bool),
}

impl FleetIndex {
    /// A device was registered, changed or deleted, or is like something else now. What is told of
    /// a slot without a device is ignored.
    pub fn apply(&mut self, change: &IndexChange) {
        match change {
            IndexChange::Profile { was, is } => self.change_profile(was.as_deref(), is.as_deref()),
            IndexChange::Connection(slot, connection) => self.set_connection(*slot, *connection),
            IndexChange::Connected(slot, is) if self.all.contains(slot.0) => self.connected.set(slot.0, *is),
            IndexChange::Answering(slot, is) if self.all.contains(slot.0) => self.mute.set(slot.0, !*is),
            IndexChange::Connected(..) | IndexChange::Answering(..) => {}
        }
    }

    /// Takes over what only this process knows of devices that are still here: the sessions that
    /// live, and who is mute.
    pub fn go_on_from(&mut self, before: &Self) {
        for (slots, known) in [(&mut self.connected, &before.connected), (&mut self.mute, &before.mute)] {
            known.iter().filter(|slot| self.all.contains(*slot)).for_each(|slot| slots.set(slot, true));
        }
    }

    /// How many devices there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.all.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The id of the device in a slot.
    #[must_use]
    pub fn device_id(&self, slot: DeviceSlot) -> Option<DeviceId> {
        self.ids.get(slot.0).and_then(DeviceId::new)
    }

    /// Whether a session of a device lives.
    #[must_use]
    pub fn is_connected(&self, slot: DeviceSlot) -> bool {
        self.connected.contains(slot.0)
    }

    /// Whether a device is known not to answer what it is asked.
    #[must_use]
    pub fn is_mute(&self, slot: DeviceSlot) -> bool {
        self.mute.contains(slot.0)
    }

    /// Devices with sessions of their own, in order of slot.
    pub fn connected(&self) -> impl Iterator<Item = DeviceSlot> {
        self.connected.iter().map(DeviceSlot)
    }

    /// How many devices have sessions of their own.
    #[must_use]
    pub fn connected_len(&self) -> u64 {
        self.connected.len()
    }

    /// What the index takes of memory, in bytes, but for what the allocator adds: first for the
    /// attributes, then for the ids.
    #[must_use]
    pub fn bytes(&self) -> (usize, usize) {
        let values = |values: &SlotsByValue| -> usize {
            let texts: usize = values.iter().map(|(value, slots)| value.len() + slots.heap_bytes()).sum();
            texts + values.allocation_size()
        };
        let label = |label: &LabelSlots| label.with.heap_bytes() + values(&label.values);
        let labels: usize = self.labels.iter().map(|(key, of_key)| key.len() + label(of_key)).sum();
        let clients: usize = self.clients.values().map(SlotSet::heap_bytes).sum();
        let maps = self.labels.allocation_size() + self.clients.allocation_size();
        let states: usize = self
            .connections
            .iter()
            .chain([&self.all, &self.connected, &self.mute])
            .map(SlotSet::heap_bytes)
            .sum();
        (labels + clients + maps + states + values(&self.kinds), self.ids.heap_bytes())
    }

    fn set_connection(&mut self, slot: DeviceSlot, connection: Connection) {
        if self.all.contains(slot.0) {
            for (of, slots) in self.connections.iter_mut().enumerate() {
                slots.set(slot.0, of == of_connection(connection));
            }
        }
    }

    fn change_profile(&mut self, was: Option<&DeviceProfile>, is: Option<&DeviceProfile>) {
        let Some(DeviceSlot(slot)) = is.or(was).map(|known| known.slot) else { return };
        match (was, is) {
            (None, Some(is)) => {
                self.all.insert(slot);
                self.ids.put(slot, is.id.as_str());
                put(&mut self.kinds, is.kind.as_str(), slot);
                self.set_connection(is.slot, Connection::NeverSeen);
            }
            (Some(was), None) => {
                self.all.remove(slot);
                self.ids.remove(slot);
                take(&mut self.kinds, was.kind.as_str(), slot);
                let states = self.connections.iter_mut().chain([&mut self.connected, &mut self.mute]);
                states.for_each(|slots| slots.set(slot, false));
            }
            // An id and a kind never change.
            _ => {}
        }
        let (old, new) = (labels_of(was), labels_of(is));
        let only_in = |these: &'_ [(String, String)], label: &(String, String)| {
            these.binary_search_by(|(key, _)| key.cmp(&label.0)).ok().is_none_or(|at| these[at].1 != label.1)
        };
        old.iter()
            .filter(|label| only_in(new, label))
            .for_each(|(key, value)| self.unlabel(key, value, slot));
        new.iter().filter(|label| only_in(old, label)).for_each(|(key, value)| self.label(key, value, slot));
        self.change_clients(slot, clients_of(was), clients_of(is));
    }

    fn label(&mut self, key: &str, value: &str, slot: u32) {
        let label = at(&mut self.labels, key);
        label.with.insert(slot);
        put(&mut label.values, value, slot);
    }

    fn unlabel(&mut self, key: &str, value: &str, slot: u32) {
        let Some(label) = self.labels.get_mut(key) else { return };
        label.with.remove(slot);
        take(&mut label.values, value, slot);
        if label.values.is_empty() {
            self.labels.remove(key);
        }
    }

    fn change_clients(&mut self, slot: u32, was: &[Incarnation], is: &[Incarnation]) {
        if was == is {
            return;
        }
        for client in was.iter().filter(|client| !is.contains(client)) {
            let Some(slots) = self.clients.get_mut(client) else { continue };
            slots.remove(slot);
            if slots.is_empty() {
                self.clients.remove(client);
            }
        }
        for client in is {
            self.clients.entry(*client).or_default().insert(slot);
        }
    }
}

fn labels_of(profile: Option<&DeviceProfile>) -> &[(String, String)] {
    profile.map_or(&[], |profile| &profile.labels)
}

fn clients_of(profile: Option<&DeviceProfile>) -> &[Incarnation] {
    profile.map_or(&[], |profile| &profile.clients)
}

/// What is kept under a text, which is copied only when it is new.
fn at<'a, V: Default>(map: &'a mut HashMap<Box<str>, V, Hashing>, text: &str) -> &'a mut V {
    match map.entry_ref(text) {
        EntryRef::Occupied(known) => known.into_mut(),
        EntryRef::Vacant(vacant) => vacant.insert_with_key(text.into(), V::default()),
    }
}

fn put(values: &mut SlotsByValue, value: &str, slot: u32) {
    at(values, value).insert(slot);
}

fn take(values: &mut SlotsByValue, value: &str, slot: u32) {
    let Some(slots) = values.get_mut(value) else { return };
    slots.remove(slot);
    if slots.is_empty() {
        values.remove(value);
    }
}

/// The place of a connection among those of an index.
fn of_connection(connection: Connection) -> usize {
    match connection {
        Connection::NeverSeen => 0,
        Connection::Online => 1,
        Connection::Lost => 2,
    }
}

#[cfg(test)]
mod tests;
