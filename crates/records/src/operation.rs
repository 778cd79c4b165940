//! Operations: one action on every row of a list, how far that has come, and what became of the
//! rows.

use base::{EntityId, Timestamp};

use crate::weight::{RECORD_BYTES, weighs};

/// An operation as it was asked for. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its id; operations are in the order of their ids' times.
    pub id: EntityId,
    /// What is done to each row.
    pub action: OperationAction,
    /// Which rows: a JSON object, as whoever asks for operations reads it.
    pub filter: Box<str>,
    /// What the action needs besides: a JSON object.
    pub arguments: Box<str>,
    /// Rows in a second.
    pub rate: u32,
    /// The name of the token that asked for it; `None` where no tokens were configured.
    pub by: Option<Box<str>>,
    /// What that token might do then.
    pub scopes: Vec<Box<str>>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Only rows that came before that time belong to it.
    pub until: Timestamp,
}

weighs!(Operation: |operation| RECORD_BYTES + operation.text_bytes());

/// What an operation does to each of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationAction {
    /// Tries a dead job again.
    RespawnDead,
    /// Deletes a dead letter.
    DeleteDead,
    /// Cancels a job.
    DeleteJob,
    /// Sends a delivery again that is not delivered yet.
    RetryDelivery,
    /// Sends a delivery again, delivered or not.
    ResendDelivery,
    /// Hands a refused report in again.
    ReplayQuarantined,
    /// Keeps a refused report no longer.
    DeleteQuarantined,
    /// Cancels a command.
    CancelCommand,
    /// Tries a command anew that has ended without success.
    RetryCommand,
    /// Changes labels of a device.
    LabelDevice,
    /// Links a device to a client.
    LinkDevice,
    /// Unlinks a device from a client.
    UnlinkDevice,
    /// Removes a device.
    DeleteDevice,
}

base::names! {
    /// Every action.
    pub OperationAction: RespawnDead = "dead.respawn", DeleteDead = "dead.delete", DeleteJob = "jobs.delete",
        RetryDelivery = "deliveries.retry", ResendDelivery = "deliveries.resend",
        ReplayQuarantined = "quarantine.replay", DeleteQuarantined = "quarantine.delete",
        CancelCommand = "commands.cancel", RetryCommand = "commands.retry", LabelDevice = "devices.label",
        LinkDevice = "devices.link", UnlinkDevice = "devices.unlink", DeleteDevice = "devices.delete"
}

/// How far an operation has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationState {
    /// The operation.
    pub id: EntityId,
    /// Whether it goes on.
    pub status: OperationStatus,
    /// The rows whose turn it is, as ids. They are written before anything is done to them: after a
    /// crash these are gone through once more, and no others.
    pub chunk: Vec<Box<str>>,
    /// Where the list goes on behind the chunk, as its reader wrote it; `None` at its end.
    pub next: Option<Box<[u8]>>,
    /// No further chunk before that time, by the rate.
    pub next_at: Timestamp,
    /// What became of its rows so far.
    pub counts: OperationCounts,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The latest refusal, or why it failed.
    pub last_error: Option<Box<OperationError>>,
}

weighs!(OperationState: |state| RECORD_BYTES + state.text_bytes());

/// What became of the rows of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Rows that were found.
    pub matched: u64,
    /// Of these, the action was done to.
    pub done: u64,
    /// Of these, the action was refused for.
    pub refused: u64,
    /// Of these, nothing was to be done for: gone meanwhile, or so already.
    pub skipped: u64,
}

/// Whether an operation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationStatus {
    /// It goes on.
    Running,
    /// Every row had its turn.
    Done,
    /// It was called off.
    Cancelled,
    /// It cannot go on.
    Failed,
}

base::names! {
    /// Every status.
    pub OperationStatus: Running = "running", Done = "done", Cancelled = "cancelled", Failed = "failed"
}

impl OperationStatus {
    /// Whether it goes on no longer.
    #[must_use]
    pub fn has_ended(self) -> bool {
        self != Self::Running
    }
}

/// A refusal within an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationError {
    /// Its stable code.
    pub code: Box<str>,
    /// For people.
    pub detail: Box<str>,
    /// The row, as its id; empty where it is about the operation as a whole.
    pub subject: Box<str>,
}

impl Operation {
    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let scopes: usize = self.scopes.iter().map(|scope| scope.len() + 2).sum();
        self.filter.len() + self.arguments.len() + scopes
    }
}

impl OperationState {
    /// The number of its chunk, which no chunk before it has: how many rows were found up to the
    /// chunk's last.
    #[must_use]
    pub fn chunk_number(&self) -> u64 {
        self.counts.matched
    }

    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let chunk: usize = self.chunk.iter().map(|row| row.len() + 2).sum();
        let error = self.last_error.as_ref().map_or(0, |error| error.detail.len() + error.subject.len());
        chunk + error + self.next.as_ref().map_or(0, |next| next.len())
    }
}
