//! The end of a run: nothing is asked any more, everybody is well, and after a while everything
//! must have been told, on time.

use std::sync::Arc;

use base::{PartitionId, Timestamp};
use records::{Client, DeliveryStatus};

use super::World;
use crate::devices::checkers::{kept, newest};
use crate::devices::meant::AttemptRef;
use crate::devices::model::ExpectedAttempt;
use crate::harness::lives::Life;
use crate::harness::schedule::Scheduled;
use crate::harness::storage::End;
use crate::harness::violation::{Checked, Invariant};

/// How long it may take until all is told, in milliseconds: far longer than the longest delay.
const QUIET_MS_MAX: i64 = 3_600_000;
/// How late an attempt may be while nothing else happens, in milliseconds: for each device that the
/// client may have to be told of first, as long as a receiver takes that is well.
const LATE_MS_PER_DEVICE_MAX: i64 = 20;
/// Steps at one moment: far more than any moment needs.
const STEPS_AT_ONCE_MAX: usize = 100_000;

impl World {
    /// Lets everything come to rest, and looks at what is there then.
    pub(super) fn become_quiet(&mut self) -> Checked {
        self.machine.storage.heal();
        self.receivers.heal();
        self.revive()?;
        // A clock that is slewed runs away from the timers by a tenth.
        self.machine.clock.step_wall(-self.machine.clock.wall_ahead());
        self.machine.trace.note(format_args!("quiet from now on"));
        self.settle()?;
        let end = Timestamp(self.now().0 + QUIET_MS_MAX);
        while self.owes_anything() {
            // What began before is answered as it was to be; from then on nothing stands in the way
            // of anything.
            if self.quiet_since.is_none() && self.sending.live.is_empty() {
                self.quiet_since = Some(self.now());
            }
            let next = self.next_moment().unwrap_or(end);
            Invariant::NeverEarlyHardlyLate.check(self.now() < end, || {
                format!("after an hour of quiet something is not told yet: {:?}", self.owed())
            })?;
            let ms = (next.0 - self.now().0).max(1);
            self.pass(ms);
            self.settle()?;
        }
        self.check_rest()
    }

    /// The process is up and well.
    fn revive(&mut self) -> Checked {
        let well = |world: &Self| {
            world.server.as_ref().is_some_and(|server| {
                !server.registry.dead && server.partitions.iter().all(|port| !port.dead)
            })
        };
        for _ in 0..10 {
            if well(self) {
                return Ok(());
            }
            self.machine.storage.heal();
            if self.server.is_some() {
                self.end_life(End::Kill);
            }
            self.start()?;
        }
        Err(Invariant::DurableBeforeAcknowledged.broken("the server does not start on a disk that is well"))
    }

    /// Does everything that can be done at this moment.
    pub(super) fn settle(&mut self) -> Checked {
        for _ in 0..STEPS_AT_ONCE_MAX {
            if !self.step_at_rest()? {
                return Ok(());
            }
            self.revive()?;
        }
        Err(Invariant::Bounded.broken("there is no end to what is to be done at one moment"))
    }

    fn step_at_rest(&mut self) -> Checked<bool> {
        if self.registry_wants() {
            self.step_registry(usize::MAX)?;
            return Ok(true);
        }
        if let Some(partition) = self.partitions_that_want().first() {
            self.step_partition(*partition, usize::MAX)?;
            return Ok(true);
        }
        if self.commit_and_tell()? {
            return Ok(true);
        }
        if let Some(index) = self.over().first() {
            self.end_attempt(*index);
            return Ok(true);
        }
        let calls = self.calls.len();
        self.order_stale();
        if !self.partitions_that_want().is_empty() {
            return Ok(true);
        }
        self.drive_lanes()?;
        self.begin_waiting()?;
        Ok(self.calls.len() != calls)
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

    fn owes_anything(&self) -> bool {
        !self.owed().is_empty() || !self.calls.is_empty() || self.sending.next_end().is_some()
    }

    fn check_rest(&mut self) -> Checked {
        let settled = self.server.as_ref().is_some_and(super::server::Server::is_settled);
        Invariant::Bounded
            .check(settled && self.sending.live.is_empty(), || "no rest is found".to_owned())?;
        for partition in 0..self.plan.partitions {
            self.audit(PartitionId(partition))?;
        }
        self.audit(PartitionId::REGISTRY)?;
        self.audit_after_a_crash()?;
        for track in &self.model {
            if track.latest() > 0 {
                track.present.check_kept(self.now())?;
            }
            newest::check(&track.present, &self.registry.present, &self.receivers)?;
        }
        kept::check_ids(self.model.iter().map(|track| &track.present))?;
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
        Invariant::NeverEarlyHardlyLate.check(late_ms <= late_ms_max, || {
            format!("{what:?} begins {late_ms} ms late, with nothing else to do")
        })
    }
}
