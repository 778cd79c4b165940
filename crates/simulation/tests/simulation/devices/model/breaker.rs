//! The naive model of the circuit breakers, as the contract words it: the attempts at each client
//! that failed in a row.
//!
//! It is told of every attempt when the sender is, and is asked whenever something is leased. It
//! knows nothing of lanes, and it forgets what a process knew when that ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Incarnation, Timestamp};
use engine::AttemptOutcome;
use records::Client;

use crate::devices::counts::Counts;
use crate::harness::violation::{Checked, Invariant};

/// Failed attempts in a row, and how many notifications they must be at.
const FAILED_IN_A_ROW: usize = 20;
const FAILED_NOTIFICATIONS: usize = 5;

/// The breakers of all clients.
#[derive(Default)]
pub(crate) struct Breakers {
    failed: BTreeMap<Incarnation, Failed>,
    /// When the breaker of a client was last seen to close.
    closed_at: BTreeMap<Incarnation, Timestamp>,
    pub(crate) counts: Counts,
}

/// Attempts that failed since one got through, or since the client was changed.
struct Failed {
    client: Arc<Client>,
    attempts: Vec<(EntityId, Timestamp)>,
}

impl Failed {
    fn is_open(&self) -> bool {
        let notifications: BTreeSet<&EntityId> = self.attempts.iter().map(|(delivery, _)| delivery).collect();
        self.attempts.len() >= FAILED_IN_A_ROW && notifications.len() >= FAILED_NOTIFICATIONS
    }

    fn latest(&self) -> Timestamp {
        self.attempts.iter().map(|(_, at)| *at).max().unwrap_or(Timestamp(0))
    }
}

impl Breakers {
    /// The process ended, and with it what it knew.
    pub(crate) fn forget(&mut self) {
        self.failed.clear();
    }

    /// Whether the breaker of a client, as it is now, is open.
    pub(crate) fn is_open(&self, client: &Arc<Client>) -> bool {
        let failed = self.failed.get(&client.incarnation);
        failed.is_some_and(|failed| Arc::ptr_eq(&failed.client, client) && failed.is_open())
    }

    /// A client is now this, or gone: what another version of it did not take says nothing.
    pub(crate) fn know(&mut self, incarnation: Incarnation, client: Option<&Arc<Client>>, now: Timestamp) {
        let Some(failed) = self.failed.get(&incarnation) else { return };
        if client.is_some_and(|client| client.enabled && Arc::ptr_eq(client, &failed.client)) {
            return;
        }
        if failed.is_open() {
            self.counts.breakers_reset += 1;
            self.closed_at.insert(incarnation, now);
        }
        self.failed.remove(&incarnation);
    }

    /// An attempt at a client that is still as it was then has ended.
    pub(crate) fn ended(
        &mut self,
        client: &Arc<Client>,
        (delivery, at): (EntityId, Timestamp),
        answer: AttemptOutcome,
        now: Timestamp,
    ) {
        let open = self.is_open(client);
        match answer {
            AttemptOutcome::Status { code: 200..=299, .. } => {
                self.failed.remove(&client.incarnation);
                if open {
                    self.counts.breakers_closed += 1;
                    self.closed_at.insert(client.incarnation, now);
                }
            }
            AttemptOutcome::Status { code: 410, .. } | AttemptOutcome::Withheld => {}
            AttemptOutcome::Status { .. } | AttemptOutcome::Error(_) => {
                let none = || Failed { client: Arc::clone(client), attempts: Vec::new() };
                let failed = self.failed.entry(client.incarnation).or_insert_with(none);
                failed.attempts.push((delivery, at));
                self.counts.breakers_opened += u64::from(!open && failed.is_open());
            }
        }
    }

    /// Something is leased for a client that has so many leases and attempts under way.
    pub(crate) fn check_lease(
        &mut self,
        client: &Arc<Client>,
        (max, under_way): (usize, usize),
        now: Timestamp,
        pause: Duration,
    ) -> Checked {
        if !self.is_open(client) {
            return Ok(());
        }
        self.counts.breakers_asked += 1;
        let id = &client.id;
        Invariant::BOUNDED.check((max, under_way) == (1, 0), || {
            format!("the breaker of {id} is open, and {max} are leased while {under_way} are under way")
        })?;
        let from = self.failed[&client.incarnation].latest().after(pause);
        Invariant::NEVER_EARLY_HARDLY_LATE.check(now >= from, || {
            format!("the breaker of {id} lets one through at {now}, and may from {from} on")
        })
    }

    /// Until when a client's notifications may have had to wait.
    pub(crate) fn held_until(&self, client: &Arc<Client>, pause: Duration) -> Timestamp {
        let closed_at = self.closed_at.get(&client.incarnation).copied().unwrap_or(Timestamp(0));
        if self.is_open(client) {
            closed_at.max(self.failed[&client.incarnation].latest().after(pause))
        } else {
            closed_at
        }
    }
}
