//! The two stores that a run may be over, behind one face that can be stepped, crashed and asked
//! for faults.

mod embedded;
mod memory;
mod mortal_disk;

use std::sync::Arc;

use base::random::Random;
use store::{Store, StoreError};

use crate::harness::clock::VirtualClock;
use crate::harness::machine::{MachinePlan, StorageKind};
use crate::harness::violation::{Checked, Invariant};

/// How a life of the process ends without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The process dies.
    Kill,
    /// The power fails.
    Crash,
}

/// A store with what can happen to it.
pub(crate) trait Storage {
    /// Opens it, as a process that starts does.
    ///
    /// # Errors
    /// When it refuses: with faults of the disk it may.
    fn open(&mut self) -> Result<Arc<dyn Store>, StoreError>;

    /// Commits what waits; whether there was anything.
    fn commit_step(&mut self, random: &mut Random) -> bool;

    /// Work that nobody waits for: checkpoints, idle marks. Whether there was any.
    fn upkeep_step(&mut self, random: &mut Random) -> bool;

    /// Syncs what was committed, where that is not done with every commit. Whether everything was
    /// synced so that was committed before.
    fn sync_step(&mut self) -> bool;

    /// A fault from now on, or at one of the next calls; says which.
    fn fault(&mut self, random: &mut Random) -> String;

    /// An end in the middle of one of the next steps that write something; says when.
    fn doom(&mut self, random: &mut Random) -> String;

    /// Whether the process has come to such an end, and how. The store is as it is after it.
    fn take_end(&mut self) -> Option<End>;

    /// Whether what it takes of memory or disk, for so many partitions, keeps to its limit; what
    /// there is, if not.
    fn is_bounded(&self, partitions: usize) -> Result<(), String>;

    /// Whether faults may still come, or have come since it was healed.
    fn is_faulty(&self) -> bool;

    /// Reads of files that have failed since it was made.
    fn failed_reads(&self) -> u64 {
        0
    }

    /// No more faults, and no end that was to come.
    fn heal(&mut self);

    /// A backup of what is durable, where it can be made.
    fn backup(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// The process dies.
    fn kill(&mut self);

    /// The power fails.
    fn crash(&mut self, random: &mut Random);

    /// The process ends well: everything it was handed is settled. Whether all of it is synced.
    fn stop(&mut self) -> bool;

    /// What readers see now; nothing after a failure, or while no process has it open.
    fn reader(&self) -> Option<Arc<dyn Store>>;

    /// The store as it would be after a crash now that loses everything not durable.
    ///
    /// # Errors
    /// When it refuses.
    fn after_a_crash(&mut self) -> Result<Arc<dyn Store>, StoreError>;

    /// What a check of all rows finds in what is there now, or would be if the process died at this
    /// moment.
    ///
    /// # Errors
    /// When it does not open.
    fn findings(&mut self) -> Result<Vec<String>, StoreError>;
}

/// Whether the rows that a life has left name each other, none too many and none too few: no life
/// after it would notice.
pub(crate) fn check_rows(storage: &mut dyn Storage) -> Checked {
    let findings = storage.findings().map_err(|error| {
        let detail = format!("what a life has left does not open: {error}");
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(detail)
    })?;
    Invariant::ROWS_AGREE.check(findings.is_empty(), || findings.join("\n"))
}

/// The store of a plan.
pub(crate) fn of(plan: &MachinePlan, clock: &Arc<VirtualClock>) -> Box<dyn Storage> {
    match plan.storage {
        StorageKind::Memory => Box::new(memory::InMemory::new(plan)),
        StorageKind::Embedded => Box::new(embedded::OnDisk::new(plan, Arc::clone(clock))),
    }
}

/// A store that was made of a backup, on a disk of its own.
///
/// # Errors
/// When the backup is refused.
pub(crate) fn restored(
    plan: &MachinePlan,
    clock: &Arc<VirtualClock>,
    backup: &[u8],
) -> Result<Box<dyn Storage>, StoreError> {
    Ok(Box::new(embedded::OnDisk::restored(plan, Arc::clone(clock), backup)?))
}
