//! Tasks: what some devices of a selection are asked for once, who was picked, and what came of it.
//! A slot of a campaign is a task too.

use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, PartitionId, Timestamp};

use crate::weight::{RECORD_BYTES, bytes_of, weighs};
use crate::{DeviceSlot, LateAnswer, OutcomeReceiver};

/// What picked devices are told, and which devices may be picked. Never changes; it goes when
/// neither a campaign nor a running task has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickTerms {
    /// What it is kept under.
    pub incarnation: Incarnation,
    /// What a device is told: JSON text.
    pub payload: Arc<[u8]>,
    /// Which devices: a selector in its canonical form.
    pub selector: Option<Box<str>>,
    /// Which devices not: a selector in its canonical form.
    pub exclude: Option<Box<str>>,
    /// Only devices of this list, where they meet the selector too.
    pub devices: Option<Vec<DeviceId>>,
    /// Only devices that this task picked, or only others.
    pub relation: Option<TaskRelation>,
    /// The picked devices are spread evenly over the values of this label or built-in key.
    pub spread_by: Option<Box<str>>,
    /// How many devices.
    pub count: u32,
    /// How long a device has for its answer.
    pub answer_timeout_ms: u64,
    /// Who goes first where a rate makes picks wait.
    pub class: PickClass,
    /// Who is told: of a task its end, of a campaign each result.
    pub receiver: Option<OutcomeReceiver>,
    /// The token that asked, if there are tokens.
    pub token: Option<Box<str>>,
    /// A hash of the request: the same one again under the same id changes nothing.
    pub request: u128,
}

weighs!(PickTerms: |terms| RECORD_BYTES + terms.text_bytes());

impl PickTerms {
    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let devices = self.devices.iter().flatten().map(|id| id.as_str().len() + 2);
        let texts = [&self.selector, &self.exclude, &self.spread_by, &self.token].map(bytes_of);
        self.payload.len() + devices.sum::<usize>() + texts.iter().sum::<usize>()
    }
}

/// How devices of a task relate to those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRelation {
    /// They are among its devices.
    SameAs(EntityId),
    /// None of its devices is among them.
    NotAs(EntityId),
}

/// Who goes first where a rate makes picks wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PickClass {
    /// Large customers.
    Large,
    /// Enterprises.
    Enterprise,
    /// Everybody else.
    #[default]
    Ordinary,
}

base::names! {
    /// Every class, the first to go first; in the order of their stored numbers.
    pub PickClass: Large = "large", Enterprise = "enterprise", Ordinary = "ordinary"
}

impl PickClass {
    /// The class of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }
}

/// A task as it was asked for, or a slot as it was planned. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its id. A slot has one too, which nobody is shown.
    pub id: EntityId,
    /// What it and its picks are kept under.
    pub incarnation: Incarnation,
    /// Its [`PickTerms`].
    pub terms: Incarnation,
    /// When it was asked for; of a slot, when it began.
    pub created_at: Timestamp,
    /// How many devices are wanted: of a slot that is part of a total, its share.
    pub wanted: u32,
    /// How long who drops out is replaced by others.
    pub deadline_ms: u64,
    /// The slot that it is.
    pub slot: Option<CampaignSlot>,
    /// A hash of the request, which is asked for longer than the terms are kept. `None` of a slot,
    /// and of a task that an earlier build stored.
    pub request: Option<u128>,
}

weighs!(TaskRecord: |_| RECORD_BYTES);

/// A slot of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CampaignSlot {
    /// The campaign.
    pub campaign: Incarnation,
    /// Counts the campaign's interval since the epoch.
    pub number: u64,
    /// When it was due; on the wall clock.
    pub due_at: Timestamp,
}

/// How far a task has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    /// The task.
    pub task: Incarnation,
    /// Whether it is a slot of a campaign.
    pub is_slot: bool,
    /// Whether it goes on.
    pub standing: TaskStanding,
    /// Until when who drops out is replaced. After a start it is set anew.
    pub replaced_until: Timestamp,
    /// Its picks.
    pub counts: PickCounts,
    /// Picks that have ended.
    pub ended: u32,
    /// The slot was missed, and is not made up for.
    pub was_skipped: bool,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its receiver is still to be told that it ended.
    pub post: Option<EndPost>,
}

weighs!(TaskState: |_| RECORD_BYTES);

/// The end of a task, on its way to the task's receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPost {
    /// Attempts that failed.
    pub attempts: u32,
    /// When it is tried next.
    pub due_at: Timestamp,
}

/// Whether a task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStanding {
    /// It does.
    Running,
    /// Every pick has ended.
    Done,
    /// It was called off.
    Cancelled,
}

base::names! {
    /// Every standing, in the order of their stored numbers.
    pub TaskStanding: Running = "running", Done = "done", Cancelled = "cancelled"
}

/// Picks of a task, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PickCounts {
    /// All, replacements included.
    pub picked: u32,
    /// Whose device did it.
    pub answered: u32,
    /// Whose device said that it could not.
    pub failed: u32,
    /// Whose device did not answer in time, or went away.
    pub expired: u32,
    /// In whose place another device was picked.
    pub replaced: u32,
}

/// A device of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The task.
    pub task: Incarnation,
    /// Counts the task's picks from 0.
    pub number: u32,
    /// The slot that the task is.
    pub slot: Option<CampaignSlot>,
    /// The device.
    pub device: DeviceId,
    /// Where the device is kept.
    pub place: DevicePlace,
    /// When it was picked.
    pub picked_at: Timestamp,
    /// Its command, once the device's partition has it.
    pub command: Option<EntityId>,
    /// Whether the command went out.
    pub was_sent: bool,
    /// How it ended.
    pub end: Option<PickEnd>,
    /// What the device said when it had ended.
    pub late: Option<LateAnswer>,
}

weighs!(Pick: |pick| 2 * RECORD_BYTES + pick.text_bytes());

impl Pick {
    /// All by which it is found.
    #[must_use]
    pub fn key(&self) -> PickKey {
        PickKey {
            task: self.task,
            number: self.number,
            place: self.place,
            picked_at: self.picked_at,
            ended: self.end.as_ref().map(|end| (end.at, end.number)),
            of_campaign: self.slot.map(|slot| (slot.campaign, self.device.clone())),
        }
    }

    /// Bytes of what the device said.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let result = self.end.as_ref().and_then(|end| end.result.as_ref());
        let late = self.late.as_ref().map_or(0, |late| bytes_of(&late.result));
        result.map_or(0, |result| result.len()) + late
    }
}

/// All by which a pick is found: what its deletion names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickKey {
    /// The task.
    pub task: Incarnation,
    /// Counts the task's picks from 0.
    pub number: u32,
    /// Where the device is kept.
    pub place: DevicePlace,
    /// When it was picked.
    pub picked_at: Timestamp,
    /// When it ended, and its number among those of the task that have ended.
    pub ended: Option<(Timestamp, u32)>,
    /// The campaign whose slot the task is, and the device.
    pub of_campaign: Option<(Incarnation, DeviceId)>,
}

weighs!(PickKey: |_| RECORD_BYTES);

/// Where a device is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePlace {
    /// Its partition.
    pub partition: PartitionId,
    /// Its slot there.
    pub slot: DeviceSlot,
}

/// How a pick ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickEnd {
    /// When.
    pub at: Timestamp,
    /// Counts the picks of the task that have ended, from 0: the order of results.
    pub number: u32,
    /// What came of it.
    pub outcome: PickOutcome,
    /// What the device said: JSON text.
    pub result: Option<Arc<str>>,
}

/// What came of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PickOutcome {
    /// The device did it.
    Answered,
    /// The device said that it could not.
    Refused,
    /// It never went out to the device.
    NotSent,
    /// The device did not answer in time.
    NoAnswer,
    /// The device's session ended before it was sent.
    WentAway,
    /// It was called off.
    Cancelled,
}

base::names! {
    /// Every outcome, in the order of their stored numbers.
    pub PickOutcome: Answered = "answered", Refused = "failed", NotSent = "expired", NoAnswer = "expired",
        WentAway = "expired", Cancelled = "expired"
}

impl PickOutcome {
    /// Why it did not succeed, in the contract's words.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Answered => None,
            Self::Refused => Some("refused"),
            Self::NotSent | Self::Cancelled => Some("not_sent"),
            Self::NoAnswer => Some("no_answer"),
            Self::WentAway => Some("went_away"),
        }
    }
}

/// What a device has had of all picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PickShare {
    /// Where the device is kept.
    pub place: DevicePlace,
    /// How far its picks have brought it on the virtual clock, in millionths of a pick.
    pub reached: u64,
    /// When it was picked last.
    pub last_picked_at: Timestamp,
    /// Its turn among the picks of that millisecond: of devices that have `reached` the same, the
    /// one that was picked longer ago goes first.
    pub turn: u32,
    /// Its latest picks that expired, one after the other.
    pub expired_in_a_row: u32,
    /// Until when it is set aside for being mute.
    pub benched_until: Option<Timestamp>,
}

weighs!(PickShare: |_| 0);

/// The virtual clock of fair picks, and what its pace follows from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PickClock {
    /// When it was set last.
    pub at: Timestamp,
    /// What it said then, in millionths of a pick.
    pub reached: u64,
    /// Its pace is a pick in so many minutes, in thousandths.
    pub punishment_milli: u64,
    /// The minutes of the last hour in which tasks began, oldest first.
    pub minutes: Vec<PickMinute>,
    /// The hour of [`PickClock::token_picks`]: counts hours since the epoch of the engine clock.
    pub token_hour: u64,
    /// Picks of tokens that have a limit, where they had any in that hour.
    pub token_picks: Vec<TokenPicks>,
}

weighs!(PickClock: |clock| {
    let tokens = clock.token_picks.iter().map(|picks| picks.token.len() + 16);
    clock.minutes.len() * 16 + tokens.sum::<usize>()
});

/// The picks of a token in an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPicks {
    /// The name of the token.
    pub token: Box<str>,
    /// Devices that were picked for it, replacements included.
    pub picks: u64,
}

/// A minute in which tasks began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PickMinute {
    /// Counts minutes since the epoch of the engine clock.
    pub minute: u64,
    /// Tasks that began, slots included.
    pub tasks: u32,
    /// Devices that they picked.
    pub picked: u32,
}
