//! Commands: what a device is told to do, where that stands, and what its application wishes of it.

use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, Timestamp, hash};

use crate::weight::{RECORD_BYTES, bytes_of, weighs};
use crate::{CampaignSlot, DeviceSlot};

/// Where a command is kept within its partition, and the order of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandKey {
    /// When it was given.
    pub at: Timestamp,
    /// Its number among the partition's commands, modulo 2^32.
    pub number: u32,
}

/// A command as it was given. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its id, the `message_id` that the device is shown, which holds its key.
    pub id: EntityId,
    /// The device.
    pub slot: DeviceSlot,
    /// The device's id.
    pub device: DeviceId,
    /// What the device is told: JSON text.
    pub payload: Arc<[u8]>,
    /// Who asked for it, in the caller's words.
    pub origin: Option<Box<str>>,
    /// A newer waiting command of the device with the same key replaces this one.
    pub key: Option<Box<str>>,
    /// When it goes out, and how often.
    pub terms: CommandTerms,
    /// What made it.
    pub cause: CommandCause,
    /// Who is told how it ended.
    pub notify: Option<Box<OutcomeReceiver>>,
}

weighs!(Command: |command| 3 * RECORD_BYTES + command.payload.len());

/// When a command goes out, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTerms {
    /// -100 to 100; higher ones go first.
    pub priority: i8,
    /// It goes out no earlier.
    pub not_before: Option<Timestamp>,
    /// How long it may take altogether, from when it was given or from `not_before` on.
    pub ttl_ms: Option<u64>,
    /// How long the device has for an answer before the command goes out again.
    pub ack_timeout_ms: u64,
    /// How long a device that has said that it is at work may go without saying so again.
    pub run_timeout_ms: u64,
    /// How often it goes out.
    pub attempts_max: u32,
}

/// What made a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandCause {
    /// A call.
    Call,
    /// A desired entry of the device was put or deleted.
    DesiredState {
        /// The entry's key.
        key: Box<str>,
        /// What is wished: JSON text; `None` if the entry is to be deleted.
        value: Option<Box<str>>,
    },
    /// A rollout.
    Rollout(RolloutCause),
    /// A bulk assignment sets a desired entry.
    RolloutEntry {
        /// The entry's key.
        key: Box<str>,
        /// What is wished: JSON text; `None` if the entry is to be deleted.
        value: Option<Box<str>>,
        /// The device's turn.
        turn: RolloutCause,
    },
    /// A task, or a slot of a campaign, picked the device.
    Pick(Box<PickCause>),
}

impl CommandCause {
    /// The entry that is wished, and what it is to be.
    #[must_use]
    pub fn desired_state(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::DesiredState { key, value } | Self::RolloutEntry { key, value, .. } => {
                Some((key, value.as_deref()))
            }
            Self::Call | Self::Rollout(_) | Self::Pick(_) => None,
        }
    }

    /// The turn in a rollout.
    #[must_use]
    pub fn turn(&self) -> Option<RolloutCause> {
        match self {
            Self::Rollout(turn) | Self::RolloutEntry { turn, .. } => Some(*turn),
            Self::Call | Self::DesiredState { .. } | Self::Pick(_) => None,
        }
    }

    /// The pick of a task.
    #[must_use]
    pub fn pick(&self) -> Option<&PickCause> {
        match self {
            Self::Pick(cause) => Some(cause),
            Self::Call | Self::DesiredState { .. } | Self::Rollout(_) | Self::RolloutEntry { .. } => None,
        }
    }
}

/// A pick of a task, as the command of the picked device knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickCause {
    /// The task.
    pub task: Incarnation,
    /// Counts the task's picks from 0.
    pub number: u32,
    /// When the device was picked.
    pub picked_at: Timestamp,
    /// The id of the campaign, and its slot that the task is.
    pub slot: Option<(Box<str>, CampaignSlot)>,
}

/// A device's turn in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutCause {
    /// The rollout.
    pub rollout: Incarnation,
    /// Which of the entries that are wished; 0 for a command.
    pub entry: u32,
    /// Counts the device's turns from 1.
    pub turn: u32,
}

/// Who is told how a command ended.
#[derive(Clone, PartialEq, Eq)]
pub enum OutcomeReceiver {
    /// A queue gets a job.
    Queue {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        queue: Box<str>,
    },
    /// A URL gets a signed POST.
    Url {
        /// Where to.
        url: Box<str>,
        /// What it is signed with.
        secret: Box<[u8]>,
    },
    /// A stream gets a message.
    Stream {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        stream: Box<str>,
    },
}

impl std::fmt::Debug for OutcomeReceiver {
    /// Leaves the secret out: it must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue { namespace, queue } => write!(f, "Queue({namespace}/{queue})"),
            Self::Url { url, .. } => write!(f, "Url({url})"),
            Self::Stream { namespace, stream } => write!(f, "Stream({namespace}/{stream})"),
        }
    }
}

/// How far a command has come. Kept apart from the rest, so that it can move without the rest being
/// read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandState {
    /// Where it stands.
    pub status: CommandStatus,
    /// Its time has not come; only while it is scheduled.
    pub is_held: bool,
    /// Then it ends, answered or not.
    pub expires_at: Option<Timestamp>,
    /// How often it went out since it was given, or retried by hand.
    pub tries: u32,
    /// When it went out last.
    pub published_at: Option<Timestamp>,
    /// When it was answered, or ended otherwise.
    pub finished_at: Option<Timestamp>,
    /// The latest progress that the device told: JSON text.
    pub progress: Option<Box<str>>,
    /// When it told that.
    pub progress_at: Option<Timestamp>,
    /// What the device answered: JSON text.
    pub result: Option<Box<str>>,
    /// The device's answer after the end.
    pub late: Option<Box<LateAnswer>>,
}

weighs!(CommandState: |state| state.text_bytes());

impl CommandState {
    /// That of a command that has to wait for its turn.
    pub const WAITING: Self = Self {
        status: CommandStatus::Scheduled,
        is_held: false,
        expires_at: None,
        tries: 0,
        published_at: None,
        finished_at: None,
        progress: None,
        progress_at: None,
        result: None,
        late: None,
    };

    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let late = self.late.as_ref().map_or(0, |late| bytes_of(&late.result));
        bytes_of(&self.progress) + bytes_of(&self.result) + late
    }

    /// Whether it ended by its device's answer. A failure that the device told has a result, `null`
    /// if it gave none; one for want of an answer has none.
    #[must_use]
    pub fn was_answered(&self) -> bool {
        match self.status {
            CommandStatus::Acknowledged => true,
            CommandStatus::Failed => self.result.is_some(),
            _ => false,
        }
    }

    /// What its device answered, as it is shown: `null` for an answer without a result.
    #[must_use]
    pub fn shown_result(&self) -> Option<&str> {
        self.result.as_deref().or_else(|| self.was_answered().then_some("null"))
    }

    /// What it waits for; `None` once it has ended.
    #[must_use]
    pub fn phase(&self) -> Option<CommandPhase> {
        match self.status {
            CommandStatus::Scheduled if self.is_held => Some(CommandPhase::Held),
            CommandStatus::Scheduled => Some(CommandPhase::Waiting),
            CommandStatus::Published | CommandStatus::Running => Some(CommandPhase::Unanswered),
            _ => None,
        }
    }
}

/// An answer that came after the command had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateAnswer {
    /// Whether the device did it.
    pub ok: bool,
    /// When it came.
    pub at: Timestamp,
    /// What it says: JSON text.
    pub result: Option<Box<str>>,
}

/// Where a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandStatus {
    /// It waits for its turn, its time, or its device.
    Scheduled,
    /// It went out, and the device has not answered.
    Published,
    /// The device said that it is at work.
    Running,
    /// The device did it.
    Acknowledged,
    /// The device could not do it, or never answered.
    Failed,
    /// Its time was over before an answer came.
    Expired,
    /// A newer one with its key took its place.
    Superseded,
    /// It was called off.
    Cancelled,
}

base::names! {
    /// Every status, in the order of their stored numbers.
    pub CommandStatus: Scheduled = "scheduled", Published = "published", Running = "running",
        Acknowledged = "acknowledged", Failed = "failed", Expired = "expired", Superseded = "superseded",
        Cancelled = "cancelled"
}

impl CommandStatus {
    /// Whether nothing more comes of it by itself.
    #[must_use]
    pub fn has_ended(self) -> bool {
        match self {
            Self::Scheduled | Self::Published | Self::Running => false,
            Self::Acknowledged | Self::Failed | Self::Expired | Self::Superseded | Self::Cancelled => true,
        }
    }

    /// The status of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// The place of a command that has not ended, among those of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCommand {
    /// The command.
    pub key: CommandKey,
    /// The device.
    pub slot: DeviceSlot,
    /// What it waits for.
    pub phase: CommandPhase,
    /// Higher ones go first.
    pub priority: i8,
    /// When time does something to it next: its `not_before` or its end, the earlier.
    pub due: Option<Timestamp>,
    /// A hash of its key, while a newer one may take its place.
    pub key_hash: Option<u64>,
}

weighs!(OpenCommand: |_| RECORD_BYTES);

impl OpenCommand {
    /// The place of a command in this state; `None` once it has ended.
    #[must_use]
    pub fn of(command: &Command, state: &CommandState) -> Option<Self> {
        let phase = state.phase()?;
        let not_before = command.terms.not_before.filter(|_| phase == CommandPhase::Held);
        let may_give_way = phase != CommandPhase::Unanswered;
        let key = command.key.as_deref().filter(|_| may_give_way);
        Some(Self {
            key: command.id.into(),
            slot: command.slot,
            phase,
            priority: command.terms.priority,
            due: not_before.into_iter().chain(state.expires_at).min(),
            key_hash: key.map(Self::key_hash),
        })
    }

    /// The hash of a command's key.
    #[must_use]
    pub fn key_hash(key: &str) -> u64 {
        hash::derived(0, key.as_bytes())
    }
}

/// What a command that has not ended waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandPhase {
    /// The device's answer.
    Unanswered,
    /// Its turn.
    Waiting,
    /// Its time.
    Held,
}

impl CommandPhase {
    /// Every phase, in the order of their stored numbers.
    pub const ALL: [Self; 3] = [Self::Unanswered, Self::Waiting, Self::Held];
}

/// A command that has ended, by when that was: it is forgotten some time later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FinishedCommand {
    /// When it ended.
    pub at: Timestamp,
    /// The command.
    pub key: CommandKey,
    /// The device.
    pub slot: DeviceSlot,
}

weighs!(FinishedCommand: |_| 0);

impl FinishedCommand {
    /// Where a command in this state is forgotten from; `None` while it has not ended.
    #[must_use]
    pub fn of(command: &Command, state: &CommandState) -> Option<Self> {
        let at = state.finished_at.filter(|_| state.status.has_ended())?;
        Some(Self { at, key: command.id.into(), slot: command.slot })
    }
}

/// A desired entry of a device: what its application wishes, and what the device has confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredState {
    /// The device.
    pub slot: DeviceSlot,
    /// The entry's key.
    pub key: Box<str>,
    /// What is wished: JSON text; `None` if the entry is to be deleted, or nothing is wished.
    pub desired: Option<Box<str>>,
    /// When that was wished.
    pub desired_at: Timestamp,
    /// What the device has: JSON text; `None` if it has no such entry as far as is known.
    pub confirmed: Option<Box<str>>,
    /// When the device said so.
    pub confirmed_at: Option<Timestamp>,
    /// The command that brings the device there, until it has ended well.
    pub command: Option<CommandKey>,
}

weighs!(DesiredState: |desired_state| RECORD_BYTES + desired_state.text_bytes());

impl DesiredState {
    /// Bytes of its values.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        bytes_of(&self.desired) + bytes_of(&self.confirmed)
    }
}

/// A live session of a device, as it is kept so that a crash does not leave it open in the books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSession {
    /// The device.
    pub slot: DeviceSlot,
    /// Unique among all sessions of this process and of those before it.
    pub number: u64,
    /// When it began.
    pub since: Timestamp,
    /// Where the device is.
    pub address: Option<Box<str>>,
}

weighs!(DeviceSession: |_| RECORD_BYTES);
