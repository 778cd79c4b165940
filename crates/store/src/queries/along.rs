//! Records whose keys mostly come in order, side by side, as the rows of an index name them: they
//! are read along their table, not each from its root.

use std::iter::Peekable;
use std::marker::PhantomData;
use std::ops::Bound;

use crate::codec::key::TableKey;
use crate::key_range::KeyRange;
use crate::one_by_one::OneByOne;
use crate::port::{RowsInOrder, StoreError, View};
use crate::record::Record;

/// Rows that are passed over on the way to a key, at most: starting anew takes as long.
const PASSED_MAX: usize = 8;
/// Records that are read from the root before any is read along the table.
const FROM_ROOT: usize = 4;

/// A place in the table of such records.
pub(super) struct RecordsAlong<'v, R> {
    view: &'v (dyn View + 'v),
    /// From the place on.
    rows: Option<Peekable<RowsInOrder<'v>>>,
    ascending: bool,
    one_by_one: OneByOne,
    records: PhantomData<R>,
}

impl<'v, R: Record> RecordsAlong<'v, R> {
    pub(super) fn new(view: &'v (dyn View + 'v), ascending: bool) -> Self {
        Self {
            view,
            rows: None,
            ascending,
            one_by_one: OneByOne::with_first(FROM_ROOT),
            records: PhantomData,
        }
    }

    /// The record of this key.
    pub(super) fn get(&mut self, key: &TableKey) -> Result<Option<R>, StoreError> {
        let row = if self.rows.is_some() {
            let near = self.walk_to(key)?;
            self.one_by_one.note(near.is_some());
            if near.is_none() {
                self.rows = None;
                self.view.get(R::TABLE, key)?
            } else {
                near
            }
        } else if self.one_by_one.takes_next() {
            self.view.get(R::TABLE, key)?
        } else {
            self.begin_at(key)?;
            self.walk_to(key)?
        };
        row.map(|row| self.view.decoded(R::TABLE, key, &row)).transpose()
    }

    fn begin_at(&mut self, key: &TableKey) -> Result<(), StoreError> {
        let begin = Bound::Included(key.clone());
        let range = if self.ascending {
            KeyRange { low: begin, ..KeyRange::all() }
        } else {
            KeyRange { high: begin, ..KeyRange::all() }
        };
        self.rows = Some(self.view.range(R::TABLE, &range, self.ascending)?.peekable());
        Ok(())
    }

    /// The row of this key, if it is there and near enough.
    fn walk_to(&mut self, key: &TableKey) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(rows) = &mut self.rows else { return Ok(None) };
        for _ in 0..=PASSED_MAX {
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
