//! The circuit breaker: how steadily the receiver of a client fails, and when the next notification
//! may be tried at it.
//!
//! The rule alone, without clock, task or socket; [`crate::lanes`] asks it before each lease and
//! tells it of each attempt that ended. A breaker opens after [`FAILED_IN_A_ROW`] failed attempts
//! in a row over at least [`FAILED_NOTIFICATIONS`] notifications. While it is open it lets one
//! notification at a time through, each some while after the one before. It closes with the first
//! success. It belongs to one version of the client: who changes its URL, its secret or anything
//! else, or enables it, begins anew. It holds nothing that is due and counts no attempt of it: what
//! it holds back waits in its lane. It is in memory only, and only for clients whose latest attempt
//! failed.

use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Incarnation, Timestamp};
use engine::AttemptOutcome;
use engine::records::Client;

use crate::by_client::ByClient;

#[cfg(test)]
mod tests;

/// Failed attempts in a row that open a breaker,
pub const FAILED_IN_A_ROW: u32 = 20;
/// if they were at so many notifications: of fewer, the notifications themselves may be what the
/// receiver does not take.
pub const FAILED_NOTIFICATIONS: usize = 5;

/// An attempt that was made, as far as it tells of the receiver.
#[derive(Clone, Debug)]
pub struct AttemptReport {
    /// The client as it was when the attempt began: the very record of the directory.
    pub to: Arc<Client>,
    /// At which notification.
    pub delivery: EntityId,
    /// When it began.
    pub at: Timestamp,
    /// What came of it.
    pub answer: AttemptOutcome,
}

impl AttemptReport {
    /// Whether the receiver took the notification.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self.answer, AttemptOutcome::Status { code: 200..=299, .. })
    }
}

/// What a breaker did, for whoever watches.
#[derive(Clone, Debug)]
pub enum BreakerEvent {
    /// It opened: notifications wait.
    Opened {
        /// The client.
        client: Arc<Client>,
        /// Attempts that failed in a row.
        failed: u32,
        /// How the last of them ended.
        last: AttemptOutcome,
    },
    /// It closed: they wait no more.
    Closed {
        /// The client, as it was while the breaker was open.
        client: Arc<Client>,
        /// Why.
        why: CloseReason,
    },
}

impl BreakerEvent {
    /// Whose breaker it is.
    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Opened { client, .. } | Self::Closed { client, .. } => client,
        }
    }
}

/// Why a breaker closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// A notification got through.
    Delivered,
    /// The client was changed, disabled or deleted.
    Changed,
}

/// What may be sent to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerState {
    /// As much as the limits allow.
    Closed,
    /// One notification while none is in flight, from then on.
    Open {
        /// The earliest that the next one may go out.
        next_at: Timestamp,
    },
}

/// The breakers of all clients. Bounded by the clients whose latest attempt failed.
#[derive(Debug)]
pub(crate) struct Breakers {
    /// Between the beginnings of two attempts at a client whose breaker is open.
    pause: Duration,
    of: ByClient<Breaker>,
    open: usize,
}

/// Failures in a row of one version of a client.
#[derive(Debug)]
struct Breaker {
    /// Held, so that no other record can have its address.
    client: Arc<Client>,
    failed: u32,
    /// At which they were: each once, and no more than matter.
    notifications: Vec<EntityId>,
    /// When the latest of their attempts began.
    latest: Timestamp,
    is_open: bool,
}

impl Breakers {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, of: ByClient::default(), open: 0 }
    }

    /// What may be sent to the client as it is now.
    pub(crate) fn state(&self, client: &Arc<Client>) -> BreakerState {
        match self.of.get(&client.incarnation) {
            Some(breaker) if breaker.is_open && Arc::ptr_eq(&breaker.client, client) => {
                BreakerState::Open { next_at: breaker.latest.after(self.pause) }
            }
            _ => BreakerState::Closed,
        }
    }

    /// Whether an attempt may change anything. While every receiver is well, none does.
    pub(crate) fn may_change(&self, report: &AttemptReport) -> bool {
        !report.is_success() || !self.of.is_empty()
    }

    /// An attempt at a client that is still as it was then.
    pub(crate) fn report(&mut self, report: AttemptReport) -> Option<BreakerEvent> {
        match report.answer {
            AttemptOutcome::Status { code: 200..=299, .. } => {
                self.close(report.to.incarnation, CloseReason::Delivered)
            }
            // The receiver wants nothing more, and the client is disabled: that is no failure.
            AttemptOutcome::Status { code: 410, .. } | AttemptOutcome::Withheld => None,
            AttemptOutcome::Status { .. } | AttemptOutcome::Error(_) => self.failed(report),
        }
    }

    fn failed(&mut self, AttemptReport { to, delivery, at, answer }: AttemptReport) -> Option<BreakerEvent> {
        let breaker = self.of.entry(to.incarnation).or_insert_with(|| Breaker::new(&to, at));
        breaker.failed = breaker.failed.saturating_add(1);
        breaker.latest = breaker.latest.max(at);
        if breaker.notifications.len() < FAILED_NOTIFICATIONS && !breaker.notifications.contains(&delivery) {
            breaker.notifications.push(delivery);
        }
        let fails_steadily =
            breaker.failed >= FAILED_IN_A_ROW && breaker.notifications.len() >= FAILED_NOTIFICATIONS;
        if breaker.is_open || !fails_steadily {
            return None;
        }
        breaker.is_open = true;
        self.open += 1;
        Some(BreakerEvent::Opened { client: to, failed: breaker.failed, last: answer })
    }

    /// Forgets what is known of a client.
    pub(crate) fn close(&mut self, client: Incarnation, why: CloseReason) -> Option<BreakerEvent> {
        let breaker = self.of.remove(&client)?;
        self.open -= usize::from(breaker.is_open);
        breaker.is_open.then_some(BreakerEvent::Closed { client: breaker.client, why })
    }

    /// The client is now this: what is known of another version of it is forgotten.
    pub(crate) fn know(&mut self, client: &Arc<Client>) -> Option<BreakerEvent> {
        let known = self.of.get(&client.incarnation)?;
        if Arc::ptr_eq(&known.client, client) {
            return None;
        }
        self.close(client.incarnation, CloseReason::Changed)
    }

    /// The clients of which something is known.
    pub(crate) fn clients(&self) -> Vec<Incarnation> {
        self.of.keys().copied().collect()
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open
    }
}

impl Breaker {
    fn new(client: &Arc<Client>, at: Timestamp) -> Self {
        let client = Arc::clone(client);
        Self { client, failed: 0, notifications: Vec::new(), latest: at, is_open: false }
    }
}
