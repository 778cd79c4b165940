//! A stored record, declared once: its table, what it is found by, and its indexes. The declaration
//! stands beside the record's stored form, in `codec`.
//!
//! From it follow the rows that a batch changes ([`crate::change`]), and what queries read
//! ([`crate::queries`]). From it follows too what a deletion or an expiry takes out, and what a
//! check holds each row against. All records are those that the list of changes puts
//! ([`for_each_record`]). To add a record, write its fields in `records`, with a line in that list,
//! and its table in [`crate::table`]. Its stored form goes into `codec`, with its declaration. To
//! add an index: its table, and an [`Index`].

use std::borrow::Cow;

use crate::codec::key::TableKey;
use crate::codec::{CodecError, Stored};
use crate::table::Table;

/// A record with a table of its own.
pub(crate) trait Record: Stored + 'static {
    /// What holds it.
    const TABLE: Table;
    /// All by which it is found: what its deletion has to name.
    type Place: Clone + 'static;
    /// By what it is found besides its key.
    const INDEXES: &'static [Index<Self::Place>] = &[];

    /// Its key in the table.
    fn key(place: &Self::Place) -> TableKey;
}

/// Declares a [`Record`]: its table, its key from all by which it is found, and its indexes. With
/// `place` it is [`Placed`] too; `left` are the rows that one leaves which is put.
macro_rules! record {
    (
        $(#[$doc:meta])* $record:ty: $table:ident by $place:ty,
        key: |$found:pat_param| $key:expr,
        $(place: |$this:ident| $of:expr, $(left: |$leaves:ident| $left:expr,)?)?
        $(indexes: [$($index:expr),+ $(,)?],)?
    ) => {
        $(#[$doc])*
        impl $crate::record::Record for $record {
            const TABLE: $crate::table::Table = $crate::table::Table::$table;
            type Place = $place;
            $(const INDEXES: &'static [$crate::record::Index<$place>] = &[$($index),+];)?

            fn key($found: &$place) -> $crate::codec::key::TableKey {
                $key
            }
        }

        $(impl $crate::record::Placed for $record {
            fn place(&self) -> std::borrow::Cow<'_, $place> {
                let $this = self;
                $of
            }

            $(fn left(&self) -> impl Iterator<Item = ($crate::table::Table, $crate::codec::key::TableKey)> {
                let $leaves = self;
                $left
            })?
        })?
    };
}
pub(crate) use record;

/// The [`Index`] of a record whose key is a time and a number. A row's key is what the record is
/// looked up by, then its own, and the row holds nothing.
macro_rules! feed_index {
    ($table:ident: |$found:pat_param| $prefix:expr, $entry:expr) => {
        $crate::record::Index {
            table: $crate::table::Table::$table,
            rows: |$found, row| row($crate::codec::key::FeedEntryKey::from($entry).below(&$prefix), &[]),
            names: |row, _| {
                $crate::codec::key::FeedEntryKey::at_end_of(row).map($crate::codec::key::feed_entry)
            },
        }
    };
}
pub(crate) use feed_index;

/// A record that says itself where it stands.
pub(crate) trait Placed: Record {
    /// All by which it is found.
    fn place(&self) -> Cow<'_, Self::Place>;

    /// Rows of its indexes in which it may have been, and is not as it is now: they go when it is
    /// put. None of a record whose rows never change, or are deleted as they were.
    fn left(&self) -> impl Iterator<Item = (Table, TableKey)> {
        std::iter::empty()
    }
}

/// Takes the rows of an index, each with its key and what it holds.
pub(crate) type EachRow<'a> = &'a mut dyn FnMut(TableKey, &[u8]);

/// Rows that lead to records.
pub(crate) struct Index<P: 'static> {
    /// What holds them.
    pub(crate) table: Table,
    /// Hands out the rows of a record, each with its key and what it holds.
    pub(crate) rows: fn(&P, EachRow<'_>),
    /// The key of the record that a row leads to.
    pub(crate) names: fn(&[u8], &[u8]) -> Result<TableKey, CodecError>,
}

/// Where a record's row and all rows of its indexes are.
pub(crate) fn rows_of<R: Record>(place: &R::Place) -> Vec<(Table, TableKey)> {
    let mut rows = vec![(R::TABLE, R::key(place))];
    index_rows::<R>(place, |table, key, _| rows.push((table, key)));
    rows
}

/// Hands out the rows of all indexes of a record.
pub(crate) fn index_rows<R: Record>(place: &R::Place, mut each: impl FnMut(Table, TableKey, &[u8])) {
    for index in R::INDEXES {
        (index.rows)(place, &mut |key, value| each(index.table, key, value));
    }
}

/// Does something with every record.
pub(crate) trait RecordVisitor {
    /// Why it stops.
    type Error;

    /// Takes a record that says itself where it stands.
    fn placed<R: Placed>(&mut self) -> Result<(), Self::Error>;

    /// Takes a record of which only its key says where it stands.
    fn keyed<R: Record>(&mut self) -> Result<(), Self::Error>;
}

/// One call for a record that a change puts.
macro_rules! visit {
    ($visitor:ident, $record:ident) => {
        $visitor.placed::<records::$record>()?
    };
    ($visitor:ident, $record:ident at $place:ident) => {
        $visitor.keyed::<records::$record>()?
    };
}

macro_rules! for_each_record {
    ($(
        $(#[$doc:meta])* $number:literal $change:ident $parts:tt
        { $(puts $put:ident $(at $at:ident)?)? $(deletes $($deleted:tt)+)? $(apart $(puts $apart:ident)?)? }
    )*) => {
        /// Shows a visitor every record that a change puts.
        pub(crate) fn for_each_record<V: RecordVisitor>(visitor: &mut V) -> Result<(), V::Error> {
            $($(visit!(visitor, $put $(at $at)?);)?)*
            $($($(visit!(visitor, $apart);)?)?)*
            Ok(())
        }
    };
}

records::all_changes!(for_each_record);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use super::*;

    /// Tables of records and of their indexes.
    #[derive(Default)]
    struct DeclaredTables(BTreeSet<Table>);

    impl RecordVisitor for DeclaredTables {
        type Error = Infallible;

        fn placed<R: Placed>(&mut self) -> Result<(), Infallible> {
            for index in R::INDEXES {
                assert!(self.0.insert(index.table), "{:?} is of {} alone", index.table, R::NAME);
            }
            self.keyed::<R>()
        }

        fn keyed<R: Record>(&mut self) -> Result<(), Infallible> {
            assert!(self.0.insert(R::TABLE), "{:?} is of {} alone", R::TABLE, R::NAME);
            Ok(())
        }
    }

    #[test]
    fn every_table_is_of_one_record_or_index_or_has_a_form_of_its_own() {
        let mut declared = DeclaredTables::default();
        let Ok(()) = for_each_record(&mut declared);
        let others: Vec<_> = Table::ALL.into_iter().filter(|table| !declared.0.contains(table)).collect();
        let expect = [
            Table::Directory,
            Table::Heads,
            Table::Seen,
            Table::JobBodies,
            Table::BlobIndex,
            Table::Blobs,
            Table::Deleted,
            Table::ParkedJobs,
            Table::ParkedByTime,
        ];
        assert_eq!(others, expect);
    }
}
