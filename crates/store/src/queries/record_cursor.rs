//! A cursor over records whose keys are mostly adjacent, as rows of an index name them. It goes
//! along their table, and does not search it from its root for each.
//!
//! Its ranges have no end. Rows that are newer than the view are passed over without a count, which
//! is little as long as views are short.

use std::iter::Peekable;
use std::marker::PhantomData;
use std::ops::Bound;

use crate::batch_backoff::BatchBackoff;
use crate::codec::key::TableKey;
use crate::key_range::KeyRange;
use crate::port::{RowsInOrder, StoreError, View};
use crate::record::Record;

/// Rows that are skipped on the way to a key, at most: a search from the root takes as long.
const SKIPPED_ROWS_MAX: usize = 8;
/// Records that are searched from the root first: many reads end with these.
const POINT_READS_FIRST: usize = 4;

/// The cursor.
pub(super) struct RecordCursor<'v, R> {
    view: &'v (dyn View + 'v),
    /// From the place on.
    rows: Option<Peekable<RowsInOrder<'v>>>,
    ascending: bool,
    backoff: BatchBackoff,
    records: PhantomData<R>,
}

impl<'v, R: Record> RecordCursor<'v, R> {
    pub(super) fn new(view: &'v (dyn View + 'v), ascending: bool) -> Self {
        Self {
            view,
            rows: None,
            ascending,
            backoff: BatchBackoff::with_first(POINT_READS_FIRST),
            records: PhantomData,
        }
    }

    /// The record of this key.
    pub(super) fn get(&mut self, key: &TableKey) -> Result<Option<R>, StoreError> {
        let row = if self.rows.is_some() {
            let near = self.walk_to(key)?;
            self.backoff.note(near.is_some());
            if near.is_none() {
                self.rows = None;
                self.view.get(R::TABLE, key)?
            } else {
                near
            }
        } else if self.backoff.take_single() {
            self.view.get(R::TABLE, key)?
        } else {
            self.begin_at(key)?;
            self.walk_to(key)?
        };
        row.map(|row| self.view.decoded(R::TABLE, key, &row)).transpose()
    }

    fn begin_at(&mut self, key: &TableKey) -> Result<(), StoreError> {
        let range = if self.ascending {
            KeyRange::all().from(key.clone())
        } else {
            KeyRange { high: Bound::Included(key.clone()), ..KeyRange::all() }
        };
        self.rows = Some(self.view.range(R::TABLE, &range, self.ascending)?.peekable());
        Ok(())
    }

    /// The row of this key, if it is there and near enough.
    fn walk_to(&mut self, key: &TableKey) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(rows) = &mut self.rows else { return Ok(None) };
        for _ in 0..=SKIPPED_ROWS_MAX {
            let is_behind = |at: &TableKey| if self.ascending { at > key } else { at < key };
            match rows.next_if(|row| !row.as_ref().is_ok_and(|(at, _)| is_behind(at))).transpose()? {
                Some((at, row)) if at == *key => return Ok(row),
                Some(_) => {}
                None => break,
            }
        }
        Ok(None)
    }
}
