//! What a receiver was told: counts, the newest word on each device, and as much more as is asked
//! for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::notification::{DeviceEventKind, Notification};

/// Descriptions of what was wrong are kept up to this many; the counts go on.
const COMPLAINTS_MAX: usize = 16;

/// How much a ledger remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retain {
    /// Counts and the newest word on each device: memory does not grow with the notifications.
    Latest,
    /// Also each webhook-id, so that repeats are told from new ones and their bodies compared.
    Ids,
    /// Also every arrival in full.
    Everything,
}

/// What was answered to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookReply {
    /// This HTTP status.
    Status(u16),
    /// Nothing: left hanging.
    None,
}

impl WebhookReply {
    /// Whether the notification counts as taken.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Status(200..=299))
    }
}

/// One signed and readable notification, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The same for every attempt of one notification.
    pub webhook_id: Arc<str>,
    /// What it says.
    pub notification: Notification,
    /// When it was read.
    pub at: Instant,
    /// Which arrival of this webhook-id it is, from 1 (always 1 with [`Retain::Latest`]).
    pub attempt: u32,
    /// Two bodies are the same when their hashes are.
    pub body_hash: u64,
    /// What was answered.
    pub reply: WebhookReply,
}

/// One signed message about a pick or a task, as it came: no notification about a device.
#[derive(Debug, Clone, PartialEq)]
pub struct PickMessage {
    /// The same for every attempt of one message.
    pub webhook_id: Arc<str>,
    /// What it says.
    pub body: Value,
    /// What was answered.
    pub reply: WebhookReply,
}

/// The newest word on a device that was taken with success.
#[derive(Debug, Clone, PartialEq)]
pub struct Latest {
    /// Its webhook-id.
    pub webhook_id: Arc<str>,
    /// What it says.
    pub notification: Notification,
}

/// How much came, and of what sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Readable notifications with a good signature, repeats too.
    pub arrivals: u64,
    /// Those of them answered with success.
    pub taken: u64,
    /// Those of them whose webhook-id had been seen before (needs [`Retain::Ids`]).
    pub repeats: u64,
    /// Repeats that did not have the bytes of the first (needs [`Retain::Ids`]).
    pub altered: u64,
    /// Notifications with a smaller `sequence` than one that came before about the same device.
    pub backwards: u64,
    /// Test notifications.
    pub tests: u64,
    /// Requests whose signature was wrong or missing.
    pub forged: u64,
    /// Requests that could not be read.
    pub malformed: u64,
}

/// What is remembered of a webhook-id.
#[derive(Debug, Clone, Copy)]
struct SeenWebhook {
    arrivals: u32,
    taken: u32,
    body_hash: u64,
}

/// What is remembered of a device.
#[derive(Debug)]
struct DeviceWord {
    sequence_max: u64,
    latest: Option<Latest>,
}

/// See the module.
#[derive(Debug)]
pub struct Ledger {
    retain: Retain,
    counts: Counts,
    devices: HashMap<Box<str>, DeviceWord>,
    ids: HashMap<Arc<str>, SeenWebhook>,
    arrivals: Vec<Arrival>,
    pick_messages: Vec<PickMessage>,
    complaints: Vec<String>,
}

impl Ledger {
    pub(crate) fn new(retain: Retain) -> Self {
        Self {
            retain,
            counts: Counts::default(),
            devices: HashMap::new(),
            ids: HashMap::new(),
            arrivals: Vec::new(),
            pick_messages: Vec::new(),
            complaints: Vec::new(),
        }
    }

    /// How much came.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The newest word on `device_id` that was taken.
    #[must_use]
    pub fn latest(&self, device_id: &str) -> Option<&Latest> {
        self.devices.get(device_id)?.latest.as_ref()
    }

    /// Every arrival in order (needs [`Retain::Everything`]).
    #[must_use]
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Every message about a pick or a task, in order (needs [`Retain::Everything`]).
    #[must_use]
    pub fn pick_messages(&self) -> &[PickMessage] {
        &self.pick_messages
    }

    /// Different webhook-ids seen (needs [`Retain::Ids`]).
    #[must_use]
    pub fn ids_seen(&self) -> usize {
        self.ids.len()
    }

    /// How often `webhook_id` came, and how often of these it was taken (needs [`Retain::Ids`]).
    #[must_use]
    pub fn seen(&self, webhook_id: &str) -> Option<(u32, u32)> {
        self.ids.get(webhook_id).map(|seen| (seen.arrivals, seen.taken))
    }

    /// The first few descriptions of what was wrong: forged, unreadable, altered or out of order.
    #[must_use]
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Arrivals of the kind `kind` that were taken (needs [`Retain::Everything`]).
    #[must_use]
    pub fn taken_of_kind(&self, kind: DeviceEventKind) -> usize {
        let is_it = |arrival: &&Arrival| arrival.reply.is_success() && arrival.notification.kind == kind;
        self.arrivals.iter().filter(is_it).count()
    }

    pub(crate) fn record(&mut self, mut arrival: Arrival) {
        self.counts.arrivals += 1;
        self.counts.taken += u64::from(arrival.reply.is_success());
        if self.retain >= Retain::Ids {
            arrival.attempt = self.note_id(&arrival);
        }
        self.note_device(&arrival);
        if self.retain == Retain::Everything {
            self.arrivals.push(arrival);
        }
    }

    pub(super) fn record_pick(&mut self, message: PickMessage) {
        if self.retain == Retain::Everything {
            self.pick_messages.push(message);
        }
    }

    pub(super) fn forged(&mut self, reason: &str) {
        self.counts.forged += 1;
        self.complain(|| format!("forged: {reason}"));
    }

    pub(super) fn malformed(&mut self, reason: &str) {
        self.counts.malformed += 1;
        self.complain(|| format!("malformed: {reason}"));
    }

    pub(super) const fn tested(&mut self) {
        self.counts.tests += 1;
    }

    /// Which arrival of its webhook-id this is.
    fn note_id(&mut self, arrival: &Arrival) -> u32 {
        let taken = u32::from(arrival.reply.is_success());
        match self.ids.entry(Arc::clone(&arrival.webhook_id)) {
            Entry::Vacant(entry) => {
                entry.insert(SeenWebhook { arrivals: 1, taken, body_hash: arrival.body_hash });
                1
            }
            Entry::Occupied(mut entry) => {
                let seen = entry.get_mut();
                seen.arrivals += 1;
                seen.taken += taken;
                let (attempt, same) = (seen.arrivals, seen.body_hash == arrival.body_hash);
                self.counts.repeats += 1;
                if !same {
                    self.counts.altered += 1;
                    self.complain(|| format!("altered: attempt {attempt} of {}", arrival.webhook_id));
                }
                attempt
            }
        }
    }

    fn note_device(&mut self, arrival: &Arrival) {
        let Notification { device_id, sequence, .. } = &arrival.notification;
        if !self.devices.contains_key(device_id.as_str()) {
            let word = DeviceWord { sequence_max: 0, latest: None };
            self.devices.insert(device_id.as_str().into(), word);
        }
        let Some(device) = self.devices.get_mut(device_id.as_str()) else {
            unreachable!("it was put there just now");
        };
        let before = device.sequence_max;
        device.sequence_max = before.max(*sequence);
        if arrival.reply.is_success() && *sequence >= before {
            let (webhook_id, notification) = (Arc::clone(&arrival.webhook_id), arrival.notification.clone());
            device.latest = Some(Latest { webhook_id, notification });
        }
        if *sequence < before {
            self.counts.backwards += 1;
            self.complain(|| {
                format!("backwards: {device_id} was at {before}, {} says {sequence}", arrival.webhook_id)
            });
        }
    }

    fn complain(&mut self, complaint: impl FnOnce() -> String) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint());
        }
    }
}
