//! Intervals and rows against a set of numbers, and what is kept in memory.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

const STREAM: Incarnation = Incarnation(7);

/// Rows by source and lowest number, and how often they were looked at.
#[derive(Clone, Debug, Default)]
struct Rows {
    rows: BTreeMap<(Box<str>, u64), u64>,
    looks: Cell<usize>,
}

impl StoredIntervals for Rows {
    type Error = Infallible;

    fn up_to(
        &self,
        source: &str,
        number: u64,
        is_left_out: &dyn Fn(u64) -> bool,
    ) -> Result<Option<NumberInterval>, Infallible> {
        self.looks.set(self.looks.get() + 1);
        let range = (Box::from(source), 0)..=(Box::from(source), number);
        let mut below = self.rows.range(range).rev().map(|((_, from), to)| (*from, *to));
        let found = below.find(|(from, _)| !is_left_out(*from));
        Ok(found.map(|(from, to)| NumberInterval { from, to }))
    }

    fn starting_at(&self, source: &str, from: u64) -> Result<Option<NumberInterval>, Infallible> {
        self.looks.set(self.looks.get() + 1);
        let to = self.rows.get(&(Box::from(source), from));
        Ok(to.map(|to| NumberInterval { from, to: *to }))
    }
}

impl Rows {
    fn change(&mut self, changes: Vec<IntervalRowChange>) {
        for change in changes {
            match change {
                IntervalRowChange::Put(row) => drop(self.rows.insert((row.source, row.from), row.to)),
                IntervalRowChange::Delete(source, from) => {
                    assert!(self.rows.remove(&(source, from)).is_some(), "the row was there");
                }
            }
        }
    }

    fn numbers(&self) -> BTreeSet<(String, u64)> {
        let all = self.rows.iter();
        all.flat_map(|((source, from), to)| (*from..=*to).map(|number| (source.to_string(), number)))
            .collect()
    }
}

fn insert(numbers: &mut ExternalNumbers, rows: &Rows, number: u64) -> bool {
    let Ok(is_new) = numbers.insert("a", number, rows);
    is_new
}

fn row(from: u64, to: u64) -> ExternalInterval {
    ExternalInterval { stream: STREAM, source: "a".into(), from, to }
}

#[test]
fn ascending_numbers_change_one_row_and_look_at_none() {
    let (mut numbers, rows) = (ExternalNumbers::default(), Rows::default());
    assert!((5..1_000).all(|number| insert(&mut numbers, &rows, number)));
    assert_eq!(rows.looks.get(), 1, "that of the highest");
    assert_eq!(numbers.take_changes(STREAM, 1), [IntervalRowChange::Put(row(5, 999))]);
    assert_eq!(numbers.take_changes(STREAM, 2), []);
    assert!(!insert(&mut numbers, &rows, 7));
    assert_eq!((numbers.insert("b", 7, &rows), numbers.sources()), (Ok(true), 2));
    assert_eq!(numbers.contains("c", 7, &rows), Ok(false));
}

#[test]
fn a_row_that_never_was_stored_is_not_deleted() {
    let (mut numbers, rows) = (ExternalNumbers::default(), Rows::default());
    assert!(insert(&mut numbers, &rows, 5) && insert(&mut numbers, &rows, 4));
    assert_eq!(numbers.take_changes(STREAM, 1), [IntervalRowChange::Put(row(4, 5))]);
    assert!(insert(&mut numbers, &rows, 3));
    let changes = [IntervalRowChange::Put(row(3, 5)), IntervalRowChange::Delete("a".into(), 4)];
    assert_eq!(numbers.take_changes(STREAM, 2), changes);
}

#[test]
fn the_ends_of_all_numbers_are_numbers() {
    let (mut numbers, rows) = (ExternalNumbers::default(), Rows::default());
    for number in [u64::MAX, 0, u64::MAX - 1, 1] {
        assert!(insert(&mut numbers, &rows, number) && !insert(&mut numbers, &rows, number), "{number}");
    }
    let changes = [IntervalRowChange::Put(row(0, 1)), IntervalRowChange::Put(row(u64::MAX - 1, u64::MAX))];
    assert_eq!(numbers.take_changes(STREAM, 1), changes);
}

#[test]
fn intervals_that_are_durable_take_no_memory_however_many_they_are() {
    let (mut numbers, mut rows) = (ExternalNumbers::default(), Rows::default());
    for batch in 1..100 {
        for number in 0..100 {
            assert!(insert(&mut numbers, &rows, 2 * (100 * number + batch)));
        }
        rows.change(numbers.take_changes(STREAM, batch));
        numbers.settle(batch);
        assert_eq!((numbers.bytes(), numbers.untaken_bytes()), (SOURCE_BYTES + 1, 0));
    }
    assert_eq!(rows.rows.len(), 9_900);
    numbers.shrink();
    assert_eq!((numbers.bytes(), numbers.sources()), (0, 0));
    assert!(!insert(&mut numbers, &rows, 2));
}

#[derive(Clone, Debug)]
enum Do {
    Insert(u8, u64),
    Save,
    /// The oldest batch that is on its way is durable, and its machine may know.
    Durable(bool),
    Shrink,
    Crash,
}

fn doing() -> impl Strategy<Value = Do> {
    prop_oneof![
        12 => (0..3_u8, 0..40_u64).prop_map(|(source, number)| Do::Insert(source, number)),
        3 => Just(Do::Save),
        2 => any::<bool>().prop_map(Do::Durable),
        1 => Just(Do::Shrink),
        1 => Just(Do::Crash),
    ]
}

proptest! {
    #[test]
    fn a_number_is_new_once_and_a_crash_forgets_what_was_not_saved(
        doings in proptest::collection::vec(doing(), 0..150),
    ) {
        let (mut numbers, mut rows) = (ExternalNumbers::default(), Rows::default());
        let (mut naive, mut batch) = (BTreeSet::new(), 0);
        let mut in_flight: VecDeque<(u64, Vec<IntervalRowChange>)> = VecDeque::new();
        for doing in doings {
            match doing {
                Do::Insert(source, number) => {
                    let source = format!("s{source}");
                    let was_there = naive.contains(&(source.clone(), number));
                    prop_assert_eq!(numbers.contains(&source, number, &rows), Ok(was_there));
                    let is_new = numbers.insert(&source, number, &rows);
                    prop_assert_eq!(is_new, Ok(naive.insert((source, number))));
                }
                Do::Save => {
                    batch += 1;
                    in_flight.push_back((batch, numbers.take_changes(STREAM, batch)));
                    prop_assert_eq!(numbers.untaken_bytes(), 0);
                }
                Do::Durable(is_known) => {
                    if let Some((seq, changes)) = in_flight.pop_front() {
                        rows.change(changes);
                        numbers.settle(if is_known { seq } else { 0 });
                    }
                }
                Do::Shrink => numbers.shrink(),
                Do::Crash => {
                    in_flight.clear();
                    naive = rows.numbers();
                    numbers = ExternalNumbers::default();
                }
            }
            prop_assert_eq!(numbers.bytes(), counted_bytes(&numbers));
            let changes = numbers.sources.values().flat_map(|source| source.changes.values());
            let untaken = changes.filter(|row| row.batch.is_none()).count();
            prop_assert_eq!(numbers.untaken_bytes(), untaken * CHANGE_BYTES);
        }
    }
}

/// The memory of all sources, added up.
fn counted_bytes(numbers: &ExternalNumbers) -> usize {
    let all = numbers.sources.iter();
    all.map(|(name, source)| SOURCE_BYTES + name.len() + source.changes.len() * CHANGE_BYTES).sum()
}
