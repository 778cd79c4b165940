//! What the operator can set of the engine. Parsed and checked elsewhere; here everything is in its
//! final unit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, DeviceIdForm, EntityId, Kind, Problem, Timestamp, Value};
use records::{Connection, EventKind};

use crate::coordination::CoordinationSettings;
use crate::notices::NoticeSettings;

/// Makes the body that shows a notification.
pub type Render = Arc<dyn Fn(&NotificationView<'_>) -> Vec<u8> + Send + Sync>;

/// Whether devices of a kind can be shown a command with this payload; else why not.
pub type PayloadCheck = Arc<dyn Fn(&Kind, &[u8]) -> Result<(), Problem> + Send + Sync>;

/// Every device can be shown every payload.
#[must_use]
pub fn any_payload() -> PayloadCheck {
    Arc::new(|_, _| Ok(()))
}

/// The engine's settings.
#[derive(Clone)]
pub struct EngineSettings {
    /// The ids that devices may be registered with.
    pub device_ids: DeviceIdForm,
    /// What to do with a report of a device that is not registered.
    pub unknown: UnknownDevice,
    /// A device's report interval when it has none of its own.
    pub report_interval: Duration,
    /// Added to the interval before a device is lost.
    pub loss_grace: Duration,
    /// After a start, silence does not count for this long.
    pub restart_grace: Duration,
    /// The ways in that are configured, by [`base::WayIn::index`].
    pub ways_configured: [bool; 3],
    /// The retries of notifications.
    pub retry: RetrySettings,
    /// Longest that an attempt can take; its lease holds a little longer.
    pub attempt_timeout: Duration,
    /// How often a client whose notifications failed for good is probed with one.
    pub stale_probe: Duration,
    /// For how long things are kept, and how much of them.
    pub keep: RetentionLimits,
    /// Most jobs of a partition of queues that are in memory.
    pub jobs_resident_max: usize,
    /// How commands go out.
    pub commands: CommandSettings,
    /// How many operations go on, how fast, and how long they are kept.
    pub operations: OperationSettings,
    /// How fast tasks and campaigns pick devices, and for how long results are kept.
    pub campaigns: CampaignSettings,
    /// What this node calls itself; `None` is the lineage of its data.
    pub node_name: Option<Box<str>>,
    /// The number that the data directory was given where it lies; a copy of it has another one.
    pub directory_mark: Option<u64>,
    /// Bytes of memory for messages of streams.
    pub streams_memory_bytes: usize,
    /// Storages of blocks of streams beside the local one.
    pub block_storages: store::BlockStorages,
    /// How much everyday coordination keeps.
    pub coordination: CoordinationSettings,
    /// What operators are told of the system.
    pub notices: NoticeSettings,
    /// Whether a client's URL may hold a private address.
    pub allow_private: bool,
    /// Makes a notification's body; the wire form is the sender's affair.
    pub render: Render,
    /// Refuses commands that devices of a kind cannot be shown; the wire form is the edge's affair.
    pub check_payload: PayloadCheck,
}

impl EngineSettings {
    /// The part that the registry's rules depend on.
    #[must_use]
    pub fn registry_rules(&self) -> fleet::RegistryRules {
        fleet::RegistryRules { device_ids: self.device_ids, allow_private: self.allow_private }
    }

    /// Where tests start from: HTTP alone is configured, nothing has grace, and every body is `{}`.
    #[cfg(any(test, feature = "for-tests"))]
    #[must_use]
    pub fn for_tests() -> Self {
        const HOUR: Duration = Duration::from_secs(3_600);
        Self {
            device_ids: DeviceIdForm::DEFAULT,
            unknown: UnknownDevice::Reject,
            report_interval: HOUR,
            loss_grace: Duration::ZERO,
            restart_grace: Duration::ZERO,
            ways_configured: [false, true, false],
            retry: RetrySettings { base: Duration::from_secs(30), max: HOUR, attempts_max: 10 },
            attempt_timeout: Duration::from_secs(10),
            stale_probe: HOUR,
            keep: RetentionLimits::default(),
            jobs_resident_max: 65_536,
            commands: CommandSettings::default(),
            operations: OperationSettings::default(),
            campaigns: CampaignSettings::default(),
            node_name: None,
            directory_mark: None,
            streams_memory_bytes: 64_000_000,
            block_storages: store::BlockStorages::default(),
            coordination: CoordinationSettings::default(),
            notices: NoticeSettings::default(),
            allow_private: false,
            render: Arc::new(|_| b"{}".to_vec()),
            check_payload: any_payload(),
        }
    }
}

/// What to do with a report of a device that is not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownDevice {
    /// Refuse it.
    Reject,
    /// Register the device with the kind of its topic, or as a lock.
    Register,
}

/// For how long things are kept, and how much of them. Its default is that of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Readings.
    pub readings: Duration,
    /// Events, and the counts of everything.
    pub events: Duration,
    /// Deliveries with their attempts.
    pub deliveries: Duration,
    /// Refused reports.
    pub quarantined: Duration,
    /// What refused reports may take altogether, in bytes as [`records::Quarantined::cost`] counts
    /// them; then the oldest go. The newest is kept however large it is.
    pub quarantine_bytes_max: u64,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        Self {
            readings: 90 * DAY,
            events: 400 * DAY,
            deliveries: 90 * DAY,
            quarantined: 30 * DAY,
            quarantine_bytes_max: 256_000_000,
        }
    }
}

/// How commands go out. Its default is that of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSettings {
    /// How long a device has for an answer before a command goes out again.
    pub ack_timeout: Duration,
    /// How often a command goes out.
    pub attempts_max: u32,
    /// How commands go to devices of no kind below.
    pub pace: CommandPace,
    /// How commands go to devices of these kinds.
    pub by_kind: BTreeMap<Kind, CommandPace>,
    /// For how long commands that have ended are kept.
    pub keep: Duration,
}

/// How many operations go on, how fast, and how long they are kept. Its default is that of the
/// contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationSettings {
    /// Operations that may go on at a time.
    pub running_max: usize,
    /// Rows in a second that one may go through: also what one does that says nothing of it.
    pub rate_max: u32,
    /// For how long operations that have ended are kept.
    pub keep: Duration,
}

impl Default for OperationSettings {
    fn default() -> Self {
        Self { running_max: 8, rate_max: 1_000, keep: Duration::from_secs(7 * 24 * 3_600) }
    }
}

/// How fast tasks and campaigns pick devices, and for how long results are kept. Its default is
/// that of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignSettings {
    /// Picks in a second, of tasks and campaigns together; no limit if `None`.
    pub rate: Option<u32>,
    /// For how long slots of campaigns are kept, with their results.
    pub results: Duration,
    /// Picks of one device in an hour; no limit if `None`.
    pub device_picks_per_hour: Option<u32>,
    /// Every token, by its name, with the picks in an hour that its tasks and campaigns may make;
    /// no limit if `None`. If there are any, a token that is not here may make none.
    pub token_picks_per_hour: BTreeMap<Box<str>, Option<u32>>,
}

impl Default for CampaignSettings {
    fn default() -> Self {
        Self {
            rate: None,
            results: Duration::from_secs(7 * 24 * 3_600),
            device_picks_per_hour: None,
            token_picks_per_hour: BTreeMap::new(),
        }
    }
}

/// How commands go to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandPace {
    /// How many may be unanswered at a time.
    pub in_flight: u32,
    /// Least time from one publish to the next.
    pub gap: Duration,
}

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(5),
            attempts_max: 5,
            pace: CommandPace { in_flight: 1, gap: Duration::ZERO },
            by_kind: BTreeMap::new(),
            keep: Duration::from_secs(30 * 24 * 3_600),
        }
    }
}

/// How a notification is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// The delay after the first failed attempt.
    pub base: Duration,
    /// The longest delay.
    pub max: Duration,
    /// Attempts before a notification fails for good.
    pub attempts_max: u32,
}

/// The complete picture of a device that a notification shows. Fixed at the first attempt.
#[derive(Clone, Debug)]
pub struct NotificationView<'a> {
    /// The notification.
    pub delivery: EntityId,
    /// The kind of the newest event.
    pub kind: EventKind,
    /// When the server noticed that event.
    pub timestamp: Timestamp,
    /// The device.
    pub device: &'a DeviceId,
    /// The device's kind.
    pub device_kind: &'a Kind,
    /// Where it is installed.
    pub address: Option<&'a str>,
    /// The value now.
    pub value: Option<&'a Value>,
    /// The value before the oldest event told here.
    pub previous: Option<&'a Value>,
    /// Whether it is heard of.
    pub connection: Connection,
    /// The `ts` of the reading that changed the value.
    pub changed_at: Option<Timestamp>,
    /// Its latest sign of life.
    pub last_seen_at: Option<Timestamp>,
    /// The number of the newest event.
    pub sequence: u64,
    /// Kinds of the events told here, oldest first.
    pub types: &'a [EventKind],
    /// Notifications superseded or failed since the last one delivered.
    pub skipped: u32,
}

impl std::fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("unknown", &self.unknown)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
