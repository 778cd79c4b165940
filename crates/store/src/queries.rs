//! Typed queries, written once above the port: which rows of which table answer a question.
//!
//! They are methods of `dyn View`, whichever store is below, and read it by [`View::get`] and
//! [`View::range`] alone. What a query finds damaged it tells the view, which stops its store.

mod campaigns;
mod commands;
mod coordination;
mod copies;
mod devices;
mod feeds;
mod gathered;
mod jobs;
mod notices;
mod operations;
mod picks;
mod portals;
mod record_cursor;
mod residents;
mod rollouts;
mod streams;
mod subscriptions;

pub use picks::ResultPage;

use crate::codec::key::TableKey;
use crate::codec::{CodecError, Stored};
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};
use crate::record::{Index, Record};
use crate::table::Table;
use record_cursor::RecordCursor;

/// A key and its row.
type Row = (TableKey, Vec<u8>);

impl dyn View + '_ {
    /// A record by its key.
    fn record<R: Record>(&self, key: &[u8]) -> Result<Option<R>, StoreError> {
        let row = self.get(R::TABLE, key)?;
        row.map(|row| self.decoded(R::TABLE, key, &row)).transpose()
    }

    fn decoded<T: Stored>(&self, table: Table, key: &[u8], row: &[u8]) -> Result<T, StoreError> {
        T::from_row(row).map_err(|error| self.unreadable(table, key, &error))
    }

    fn unreadable(&self, table: Table, key: &[u8], error: &CodecError) -> StoreError {
        self.damaged(table, key, error.to_string())
    }

    /// The rows of a range that are there.
    #[expect(clippy::needless_pass_by_value, reason = "the answer does not borrow from it")]
    fn rows(
        &self,
        table: Table,
        range: KeyRange,
        ascending: bool,
    ) -> Result<impl Iterator<Item = Result<Row, StoreError>>, StoreError> {
        let there = |(key, row): (TableKey, Option<Vec<u8>>)| row.map(|row| (key, row));
        Ok(self.range(table, &range, ascending)?.filter_map(move |row| row.map(there).transpose()))
    }

    /// The records of a range.
    fn records<R: Record>(
        &self,
        range: KeyRange,
        ascending: bool,
    ) -> Result<impl Iterator<Item = Result<R, StoreError>>, StoreError> {
        let rows = self.rows(R::TABLE, range, ascending)?;
        Ok(rows.map(|row| row.and_then(|(key, row)| self.decoded(R::TABLE, &key, &row))))
    }

    /// The record that a row of an index leads to, if it is there.
    fn named<R: Record>(
        &self,
        index: &Index<R::Place>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<R>, StoreError> {
        let named = (index.names)(key, value).map_err(|error| self.unreadable(index.table, key, &error))?;
        self.record(&named)
    }

    /// Records that rows of an index lead to, read by a cursor where their keys are mostly
    /// adjacent. Each is there as long as its row is.
    fn surely_named_in_order<'v, R: Record>(
        &'v self,
        index: &'v Index<R::Place>,
        rows: impl Iterator<Item = Result<Row, StoreError>> + 'v,
        ascending: bool,
    ) -> impl Iterator<Item = Result<R, StoreError>> + 'v {
        let mut records = RecordCursor::new(self, ascending);
        rows.map(move |row| {
            let (key, value) = row?;
            let named = (index.names)(&key, &value);
            let named = named.map_err(|error| self.unreadable(index.table, &key, &error))?;
            records.get(&named)?.ok_or_else(|| self.missing_record::<R>(index, &key))
        })
    }

    fn missing_record<R: Record>(&self, index: &Index<R::Place>, key: &[u8]) -> StoreError {
        self.damaged(index.table, key, format!("{} that it names is missing", R::NAME))
    }

    /// The record that a row of an index leads to. It is there as long as the row is.
    fn surely_named<R: Record>(
        &self,
        index: &Index<R::Place>,
        key: &[u8],
        value: &[u8],
    ) -> Result<R, StoreError> {
        self.named(index, key, value)?.ok_or_else(|| self.missing_record::<R>(index, key))
    }
}

/// The declaration of an index.
fn index_of<R: Record>(table: Table) -> &'static Index<R::Place> {
    let found = R::INDEXES.iter().find(|index| index.table == table);
    found.unwrap_or_else(|| panic!("{table:?} is an index of {}", R::NAME))
}
