//! Writes that are not durable yet: a view of the store does not show them.
//!
//! A machine notes each record that its batches put or delete, so that the next input sees it. Once
//! a batch is durable, its notes are dropped.

use std::collections::VecDeque;
use std::hash::Hash;

use store::StoreError;

use super::hashed::HashMap;

/// Notes that there stays room for when all are durable.
const ROOM_KEPT: usize = 1_024;

/// Records of one kind that were put or deleted, by key, until their batch is durable.
#[derive(Debug)]
pub(crate) struct PendingWrites<K, V> {
    /// The latest batch that wrote it, and what it is now; `None` once it is deleted.
    records: HashMap<K, (u64, Option<V>)>,
    order: VecDeque<(u64, K)>,
}

impl<K, V> Default for PendingWrites<K, V> {
    fn default() -> Self {
        Self { records: HashMap::default(), order: VecDeque::new() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> PendingWrites<K, V> {
    /// Notes what batch `seq` makes of a record; `None` deletes it.
    pub(crate) fn put(&mut self, seq: u64, key: K, value: Option<V>) {
        self.order.push_back((seq, key.clone()));
        self.records.insert(key, (seq, value));
    }

    /// All batches up to `seq` are durable: forgets what they wrote.
    pub(crate) fn settle(&mut self, seq: u64) {
        self.settle_with(seq, |_| {});
    }

    /// The same; `forgotten` is called with each record that is there.
    pub(crate) fn settle_with(&mut self, seq: u64, mut forgotten: impl FnMut(&V)) {
        while let Some((written, key)) = self.order.pop_front_if(|(written, _)| *written <= seq) {
            if self.records.get(&key).is_some_and(|(latest, _)| *latest == written)
                && let Some((_, Some(value))) = self.records.remove(&key)
            {
                forgotten(&value);
            }
        }
        if self.order.is_empty() && self.order.capacity() > ROOM_KEPT {
            // The room of a burst goes with it.
            *self = Self::default();
        }
    }

    /// What a pending write makes of a record: `None` if there is none, `Some(None)` if it deletes
    /// the record.
    pub(crate) fn get(&self, key: &K) -> Option<Option<&V>> {
        self.records.get(key).map(|(_, value)| value.as_ref())
    }

    /// The record as the latest write left it; `read` reads the durable one.
    pub(crate) fn get_or_read(
        &self,
        key: &K,
        read: impl FnOnce() -> Result<Option<V>, StoreError>,
    ) -> Result<Option<V>, StoreError> {
        self.get(key).map_or_else(read, |pending| Ok(pending.cloned()))
    }

    /// How many records have pending writes.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The records that pending writes put, in no order.
    pub(crate) fn present(&self) -> impl Iterator<Item = &V> {
        self.records.values().filter_map(|(_, value)| value.as_ref())
    }

    /// The first `limit` records in the order of `place`: of `stored`, brought to what they are
    /// now, and of the wanted pending ones. `stored` is all that the store has up to its last one,
    /// or all there is if `whole`. No two have the same place.
    pub(crate) fn merged<P: Ord>(
        &self,
        stored: Vec<(K, V)>,
        whole: bool,
        limit: usize,
        place: impl Fn(&V) -> P,
        wanted: impl Fn(&V) -> bool,
    ) -> Vec<V> {
        if self.records.is_empty() {
            return stored.into_iter().map(|(_, value)| value).take(limit).collect();
        }
        let end = stored.last().filter(|_| !whole).map(|(_, value)| place(value));
        let untouched = stored.into_iter().filter(|(key, _)| !self.records.contains_key(key));
        let mut all: Vec<V> = untouched.map(|(_, value)| value).collect();
        let within = |value: &&V| end.as_ref().is_none_or(|end| place(value) <= *end);
        all.extend(self.present().filter(|value| wanted(value)).filter(within).cloned());
        all.sort_unstable_by_key(&place);
        all.truncate(limit);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_seen_until_its_latest_batch_is_durable() {
        let mut pending = PendingWrites::default();
        let seen = |pending: &PendingWrites<u8, u8>| pending.get_or_read(&7, || Ok(Some(99))).expect("read");
        assert_eq!(seen(&pending), Some(99));
        pending.put(1, 7, Some(1));
        pending.put(2, 7, Some(2));
        pending.settle(1);
        assert_eq!(seen(&pending), Some(2));
        pending.put(3, 7, None);
        pending.settle(2);
        assert_eq!(seen(&pending), None);
        pending.settle(3);
        assert_eq!(seen(&pending), Some(99));
        assert!(pending.records.is_empty() && pending.order.is_empty());
    }

    #[test]
    fn what_was_read_is_brought_to_what_it_is_now() {
        let mut pending = PendingWrites::default();
        pending.put(1, 10, None);
        pending.put(1, 20, Some(15));
        pending.put(2, 30, Some(99));
        let page = |pending: &PendingWrites<i32, i32>, whole| {
            pending.merged(vec![(10, 10), (11, 11), (20, 20)], whole, 9, |value| *value, |_| true)
        };
        assert_eq!(page(&pending, false), [11, 15]);
        assert_eq!(page(&pending, true), [11, 15, 99]);
        assert_eq!((pending.get(&10), pending.get(&11)), (Some(None), None));
        pending.settle(1);
        assert_eq!(page(&pending, true), [10, 11, 20, 99]);
    }
}
