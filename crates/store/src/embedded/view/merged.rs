//! The rows of a table through all layers, in order: of equal keys the newest layer's counts.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Bound;

use crate::codec::key::TableKey;
use crate::embedded::overlay::{CopiedRow, Overlay};
use crate::embedded::partition::PinnedPartition;
use crate::embedded::tables::{Row, RowIter, Table};
use crate::key_range::KeyRange;
use crate::port::StoreError;

/// A key, and its row unless that is gone.
type RowOrGone = (TableKey, Option<Vec<u8>>);

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
        moment: &'a PinnedPartition,
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

    /// The layer whose next key comes first, of equal keys the newest; the tables are behind the
    /// last overlay.
    fn first_layer(&mut self) -> Option<usize> {
        let Self { overlays, tables, ascending } = self;
        overlays.iter_mut().for_each(OverlayRows::fill);
        let of_tables = tables.peek().and_then(|row| row.as_ref().ok()).map(|(key, _)| key);
        let keys = overlays.iter().map(OverlayRows::front).chain([of_tables]);
        let keys = keys.enumerate().filter_map(|(layer, key)| Some((layer, key?)));
        let first =
            keys.min_by(|(_, one), (_, other)| if *ascending { one.cmp(other) } else { other.cmp(one) });
        first.map(|(layer, _)| layer)
    }
}

/// Each key that any layer has, and its row unless that is gone.
impl Iterator for Merged<'_> {
    type Item = Result<RowOrGone, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        // an error of the tables is handed out at once, as if it came first
        if matches!(self.tables.peek(), Some(Err(_))) {
            return self.tables.next().map(|row| row.map(|(key, value)| (key, Some(value))));
        }
        let layer = self.first_layer()?;
        let Some(rows) = self.overlays.get_mut(layer) else {
            return self.tables.next().map(|row| row.map(|(key, value)| (key, Some(value))));
        };
        let (key, value) = rows.copied.pop_front()?;
        for older in &mut self.overlays[layer + 1..] {
            if older.front() == Some(&key) {
                older.copied.pop_front();
            }
        }
        self.tables.next_if(|row| row.as_ref().is_ok_and(|(other, _)| *other == key));
        Some(Ok((key, value.map(<[u8]>::into_vec))))
    }
}

struct TableRows {
    rows: RowIter,
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
    /// Has the next row copied, if there is one.
    fn fill(&mut self) {
        if self.copied.is_empty() {
            self.copy();
        }
    }

    /// The key of the next row, if that is copied.
    fn front(&self) -> Option<&TableKey> {
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
