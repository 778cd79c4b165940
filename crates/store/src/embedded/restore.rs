//! A data directory from a backup: the tables with the rows as they were, and an empty log.
//!
//! The lineage is new, so that nothing that is made from now on has an id that anybody has seen.
//! The tables are written under a name of their own and get theirs last: until then the directory
//! is refused by every opening.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use base::PartitionId;
use blocklog::{Disk, Log, Position};

use super::EmbeddedOptions;
use super::backup::piece::FilePart;
use super::backup::reader::{BackupReader, BackupSummary};
use super::directory::{Covered, DataDirectory};
use super::open::{TABLES, TABLES_RESTORED, disk_failure, draw_identity, lock};
use super::tables::{Table, Tables};
use super::view::damaged_row;
use super::{log_failure, partition_index};
use crate::blocks::BLOCK_SUFFIX;
use crate::codec::Stored;
use crate::port::StoreError;

/// Bytes of rows in one transaction: what is kept in memory before it is written.
const TRANSACTION_BYTES: usize = 16 << 20;

/// A file of a data directory: the names of storages whose folder was made, or looked at, one a
/// line. The folder of one of these is never made again: its disk may not be mounted.
pub const STORAGES_MADE: &str = "storages.made";

/// Rows that wait for their transaction, one table after the other.
type Waiting = BTreeMap<(Table, PartitionId), Vec<(Vec<u8>, Vec<u8>)>>;

/// Makes a data directory of a backup in `disk`, which is empty.
///
/// # Errors
/// When the backup is not whole, or the directory not empty or not writable. What is there then is
/// no data directory.
pub fn restore(
    backup: impl Read,
    name: &str,
    disk: &Arc<dyn Disk>,
    options: &EmbeddedOptions,
) -> Result<BackupSummary, StoreError> {
    check_empty(&**disk)?;
    let mut reader = BackupReader::open(backup, name.to_owned())?;
    let _lock = lock(&**disk)?;
    let tables = Tables::open(&**disk, TABLES_RESTORED, options.table_cache_bytes)?;
    // its name is what keeps the directory from being taken for an empty one
    disk.sync_directory().map_err(disk_failure("syncing", &**disk, ""))?;
    let partitions = reader.directory.partitions;
    let mut restoring = Restoring { tables, partitions, waiting: Waiting::new(), bytes: 0 };
    while reader.next_rows(
        |table, partition, key, value| restoring.take(table, partition, key, value),
        |part| write_part(&**disk, &part),
    )? {}
    restoring.write()?;
    let (lineage, log) = options.identity.map_or_else(draw_identity, Ok)?;
    let directory = DataDirectory { lineage, log, ..reader.directory };
    Log::create(Arc::clone(disk), options.log, log).map_err(log_failure)?;
    restoring.tables.write(|writer| writer.put_directory(&directory.to_row()))?;
    drop(restoring);
    note_storages(&**disk, &reader.summary())?;
    disk.rename(TABLES_RESTORED, TABLES).map_err(disk_failure("renaming", &**disk, TABLES_RESTORED))?;
    disk.sync_directory().map_err(disk_failure("syncing", &**disk, ""))?;
    Ok(reader.summary())
}

/// The storages that blocks lie in were made by the server of the backup.
fn note_storages(disk: &dyn Disk, summary: &BackupSummary) -> Result<(), StoreError> {
    if summary.elsewhere.is_empty() {
        return Ok(());
    }
    let lines: String = summary.elsewhere.keys().map(|name| format!("{name}\n")).collect();
    let file = disk.open(STORAGES_MADE, true).map_err(disk_failure("opening", disk, STORAGES_MADE))?;
    file.write_at(0, lines.as_bytes()).and_then(|()| file.sync()).map_err(disk_failure(
        "writing",
        disk,
        STORAGES_MADE,
    ))
}

/// Bytes of a block's file. It is durable with its last ones: each part is synced.
fn write_part(disk: &dyn Disk, part: &FilePart<'_>) -> Result<(), StoreError> {
    if !part.name.ends_with(BLOCK_SUFFIX) {
        let text = format!("the backup has a file `{}`, which is no block of a stream", part.name);
        return Err(StoreError::Refused(text));
    }
    let file = disk.open(part.name, true).map_err(disk_failure("opening", disk, part.name))?;
    file.write_at(part.offset, part.bytes)
        .and_then(|()| file.sync())
        .map_err(disk_failure("writing", disk, part.name))
}

fn check_empty(disk: &dyn Disk) -> Result<(), StoreError> {
    let names = disk.list().map_err(disk_failure("listing", disk, ""))?;
    match names.first() {
        None => Ok(()),
        Some(name) => Err(StoreError::Refused(format!(
            "{} is not empty, it holds `{name}`: restore into an empty directory",
            disk.path().display()
        ))),
    }
}

struct Restoring {
    tables: Tables,
    partitions: u16,
    waiting: Waiting,
    bytes: usize,
}

impl Restoring {
    fn take(
        &mut self,
        table: Table,
        partition: PartitionId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        if partition_index(partition, self.partitions).is_none() {
            return Err(StoreError::Refused(format!(
                "the backup has rows of partition {partition}, which there is not"
            )));
        }
        let value = match table {
            Table::Heads => uncovered(key, value)?,
            _ => value.to_vec(),
        };
        self.bytes += key.len() + value.len();
        self.waiting.entry((table, partition)).or_default().push((key.to_vec(), value));
        if self.bytes >= TRANSACTION_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        self.tables.write(|writer| {
            for ((table, partition), rows) in &waiting {
                let mut out = writer.table(*table)?;
                let rows = rows.iter().map(|(key, value)| (&**key, Some(&**value)));
                out.change_in_order(*partition, rows)?;
            }
            Ok(())
        })
    }
}

/// The head of a partition, whose tables go with the begin of a new log.
fn uncovered(key: &[u8], row: &[u8]) -> Result<Vec<u8>, StoreError> {
    let covered =
        Covered::from_row(row).map_err(|error| damaged_row("the backup", Table::Heads, key, &error))?;
    Ok(Covered { position: Position::ZERO, ..covered }.to_row())
}
