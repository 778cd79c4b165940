//! A set of numbers as the intervals it consists of: small while numbers ascend, however many there
//! are.
//!
//! An insertion says which rows it changes: intervals are kept by their lowest number.

use std::collections::BTreeMap;

/// Heap bytes of an interval below the highest. Nodes of the map are about half full: 16 bytes of
/// numbers, as much room again, and the node's share.
const INTERVAL_BYTES: usize = 40;

/// Numbers without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberInterval {
    /// The lowest.
    pub from: u64,
    /// The highest.
    pub to: u64,
}

/// What an insertion changes of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalChange {
    /// This interval is there now, in place of any other from the same number on.
    pub put: NumberInterval,
    /// The interval from this number on is a part of `put` now.
    pub deleted: Option<u64>,
}

/// Numbers, as intervals that do not touch. Inserting the number above the highest takes constant
/// time; any other takes the logarithm of the count of intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalSet {
    /// By the lowest number.
    below: BTreeMap<u64, u64>,
    highest: Option<NumberInterval>,
}

impl IntervalSet {
    /// Adds what a row says. Rows come in ascending order and do not touch.
    pub fn load(&mut self, interval: NumberInterval) {
        debug_assert!(self.highest.is_none_or(|highest| highest.to < interval.from.saturating_sub(1)));
        if let Some(lower) = self.highest.replace(interval) {
            self.below.insert(lower.from, lower.to);
        }
    }

    /// Adds a number. `None` if it was there.
    pub fn insert(&mut self, number: u64) -> Option<IntervalChange> {
        match &mut self.highest {
            Some(highest) if number < highest.from => self.insert_below(number),
            Some(highest) if number <= highest.to => None,
            Some(highest) if number - 1 == highest.to => {
                highest.to = number;
                Some(IntervalChange { put: *highest, deleted: None })
            }
            _ => {
                let put = NumberInterval { from: number, to: number };
                self.load(put);
                Some(IntervalChange { put, deleted: None })
            }
        }
    }

    /// Adds a number that is below the highest interval.
    fn insert_below(&mut self, number: u64) -> Option<IntervalChange> {
        let before = self.below.range(..=number).next_back().map(|(from, to)| (*from, *to));
        if before.is_some_and(|(_, to)| to >= number) {
            return None;
        }
        let touching = before.filter(|(_, to)| *to == number - 1);
        let from = touching.map_or(number, |(from, _)| from);
        let next = number + 1;
        let highest = self.highest.as_mut().filter(|highest| highest.from == next);
        if let Some(highest) = highest {
            self.below.remove(&from);
            highest.from = from;
            return Some(IntervalChange { put: *highest, deleted: Some(next) });
        }
        let joined = self.below.remove(&next);
        let to = joined.unwrap_or(number);
        self.below.insert(from, to);
        Some(IntervalChange { put: NumberInterval { from, to }, deleted: joined.map(|_| next) })
    }

    /// Whether a number is there.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        match self.highest {
            Some(highest) if number >= highest.from => number <= highest.to,
            _ => self.below.range(..=number).next_back().is_some_and(|(_, to)| *to >= number),
        }
    }

    /// How many intervals there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.below.len() + usize::from(self.highest.is_some())
    }

    /// Whether no number is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.highest.is_none()
    }

    /// The intervals, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NumberInterval> {
        let below = self.below.iter().map(|(from, to)| NumberInterval { from: *from, to: *to });
        below.chain(self.highest)
    }

    /// Bytes of memory beside the set itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.below.len() * INTERVAL_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ascending_numbers_are_one_interval() {
        let mut set = IntervalSet::default();
        for number in 0..10_000 {
            let change = set.insert(number).expect("it is new");
            let put = NumberInterval { from: 0, to: number };
            assert_eq!(change, IntervalChange { put, deleted: None });
        }
        assert_eq!((set.len(), set.heap_bytes(), set.insert(7)), (1, 0, None));
    }

    #[test]
    fn a_number_between_two_intervals_makes_them_one() {
        let mut set = IntervalSet::default();
        let interval = |from, to| NumberInterval { from, to };
        [interval(1, 3), interval(5, 6), interval(8, 9)].into_iter().for_each(|row| set.load(row));
        let change = IntervalChange { put: interval(1, 6), deleted: Some(5) };
        assert_eq!((set.insert(4), set.len()), (Some(change), 2));
        let change = IntervalChange { put: interval(1, 9), deleted: Some(8) };
        assert_eq!((set.insert(7), set.len()), (Some(change), 1));
        assert_eq!(set.iter().collect::<Vec<_>>(), [interval(1, 9)]);
    }

    #[test]
    fn the_ends_of_all_numbers_are_numbers() {
        let mut set = IntervalSet::default();
        for number in [u64::MAX, 0, u64::MAX - 1, 1] {
            assert!(set.insert(number).is_some() && set.insert(number).is_none(), "{number}");
        }
        let ends = [NumberInterval { from: 0, to: 1 }, NumberInterval { from: u64::MAX - 1, to: u64::MAX }];
        assert_eq!(set.iter().collect::<Vec<_>>(), ends);
    }

    /// The intervals of a set of numbers, found number by number.
    fn naive_intervals(numbers: &BTreeSet<u64>) -> Vec<NumberInterval> {
        let starts = numbers.iter().filter(|number| **number == 0 || !numbers.contains(&(**number - 1)));
        let end = |from: u64| (from..).find(|number| !numbers.contains(&(number + 1))).unwrap_or(from);
        starts.map(|from| NumberInterval { from: *from, to: end(*from) }).collect()
    }

    proptest! {
        #[test]
        fn it_is_what_a_set_of_numbers_is(
            numbers in proptest::collection::vec(0..60_u64, 0..120),
            asked in proptest::collection::vec(0..70_u64, 0..20),
        ) {
            let (mut set, mut naive) = (IntervalSet::default(), BTreeSet::new());
            let mut rows = BTreeMap::new();
            for number in numbers {
                let change = set.insert(number);
                prop_assert_eq!(change.is_some(), naive.insert(number));
                if let Some(IntervalChange { put, deleted }) = change {
                    if let Some(deleted) = deleted {
                        prop_assert!(rows.remove(&deleted).is_some(), "the row was there");
                    }
                    rows.insert(put.from, put.to);
                }
            }
            let intervals = naive_intervals(&naive);
            prop_assert_eq!((set.len(), set.is_empty()), (intervals.len(), naive.is_empty()));
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), intervals);
            prop_assert!(asked.iter().all(|number| set.contains(*number) == naive.contains(number)));
            let mut loaded = IntervalSet::default();
            for (from, to) in rows {
                loaded.load(NumberInterval { from, to });
            }
            prop_assert_eq!(loaded, set);
        }
    }
}
