//! How many devices there are of a selection, and how many for each value of a key.

use std::ops::AddAssign;

use hashbrown::HashMap;
use records::Connection;
use roaring::RoaringBitmap;

use super::{FleetIndex, Hashing, KnownClients, SlotSet, SlotsByValue, at, of_connection};
use crate::selection::{SelectionKey, truth};

/// How many devices there are, and of what kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectionCount {
    /// All.
    pub total: u64,
    /// Those with a session of their own.
    pub connected: u64,
    /// Those that are heard of.
    pub online: u64,
    /// Those that are silent for too long.
    pub lost: u64,
    /// Those that were never heard of, and are not missed yet.
    pub never_seen: u64,
}

impl AddAssign for SelectionCount {
    fn add_assign(&mut self, other: Self) {
        self.total += other.total;
        self.connected += other.connected;
        self.online += other.online;
        self.lost += other.lost;
        self.never_seen += other.never_seen;
    }
}

/// Devices with the same value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueCount {
    /// The value; `None` are the devices without the key.
    pub value: Option<Box<str>>,
    /// How many there are.
    pub total: u64,
    /// How many of them have a session of their own.
    pub connected: u64,
}

/// Counts by value, of several partitions together.
#[derive(Debug, Default)]
pub struct CountsByValue {
    /// By value: all, and those with a session.
    values: HashMap<Box<str>, (u64, u64), Hashing>,
    without: (u64, u64),
}

impl CountsByValue {
    /// The values that most devices have, most first, and among equals by name; at most `max`.
    /// Whether there are more.
    #[must_use]
    pub fn most(self, max: usize) -> (Vec<ValueCount>, bool) {
        let item = |(value, (total, connected))| ValueCount { value, total, connected };
        let values = self.values.into_iter().map(|(value, counts)| (Some(value), counts));
        let all = values.chain([(None, self.without)]).map(item);
        let mut items: Vec<ValueCount> = all.filter(|item| item.total > 0).collect();
        let first =
            |a: &ValueCount, b: &ValueCount| b.total.cmp(&a.total).then_with(|| a.value.cmp(&b.value));
        let more = items.len() > max;
        if more {
            items.select_nth_unstable_by(max, first);
            items.truncate(max);
        }
        items.sort_unstable_by(first);
        (items, more)
    }

    fn add(&mut self, value: &str, total: u64, connected: u64) {
        let counts = at(&mut self.values, value);
        counts.0 += total;
        counts.1 += connected;
    }
}

impl FleetIndex {
    /// How many of these devices there are.
    #[must_use]
    pub fn count(&self, found: &RoaringBitmap) -> SelectionCount {
        let of = |connection| self.connections[of_connection(connection)].len_among(found);
        SelectionCount {
            total: found.len(),
            connected: self.connected.len_among(found),
            online: of(Connection::Online),
            lost: of(Connection::Lost),
            never_seen: of(Connection::NeverSeen),
        }
    }

    /// Counts these devices by the values of a key. A device with several clients counts for each.
    pub fn count_by(
        &self,
        found: &RoaringBitmap,
        key: &SelectionKey,
        clients: &dyn KnownClients,
        counts: &mut CountsByValue,
    ) {
        let connected = found & &*self.connected.to_bitmap();
        self.each_value(key, clients, &mut |value, slots| {
            let total = slots.len_among(found);
            if total > 0 {
                counts.add(value, total, slots.len_among(&connected));
            }
        });
        let with = self.with_key(key, clients);
        counts.without.0 += found.len() - found.intersection_len(&with);
        counts.without.1 += connected.len() - connected.intersection_len(&with);
    }

    /// Hands out these devices by the values of a key, those without it as `None`; only values that
    /// some of them have, in any order. A device with several clients comes with each.
    pub fn split_by(
        &self,
        found: &RoaringBitmap,
        key: &SelectionKey,
        clients: &dyn KnownClients,
        each: &mut dyn FnMut(Option<&str>, RoaringBitmap),
    ) {
        let mut some = |value: Option<&str>, slots: RoaringBitmap| {
            if !slots.is_empty() {
                each(value, slots);
            }
        };
        self.each_value(key, clients, &mut |value, slots| some(Some(value), slots.among(found)));
        some(None, found - &*self.with_key(key, clients));
    }

    /// Hands out every value of a key, with the devices that have it.
    fn each_value(
        &self,
        key: &SelectionKey,
        clients: &dyn KnownClients,
        each: &mut dyn FnMut(&str, &SlotSet),
    ) {
        let mut all = |values: &SlotsByValue| values.iter().for_each(|(value, slots)| each(value, slots));
        match key {
            SelectionKey::Kind => all(&self.kinds),
            SelectionKey::Label(key) => self.labels.get(key).into_iter().for_each(|label| all(&label.values)),
            SelectionKey::Client => self.known(clients).for_each(|(id, slots)| each(id.as_str(), slots)),
            SelectionKey::Connection => {
                for connection in Connection::ALL {
                    each(connection.as_str(), &self.connections[of_connection(connection)]);
                }
            }
            SelectionKey::Connected => {
                each(truth(true), &self.connected);
                each(truth(false), &self.all.without(&self.connected));
            }
            SelectionKey::Answering => {
                each(truth(false), &self.mute);
                each(truth(true), &self.all.without(&self.mute));
            }
        }
    }
}
