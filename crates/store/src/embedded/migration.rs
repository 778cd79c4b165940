//! What an opening moves in a directory of an earlier format.

use base::PartitionId;
use records::ParkedJob;

use super::bulk_rows::BulkRows;
use super::tables::{Table, Tables};
use super::view::damaged_row;
use crate::change::{Change, put};
use crate::codec::Stored;
use crate::key_range::KeyRange;
use crate::port::StoreError;

/// Up to format 7 a parked job stood under its id, and a row under its time led there. Each is
/// written anew, with every row that leads to it. The earlier rows go last, so an opening that is
/// cut off begins again.
pub(super) fn move_parked_jobs(
    tables: &Tables,
    partitions: impl Iterator<Item = PartitionId>,
) -> Result<(), StoreError> {
    let snapshot = tables.snapshot()?;
    let jobs = snapshot.rows(Table::ParkedJobs)?;
    if jobs == 0 {
        return Ok(());
    }
    tracing::info!(jobs, "moves the parked jobs of an earlier format; one that is cut off begins again");
    let mut rows = BulkRows::new(tables);
    for partition in partitions {
        for row in snapshot.range(Table::ParkedJobs, partition, &KeyRange::all())? {
            let (key, row) = row?;
            let job = ParkedJob::from_row(&row)
                .map_err(|error| damaged_row(snapshot.name(), Table::ParkedJobs, &key, &error))?;
            let mut changes = Vec::new();
            put(&job, &mut changes);
            for change in changes {
                if let Change::Put { table, key, value } = change {
                    rows.put(table, partition, &key, value.into_vec())?;
                }
            }
        }
    }
    rows.write()?;
    drop(snapshot);
    tables.write(|writer| {
        [Table::ParkedJobs, Table::ParkedByTime].into_iter().try_for_each(|table| writer.clear(table))
    })?;
    tracing::info!(jobs, "the parked jobs are moved");
    Ok(())
}
