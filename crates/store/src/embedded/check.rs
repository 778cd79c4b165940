//! A check: every checksum and every reference of a data directory of a stopped server, or of a
//! backup.
//!
//! Nothing is changed: the directory is opened as a server would open it, but on an
//! [`UnchangingDisk`]. It is brought to a cut in memory, so that what is only in the log is looked
//! at too. Findings are told as they come, each with its file and offset or key. A check goes on
//! behind them as far as that makes sense.

mod block_files;
mod campaigns;
mod commands;
mod coordination;
mod copies;
mod gathered;
mod notices;
mod notifications;
mod operations;
mod portals;
mod queues;
mod readings;
mod references;
mod rollouts;
mod rows;
mod streams;
mod subscriptions;
mod unchanging;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use blocklog::{Disk, RealDisk};

use super::backup::reader::BackupSummary;
use super::open::{LOCK, TABLES, disk_failure, has, lock};
use super::pages::CheckedPages;
use super::restore::restore;
use super::tables::{Snapshot, Table, Tables};
use super::{EmbeddedOptions, EmbeddedStore, position};
use crate::blocks::BlockStorages;
use crate::port::StoreError;
use rows::RowCheck;
use unchanging::UnchangingDisk;

const PAGE_BYTES: usize = super::pages::PAGE;
/// Most parked jobs that are moved, in memory, to check a directory of an earlier format.
const MOVED_MAX: u64 = 500_000;
/// Most damaged pages that are told one by one.
const PAGES_TOLD_MAX: usize = 1_000;

/// What a check tells.
#[derive(Debug)]
pub enum Checked {
    /// So many of these were looked at.
    Counted(&'static str, u64),
    /// Something is not as it must be.
    Found(StoreError),
    /// Something that an operator may want to know, and that is no fault.
    Noted(String),
}

/// Passes on what a check finds, and counts the faults.
struct Findings<'a> {
    tell: &'a mut dyn FnMut(Checked),
    count: u64,
}

impl Findings<'_> {
    fn found(&mut self, error: StoreError) {
        self.count += 1;
        (self.tell)(Checked::Found(error));
    }

    fn counted(&mut self, what: &'static str, count: u64) {
        (self.tell)(Checked::Counted(what, count));
    }

    fn noted(&mut self, what: String) {
        (self.tell)(Checked::Noted(what));
    }
}

/// Whether `directory` has the tables of a data directory.
#[must_use]
pub fn is_data_directory(directory: &Path) -> bool {
    directory.join(TABLES).is_file()
}

/// Whether a server once had `directory` open, also if its tables are missing by now.
#[must_use]
pub fn was_data_directory(directory: &Path) -> bool {
    is_data_directory(directory) || directory.join(LOCK).is_file()
}

/// Checks a data directory that no server has open, and its blocks in these storages as far as they
/// can be reached. Returns how many findings there were.
///
/// # Errors
/// When it cannot be looked at: it is in use, cannot be read, or is none.
pub fn check_directory(
    directory: &Path,
    storages: &BlockStorages,
    tell: &mut dyn FnMut(Checked),
) -> Result<u64, StoreError> {
    let unreadable = |source| StoreError::Disk { what: format!("reading {}", directory.display()), source };
    let disk = UnchangingDisk::open(directory).map_err(unreadable)?;
    if !was_data_directory(directory) {
        return Err(StoreError::Refused(format!("{} is no data directory", directory.display())));
    }
    let _held = lock(&disk)?;
    check_disk(&(Arc::new(disk) as Arc<dyn Disk>), storages, MOVED_MAX, tell)
}

/// The same of a disk, of which an opening moves so many parked jobs at most.
pub(super) fn check_disk(
    disk: &Arc<dyn Disk>,
    storages: &BlockStorages,
    moved_max: u64,
    tell: &mut dyn FnMut(Checked),
) -> Result<u64, StoreError> {
    let mut findings = Findings { tell, count: 0 };
    if !has(&**disk, TABLES)? {
        without_tables(disk, &mut findings)?;
        return Ok(findings.count);
    }
    let damaged = pages(&**disk, &mut findings)?;
    let before = findings.count;
    verify_tables(&**disk, &mut findings);
    let to_move = jobs_to_move(&**disk);
    let left_out = (to_move > moved_max).then(|| {
        format!(
            "rows were not looked at: {} is of an earlier format, and {to_move} parked jobs in it are to be moved; \
             start the server on it once, then check it",
            disk.path().display()
        )
    });
    match &left_out {
        Some(why) => findings.noted(why.clone()),
        None => match EmbeddedStore::open(Arc::clone(disk), EmbeddedOptions::default()) {
            Ok(store) => {
                as_opened(&store, &mut findings);
                block_files::all(&store, storages, &mut findings);
            }
            Err(error) => {
                findings.found(error);
                findings.noted("it does not open, so its rows were not looked at".to_owned());
            }
        },
    }
    tell_pages(damaged, findings.count > before, &mut findings);
    match left_out {
        Some(why) if findings.count == 0 => Err(StoreError::Refused(why)),
        _ => Ok(findings.count),
    }
}

/// Opening it tells whether a log is there whose tables are missing.
fn without_tables(disk: &Arc<dyn Disk>, findings: &mut Findings<'_>) -> Result<(), StoreError> {
    let names = disk.list().map_err(disk_failure("listing", &**disk, ""))?;
    match EmbeddedStore::open(Arc::clone(disk), EmbeddedOptions::default()) {
        Err(error) => findings.found(error),
        Ok(_) if names.iter().all(|name| name == LOCK) => {
            findings.noted("it holds nothing yet".to_owned());
        }
        Ok(_) => findings.found(StoreError::Refused(format!(
            "{} holds files, but neither tables nor a log",
            disk.path().display()
        ))),
    }
    Ok(())
}

/// Checks a backup, by restoring it into `scratch`, an empty directory with room for it; how many
/// findings there were.
///
/// # Errors
/// When the scratch directory cannot be used.
pub fn check_backup(
    backup: impl Read,
    name: &str,
    scratch: &Path,
    storages: &BlockStorages,
    tell: &mut dyn FnMut(Checked),
) -> Result<u64, StoreError> {
    let mut findings = Findings { tell, count: 0 };
    let unusable = |source| StoreError::Disk { what: format!("using {}", scratch.display()), source };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_dir(scratch, false).map_err(unusable)?);
    match restore(backup, name, &disk, &EmbeddedOptions::default()) {
        Ok(BackupSummary { pieces, bytes, .. }) => {
            findings.counted("pieces of the backup", pieces);
            findings.counted("bytes of the backup", bytes);
        }
        Err(StoreError::Disk { what, source }) => return Err(StoreError::Disk { what, source }),
        Err(error) => {
            findings.found(error);
            return Ok(findings.count);
        }
    }
    match EmbeddedStore::open(disk, EmbeddedOptions::default()) {
        Ok(store) => {
            as_opened(&store, &mut findings);
            block_files::all(&store, storages, &mut findings);
        }
        Err(StoreError::Disk { what, source }) => return Err(StoreError::Disk { what, source }),
        Err(error) => findings.found(error),
    }
    Ok(findings.count)
}

/// How many parked jobs of an earlier format an opening moves. What cannot be read is told later.
fn jobs_to_move(disk: &dyn Disk) -> u64 {
    let tables = Tables::open(disk, TABLES, EmbeddedOptions::default().table_cache_bytes);
    let rows = tables.and_then(|tables| tables.snapshot()?.rows(Table::ParkedJobs));
    rows.unwrap_or_default()
}

/// Every page of the tables, whether it is in use or not; those that do not agree with their
/// checksums.
fn pages(disk: &dyn Disk, findings: &mut Findings<'_>) -> Result<Vec<StoreError>, StoreError> {
    let name = disk.path().join(TABLES).display().to_string();
    let file = disk.open(TABLES, false).map_err(disk_failure("opening", disk, TABLES))?;
    // the opening will say what is wrong with its head
    let Ok(checked) = CheckedPages::open(file, name.clone()) else { return Ok(Vec::new()) };
    let length = checked.len().map_err(disk_failure("reading", disk, TABLES))?;
    let mut page = [0; PAGE_BYTES];
    let mut damaged = Vec::new();
    for offset in (0..length).step_by(PAGE_BYTES) {
        match checked.read(offset, &mut page) {
            Ok(()) => {}
            Err(error) => damaged.push(super::tables::unreadable(&name, error)),
        }
    }
    findings.counted("pages of the tables", length / PAGE_BYTES as u64);
    Ok(damaged)
}

impl EmbeddedStore {
    /// Checks every row that the tables and the log hold, as [`check_directory`] does; how many
    /// findings there were. What no checkpoint has written is written first.
    pub fn check_rows(&self, tell: &mut dyn FnMut(Checked)) -> u64 {
        let mut findings = Findings { tell, count: 0 };
        as_opened(self, &mut findings);
        findings.count
    }
}

/// A page that is not in use may be half written since a crash; when anything else is wrong, each
/// of them is a suspect.
fn tell_pages(damaged: Vec<StoreError>, is_anything_else_wrong: bool, findings: &mut Findings<'_>) {
    let count = damaged.len();
    if count > 0 && !is_anything_else_wrong {
        return findings
            .noted(format!("{count} pages that are not in use were left half written by a crash"));
    }
    damaged.into_iter().take(PAGES_TOLD_MAX).for_each(|page| findings.found(page));
    if count > PAGES_TOLD_MAX {
        findings.noted(format!("{} more pages are damaged", count - PAGES_TOLD_MAX));
    }
}

/// What the library of the tables says of them.
fn verify_tables(disk: &dyn Disk, findings: &mut Findings<'_>) {
    let cache_bytes = EmbeddedOptions::default().table_cache_bytes;
    let verified = Tables::open(disk, TABLES, cache_bytes).and_then(|mut tables| tables.verify());
    match verified {
        Ok(true) => {}
        Ok(false) => findings.found(StoreError::Damaged {
            file: disk.path().join(TABLES).display().to_string(),
            at: "its list of free pages".to_owned(),
            what: "it does not agree with what is in use; a start repairs that".to_owned(),
        }),
        Err(error) => findings.found(error),
    }
}

/// Every row, as a server would see it that has read its log.
fn as_opened(store: &EmbeddedStore, findings: &mut Findings<'_>) {
    let behind = position(&store.applied).0.saturating_sub(position(&store.covered).0);
    findings.counted("positions of the log behind the tables", behind);
    match store.cut() {
        Ok((snapshot, _)) => rows_of(store, &snapshot, findings),
        Err(error) => findings.found(error),
    }
}

fn rows_of(store: &EmbeddedStore, snapshot: &Snapshot, findings: &mut Findings<'_>) {
    let heads = store.partitions.iter().map(|partition| (partition.id, partition.head())).collect();
    let mut check = RowCheck::new(snapshot, store.directory.partitions, heads, findings);
    check.all();
    let (counts, readings) = check.into_counts();
    findings.counted("readings", readings);
    for table in Table::in_use() {
        findings.counted(table.name(), counts[table as usize]);
    }
}
