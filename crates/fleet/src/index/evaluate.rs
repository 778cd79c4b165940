//! Which devices a selection means: an algebra of bitmaps.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base::Incarnation;
use records::{Connection, DeviceSlot};
use roaring::RoaringBitmap;

use super::{FleetIndex, KnownClients, SlotSet, of_connection};
use crate::selection::{Selection, SelectionKey, Test, truth};

impl FleetIndex {
    /// The devices that a selection means.
    #[must_use]
    pub fn evaluate(&self, selection: &Selection, clients: &dyn KnownClients) -> RoaringBitmap {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for requirement in selection.requirements() {
            let key = &requirement.key;
            match &requirement.test {
                Test::In(values) => wanted.push(self.with_any(key, values, clients)),
                Test::NotIn(values) => unwanted.push(self.with_any(key, values, clients)),
                Test::Exists => wanted.push(self.with_key(key, clients)),
                Test::Missing => unwanted.push(self.with_key(key, clients)),
            }
        }
        // The fewest first: what follows is never more.
        wanted.sort_by_key(|devices| devices.len());
        let mut wanted = wanted.into_iter();
        let mut found = wanted.next().unwrap_or_else(|| self.all.to_bitmap()).into_owned();
        wanted.for_each(|devices| found &= &*devices);
        unwanted.iter().for_each(|devices| found -= &**devices);
        found
    }

    /// Whether a selection means this device: one that is not there is never meant.
    #[must_use]
    pub fn matches(&self, slot: DeviceSlot, selection: &Selection, clients: &dyn KnownClients) -> bool {
        let meets = |key: &SelectionKey, test: &Test| {
            let has = |value: &str| self.has(slot.0, key, value, clients);
            match test {
                Test::In(values) => values.iter().any(|value| has(value)),
                Test::NotIn(values) => !values.iter().any(|value| has(value)),
                Test::Exists => self.has_key(slot.0, key, clients),
                Test::Missing => !self.has_key(slot.0, key, clients),
            }
        };
        self.all.contains(slot.0) && selection.requirements().iter().all(|one| meets(&one.key, &one.test))
    }

    fn with_any(
        &self,
        key: &SelectionKey,
        values: &BTreeSet<Box<str>>,
        clients: &dyn KnownClients,
    ) -> Cow<'_, RoaringBitmap> {
        let mut values = values.iter().map(|value| self.with(key, value, clients));
        let first = values.next().unwrap_or_default();
        values.fold(first, |found, more| Cow::Owned(found.into_owned() | &*more))
    }

    /// The devices with a value.
    fn with(&self, key: &SelectionKey, value: &str, clients: &dyn KnownClients) -> Cow<'_, RoaringBitmap> {
        let others = |slots: &SlotSet| Cow::Owned(self.all.without(slots).to_bitmap().into_owned());
        match (key, value) {
            (SelectionKey::Connected, "false") => others(&self.connected),
            (SelectionKey::Answering, "true") => others(&self.mute),
            _ => self.kept(key, value, clients).map_or_else(Cow::default, SlotSet::to_bitmap),
        }
    }

    fn has(&self, slot: u32, key: &SelectionKey, value: &str, clients: &dyn KnownClients) -> bool {
        match key {
            SelectionKey::Connected => value == truth(self.connected.contains(slot)),
            SelectionKey::Answering => value == truth(!self.mute.contains(slot)),
            _ => self.kept(key, value, clients).is_some_and(|slots| slots.contains(slot)),
        }
    }

    /// The devices with a value, where they are kept as such.
    fn kept(&self, key: &SelectionKey, value: &str, clients: &dyn KnownClients) -> Option<&SlotSet> {
        let of = |connection| Some(&self.connections[of_connection(connection)]);
        match key {
            SelectionKey::Kind => self.kinds.get(value),
            SelectionKey::Connection => {
                Connection::ALL.into_iter().find(|connection| connection.as_str() == value).and_then(of)
            }
            SelectionKey::Connected => (value == "true").then_some(&self.connected),
            SelectionKey::Answering => (value == "false").then_some(&self.mute),
            SelectionKey::Client => self.clients.get(&clients.incarnation(value)?),
            SelectionKey::Label(key) => self.labels.get(key)?.values.get(value),
        }
    }

    /// The devices that have a key, whatever its value.
    pub(super) fn with_key(&self, key: &SelectionKey, clients: &dyn KnownClients) -> Cow<'_, RoaringBitmap> {
        match key {
            SelectionKey::Label(key) => {
                self.labels.get(key).map_or_else(Cow::default, |label| label.with.to_bitmap())
            }
            SelectionKey::Client => {
                let mut linked = RoaringBitmap::new();
                self.known(clients).for_each(|(_, slots)| slots.add_to(&mut linked));
                Cow::Owned(linked)
            }
            // Every device has it.
            _ => self.all.to_bitmap(),
        }
    }

    fn has_key(&self, slot: u32, key: &SelectionKey, clients: &dyn KnownClients) -> bool {
        match key {
            SelectionKey::Label(key) => self.labels.get(key).is_some_and(|label| label.with.contains(slot)),
            SelectionKey::Client => self.known(clients).any(|(_, slots)| slots.contains(slot)),
            _ => true,
        }
    }

    /// Clients that there are, with the devices that are linked to them.
    pub(super) fn known(
        &self,
        clients: &dyn KnownClients,
    ) -> impl Iterator<Item = (base::ClientId, &SlotSet)> {
        let known = |(client, slots): (&Incarnation, _)| Some((clients.id(*client)?, slots));
        self.clients.iter().filter_map(known)
    }
}
