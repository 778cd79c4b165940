//! How many rows a call may have at destinations that had no room for all of one. It is half of
//! those the next time, down to one, and twice as many after each call that is taken. Pure.
//!
//! A call is taken as a whole or not at all. So one that is larger than the room that is left
//! would come back for ever, though some of its rows fit.

use std::collections::BTreeMap;

use crate::plan::CALL_ROWS_MAX;

/// Most rows of the next call, by destination; others may have as many as the API takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallSizes(BTreeMap<String, usize>);

impl CallSizes {
    pub(crate) fn rows_max(&self, destination: &str) -> usize {
        self.0.get(destination).copied().unwrap_or(CALL_ROWS_MAX)
    }

    /// It had no room for a call of so many rows.
    pub(crate) fn had_no_room(&mut self, destination: &str, rows: usize) {
        self.0.insert(destination.to_owned(), (rows / 2).max(1));
    }

    /// It took a call.
    pub(crate) fn took(&mut self, destination: &str) {
        let Some(rows_max) = self.0.get_mut(destination) else { return };
        *rows_max *= 2;
        if *rows_max >= CALL_ROWS_MAX {
            self.0.remove(destination);
        }
    }

    /// Forgets the others: what was sent whole is tried whole.
    pub(crate) fn keep_only(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|destination, _| is_kept(destination));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_shrink_to_one_row_and_grow_to_all() {
        let mut sizes = CallSizes::default();
        assert_eq!(sizes.rows_max("s"), CALL_ROWS_MAX);
        for (rows, expect) in [(8, 4), (4, 2), (3, 1), (1, 1)] {
            sizes.had_no_room("s", rows);
            assert_eq!((sizes.rows_max("s"), sizes.rows_max("other")), (expect, CALL_ROWS_MAX));
        }
        for expect in [2, 4, 8, 16, 32, 64, 128, 256, 512, CALL_ROWS_MAX] {
            sizes.took("s");
            assert_eq!(sizes.rows_max("s"), expect);
        }
        assert_eq!(sizes, CallSizes::default(), "nothing is kept of it");
        sizes.had_no_room("s", 8);
        sizes.had_no_room("t", 8);
        sizes.keep_only(|destination| destination == "t");
        assert_eq!((sizes.rows_max("s"), sizes.rows_max("t")), (CALL_ROWS_MAX, 4));
    }
}
