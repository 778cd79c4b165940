//! The rows of a table through all layers, in order: of equal keys the newest layer's counts.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Bound;

use crate::codec::key::Key;
use crate::embedded::overlay::{CopiedRow, Overlay};
use crate::embedded::partition::Moment;
use crate::embedded::tables::{Row, Rows, Table};
use crate::key_range::KeyRange;
use crate::port::StoreError;

/// A key, and its row unless that is gone.
type RowOrGone = (Key, Option<Vec<u8>>);

/// Rows copied from an overlay the first time: many reads end with the first row.
const COPIED_ROWS_FIRST: usize = 4;
/// Rows copied at a time, at most: the committer waits meanwhile.
const COPIED_ROWS_MAX: usize = 128;
/// Copying also stops after the row that brings the values to this size.
const COPIED_BYTES_MAX: usize = 64 * 1_024;

/// Rows in one direction.
pub(super) struct Merged<'a> {
    /// Newest first.
    overlays: Vec<OverlayRows<'a>>,
    tables: Peekable<TableRows>,
    ascending: bool,
}

impl<'a> Merged<'a> {
    pub(super) fn new(
        moment: &'a Moment,
        table: Table,
        range: &KeyRange,
        ascending: bool,
    ) -> Result<Self, StoreError> {
        let rows = moment.snapshot.range(table, moment.partition, range)?;
        let overlay_rows = |overlay| OverlayRows {
            overlay,
            table,
            seq: moment.seq,
            rest: Some(range.clone()),
            ascending,
            rows_next: COPIED_ROWS_FIRST,
            copied: VecDeque::new(),
        };
        let overlays = moment.overlays.iter().map(|overlay| overlay_rows(&**overlay)).collect();
        Ok(Self { overlays, tables: TableRows { rows, ascending }.peekable(), ascending })
    }

    /// The key that comes first among the layers.
    fn next_key(&mut self) -> Option<Key> {
        // an error of the tables is handed out at once, as if it came first
        let from_tables = match self.tables.peek() {
            Some(Err(_)) => return Some(Key::new()),
            Some(Ok((key, _))) => Some(key.clone()),
            None => None,
        };
        let overlays = self.overlays.iter_mut().filter_map(|rows| rows.peek().cloned());
        let keys = overlays.chain(from_tables);
        if self.ascending { keys.min() } else { keys.max() }
    }
}

/// Each key that any layer has, and its row unless that is gone.
impl Iterator for Merged<'_> {
    type Item = Result<RowOrGone, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.next_key()?;
        if matches!(self.tables.peek(), Some(Err(_))) {
            return self.tables.next().map(|row| row.map(|(key, value)| (key, Some(value))));
        }
        let mut newest: Option<Option<Vec<u8>>> = None;
        for rows in &mut self.overlays {
            if rows.peek() == Some(&key) {
                let value = rows.copied.pop_front().and_then(|(_, value)| value);
                newest.get_or_insert_with(|| value.map(<[u8]>::into_vec));
            }
        }
        let is_next = |row: &Result<Row, _>| row.as_ref().is_ok_and(|(other, _)| *other == key);
        if let Some(Ok((_, value))) = self.tables.next_if(is_next) {
            newest.get_or_insert(Some(value));
        }
        Some(Ok((key, newest.flatten())))
    }
}

struct TableRows {
    rows: Rows,
    ascending: bool,
}

impl Iterator for TableRows {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ascending { self.rows.next() } else { self.rows.next_back() }
    }
}

/// Changed rows of an overlay, copied a few at a time; as of one batch, so that they are the same
/// whenever they are copied.
struct OverlayRows<'a> {
    overlay: &'a Overlay,
    table: Table,
    seq: u64,
    /// What is not copied yet; `None` at the end.
    rest: Option<KeyRange>,
    ascending: bool,
    /// Rows that are copied next.
    rows_next: usize,
    copied: VecDeque<CopiedRow>,
}

impl OverlayRows<'_> {
    fn peek(&mut self) -> Option<&Key> {
        if self.copied.is_empty() {
            self.copy();
        }
        self.copied.front().map(|(key, _)| key)
    }

    fn copy(&mut self) {
        let Some(mut range) = self.rest.take() else { return };
        let data = self.overlay.read();
        let Some(rows) = data.rows(self.table) else { return };
        let (copied, are_more) =
            rows.first_changed(&range, self.seq, self.ascending, (self.rows_next, COPIED_BYTES_MAX));
        self.copied = copied.into();
        self.rows_next = (2 * self.rows_next).min(COPIED_ROWS_MAX);
        let Some((last, _)) = self.copied.back().filter(|_| are_more) else { return };
        let end = Bound::Excluded(last.clone());
        if self.ascending {
            range.low = end;
        } else {
            range.high = end;
        }
        self.rest = Some(range);
    }
}
