//! What goes into the machine of tasks and campaigns.

use base::{EntityId, Incarnation, Timestamp};
use records::DevicePlace;

use super::ends::TaskEndDue;
use super::links::{PickMove, PickReport};
use super::search::FoundDevices;
use super::{CampaignPatch, FairnessStats, NewCampaign, NewTask, TrackedCampaign, TrackedTask};
use crate::OnlyIf;
use crate::kernel::reply::{Answered, Reply};
use crate::outcomes::SendResult;

/// An input to the machine.
#[derive(Debug)]
pub enum CampaignsInput {
    /// Something is asked of tasks.
    Task(TaskCall),
    /// Something is asked of campaigns.
    Campaign(CampaignCall),
    /// What the courier found out, and what partitions of devices had to say.
    Update(PickUpdate, Reply<()>),
    /// Shares of devices are asked for.
    Shares {
        /// The devices.
        places: Vec<DevicePlace>,
        /// Gets a share for each, in their order.
        reply: Reply<Vec<ShareNow>>,
    },
    /// What the pace of picks follows from is asked for.
    Fairness(Reply<FairnessStats>),
}

impl CampaignsInput {
    /// How much work it is, in reports.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Task(TaskCall::Create { new, .. }) => 1 + new.terms.count as usize,
            Self::Update(PickUpdate::Moved(moves), _) => moves.len(),
            Self::Update(PickUpdate::Reported(reports), _) => reports.len(),
            Self::Update(
                PickUpdate::WentAway(places)
                | PickUpdate::Came(places)
                | PickUpdate::Answered(places)
                | PickUpdate::Gone(places),
                _,
            ) => places.len(),
            Self::Shares { places, .. } => places.len(),
            Self::Task(_) | Self::Campaign(_) | Self::Update(..) | Self::Fairness(_) => 1,
        }
    }
}

/// What is asked of tasks.
#[derive(Debug)]
pub enum TaskCall {
    /// Begin a task.
    Create {
        /// Its id.
        id: EntityId,
        /// As asked for.
        new: Box<NewTask>,
        /// The devices that it may pick.
        found: FoundDevices,
        /// The same request again is the same task.
        is_put: bool,
        /// Gets the task.
        reply: Reply<Answered<Box<TrackedTask>>>,
    },
    /// Call a task off.
    Cancel {
        /// The task.
        id: EntityId,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Wait for the end of a task.
    AwaitEnd {
        /// The task.
        id: EntityId,
        /// Told when it has ended, at once if it has, or if there is no such task.
        reply: Reply<()>,
    },
    /// Lease ends of tasks that are to be told.
    LeaseEnds {
        /// How many at most.
        max: usize,
        /// Gets them.
        reply: Reply<Vec<TaskEndDue>>,
    },
    /// The end of a task was told, or could not be.
    EndTold {
        /// The task.
        task: Incarnation,
        /// What came of it.
        result: SendResult,
        /// Told once it is kept.
        reply: Reply<()>,
    },
}

/// What is asked of campaigns.
#[derive(Debug)]
pub enum CampaignCall {
    /// Begin a campaign.
    Create {
        /// Its id.
        id: Box<str>,
        /// As asked for.
        new: Box<NewCampaign>,
        /// What becomes of a campaign of that id.
        present: PresentCampaign,
        /// Gets the campaign, and whether it is new.
        reply: Reply<Answered<Box<(TrackedCampaign, bool)>>>,
    },
    /// Change a campaign.
    Patch {
        /// The campaign.
        id: Box<str>,
        /// What to change.
        patch: Box<CampaignPatch>,
        /// Gets the campaign.
        reply: Reply<Answered<Box<TrackedCampaign>>>,
    },
    /// Pause a campaign, or have it go on.
    SetPaused {
        /// The campaign.
        id: Box<str>,
        /// Whether it is to be paused.
        is_paused: bool,
        /// On which versions of it.
        only_if: OnlyIf,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Remove a campaign. What is under way of it is called off.
    Delete {
        /// The campaign.
        id: Box<str>,
        /// On which versions of it.
        only_if: OnlyIf,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
}

/// What becomes of a campaign that has the id of a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresentCampaign {
    /// It stays, and the new one is refused.
    Refuses,
    /// It stays, and is the answer if the same request made it.
    IsTheSame,
    /// It becomes as the new one is to be, with its next slot, if it is of these versions.
    IsReplaced(OnlyIf),
}

/// What was found out for tasks and campaigns.
#[derive(Debug)]
pub enum PickUpdate {
    /// The devices that a task may pick.
    Found(Incarnation, FoundDevices),
    /// A stored selection cannot be read: no device is known to be meant.
    Unreadable(Incarnation),
    /// Commands of picks moved on.
    Moved(Vec<PickMove>),
    /// Orders were carried out.
    Reported(Vec<PickReport>),
    /// The last sessions of these devices have ended.
    WentAway(Vec<DevicePlace>),
    /// These devices have a session.
    Came(Vec<DevicePlace>),
    /// These devices, which were benched, answered a command.
    Answered(Vec<DevicePlace>),
    /// These devices were deleted.
    Gone(Vec<DevicePlace>),
    /// Hints may have been lost.
    AskAgain,
}

/// A device's share at this moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareNow {
    /// Its weight.
    pub weight: f64,
    /// When it was picked last.
    pub last_picked_at: Option<Timestamp>,
    /// Until when it is set aside.
    pub benched_until: Option<Timestamp>,
}
