//! What batches that are not durable yet have changed: views of the store do not show it.

use std::collections::{BTreeMap, VecDeque};

/// Changes that there stays room for when all are durable.
const ROOM_KEPT: usize = 1_024;

/// Changed records by key, until their batch is durable.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    records: BTreeMap<K, (u64, Option<V>)>,
    order: VecDeque<(u64, K)>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { records: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Recent<K, V> {
    /// Notes what batch `seq` makes of a record; `None` deletes it.
    pub(crate) fn put(&mut self, seq: u64, key: K, value: Option<V>) {
        self.order.push_back((seq, key.clone()));
        self.records.insert(key, (seq, value));
    }

    /// Forgets what is durable. The room of a burst goes with it.
    pub(crate) fn settle(&mut self, seq: u64) {
        self.settle_with(seq, |_| {});
    }

    /// The same; `forgotten` is told of each record that is there.
    pub(crate) fn settle_with(&mut self, seq: u64, mut forgotten: impl FnMut(&V)) {
        while let Some((written, key)) = self.order.pop_front_if(|(written, _)| *written <= seq) {
            if self.records.get(&key).is_some_and(|(latest, _)| *latest == written)
                && let Some((_, Some(value))) = self.records.remove(&key)
            {
                forgotten(&value);
            }
        }
        if self.order.is_empty() {
            self.order.shrink_to(ROOM_KEPT);
        }
    }

    /// What became of a record lately: nothing, or what it is, or that it is gone.
    pub(crate) fn get(&self, key: &K) -> Option<Option<&V>> {
        self.records.get(key).map(|(_, value)| value.as_ref())
    }

    /// How many records were changed lately.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The records that were changed lately, and are there.
    pub(crate) fn present(&self) -> impl Iterator<Item = &V> {
        self.records.values().filter_map(|(_, value)| value.as_ref())
    }

    /// A record that was changed lately, and is there.
    pub(crate) fn find(&self, is_meant: impl Fn(&V) -> bool) -> Option<&V> {
        self.records.values().filter_map(|(_, value)| value.as_ref()).find(|value| is_meant(value))
    }

    /// The first `limit` records in the order of `place`, of those read from the store, which are all that it has up to the last
    /// of them (or all there are if `whole`), and of those changed lately that are wanted.
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
        let lately = self.records.values().filter_map(|(_, value)| value.as_ref());
        let within = |value: &&V| end.as_ref().is_none_or(|end| place(value) <= *end);
        all.extend(lately.filter(|value| wanted(value)).filter(within).cloned());
        all.sort_by_key(&place);
        all.truncate(limit);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_brought_to_what_it_is_now() {
        let mut recent = Recent::default();
        recent.put(1, 10, None);
        recent.put(1, 20, Some(15));
        recent.put(2, 30, Some(99));
        let page = |recent: &Recent<i32, i32>, whole| {
            recent.merged(vec![(10, 10), (11, 11), (20, 20)], whole, 9, |value| *value, |_| true)
        };
        assert_eq!(page(&recent, false), [11, 15]);
        assert_eq!(page(&recent, true), [11, 15, 99]);
        assert_eq!((recent.get(&10), recent.get(&11)), (Some(None), None));
        recent.settle(1);
        assert_eq!(page(&recent, true), [10, 11, 20, 99]);
    }
}
