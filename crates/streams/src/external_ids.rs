//! Once only: which numbers each source has ever given to messages of a stream.
//!
//! Numbers are unique for ever, so their intervals are kept when the messages are gone. Texts are
//! unique while their message is kept: they are rows by [`text_hash`], and nothing here. Which
//! message a number belongs to is in [`crate::origins`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use base::{Incarnation, hash};
use records::ExternalInterval;

use crate::intervals::{IntervalChange, IntervalSet, NumberInterval};

/// Bytes of a source beside its intervals: its set, its pending changes and its place in the maps.
const SOURCE_BYTES: usize = 160;

/// The hash by which the text of an external id is found. Part of the stored form.
#[must_use]
pub fn text_hash(text: &str) -> u64 {
    hash::derived(0, text.as_bytes())
}

/// A change of the rows of intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntervalRowChange {
    /// This row is there now.
    Put(ExternalInterval),
    /// The row of this source from this number on is gone.
    Delete(Box<str>, u64),
}

/// The numbers that sources have given to messages of a stream. In memory while the stream is.
#[derive(Clone, Debug, Default)]
pub struct ExternalNumbers {
    /// Where each source is.
    places: BTreeMap<Arc<str>, usize>,
    sources: Vec<SourceNumbers>,
    /// Sources with changes that are not taken, in the order in which they changed.
    changed: Vec<usize>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct SourceNumbers {
    name: Arc<str>,
    numbers: IntervalSet,
    /// By lowest number.
    pending: BTreeMap<u64, PendingRow>,
}

/// A row that differs from the stored one.
#[derive(Clone, Copy, Debug)]
struct PendingRow {
    /// `None` for a row that goes.
    to: Option<u64>,
    /// Whether there is a stored row.
    is_stored: bool,
}

impl ExternalNumbers {
    /// Adds what a row says. Those of a source come in ascending order.
    pub fn load(&mut self, row: &ExternalInterval) {
        let place = self.place(&row.source);
        let numbers = &mut self.sources[place].numbers;
        let before = numbers.heap_bytes();
        numbers.load(NumberInterval { from: row.from, to: row.to });
        self.bytes += numbers.heap_bytes() - before;
    }

    /// Notes that a source gave a number. Whether it is new. Costs the logarithm of the count of
    /// sources, and nothing more while the source's numbers ascend.
    pub fn insert(&mut self, source: &str, number: u64) -> bool {
        let place = self.place(source);
        let of_source = &mut self.sources[place];
        let before = of_source.numbers.heap_bytes();
        let Some(change) = of_source.numbers.insert(number) else { return false };
        if of_source.pending.is_empty() {
            self.changed.push(place);
        }
        of_source.note(number, change);
        self.bytes = self.bytes + of_source.numbers.heap_bytes() - before;
        true
    }

    /// Whether a source has given a number.
    #[must_use]
    pub fn contains(&self, source: &str, number: u64) -> bool {
        self.places.get(source).is_some_and(|place| self.sources[*place].numbers.contains(number))
    }

    /// How many sources there are.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Bytes of memory, counted without looking at them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What makes the rows say all that was inserted, source by source. They are durable in the
    /// same batch as the messages that had the numbers: a number whose message a crash lost was
    /// never there.
    pub fn take_changes(&mut self, stream: Incarnation) -> Vec<IntervalRowChange> {
        let mut changes = Vec::new();
        for place in std::mem::take(&mut self.changed) {
            let of_source = &mut self.sources[place];
            for (from, row) in std::mem::take(&mut of_source.pending) {
                let source = Box::from(&*of_source.name);
                changes.push(match row.to {
                    Some(to) => IntervalRowChange::Put(ExternalInterval { stream, source, from, to }),
                    None => IntervalRowChange::Delete(source, from),
                });
            }
        }
        changes
    }

    fn place(&mut self, source: &str) -> usize {
        if let Some(place) = self.places.get(source) {
            return *place;
        }
        let (place, name) = (self.sources.len(), Arc::from(source));
        self.places.insert(Arc::clone(&name), place);
        self.sources.push(SourceNumbers { name, numbers: IntervalSet::default(), pending: BTreeMap::new() });
        self.bytes += SOURCE_BYTES + source.len();
        place
    }
}

impl SourceNumbers {
    fn note(&mut self, number: u64, change: IntervalChange) {
        if let Some(from) = change.deleted {
            self.note_deleted(from);
        }
        let to = Some(change.put.to);
        // An interval that begins with the number has no stored row, or one that is to go.
        let is_stored = change.put.from != number;
        self.pending.entry(change.put.from).or_insert(PendingRow { to, is_stored }).to = to;
    }

    fn note_deleted(&mut self, from: u64) {
        match self.pending.entry(from) {
            Entry::Occupied(row) if !row.get().is_stored => {
                row.remove();
            }
            Entry::Occupied(mut row) => row.get_mut().to = None,
            Entry::Vacant(row) => {
                row.insert(PendingRow { to: None, is_stored: true });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const STREAM: Incarnation = Incarnation(7);

    #[test]
    fn ascending_numbers_of_a_step_change_one_row() {
        let mut numbers = ExternalNumbers::default();
        assert!((5..1_000).all(|number| numbers.insert("a", number)));
        let row = ExternalInterval { stream: STREAM, source: "a".into(), from: 5, to: 999 };
        assert_eq!(numbers.take_changes(STREAM), [IntervalRowChange::Put(row)]);
        assert_eq!(numbers.take_changes(STREAM), []);
        assert!(!numbers.insert("a", 7) && numbers.insert("b", 7));
        assert_eq!((numbers.sources(), numbers.contains("b", 7), numbers.contains("c", 7)), (2, true, false));
    }

    #[test]
    fn a_row_that_never_was_stored_is_not_deleted() {
        let mut numbers = ExternalNumbers::default();
        assert!(numbers.insert("a", 5) && numbers.insert("a", 4));
        let row = |from, to| ExternalInterval { stream: STREAM, source: "a".into(), from, to };
        assert_eq!(numbers.take_changes(STREAM), [IntervalRowChange::Put(row(4, 5))]);
        assert!(numbers.insert("a", 3));
        let changes = [IntervalRowChange::Put(row(3, 5)), IntervalRowChange::Delete("a".into(), 4)];
        assert_eq!(numbers.take_changes(STREAM), changes);
    }

    #[derive(Clone, Debug)]
    enum Do {
        Insert(u8, u64),
        Save,
        Reload,
    }

    fn doing() -> impl Strategy<Value = Do> {
        prop_oneof![
            12 => (0..3_u8, 0..40_u64).prop_map(|(source, number)| Do::Insert(source, number)),
            2 => Just(Do::Save),
            1 => Just(Do::Reload),
        ]
    }

    fn load(rows: &BTreeMap<(Box<str>, u64), u64>) -> ExternalNumbers {
        let mut numbers = ExternalNumbers::default();
        for ((source, from), to) in rows {
            let row = ExternalInterval { stream: STREAM, source: source.clone(), from: *from, to: *to };
            numbers.load(&row);
        }
        numbers
    }

    proptest! {
        #[test]
        fn a_number_is_new_once_and_a_crash_forgets_what_was_not_saved(
            doings in proptest::collection::vec(doing(), 0..120),
        ) {
            let mut numbers = ExternalNumbers::default();
            let (mut naive, mut saved) = (BTreeSet::new(), BTreeSet::new());
            let mut rows = BTreeMap::new();
            for doing in doings {
                match doing {
                    Do::Insert(source, number) => {
                        let source = format!("s{source}");
                        let was_there = naive.contains(&(source.clone(), number));
                        prop_assert_eq!(numbers.contains(&source, number), was_there);
                        prop_assert_eq!(numbers.insert(&source, number), naive.insert((source, number)));
                    }
                    Do::Save => {
                        for change in numbers.take_changes(STREAM) {
                            match change {
                                IntervalRowChange::Put(row) => {
                                    rows.insert((row.source, row.from), row.to);
                                }
                                IntervalRowChange::Delete(source, from) => {
                                    prop_assert!(rows.remove(&(source, from)).is_some(), "the row was there");
                                }
                            }
                        }
                        saved.clone_from(&naive);
                    }
                    Do::Reload => {
                        numbers = load(&rows);
                        naive.clone_from(&saved);
                    }
                }
                let in_rows = rows.iter().flat_map(|((source, from), to)| {
                    (*from..=*to).map(move |number| (source.to_string(), number))
                });
                prop_assert_eq!(in_rows.collect::<BTreeSet<_>>(), saved.clone());
                prop_assert_eq!(numbers.bytes(), counted_bytes(&numbers));
            }
        }
    }

    /// The memory of all sources, added up.
    fn counted_bytes(numbers: &ExternalNumbers) -> usize {
        let names = numbers.places.keys().map(|name| name.len() + SOURCE_BYTES).sum::<usize>();
        names + numbers.sources.iter().map(|source| source.numbers.heap_bytes()).sum::<usize>()
    }
}
