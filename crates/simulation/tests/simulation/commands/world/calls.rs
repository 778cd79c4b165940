//! Calls of this workload: in what form they are answered, and what follows from an answer.

use base::{DeviceId, EntityId, Problem};
use engine::rollouts::{OrderReport, RolloutOrder};
use engine::{PublishedCommand, RolloutCall, SliceOutcome, TrackedCommand, TrackedRollout};

use super::fleet::Saying;
use crate::harness::calls;

/// Who answers.
pub(crate) type Waiting = calls::Waiting<Answer>;

/// A call.
pub(crate) type Call = calls::Call<Answer, Then>;

/// What follows from the answer.
pub(crate) enum Then {
    Nothing,
    /// The command of this number was given to a device.
    Given(u64, DeviceId),
    /// A command was called off, after it was tried anew so often.
    Cancelled(EntityId, u32),
    Retried(EntityId),
    /// Somebody waited for the end of a command.
    Awaited(EntityId),
    /// A device asked for a command.
    Polled {
        device: DeviceId,
        number: Option<u64>,
    },
    /// A device said something, after the command was tried anew so often. If nobody takes it in it
    /// says so again.
    Said(Saying, u32),
    RolloutBegun(String),
    /// Somebody asked something of a rollout, after others asked so often to go on with it.
    RolloutCalled(String, RolloutCall, u32),
    /// Orders of rollouts were carried to a partition. If nobody reports they are given again.
    Carried(Vec<RolloutOrder>),
}

/// What came of a call.
pub(crate) enum Answer {
    Created(Option<Problem>),
    Command(Result<Box<TrackedCommand>, Problem>),
    Done(Result<(), Problem>),
    Polled(Result<Option<Box<PublishedCommand>>, Problem>),
    Kept,
    Slice(SliceOutcome),
    Begun(Result<Box<(TrackedRollout, bool)>, Problem>),
    Reports(Vec<OrderReport>),
}
