//! What an opening moves in a directory of an earlier format.

use base::PartitionId;
use records::ParkedJob;

use super::tables::{Snapshot, Table, Tables, TablesTransaction};
use super::view::damaged_row;
use crate::change::{TableChange, put};
use crate::codec::{CodecError, Stored};
use crate::key_range::KeyRange;
use crate::port::StoreError;

/// Jobs that are moved in one transaction.
const JOBS_AT_A_TIME: usize = 20_000;
/// How many are moved until the next line in the log.
const JOBS_PER_LINE: u64 = 1_000_000;

/// Whether everything that a move reads can be read. It is asked before the directory gets the
/// newest format: the build that wrote it can still open it then.
pub(super) fn check_parked_jobs(
    snapshot: &Snapshot,
    partitions: impl Iterator<Item = PartitionId>,
) -> Result<(), StoreError> {
    for partition in partitions.filter(is_of_queues) {
        for row in snapshot.range(Table::ParkedJobs, partition, &KeyRange::all())? {
            let (key, row) = row?;
            ParkedJob::from_row(&row).map_err(|error| damaged(snapshot.name(), &key, &error))?;
        }
        for table in [Table::ParkedByTime, Table::ParkedByLine, Table::ParkedAliases] {
            for row in snapshot.range(table, partition, &KeyRange::all())? {
                row?;
            }
        }
    }
    Ok(())
}

/// Up to format 7 a parked job stood under its id, and a row under its time led there. Each is
/// written anew with every row that leads to it, in the transaction that takes it out. So an
/// opening that is cut off goes on with the rest. No transaction holds the pages of one before it.
pub(super) fn move_parked_jobs(
    tables: &Tables,
    partitions: impl Iterator<Item = PartitionId>,
) -> Result<(), StoreError> {
    let snapshot = tables.snapshot()?;
    let (jobs, times) = (snapshot.rows(Table::ParkedJobs)?, snapshot.rows(Table::ParkedByTime)?);
    drop(snapshot);
    // Nothing reads these.
    if times > 0 {
        tables.write(|writer| writer.clear(Table::ParkedByTime))?;
    }
    if jobs == 0 {
        return Ok(());
    }
    tracing::info!(jobs, "moves the parked jobs of an earlier format; a start that is cut off goes on");
    let mut moved = 0;
    for partition in partitions.filter(is_of_queues) {
        loop {
            let some = tables.write(|writer| move_some(writer, partition))? as u64;
            if some == 0 {
                break;
            }
            if moved / JOBS_PER_LINE != (moved + some) / JOBS_PER_LINE {
                tracing::info!(jobs, moved = moved + some, "moves parked jobs");
            }
            moved += some;
        }
    }
    Ok(())
}

fn is_of_queues(partition: &PartitionId) -> bool {
    partition.queues_index().is_some()
}

/// How many were moved.
fn move_some(writer: &TablesTransaction<'_>, partition: PartitionId) -> Result<usize, StoreError> {
    let mut jobs = writer.table(Table::ParkedJobs)?;
    let rows = jobs.first(partition, &KeyRange::all(), JOBS_AT_A_TIME, |_, _| Ok(true))?;
    let mut changes = Vec::new();
    for (key, row) in &rows {
        let job = ParkedJob::from_row(row).map_err(|error| damaged(writer.name(), key, &error))?;
        put(&job, &mut changes);
        jobs.remove(partition, key)?;
    }
    drop(jobs);
    for table in [Table::Parked, Table::ParkedIds, Table::ParkedByLine, Table::ParkedAliases] {
        let mut out = writer.table(table)?;
        for change in &changes {
            if let TableChange::Put { table: of, key, value } = change
                && *of == table
            {
                out.put(partition, key, value)?;
            }
        }
    }
    Ok(rows.len())
}

fn damaged(file: &str, key: &[u8], error: &CodecError) -> StoreError {
    damaged_row(file, Table::ParkedJobs, key, error)
}
