//! The tables: sorted rows of bytes in one file. The only module that knows redb.
//!
//! A [`Snapshot`] is what was committed when it was taken; a [`TablesTransaction`] is one
//! transaction, durable as a whole when [`Tables::write`] returns. What rows mean is not known
//! here, only that each begins with its partition.

mod in_order;

use std::fmt;
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use base::PartitionId;
use blocklog::Disk;
use redb::{
    AccessGuard, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    StorageBackend, TableDefinition,
};

use super::pages::{CheckedPages, DamagedPage};
use crate::codec::key::{self, TableKey};
use crate::key_range::KeyRange;
use crate::port::StoreError;
pub(super) use crate::table::Table;

/// The key of the one row of [`Table::Directory`].
const DIRECTORY_KEY: &[u8] = b"data";

impl Table {
    fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.name())
    }
}

/// The file of the tables, opened.
pub(super) struct Tables {
    database: Database,
    pages: Arc<CheckedPages>,
    name: String,
}

impl Tables {
    /// Opens or makes the file `name`; every table is there afterwards. `cache_bytes` bounds the
    /// memory for pages.
    pub(super) fn open(disk: &dyn Disk, name: &str, cache_bytes: usize) -> Result<Self, StoreError> {
        let path = disk.path().join(name).display().to_string();
        let failed = |error: io::Error| failure(&path, "opening", redb::Error::Io(error));
        let file = disk.open(name, true).map_err(failed)?;
        let pages = Arc::new(CheckedPages::open(file, path.clone()).map_err(failed)?);
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        let backend = Backend(Arc::clone(&pages));
        let database = whole(&path, &pages, "opening", || builder.create_with_backend(backend))?;
        let tables = Self { database, pages, name: path };
        if tables.lacks_any()? {
            tables.write(|writer| Table::ALL.iter().try_for_each(|table| writer.table(*table).map(drop)))?;
        }
        Ok(tables)
    }

    fn lacks_any(&self) -> Result<bool, StoreError> {
        let reading = |error: redb::Error| failure(&self.name, "reading", error);
        let read = self.database.begin_read().map_err(|error| reading(error.into()))?;
        let there = read.list_tables().map_err(|error| reading(error.into()))?.count();
        Ok(there < Table::ALL.len())
    }

    /// What is committed now.
    pub(super) fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let failed = |error: redb::Error| failure(&self.name, "reading", error);
        let read = self.database.begin_read().map_err(|error| failed(error.into()))?;
        let open = |table: &Table| read.open_table(table.definition());
        let tables = Table::ALL.iter().map(open).collect::<Result<Vec<_>, _>>();
        Ok(Snapshot { tables: tables.map_err(|error| failed(error.into()))?, name: self.name.clone() })
    }

    /// Runs one transaction; durable when the answer is `Ok`, without effect otherwise.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&TablesTransaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let failed = |error: redb::Error| failure(&self.name, "writing", error);
        let mut transaction = self.database.begin_write().map_err(|error| failed(error.into()))?;
        // an opening after a crash need not go through all pages
        transaction.set_quick_repair(true);
        let answer = change(&TablesTransaction { transaction: &transaction, name: &self.name })?;
        transaction.commit().map_err(|error| failed(error.into()))?;
        Ok(answer)
    }

    /// Goes through every page that is in use, and through the checksums that pages keep of each
    /// other; whether nothing had to be repaired. No snapshot may be open.
    pub(super) fn verify(&mut self) -> Result<bool, StoreError> {
        let database = &mut self.database;
        whole(&self.name, &self.pages, "checking", || database.check_integrity())
    }

    /// Bytes of the file.
    pub(super) fn file_bytes(&self) -> io::Result<u64> {
        self.pages.file_bytes()
    }
}

/// Rows as they were at one moment.
pub(super) struct Snapshot {
    /// By the number of [`Table`].
    tables: Vec<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    name: String,
}

impl Snapshot {
    /// How many rows a table has, of all partitions.
    pub(super) fn rows(&self, table: Table) -> Result<u64, StoreError> {
        let rows = self.tables[table as usize].len();
        rows.map_err(|error| failure(&self.name, "reading", error.into()))
    }

    pub(super) fn get(
        &self,
        table: Table,
        partition: PartitionId,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.tables[table as usize].get(&*key::in_partition(partition, key));
        let found = found.map_err(|error| failure(&self.name, "reading", error.into()))?;
        Ok(found.map(|row| row.value().to_vec()))
    }

    /// The one row of [`Table::Directory`].
    pub(super) fn directory(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.tables[Table::Directory as usize].get(DIRECTORY_KEY);
        let found = found.map_err(|error| failure(&self.name, "reading", error.into()))?;
        Ok(found.map(|row| row.value().to_vec()))
    }

    /// The rows of a partition whose keys are in a range, from either end.
    pub(super) fn range(
        &self,
        table: Table,
        partition: PartitionId,
        range: &KeyRange,
    ) -> Result<RowIter, StoreError> {
        let (low, high) = range.in_partition(partition);
        let found = self.tables[table as usize].range::<&[u8]>((as_slice(&low), as_slice(&high)));
        let range = found.map_err(|error| failure(&self.name, "reading", error.into()))?;
        Ok(RowIter { range, name: self.name.clone() })
    }

    /// Where the file is.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

fn as_slice(bound: &Bound<TableKey>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &**key)
}

/// The rows of a range: keys without their partition, and values.
pub(super) struct RowIter {
    range: redb::Range<'static, &'static [u8], &'static [u8]>,
    name: String,
}

/// A key without its partition, and a value.
pub(super) type Row = (TableKey, Vec<u8>);
type Found =
    Result<(AccessGuard<'static, &'static [u8]>, AccessGuard<'static, &'static [u8]>), redb::StorageError>;

impl RowIter {
    fn row(&self, found: Found) -> Result<Row, StoreError> {
        let (key, value) = found.map_err(|error| failure(&self.name, "reading", error.into()))?;
        Ok((without_partition(key.value()), value.value().to_vec()))
    }
}

impl Iterator for RowIter {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.next().map(|found| self.row(found))
    }
}

impl DoubleEndedIterator for RowIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.next_back().map(|found| self.row(found))
    }
}

fn without_partition(key: &[u8]) -> TableKey {
    TableKey::from_slice(key.get(key::PARTITION_BYTES..).unwrap_or_default())
}

/// One transaction.
pub(super) struct TablesTransaction<'a> {
    transaction: &'a redb::WriteTransaction,
    name: &'a str,
}

impl<'a> TablesTransaction<'a> {
    /// Opens a table; one at a time, and each only once at a time.
    pub(super) fn table(&self, table: Table) -> Result<TableWriter<'a>, StoreError> {
        let opened = self.transaction.open_table(table.definition());
        let table = opened.map_err(|error| failure(self.name, "writing", error.into()))?;
        Ok(TableWriter { table, name: self.name })
    }

    /// Where the file is.
    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// Takes out every row of a table.
    pub(super) fn clear(&self, table: Table) -> Result<(), StoreError> {
        let deleted = self.transaction.delete_table(table.definition());
        deleted.map_err(|error| failure(self.name, "writing", error.into()))?;
        self.table(table).map(drop)
    }

    /// Writes the one row of [`Table::Directory`].
    pub(super) fn put_directory(&self, value: &[u8]) -> Result<(), StoreError> {
        let mut table = self.table(Table::Directory)?;
        let put = table.table.insert(DIRECTORY_KEY, value).map(drop);
        put.map_err(|error| failure(self.name, "writing", error.into()))
    }
}

/// A table within a transaction.
pub(super) struct TableWriter<'a> {
    table: redb::Table<'a, &'static [u8], &'static [u8]>,
    name: &'a str,
}

impl<'a> TableWriter<'a> {
    /// Where the file is.
    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    pub(super) fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.table.get(&*key::in_partition(partition, key));
        let found = found.map_err(|error| failure(self.name, "writing", error.into()))?;
        Ok(found.map(|row| row.value().to_vec()))
    }

    pub(super) fn put(&mut self, partition: PartitionId, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let put = self.table.insert(&*key::in_partition(partition, key), value).map(drop);
        put.map_err(|error| failure(self.name, "writing", error.into()))
    }

    pub(super) fn remove(&mut self, partition: PartitionId, key: &[u8]) -> Result<(), StoreError> {
        let removed = self.table.remove(&*key::in_partition(partition, key)).map(drop);
        removed.map_err(|error| failure(self.name, "writing", error.into()))
    }

    /// The first rows of a range that are wanted, at most `limit`.
    pub(super) fn first(
        &self,
        partition: PartitionId,
        range: &KeyRange,
        limit: usize,
        mut wanted: impl FnMut(&TableKey, &[u8]) -> Result<bool, StoreError>,
    ) -> Result<Vec<Row>, StoreError> {
        let failed = |error: redb::StorageError| failure(self.name, "writing", error.into());
        let (low, high) = range.in_partition(partition);
        let mut rows = Vec::new();
        for found in self.table.range::<&[u8]>((as_slice(&low), as_slice(&high))).map_err(failed)? {
            if rows.len() >= limit {
                break;
            }
            let (key, value) = found.map_err(failed)?;
            let key = without_partition(key.value());
            if wanted(&key, value.value())? {
                rows.push((key, value.value().to_vec()));
            }
        }
        Ok(rows)
    }

    /// The last key of a range.
    pub(super) fn last_key(
        &self,
        partition: PartitionId,
        range: &KeyRange,
    ) -> Result<Option<TableKey>, StoreError> {
        let failed = |error: redb::StorageError| failure(self.name, "writing", error.into());
        let (low, high) = range.in_partition(partition);
        let mut found = self.table.range::<&[u8]>((as_slice(&low), as_slice(&high))).map_err(failed)?;
        let last = found.next_back().transpose().map_err(failed)?;
        Ok(last.map(|(key, _)| without_partition(key.value())))
    }
}

/// Where something is of which the library says no more.
const UNKNOWN_PLACE: &str = "an unknown place";

/// What redb is given for a file.
#[derive(Debug)]
struct Backend(Arc<CheckedPages>);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

/// Runs what goes through the whole file. Each page that it sees is as it was written, but pages
/// may be missing. On some lengths of the file the library has no answer but to panic.
fn whole<T, E: Into<redb::Error>>(
    name: &str,
    pages: &CheckedPages,
    doing: &str,
    run: impl FnOnce() -> Result<T, E>,
) -> Result<T, StoreError> {
    let end = || {
        pages
            .file_bytes()
            .map_or_else(|_| "its end".to_owned(), |bytes| format!("or before offset {bytes}, its end"))
    };
    let unplaced = |what: String| StoreError::Damaged { file: name.to_owned(), at: end(), what };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(ended) => ended.map_err(|error| match failure(name, doing, error.into()) {
            StoreError::Damaged { at, what, .. } if at == UNKNOWN_PLACE => unplaced(what),
            error => error,
        }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            Err(unplaced(format!("pages are missing or do not go together ({text})")))
        }
    }
}

/// What an operator is told of a page that cannot be read.
pub(super) fn unreadable(name: &str, error: io::Error) -> StoreError {
    failure(name, "reading", redb::Error::Io(error))
}

/// What an operator is told: the disk failed, or the file is damaged.
fn failure(name: &str, doing: &str, error: redb::Error) -> StoreError {
    let damaged = |at: String, what: String| StoreError::Damaged { file: name.to_owned(), at, what };
    match error {
        redb::Error::Io(source) => {
            if let Some(page) = source.get_ref().and_then(|inner| inner.downcast_ref::<DamagedPage>()) {
                return damaged(format!("offset {}", page.offset), page.what.to_owned());
            }
            if source.kind() == io::ErrorKind::Unsupported {
                return StoreError::Refused(source.to_string());
            }
            StoreError::Disk { what: format!("{doing} {name}"), source }
        }
        redb::Error::PreviousIo => StoreError::Poisoned(format!("{name} could not be read or written")),
        other => damaged(UNKNOWN_PLACE.to_owned(), other.to_string()),
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
