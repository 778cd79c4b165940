//! Deliberate faults of the harness, which stand for bugs of the server: the right checker must
//! find each.

use records::Batch;

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// A commit is called durable when it is handed in.
    EffectsBeforeDurable,
    /// The disk says that it has synced, and has not.
    ForgottenSync,
    /// The disk does so for the tables only.
    ForgottenCheckpointSync,
    /// A checkpoint does not record up to where its partition is in the tables.
    ForgottenPosition,
    /// What is synced later than it is answered never is.
    ForgottenLateSync,
    /// A crash takes the last durable batch with it.
    BatchLostAtRestart,
    /// Partitions are not woken when something of theirs is due.
    DeadlineLost,
    /// Another thing is stored than was made. A workload says which.
    Stored(StoredFault),
    /// Those around the server do something wrong. A workload says what, and does it.
    Around(&'static str),
}

impl InjectedFault {
    /// Whether it may show first in rows that do not agree. Of the others each has a checker of its
    /// own to find it.
    pub(super) fn is_left_in_rows(self) -> bool {
        matches!(self, Self::Stored(StoredFault { shows: Shows::Rows, .. }))
    }
}

/// A batch is changed on its way to the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredFault {
    pub(crate) name: &'static str,
    pub(crate) shows: Shows,
    /// Changes a batch. The number starts at 0 with each process, and is the fault's to count with.
    pub(crate) change: fn(&mut Batch, &mut u64),
}

/// Who may see first that a batch was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The model, which is handed the changed batch.
    Batch,
    /// Whoever reads what is stored.
    Store,
    /// Whoever reads what is stored, or the check of all rows.
    Rows,
}

impl PartialEq for StoredFault {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for StoredFault {}
