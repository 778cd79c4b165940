//! What the engine and the sender of webhooks say to each other.
//!
//! A partition only says "client c has due work". The sender leases notifications one at a time
//! when it is about to send, and reports how each attempt ended. Whether that was a success, and
//! what follows, is the partition's rule.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::locks::locked;
use base::{EntityId, Incarnation, PartitionId, Timestamp};
use records::{AttemptDetail, AttemptError, Reservation};
use tokio::sync::Notify;

/// A lane: the due notifications of one client in one partition.
pub type Lane = (PartitionId, Incarnation);

/// Lanes that got due work since they were last taken. Bounded: each lane is in it at most once.
#[derive(Debug)]
pub struct DueWork<L> {
    lanes: Mutex<HashSet<L>>,
    changed: Notify,
}

/// Lanes of notifications with due work.
pub type DueLanes = DueWork<Lane>;

impl<L> Default for DueWork<L> {
    fn default() -> Self {
        Self { lanes: Mutex::default(), changed: Notify::new() }
    }
}

impl<L: Eq + Hash> DueWork<L> {
    /// Waits until there is a lane to take, and takes all.
    pub async fn take(&self) -> Vec<L> {
        loop {
            let changed = self.changed.notified();
            let taken = self.take_now();
            if !taken.is_empty() {
                return taken;
            }
            changed.await;
        }
    }

    /// Takes all that are there.
    pub fn take_now(&self) -> Vec<L> {
        locked(&self.lanes).drain().collect()
    }

    pub(crate) fn mark(&self, lanes: impl IntoIterator<Item = L>) {
        locked(&self.lanes).extend(lanes);
        self.changed.notify_one();
    }
}

/// A leased notification: send this now, then tell how it went. The lease is durable.
#[derive(Clone, Debug)]
pub struct AttemptDue {
    /// Where it is kept.
    pub partition: PartitionId,
    /// The client it is for; look it up now.
    pub client: Incarnation,
    /// Shown again with the outcome.
    pub reservation: Reservation,
    /// Until when the lease holds. An attempt that could go on longer is not begun but
    /// [`AttemptOutcome::Withheld`]: its commit took so long that another may have been leased by
    /// then.
    pub until: Timestamp,
    /// The `webhook-id`.
    pub delivery: EntityId,
    /// Counts the delivery's attempts from 1.
    pub attempt: u32,
    /// The same bytes at every attempt.
    pub body: Arc<[u8]>,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct AttemptEnd {
    /// When it began, on the engine clock.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub answer: AttemptOutcome,
    /// What it saw of the receiver.
    pub detail: AttemptDetail,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver answered.
    Status {
        /// With this status.
        code: u16,
        /// Asking for this much patience (`Retry-After` on 429 and 503).
        retry_after: Option<Duration>,
    },
    /// There was no answer.
    Error(AttemptError),
    /// Nothing was sent: between lease and attempt the client was disabled or deleted, or too
    /// little was left of the lease.
    Withheld,
}
