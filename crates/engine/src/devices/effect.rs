//! What the outside sees of a step of a partition of devices, held until its batch is durable.
//! Dropping an effect tells its receiver that the outcome is unknown.

use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, PartitionId};
use fleet::index::IndexChange;
use records::{Command, DesiredState, DevicePlace, DeviceSlot, OutcomeReceiver};

use super::input::ImportOutcome;
use super::intake::SlicePart;
use super::lanes::AttemptDue;
use super::stats::DeviceStats;
use crate::campaigns::{PickMove, PickReport};
use crate::commands::{PublishedCommand, TrackedCommand};
use crate::gathering::PartitionBacklog;
use crate::kernel::reply::{Answered, Reply};
use crate::notices::LostDevices;
use crate::outcomes::{OutcomeDue, OutcomeLane};
use crate::queries::DeviceDetails;
use crate::rollouts::{CommandMove, OrderReport};

/// What the outside may see once it is durable.
#[derive(Debug)]
pub enum DeviceEffect {
    /// A slice's part is done: its reports can be acknowledged.
    Accepted(SlicePart),
    /// A device was registered or changed, or that was refused.
    Device(Reply<Answered<DeviceDetails>>, Answered<Box<DeviceDetails>>),
    /// Devices were imported.
    Imported(Reply<Vec<(u32, Answered<ImportOutcome>)>>, Vec<(u32, Answered<ImportOutcome>)>),
    /// What a request that may come again is answered, in its form.
    Written(Reply<Answered<Arc<[u8]>>>, Answered<Arc<[u8]>>),
    /// Something was done, or refused.
    Done(Reply<Answered<()>>, Answered<()>),
    /// Refused reports, or the ends of attempts, are kept.
    Kept(Reply<()>),
    /// A sweep went this far; whether there is more.
    Swept(Reply<bool>, bool),
    /// The body of a notification, if it is kept.
    Body(Reply<Option<Arc<[u8]>>>, Option<Arc<[u8]>>),
    /// Attempts may be made.
    Leased(Reply<Vec<Vec<AttemptDue>>>, Vec<Vec<AttemptDue>>),
    /// What became of rollouts' orders.
    RolloutReports(Reply<Vec<OrderReport>>, Vec<OrderReport>),
    /// A command of a rollout moved on.
    RolloutMoved(Box<CommandMove>),
    /// The partition was loaded: what it had to tell rollouts and tasks before may be lost.
    AskAgain,
    /// What became of the orders of tasks.
    PickReports(Reply<Vec<PickReport>>, Vec<PickReport>),
    /// The command of a pick moved on.
    PickMoved(Box<PickMove>),
    /// The result of a pick is not told: too many wait to be told.
    PickResultDropped,
    /// A device has a session.
    Came(DevicePlace),
    /// The last session of a device has ended.
    WentAway(DevicePlace),
    /// A device answered a command.
    Answered(DevicePlace),
    /// A device was deleted.
    Gone(DevicePlace),
    /// So much waits for the streams of copies; so many reports came in addition.
    Gathered(PartitionId, PartitionBacklog, u64),
    /// A device was registered, changed or removed.
    DeviceChanged(DeviceId),
    /// A registered device polls: it takes what it is given now.
    DevicePolls(DeviceId),
    /// Lanes have due work.
    LanesDue(PartitionId, Vec<Incarnation>),
    /// A client has stale devices in a partition, or none any more.
    Stale(PartitionId, Incarnation, bool),
    /// A partition has more stale devices of a client than it told of at once.
    StaleGoOn(PartitionId, Incarnation),
    /// A notification got through to a client.
    Reached(Incarnation),
    /// A notification failed for good.
    GivenUp(Box<GivenUp>),
    /// A client is told again of its devices up to this one.
    Resent(Reply<Option<DeviceSlot>>, Option<DeviceSlot>),
    /// A command goes out to sessions of its device.
    CommandPublished(Box<PublishedCommand>),
    /// A command was given, has ended, or neither.
    Command(Reply<Answered<Box<TrackedCommand>>>, Answered<Box<TrackedCommand>>),
    /// A poll is answered.
    Polled(Reply<Answered<Option<Box<PublishedCommand>>>>, Answered<Option<Box<PublishedCommand>>>),
    /// An entry is wished to be this.
    DesiredSet(Reply<Answered<Box<DesiredState>>>, Answered<Box<DesiredState>>),
    /// Lanes of outcomes have due work.
    OutcomesDue(PartitionId, Vec<OutcomeLane>),
    /// Outcomes may be told.
    OutcomesLeased(Reply<Vec<OutcomeDue>>, Vec<OutcomeDue>),
    /// An outcome is told no more.
    OutcomeGivenUp(Box<OutcomeGivenUp>),
    /// Devices have other attributes than before. It comes before the answers of its step.
    Indexed(PartitionId, Vec<IndexChange>),
    /// Devices were lost.
    Lost(Vec<LostDevices>),
    /// A partition has other counts than before.
    StatsChanged(PartitionId, DeviceStats),
}

/// A notification that failed for good, for the log.
#[derive(Debug)]
pub struct GivenUp {
    pub(crate) delivery: EntityId,
    pub(crate) client: Incarnation,
    pub(crate) device: Option<DeviceId>,
    pub(crate) attempts: u32,
}

/// An outcome of a command that its receiver did not take, for the log.
#[derive(Debug)]
pub struct OutcomeGivenUp {
    /// `None` if it is kept no more, or many of its lane were given up in one step.
    pub(crate) command: Option<CommandInLog>,
    pub(crate) lane: OutcomeLane,
    /// `None` if the sender of the last one is gone.
    pub(crate) attempts: Option<u32>,
}

/// What the log says of a command. Its payload is left out: very many may be given up in one step.
#[derive(Debug)]
pub(crate) struct CommandInLog {
    pub(crate) id: EntityId,
    pub(crate) device: DeviceId,
    pub(crate) campaign: Option<Box<str>>,
    pub(crate) receiver: Option<Box<OutcomeReceiver>>,
}

impl CommandInLog {
    pub(crate) fn of(command: &Command) -> Self {
        let slot = command.cause.pick().and_then(|pick| pick.slot.as_ref());
        Self {
            id: command.id,
            device: command.device.clone(),
            campaign: slot.map(|(campaign, _)| campaign.clone()),
            receiver: command.notify.clone(),
        }
    }
}
