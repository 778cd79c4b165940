//! Opening a data directory: made if it is not there, locked, and brought to where its log ends.
//!
//! A directory is there once its tables have their name; until then an earlier try to make it was
//! cut off and is begun again. The tables say up to which position of the log they hold each
//! partition. Every batch after it is applied to an overlay again, and no other.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex};

use base::random::unguessable;
use base::{Lineage, PartitionId, Timestamp};
use blocklog::{Disk, Frame, Log, LogError, LogId, Position};

use super::checkpoint::{Checkpointer, ExpiryProgress, Merging, existence_filter_of};
use super::commit::Committer;
use super::directory::{Covered, DataDirectory};
use super::fault_injection::FaultInjection;
use super::health::StoreHealth;
use super::inbox::Inbox;
use super::overlay::OverlayMemory;
use super::partition::Partition;
use super::stats::Counters;
use super::tables::{Snapshot, Table, Tables};
use super::view::damaged_row;
use super::{EmbeddedOptions, EmbeddedStore, log_failure, migration, partition_ids, partition_index};
use crate::blocks::DiskBlocks;
use crate::change::PreparedBatch;
use crate::codec::{CodecError, Stored, decode_batch};
use crate::key_range::KeyRange;
use crate::port::StoreError;

/// The file that is locked while a server has the directory open.
pub(super) const LOCK: &str = "lock";
/// The file of the tables.
pub(super) const TABLES: &str = "tables";
/// The file of the tables while a directory is made.
const TABLES_NEW: &str = "tables.new";
/// The file of the tables while a backup is restored.
pub(super) const TABLES_RESTORED: &str = "tables.restored";

impl EmbeddedStore {
    /// Opens the data directory `disk`, or makes it.
    ///
    /// # Errors
    /// When it is in use, of a version that this build does not know, damaged, or cannot be read or
    /// written.
    pub fn open(disk: Arc<dyn Disk>, options: EmbeddedOptions) -> Result<Self, StoreError> {
        let lock = lock(&*disk)?;
        if !has(&*disk, TABLES)? {
            make(&disk, &options)?;
        }
        let tables = Tables::open(&*disk, TABLES, options.table_cache_bytes)?;
        let directory = bring_up(&tables)?;
        let snapshot = Arc::new(tables.snapshot()?);
        let covered = read_covered(&snapshot, &directory)?;
        let (overlay_memory, counters) = (Arc::default(), Counters::default());
        counters.merging.hold(&snapshot)?;
        let partitions = partitions(&snapshot, &covered, &overlay_memory)?;
        let mut replay = LogReplay::new(&snapshot, &partitions, &covered, &directory);
        let blocks = DiskBlocks::new(Arc::clone(&disk));
        let log = replay.log(disk, &options)?;
        let committer = Committer { log, appended: replay.appended, unsynced_batches: 0 };
        let now = partitions.iter().map(|partition| partition.head().now.0).max().unwrap_or(0);
        let checkpointer = Checkpointer {
            covered: covered.iter().map(|(_, covered)| covered.position).collect(),
            to_sweep: to_sweep(&snapshot, &partitions)?,
            expired: vec![ExpiryProgress::default(); partitions.len()],
            merging: Merging::new(Timestamp(now)),
        };
        let store = Self {
            options,
            directory,
            partitions,
            blocks,
            inbox: Inbox::default(),
            applied: AtomicU64::new(committer.log.durable().0),
            written: AtomicU64::new(committer.log.durable().0),
            synced: AtomicU64::new(committer.log.durable().0),
            covered: AtomicU64::new(checkpointer.covered_by_all().0),
            committer: Mutex::new(committer),
            checkpointer: Mutex::new(checkpointer),
            tables,
            health: Arc::new(StoreHealth::default()),
            counters,
            recorded_now: AtomicI64::new(now),
            log_bytes: AtomicU64::new(0),
            overlay_memory,
            fault_injection: FaultInjection::default(),
            _lock: lock,
        };
        store.free_log()?;
        Ok(store)
    }
}

pub(super) fn disk_failure(
    what: &str,
    disk: &dyn Disk,
    name: &str,
) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let what = format!("{what} {}", disk.path().join(name).display());
    move |source| StoreError::Disk { what, source }
}

pub(super) fn lock(disk: &dyn Disk) -> Result<Box<dyn Send + Sync>, StoreError> {
    disk.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StoreError::Refused(format!(
            "the data directory {} is in use by another server: stop it, or give this one a directory of its own",
            disk.path().display()
        )),
        _ => disk_failure("locking", disk, LOCK)(error),
    })
}

/// Refuses a directory that another server has open.
///
/// # Errors
/// `Refused` then, and when it cannot be looked at.
pub fn check_free(disk: &dyn Disk) -> Result<(), StoreError> {
    lock(disk).map(drop)
}

pub(super) fn has(disk: &dyn Disk, name: &str) -> Result<bool, StoreError> {
    let names = disk.list().map_err(disk_failure("listing", disk, ""))?;
    Ok(names.iter().any(|other| other == name))
}

/// Makes the directory: the log, then the tables under another name, and their name last.
fn make(disk: &Arc<dyn Disk>, options: &EmbeddedOptions) -> Result<(), StoreError> {
    if options.partitions == 0 || options.partitions > PartitionId::DEVICES_MAX {
        let text = format!("a data directory has 1 to {} partitions", PartitionId::DEVICES_MAX);
        return Err(StoreError::Refused(text));
    }
    if has(&**disk, TABLES_RESTORED)? {
        return Err(StoreError::Refused(format!(
            "{} holds a backup that was not restored to its end: remove the directory, and restore again",
            disk.path().display()
        )));
    }
    if has(&**disk, TABLES_NEW)? {
        disk.remove(TABLES_NEW).map_err(disk_failure("removing", &**disk, TABLES_NEW))?;
    }
    let (lineage, log) = options.identity.map_or_else(draw_identity, Ok)?;
    let log = make_log(disk, options, log)?;
    let directory = DataDirectory { lineage, partitions: options.partitions, log };
    let tables = Tables::open(&**disk, TABLES_NEW, options.table_cache_bytes)?;
    tables.write(|writer| writer.put_directory(&directory.to_row()))?;
    drop(tables);
    disk.rename(TABLES_NEW, TABLES).map_err(disk_failure("renaming", &**disk, TABLES_NEW))?;
    disk.sync_directory().map_err(disk_failure("syncing", &**disk, ""))
}

pub(super) fn draw_identity() -> Result<(Lineage, LogId), StoreError> {
    let draw = || unguessable::<8>().map(u64::from_le_bytes);
    let drawn = draw().and_then(|lineage| Ok((Lineage(lineage), LogId(draw()?))));
    drawn.map_err(|error| {
        StoreError::Refused(format!("the operating system gives no random numbers: {error}"))
    })
}

/// The id of an empty log: a new one, or that of an earlier try.
fn make_log(disk: &Arc<dyn Disk>, options: &EmbeddedOptions, id: LogId) -> Result<LogId, StoreError> {
    let mut frames = 0_u64;
    let mut count = |_: Frame<'_>| {
        frames += 1;
        Ok(())
    };
    let opened = Log::open(Arc::clone(disk), options.log, Position::ZERO, Position::ZERO, &mut count);
    match opened {
        Ok(opened) if frames == 0 => Ok(opened.log.id()),
        Ok(_) => Err(StoreError::Refused(format!(
            "{} holds a log with {frames} batches, but its file `{TABLES}` is missing: put it back, or restore a backup",
            disk.path().display()
        ))),
        Err(LogError::NotFound { .. }) => {
            Log::create(Arc::clone(disk), options.log, id).map(|log| log.id()).map_err(log_failure)
        }
        Err(error) => Err(log_failure(error)),
    }
}

/// The directory, after it was brought to the newest format. Its row says so before anything is
/// moved: from then on no earlier build opens it.
fn bring_up(tables: &Tables) -> Result<DataDirectory, StoreError> {
    let snapshot = tables.snapshot()?;
    let directory = read_directory(&snapshot)?;
    let partitions = || partition_ids(directory.partitions);
    if snapshot.directory()?.is_some_and(|row| row != directory.to_row()) {
        migration::check_parked_jobs(&snapshot, partitions())?;
        tables.write(|writer| writer.put_directory(&directory.to_row()))?;
    }
    drop(snapshot);
    migration::move_parked_jobs(tables, partitions())?;
    Ok(directory)
}

fn read_directory(snapshot: &Snapshot) -> Result<DataDirectory, StoreError> {
    let row = snapshot.directory()?.unwrap_or_default();
    let directory = DataDirectory::from_row(&row).map_err(|error| match error {
        CodecError::Version { found, known, .. } => StoreError::Refused(format!(
            "{} has format {found}, this build reads formats up to {known}: start the version that wrote it, or a \
             later one",
            snapshot.name()
        )),
        error => damaged_row(snapshot.name(), Table::Directory, &[], &error),
    })?;
    if directory.partitions > PartitionId::DEVICES_MAX {
        return Err(StoreError::Refused(format!(
            "{} has {} partitions, this build knows up to {}: start the version that wrote it",
            snapshot.name(),
            directory.partitions,
            PartitionId::DEVICES_MAX
        )));
    }
    Ok(directory)
}

/// What the tables hold of each partition, by its place.
fn read_covered(
    snapshot: &Snapshot,
    directory: &DataDirectory,
) -> Result<Vec<(PartitionId, Covered)>, StoreError> {
    let read = |id| {
        let row = snapshot.get(Table::Heads, id, &[])?;
        let covered = row.map_or(Ok(Covered::default()), |row| Covered::from_row(&row));
        covered
            .map(|covered| (id, covered))
            .map_err(|error| damaged_row(snapshot.name(), Table::Heads, &id.0.to_be_bytes(), &error))
    };
    partition_ids(directory.partitions).map(read).collect()
}

fn partitions(
    snapshot: &Arc<Snapshot>,
    covered: &[(PartitionId, Covered)],
    memory: &Arc<OverlayMemory>,
) -> Result<Vec<Partition>, StoreError> {
    let open = |(id, covered): &(PartitionId, Covered)| {
        let existence = existence_filter_of(snapshot, *id, &covered.head)?;
        let head = covered.head.clone();
        Ok(Partition::new(*id, Arc::clone(snapshot), head, existence, Arc::clone(memory)))
    };
    covered.iter().map(open).collect()
}

/// Partitions with marks of deleted devices.
fn to_sweep(
    snapshot: &Snapshot,
    partitions: &[Partition],
) -> Result<std::collections::BTreeSet<usize>, StoreError> {
    let mut found = std::collections::BTreeSet::new();
    for (index, partition) in partitions.iter().enumerate() {
        if snapshot.range(Table::Deleted, partition.id, &KeyRange::all())?.next().transpose()?.is_some() {
            found.insert(index);
        }
    }
    Ok(found)
}

/// Applies what the tables do not hold.
struct LogReplay<'a> {
    tables: &'a Snapshot,
    partitions: &'a [Partition],
    covered: &'a [(PartitionId, Covered)],
    directory: &'a DataDirectory,
    /// The number of the latest batch of each partition.
    appended: Vec<u64>,
}

impl<'a> LogReplay<'a> {
    fn new(
        tables: &'a Snapshot,
        partitions: &'a [Partition],
        covered: &'a [(PartitionId, Covered)],
        directory: &'a DataDirectory,
    ) -> Self {
        let appended = covered.iter().map(|(_, covered)| covered.head.seq).collect();
        Self { tables, partitions, covered, directory, appended }
    }

    fn log(&mut self, disk: Arc<dyn Disk>, options: &EmbeddedOptions) -> Result<Log, StoreError> {
        let path = disk.path();
        let positions = || self.covered.iter().map(|(_, covered)| covered.position);
        let recorded = positions().max().unwrap_or(Position::ZERO);
        let replay_after = positions().min().unwrap_or(Position::ZERO);
        let mut bad = None;
        let mut visit = |frame: Frame<'_>| {
            self.frame(frame).map_err(|what| {
                bad = Some(what.clone());
                what.into()
            })
        };
        let opened = Log::open(disk, options.log, recorded, replay_after, &mut visit);
        let opened = opened.map_err(|error| match (error, bad) {
            (LogError::Visit { position, .. }, Some(what)) => StoreError::Damaged {
                file: format!("the log in {}", path.display()),
                at: format!("position {position}"),
                what,
            },
            (LogError::NotFound { directory }, _) => StoreError::Refused(format!(
                "{directory} holds tables, but their log is missing: put it back, or restore a backup"
            )),
            (error, _) => log_failure(error),
        })?;
        if opened.log.id() != self.directory.log {
            return Err(StoreError::Refused(format!(
                "the log in {} is log {}, but {} belongs to log {}: the directory mixes the files of two",
                path.display(),
                opened.log.id(),
                self.tables.name(),
                self.directory.log
            )));
        }
        if let Some(tail) = opened.tail {
            tracing::warn!(
                file = tail.file,
                offset = tail.offset,
                bytes = tail.cut_bytes,
                "cut off a torn tail of the log: it was never confirmed"
            );
        }
        Ok(opened.log)
    }

    fn frame(&mut self, frame: Frame<'_>) -> Result<(), String> {
        let batch = decode_batch(frame.payload).map_err(|error| format!("the frame is no batch: {error}"))?;
        let index = partition_index(batch.partition, self.directory.partitions)
            .ok_or_else(|| format!("the batch is of partition {}, which there is not", batch.partition))?;
        if frame.position <= self.covered[index].1.position {
            return Ok(());
        }
        let expected = self.appended[index] + 1;
        if batch.head.seq != expected {
            return Err(format!(
                "batch {} of partition {} stands where batch {expected} should",
                batch.head.seq, batch.partition
            ));
        }
        self.appended[index] = expected;
        self.partitions[index].apply(PreparedBatch::of(batch), frame.position);
        Ok(())
    }
}
