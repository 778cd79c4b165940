//! The end of a run: nothing is asked any more, everybody is well, and after a while everything
//! must have been told, on time.

use std::sync::Arc;

use base::Timestamp;
use records::{Client, DeliveryStatus};

use super::World;
use crate::devices::checkers::{newest, quarantine_and_counts};
use crate::devices::meant::AttemptRef;
use crate::devices::model::ExpectedAttempt;
use crate::harness::port::AnyPort;
use crate::harness::violation::{Checked, Invariant};
use crate::harness::workload::{Rest, Workload};

/// How long it may take until all is told, in milliseconds: far longer than the longest delay.
const QUIET_MS_MAX: i64 = 3_600_000;
/// How late an attempt may be while nothing else happens, in milliseconds. For each device that the
/// client may have to be told of first, it is as long as a healthy receiver takes.
const LATE_MS_PER_DEVICE_MAX: i64 = 20;

impl World {
    /// Time passes until nothing is left to tell.
    pub(super) fn wait_until_told(&mut self) -> Checked<Rest> {
        let now = self.now();
        let end = self.rest_by.get_or_insert(Timestamp(now.0 + QUIET_MS_MAX)).0;
        if self.owed().is_empty() && self.calls.waiting.is_empty() && self.sending.live.is_empty() {
            return Ok(Rest::Found);
        }
        // What began before is answered as it was to be; from then on nothing stands in the way of
        // anything.
        if self.quiet_since.is_none() && self.sending.live.is_empty() {
            self.quiet_since = Some(now);
        }
        Invariant::NEVER_EARLY_HARDLY_LATE.check(now.0 < end, || {
            format!("after an hour of quiet something is not told yet: {:?}", self.owed())
        })?;
        Ok(Rest::Waits(self.ms_to_next(&self.machine).unwrap_or(QUIET_MS_MAX)))
    }

    /// An attempt ends that is over, or what is to be told begins. Whether there was anything.
    pub(super) fn send_at_rest(&mut self) -> Checked<bool> {
        if let Some(index) = self.over().first() {
            self.end_attempt(*index);
            return Ok(true);
        }
        let calls = self.calls.waiting.len();
        self.order_stale();
        let now = self.machine.timers_now();
        if self.server.iter().flat_map(|server| &server.partitions).any(|port| port.wants_step(now)) {
            return Ok(true);
        }
        self.drive_lanes()?;
        self.begin_waiting()?;
        Ok(self.calls.waiting.len() != calls)
    }

    /// Notifications that somebody still waits for, of clients that can be told.
    fn owed(&self) -> Vec<(String, Option<Timestamp>)> {
        let clients = &self.registry.present.clients;
        let enabled: Vec<_> =
            clients.values().filter(|client| client.enabled).map(|client| client.incarnation).collect();
        let partitions = || self.model.iter().map(|track| &track.present);
        let pending = partitions().flat_map(|partition| &partition.deliveries).filter(|delivery| {
            delivery.status == DeliveryStatus::Pending && enabled.contains(&delivery.client)
        });
        let pending =
            pending.map(|delivery| (format!("{} {:?}", delivery.device, delivery.id), delivery.due));
        let stale =
            enabled.iter().flat_map(|client| partitions().flat_map(|partition| partition.stale(*client)));
        pending.chain(stale.map(|device| (format!("{device}, which is stale"), None))).collect()
    }

    pub(super) fn check_told(&mut self) -> Checked {
        Invariant::BOUNDED.check(self.sending.live.is_empty(), || "no rest is found".to_owned())?;
        for track in &self.model {
            if track.latest() > 0 {
                track.present.check_kept(self.now())?;
            }
            newest::check(&track.present, &self.registry.present, &self.receivers)?;
        }
        quarantine_and_counts::check_ids(self.model.iter().map(|track| &track.present))?;
        newest::check_order(&self.receivers)?;
        newest::check_ids(&self.receivers)
    }

    /// While nothing else happens, an attempt begins when it is due and the client's breaker allows
    /// it.
    pub(super) fn check_not_late(
        &self,
        what: &AttemptRef,
        to: &Arc<Client>,
        expected: &ExpectedAttempt,
        now: Timestamp,
    ) -> Checked {
        let Some(since) = self.quiet_since else { return Ok(()) };
        let held_until = self.breakers.held_until(to, self.settings.retry.base);
        let late_ms = now.0 - expected.due.max(expected.free_since).max(since).max(held_until).0;
        let late_ms_max = LATE_MS_PER_DEVICE_MAX * (1 + self.plan.devices as i64);
        Invariant::NEVER_EARLY_HARDLY_LATE.check(late_ms <= late_ms_max, || {
            format!("{what:?} begins {late_ms} ms late, with nothing else to do")
        })
    }
}
