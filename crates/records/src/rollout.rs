//! Rollouts: one thing to do for many devices, how far that has come, and where each device stands.

use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, Timestamp, hash};

use crate::weight::{RECORD_BYTES, bytes_of, weighs};
use crate::{CommandStatus, OutcomeReceiver};

/// A rollout as it was asked for. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Its id, unique among all rollouts.
    pub id: Box<str>,
    /// What its devices are kept under.
    pub incarnation: Incarnation,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// A hash of the request: the same request again is the same rollout.
    pub request: u128,
    /// What is to be done.
    pub work: RolloutWork,
    /// Which devices: a selector in its canonical form.
    pub selector: Option<Box<str>>,
    /// Which devices: only those that were named ([`RolloutDevices`]). Together with a selector
    /// both must hold.
    pub is_named: bool,
    /// Commands that are handed out in a minute.
    pub rate: Option<u32>,
    /// Commands that may be unanswered at a time.
    pub in_flight: Option<u32>,
    /// Stages, by their shares; behind the last one come all others.
    pub stages: Vec<RolloutStage>,
    /// When commands are handed out.
    pub window: Option<RolloutWindow>,
    /// When it stops by itself.
    pub stop: Option<RolloutStop>,
    /// Whether devices that come to be meant later belong to it.
    pub include_later: bool,
}

weighs!(Rollout: |rollout| 7 * RECORD_BYTES + rollout.work.bytes(RECORD_BYTES));

impl Rollout {
    /// A rollout of that work to all devices, without bounds.
    #[must_use]
    pub fn of(id: &str, incarnation: Incarnation, work: RolloutWork) -> Self {
        Self {
            id: id.into(),
            incarnation,
            created_at: Timestamp(0),
            request: 0,
            work,
            selector: None,
            is_named: false,
            rate: None,
            in_flight: None,
            stages: Vec::new(),
            window: None,
            stop: None,
            include_later: false,
        }
    }
}

/// What is to be done for each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutWork {
    /// Give it this command.
    Command(Box<RolloutCommand>),
    /// Set these desired entries: keys, and JSON text, or nothing where an entry is to be deleted.
    Entries(Vec<RolloutEntry>),
}

impl RolloutWork {
    /// Bytes of its payload, or of its entries, each with so many besides.
    #[must_use]
    pub fn bytes(&self, of_an_entry: usize) -> usize {
        match self {
            Self::Command(command) => command.payload.len(),
            Self::Entries(entries) => {
                entries.iter().map(|entry| of_an_entry + entry.key.len() + bytes_of(&entry.value)).sum()
            }
        }
    }
}

/// An entry that is wished of each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutEntry {
    /// The entry's key.
    pub key: Box<str>,
    /// JSON text; `None` deletes the entry.
    pub value: Option<Box<str>>,
}

/// A command for many devices. What is left out is as the settings say when it is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutCommand {
    /// JSON text.
    pub payload: Arc<[u8]>,
    /// How long a device's command may take altogether, from when it was handed out.
    pub ttl_ms: Option<u64>,
    /// Nothing goes out earlier; on the wall clock.
    pub not_before: Option<Timestamp>,
    /// How long a device has for an answer before the command goes out again.
    pub ack_timeout_ms: Option<u64>,
    /// How long a device that is at work may go without saying so again.
    pub run_timeout_ms: Option<u64>,
    /// How often the command goes out.
    pub attempts_max: Option<u32>,
    /// Who asked for it, in the caller's words.
    pub origin: Option<Box<str>>,
    /// A newer waiting command of the device with the same key replaces it.
    pub key: Option<Box<str>>,
    /// -100 to 100; higher ones go first.
    pub priority: i8,
    /// Who is told how each command ended.
    pub notify: Option<OutcomeReceiver>,
}

/// A stage of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutStage {
    /// Its devices and those of the stages before, in millionths of all.
    pub share_ppm: u32,
    /// How long nothing more is handed out after the last of its published commands ended.
    pub soak_ms: u64,
    /// Whether somebody must approve of what comes behind it.
    pub approve: bool,
}

/// When commands are handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutWindow {
    /// When it opens.
    pub cron: Box<str>,
    /// For how long, in milliseconds.
    pub for_ms: u64,
    /// The time zone of devices that have none of their own; `None` is UTC.
    pub tz: Option<Box<str>>,
}

/// When a rollout stops by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutStop {
    /// More than this share failed of those that were published to and have ended, in millionths.
    pub failed_ppm: u32,
    /// At least so many of them have ended.
    pub after: u32,
}

/// How far a rollout has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutState {
    /// The rollout.
    pub id: Box<str>,
    /// Whether it goes on.
    pub standing: RolloutStanding,
    /// Where looking for its devices goes on; `None` once all are found.
    pub collecting: Option<RolloutCursor>,
    /// Its devices, by where they stand.
    pub counts: RolloutCounts,
    /// The present stage, from 0; the number of stages once all of them have ended.
    pub stage: u32,
    /// The rank of the last device of the stage; `None` until it is known, and behind the stages.
    pub boundary: Option<u64>,
    /// Commands of the stage that went out and have ended, answered or not.
    pub stage_ended: u64,
    /// When the last of them ended; before that, when the stage began. `None` in the first stage.
    pub last_ended_at: Option<Timestamp>,
    /// Somebody approved of what comes behind the stage.
    pub approved: bool,
    /// The earliest time of the next command, by the rate, in microseconds.
    pub next_us: u64,
    /// Published commands that have ended since it began, or was resumed after a stop.
    pub ended: u64,
    /// How many of these failed.
    pub failed: u64,
    /// What it waits for while nothing is handed out.
    pub waits_for: RolloutWait,
    /// When every device had had its turn, for those that could be reached. In a stage that waits
    /// for absent devices alone, when all others of the stage had.
    pub passed_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

weighs!(RolloutState: |_| RECORD_BYTES);

/// What a rollout waits for that goes on and hands nothing out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RolloutWait {
    /// For nothing of these.
    #[default]
    Nothing,
    /// Its stage soaks.
    Soak,
    /// Somebody must approve of what comes behind its stage.
    Approval,
    /// The window of all devices is shut that could have their turns.
    Window,
}

impl RolloutWait {
    /// The name that the contract uses; `None` for nothing.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Soak => Some("soak"),
            Self::Approval => Some("approval"),
            Self::Window => Some("window"),
        }
    }
}

/// Whether a rollout goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutStanding {
    /// It does.
    Running,
    /// Not until it is resumed.
    Paused,
    /// Too many commands failed, or its devices cannot be told or are too many: not until it is
    /// resumed.
    Stopped,
    /// It was called off.
    Cancelled,
    /// Every device has ended.
    Done,
}

base::names! {
    /// Every standing, in the order of their stored numbers.
    pub RolloutStanding: Running = "running", Paused = "paused", Stopped = "stopped", Cancelled = "cancelled",
        Done = "done"
}

impl RolloutStanding {
    /// Whether nothing more is handed out, whatever anybody does.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Cancelled | Self::Done)
    }
}

/// Where looking for devices goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutCursor {
    /// With these of the devices that were named: the number of their [`RolloutDevices`].
    Named(u32),
    /// In the partition of devices of this index, behind this device.
    Partition(u32, Option<DeviceId>),
}

/// Some of the devices that a rollout names, until it has looked for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutDevices {
    /// The rollout.
    pub rollout: Incarnation,
    /// Counts from 0.
    pub number: u32,
    /// The devices.
    pub devices: Vec<DeviceId>,
}

weighs!(RolloutDevices: |named| named.bytes());

impl RolloutDevices {
    /// Bytes of the ids.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.devices.iter().map(|id| id.as_str().len() + 2).sum()
    }
}

/// Devices of a rollout, by where they stand: counted by [`MemberStatus`] in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutCounts(pub [u64; MemberStatus::ALL.len()]);

impl RolloutCounts {
    /// How many stand there.
    #[must_use]
    pub fn of(&self, status: MemberStatus) -> u64 {
        self.0[status as usize]
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// A device of a rollout. Of a bulk assignment there is one for each device and entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutMember {
    /// Where it is kept.
    pub place: MemberPlace,
    /// Where it stands.
    pub status: MemberStatus,
    /// It is to be taken back from the device's partition, unless it went out.
    pub is_recalled: bool,
    /// How often it was handed out.
    pub turn: u32,
    /// When it was handed out last.
    pub handed_at: Option<Timestamp>,
    /// Its command, once the device's partition has it.
    pub command: Option<EntityId>,
    /// The device's time zone, where it has one.
    pub tz: Option<Box<str>>,
}

weighs!(RolloutMember: |_| RECORD_BYTES);

/// Where a device of a rollout is kept, and the order in which devices have their turns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberPlace {
    /// The rollout.
    pub rollout: Incarnation,
    /// A hash of the rollout and the device.
    pub rank: u64,
    /// The device.
    pub device: DeviceId,
    /// Which of the entries that are wished; 0 for a command.
    pub entry: u32,
}

weighs!(MemberPlace: |_| RECORD_BYTES);

impl MemberPlace {
    /// The place of a device in a rollout.
    #[must_use]
    pub fn of(rollout: Incarnation, device: &DeviceId, entry: u32) -> Self {
        let rank = hash::derived(rollout.0, device.as_str().as_bytes());
        Self { rollout, rank, device: device.clone(), entry }
    }
}

/// Where a device of a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberStatus {
    /// Its turn has not come, or the device is away.
    Waiting,
    /// Its command is handed out.
    Scheduled,
    /// The command went out, and the device has not answered.
    Published,
    /// The device did it.
    Acknowledged,
    /// The device could not do it, or never answered.
    Failed,
    /// The command's time was over before an answer came.
    Expired,
    /// A newer command with its key took its place.
    Superseded,
    /// It was called off.
    Cancelled,
}

base::names! {
    /// Every status, in the order of their stored numbers.
    pub MemberStatus: Waiting = "waiting", Scheduled = "scheduled", Published = "published",
        Acknowledged = "acknowledged", Failed = "failed", Expired = "expired", Superseded = "superseded",
        Cancelled = "cancelled"
}

impl MemberStatus {
    /// Whether the device has ended.
    #[must_use]
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Waiting | Self::Scheduled | Self::Published)
    }

    /// The status of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

impl From<CommandStatus> for MemberStatus {
    fn from(status: CommandStatus) -> Self {
        match status {
            CommandStatus::Scheduled => Self::Scheduled,
            CommandStatus::Published | CommandStatus::Running => Self::Published,
            CommandStatus::Acknowledged => Self::Acknowledged,
            CommandStatus::Failed => Self::Failed,
            CommandStatus::Expired => Self::Expired,
            CommandStatus::Superseded => Self::Superseded,
            CommandStatus::Cancelled => Self::Cancelled,
        }
    }
}
