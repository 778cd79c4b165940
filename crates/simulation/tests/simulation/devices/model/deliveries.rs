//! What becomes of a partition's notifications: made, superseded, leased, ended, retried,
//! cancelled.

use std::ops::RangeInclusive;
use std::time::Duration;

use base::{DeviceId, EntityId, Incarnation, Timestamp};
use engine::AttemptOutcome;
use records::{AttemptError, DeliveryKey, DeliveryStatus, EventKind};

use super::ExpectedAttempt;
use super::evidence::Evidence;
use super::notifications::{self, Attempt, Delivery, ExpectedNotifications, Flight};
use super::partition::{Partition, sorted};
use crate::devices::meant::AttemptRef;
use crate::harness::violation::{Checked, Invariant};

/// A lease holds for this much longer than an attempt may take.
const LEASE_MARGIN: Duration = Duration::from_secs(30);

/// Why an attempt came to nothing, as far as it matters for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    Counted,
    NeverLast,
    Uncounted,
}

impl Partition {
    /// A notification of everything that the client does not know takes the place of the one that
    /// waits.
    pub(super) fn notify(
        &mut self,
        id: &DeviceId,
        client: Incarnation,
        kind: EventKind,
        resend_of: Option<EntityId>,
        evidence: &mut Evidence,
    ) -> Checked {
        let device = self.devices.get_mut(id).expect("it is there");
        let made = evidence.deliveries.pop_front();
        let Some(made) = made.filter(|made| made.device == *id && made.client == client) else {
            let detail = format!("no notification of {id} for client {} of {kind:?}", client.0);
            return Err(Invariant::ONE_EFFECT_PER_CAUSE.broken(detail));
        };
        let wanted = (kind, device.sequence, resend_of);
        Invariant::AS_THE_MODEL.same("notification", &(made.kind, made.sequence, made.resend_of), &wanted)?;
        let pair = device.pairs.entry(client).or_default();
        pair.failed = None;
        let number = self.deliveries.len();
        if let Some(replaced) = pair.pending.replace(number) {
            pair.skipped += 1;
            self.deliveries[replaced].ends(DeliveryStatus::Superseded);
        }
        self.deliveries.push(Delivery {
            id: made.id,
            device: id.clone(),
            slot: device.slot,
            client,
            kind,
            sequence: device.sequence,
            resend_of,
            status: DeliveryStatus::Pending,
            attempts: 0,
            counted: 0,
            tries: self.settings.retry.attempts_max,
            due: Some(self.now),
            body: None,
            log: Vec::new(),
        });
        self.moves.insert(number, self.now..=self.now);
        self.count_delivery(id, client, made.id.at);
        self.stamped(id, made.id.at)
    }

    /// Which notifications were leased is in the evidence: each must have been due.
    pub(super) fn lease(
        &mut self,
        client: Incarnation,
        max: usize,
        evidence: &Evidence,
    ) -> Checked<Vec<ExpectedAttempt>> {
        let mut leased = Vec::new();
        let mut left = Vec::new();
        let ids: Vec<DeviceId> = self.devices.keys().cloned().collect();
        for id in ids {
            let device = &self.devices[&id];
            let Some(pair) = device.pairs.get(&client).filter(|pair| pair.flight.is_none()) else { continue };
            let Some(number) = pair.pending else { continue };
            let delivery = &self.deliveries[number];
            if evidence.took_off(device.slot, client, delivery.id, delivery.attempts + 1) {
                leased.push(self.take_off(&id, client)?);
            } else {
                left.push((number, delivery.due));
            }
        }
        let overdue = left.iter().find(|(_, due)| due.is_some_and(|due| due <= self.looked_at));
        let fits = leased.len() == max || (leased.len() < max && overdue.is_none());
        Invariant::NEVER_EARLY_HARDLY_LATE.check(fits, || {
            format!("{} of {max} leased for client {}, while {overdue:?} was due", leased.len(), client.0)
        })?;
        Ok(sorted(leased))
    }

    fn take_off(&mut self, id: &DeviceId, client: Incarnation) -> Checked<ExpectedAttempt> {
        let device = self.devices.get_mut(id).expect("it is there");
        let mut pair = device.pairs.remove(&client).expect("it waits");
        let number = pair.take_off(self.now, self.process).expect("it waits");
        let delivery = &mut self.deliveries[number];
        self.counts.attempts_unlisted += u64::from(delivery.id.at < self.kept.deliveries);
        let due = delivery.due.take();
        Invariant::NEVER_EARLY_HARDLY_LATE.check(due.is_some_and(|due| due <= self.now), || {
            format!("{:?} of {id} was leased at {}, due at {due:?}", delivery.id, self.now)
        })?;
        delivery.attempts += 1;
        delivery.counted += 1;
        let body =
            delivery.body.get_or_insert_with(|| notifications::body(device, &pair, delivery.id.at)).clone();
        let free_since = pair.free_since;
        let lease_end = self.now.after(self.settings.attempt_timeout + LEASE_MARGIN);
        device.pairs.insert(client, pair);
        self.moves.remove(&number);
        Ok(ExpectedAttempt {
            device: id.clone(),
            client,
            delivery: delivery.id,
            number: delivery.attempts,
            due: due.expect("checked"),
            free_since,
            lease_end,
            body,
        })
    }

    /// An attempt ended; without effect if it is not the one under way, or its lease is over.
    pub(super) fn ended(
        &mut self,
        attempt: &AttemptRef,
        (at, took_ms): (Timestamp, u32),
        answer: AttemptOutcome,
    ) {
        let Some(flight) = self.flight_of(attempt) else {
            self.counts.stale_leases += 1;
            return;
        };
        let (id, client) = (&attempt.device, attempt.client);
        let (status_code, error) = match answer {
            AttemptOutcome::Status { code, .. } => (Some(code), None),
            AttemptOutcome::Error(error) => (None, Some(error)),
            AttemptOutcome::Withheld => return self.withheld(id, client, &flight),
        };
        let number = self.deliveries[flight.delivery].attempts;
        self.record(flight.delivery, Attempt { number, at, took_ms, status_code, error });
        if flight.is_cancelled {
            return self.cancelled(id, client, &flight);
        }
        match answer {
            AttemptOutcome::Status { code: 200..=299, .. } => self.delivered(id, client, &flight),
            AttemptOutcome::Status { code: 410, .. } => {
                self.in_vain(id, client, &flight, Charge::Uncounted, self.now..=self.now);
            }
            AttemptOutcome::Status { code, retry_after } => {
                let patience = retry_after.filter(|_| code == 429 || code == 503).unwrap_or_default();
                let due = self.after_failure(flight.delivery, patience);
                self.in_vain(id, client, &flight, Charge::Counted, due);
            }
            AttemptOutcome::Error(_) | AttemptOutcome::Withheld => {
                let due = self.after_failure(flight.delivery, Duration::ZERO);
                self.in_vain(id, client, &flight, Charge::Counted, due);
            }
        }
    }

    /// Nothing was sent: as if it had not been leased.
    fn withheld(&mut self, id: &DeviceId, client: Incarnation, flight: &Flight) {
        let delivery = &mut self.deliveries[flight.delivery];
        delivery.attempts -= 1;
        if delivery.attempts == 0 {
            delivery.body = None;
        }
        if flight.is_cancelled {
            return self.cancelled(id, client, flight);
        }
        self.in_vain(id, client, flight, Charge::Uncounted, self.now..=self.now);
    }

    fn flight_of(&self, attempt: &AttemptRef) -> Option<Flight> {
        let flight = self.devices.get(&attempt.device)?.pairs.get(&attempt.client)?.flight.clone()?;
        let delivery = &self.deliveries[flight.delivery];
        let same = (delivery.id, delivery.attempts) == (attempt.delivery, attempt.number);
        (same && self.now < self.lease_end(&flight)).then_some(flight)
    }

    fn lease_end(&self, flight: &Flight) -> Timestamp {
        flight.since.after(self.settings.attempt_timeout + LEASE_MARGIN)
    }

    /// When the next attempt may be: by the formula of the contract with its jitter, or when the
    /// receiver asks for it.
    fn after_failure(&self, delivery: usize, patience: Duration) -> RangeInclusive<Timestamp> {
        let retry = &self.settings.retry;
        let grown = retry.base.as_secs_f64() * (1.0 + f64::from(self.deliveries[delivery].counted).log2());
        let seconds = grown.min(retry.max.as_secs_f64());
        let asked = patience.min(retry.max).as_millis() as i64;
        let least = ((seconds * 1_000.0).floor() as i64).max(asked);
        let most = ((seconds * 1_100.0).ceil() as i64).max(asked);
        Timestamp(self.now.0 + least)..=Timestamp(self.now.0 + most)
    }

    fn delivered(&mut self, id: &DeviceId, client: Incarnation, flight: &Flight) {
        self.deliveries[flight.delivery].ends(DeliveryStatus::Delivered);
        let device = self.devices.get_mut(id).expect("it is there");
        let pair = device.pairs.get_mut(&client).expect("it is in flight");
        pair.flight = None;
        pair.free_since = self.now;
        pair.land(flight);
        if pair.is_over() {
            device.pairs.remove(&client);
        }
    }

    /// The attempt has ended that was under way when its client was unlinked.
    fn cancelled(&mut self, id: &DeviceId, client: Incarnation, flight: &Flight) {
        self.deliveries[flight.delivery].ends(DeliveryStatus::Cancelled);
        let device = self.devices.get_mut(id).expect("it is there");
        let pair = device.pairs.get_mut(&client).expect("it is in flight");
        pair.flight = None;
        pair.free_since = self.now;
        if pair.is_over() {
            device.pairs.remove(&client);
        }
    }

    fn in_vain(
        &mut self,
        id: &DeviceId,
        client: Incarnation,
        flight: &Flight,
        charge: Charge,
        due: RangeInclusive<Timestamp>,
    ) {
        let delivery = &mut self.deliveries[flight.delivery];
        let dead = charge == Charge::Counted && delivery.counted >= delivery.tries;
        let device = self.devices.get_mut(id).expect("it is there");
        let pair = device.pairs.get_mut(&client).expect("it is in flight");
        pair.flight = None;
        pair.free_since = self.now;
        if pair.pending.is_some() || dead {
            pair.skipped += 1;
            let status =
                if pair.pending.is_some() { DeliveryStatus::Superseded } else { DeliveryStatus::Failed };
            pair.failed = pair.pending.is_none().then_some(flight.delivery);
            self.counts.given_up += u64::from(pair.failed.is_some());
            delivery.ends(status);
            return;
        }
        delivery.counted -= u32::from(charge == Charge::Uncounted);
        delivery.due = Some(*due.start());
        pair.pending = Some(flight.delivery);
        self.moves.insert(flight.delivery, due);
    }

    /// Leases that ran out: their senders hang. A step that stopped early ended some of them, which
    /// the evidence tells.
    pub(super) fn lapse(&mut self, evidence: &Evidence, more: bool) {
        for (id, client, flight) in self.flights() {
            let delivery = &self.deliveries[flight.delivery];
            let attempt = (DeliveryKey::from(delivery.id), delivery.attempts);
            let end = self.lease_end(&flight);
            if end <= self.now && (!more || evidence.attempts.contains(&attempt)) {
                self.cut(&id, client, &flight, AttemptError::TimedOut, end);
            }
        }
    }

    /// The partition was loaded by this process: attempts of any other are cut off.
    pub(crate) fn loaded_by(&mut self, process: u64, now: Timestamp) {
        self.process = process;
        self.now = self.now.max(now);
        for (id, client, flight) in
            self.flights().into_iter().filter(|(_, _, flight)| flight.process != process)
        {
            self.cut(&id, client, &flight, AttemptError::Interrupted, self.now);
        }
    }

    fn cut(
        &mut self,
        id: &DeviceId,
        client: Incarnation,
        flight: &Flight,
        error: AttemptError,
        due: Timestamp,
    ) {
        // How long it went on in a process that is gone, nobody knows.
        let known = error != AttemptError::Interrupted;
        let took_ms = if known { (self.now.0 - flight.since.0) as u32 } else { 0 };
        let number = self.deliveries[flight.delivery].attempts;
        let attempt = Attempt { number, at: flight.since, took_ms, status_code: None, error: Some(error) };
        self.record(flight.delivery, attempt);
        if flight.is_cancelled {
            return self.cancelled(id, client, flight);
        }
        self.in_vain(id, client, flight, Charge::NeverLast, due..=due);
    }

    fn record(&mut self, delivery: usize, mut attempt: Attempt) {
        let delivery = &mut self.deliveries[delivery];
        attempt.at = attempt.at.max(delivery.id.at);
        self.recorded.push((DeliveryKey::from(delivery.id), attempt.number));
        delivery.log.push(attempt);
    }

    fn flights(&self) -> Vec<(DeviceId, Incarnation, Flight)> {
        let of_device = |device: &super::device::Device| {
            let flights =
                device.pairs.iter().filter_map(|(client, pair)| Some((*client, pair.flight.clone()?)));
            flights.map(|(client, flight)| (device.id.clone(), client, flight)).collect::<Vec<_>>()
        };
        self.devices.values().flat_map(of_device).collect()
    }

    /// Nothing more is told to this client of this device. An attempt under way goes on.
    pub(super) fn cancel(&mut self, id: &DeviceId, client: Incarnation) {
        let Some(device) = self.devices.get_mut(id) else { return };
        let Some(pair) = device.pairs.remove(&client) else { return };
        if let Some(number) = pair.pending {
            self.deliveries[number].ends(DeliveryStatus::Cancelled);
        }
        if let Some(flight) = pair.flight {
            let flight = Some(Flight { is_cancelled: true, ..flight });
            let left = ExpectedNotifications { flight, ..ExpectedNotifications::default() };
            device.pairs.insert(client, left);
        }
    }

    /// The device goes, and nothing more is told of it. How attempts under way end is not recorded
    /// any more, so they are none.
    pub(super) fn forget_attempts(&mut self, id: &DeviceId) {
        for (_, _, Flight { delivery, .. }) in self.flights().into_iter().filter(|(of, ..)| of == id) {
            self.deliveries[delivery].attempts -= 1;
            self.deliveries[delivery].ends(DeliveryStatus::Cancelled);
        }
    }

    /// Somebody asks for a delivery to be sent again now: the same one while it is not told, else a
    /// new one.
    pub(super) fn retry(
        &mut self,
        id: EntityId,
        evidence: &mut Evidence,
    ) -> Checked<Result<(), &'static str>> {
        let found = self.deliveries.iter().position(|delivery| delivery.id == id);
        let Some(number) = found.filter(|_| self.lists(id)) else { return Ok(Err("unknown_delivery")) };
        let Delivery { slot, client, kind, device, .. } = self.deliveries[number].clone();
        // What it tells is what there is now, also where that came while nobody was linked.
        let newest = self.devices.get(&device).map(|device| self.newest_event(device, kind));
        let Some(newest) = newest else { return Ok(Err("not_linked")) };
        let known = self.devices.get_mut(&device).filter(|device| device.slot == slot);
        let Some(known) = known.filter(|device| device.links.contains(&client)) else {
            return Ok(Err("not_linked"));
        };
        let pair = known.pairs.entry(client).or_default();
        let flight = pair.flight.as_ref().filter(|flight| !flight.is_cancelled);
        let flight = flight.map(|flight| flight.delivery);
        let of_pair = |delivery: &Delivery| (delivery.slot, delivery.client) == (slot, client);
        let outdated = self.deliveries.iter().rposition(of_pair) != Some(number);
        let answer = if pair.pending == Some(number) {
            self.due_now(number);
            Ok(())
        } else if flight == Some(number) && pair.pending.is_none() {
            Ok(())
        } else if pair.failed == Some(number) {
            pair.failed = None;
            pair.skipped -= 1;
            pair.pending = Some(number);
            self.deliveries[number].status = DeliveryStatus::Pending;
            self.deliveries[number].counted = 0;
            self.deliveries[number].tries = self.settings.retry.attempts_max;
            self.due_now(number);
            Ok(())
        } else if outdated || !pair.is_told() {
            Err("superseded")
        } else {
            pair.again = Some(newest.clone());
            self.notify(&device, client, newest.0, Some(id), evidence)?;
            Ok(())
        };
        let device = self.devices.get_mut(&device).expect("it is there");
        if device.pairs.get(&client).is_some_and(ExpectedNotifications::is_over) {
            device.pairs.remove(&client);
        }
        Ok(answer)
    }

    pub(super) fn due_now(&mut self, number: usize) {
        self.deliveries[number].due = Some(self.now);
        self.moves.insert(number, self.now..=self.now);
    }

    /// When each delivery that moved is due next is in the evidence: within what the contract
    /// allows.
    pub(super) fn follow_times(&mut self, evidence: &Evidence) -> Checked {
        for (number, allowed) in std::mem::take(&mut self.moves) {
            let delivery = &mut self.deliveries[number];
            let Some(progress) = evidence.progress.get(&DeliveryKey::from(delivery.id)) else { continue };
            if delivery.status != DeliveryStatus::Pending {
                continue;
            }
            let Some(due) = progress.next_attempt_at else { continue };
            Invariant::NEVER_EARLY_HARDLY_LATE.check(allowed.contains(&due), || {
                format!("the next attempt at {:?} is due at {due}; allowed is {allowed:?}", delivery.id)
            })?;
            delivery.due = Some(due);
        }
        Ok(())
    }
}

impl Delivery {
    /// It waits for nothing more.
    fn ends(&mut self, status: DeliveryStatus) {
        self.status = status;
        self.due = None;
    }
}
