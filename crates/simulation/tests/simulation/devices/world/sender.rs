//! The sender of webhooks without its sockets: production's lanes decide, simulated receivers
//! answer, and what is promised of attempts is checked where each begins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Clock, DeviceId, EntityId, Incarnation, PartitionId, Timestamp};
use engine::devices::input::DeviceInput;
use engine::devices::stale_clients::StaleOrder;
use engine::kernel::reply::Reply;
use engine::lanes::Lane;
use engine::registry::RegistryInput;
use engine::{AttemptDue, AttemptEnd, AttemptOutcome};
use notify::breaker::AttemptReport;
use notify::lanes::{ClientStatus, LaneLease};
use records::{AttemptDetail, Client, DeviceSlot, Reservation};

use super::World;
use super::calls::{self, Call, Then, Waiting};
use crate::devices::fault_injection::{
    ATTEMPT_TWICE, ATTEMPTS_WAIT, BREAKER_DROPS, BREAKER_IGNORED, STALE_LEASE_HONOURED,
};
use crate::devices::meant::{AttemptRef, Meant, MeantClient};
use crate::devices::model::ExpectedAttempt;
use crate::devices::model::partition::Partition;
use crate::devices::receivers::Post;
use crate::harness::calls::{BatchRef, CallId};
use crate::harness::track::Track;
use crate::harness::violation::{Checked, Invariant};

/// An attempt under way.
pub(crate) struct Attempt {
    what: AttemptRef,
    partition: PartitionId,
    reservation: Reservation,
    /// The client as it was when the attempt began.
    to: Arc<Client>,
    begun: Timestamp,
    took: Duration,
    answer: AttemptOutcome,
    /// How long the way back from the sender takes.
    way_back: Duration,
}

/// The end of an attempt, on its way to its partition.
pub(crate) struct Ended {
    what: AttemptRef,
    partition: PartitionId,
    reservation: Reservation,
    end: AttemptEnd,
    /// Nothing if it was withheld.
    to: Option<Arc<Client>>,
}

impl Ended {
    pub(super) fn client(&self) -> Incarnation {
        self.what.client
    }

    /// What the lanes are told of it.
    pub(super) fn tried(&self) -> Option<AttemptReport> {
        let to = Arc::clone(self.to.as_ref()?);
        Some(AttemptReport { to, delivery: self.what.delivery, at: self.end.at, answer: self.end.answer })
    }
}

/// What the sender holds, and what outlives it for the checks.
#[derive(Default)]
pub(crate) struct Sending {
    pub(crate) live: Vec<Attempt>,
    /// Leased, and held back by a broken harness.
    waiting: Vec<(AttemptDue, ExpectedAttempt, u64)>,
    /// The call that last cut a device, or its link to a client, with its batch.
    cut: BTreeMap<(DeviceId, Option<Incarnation>), (CallId, BatchRef)>,
    /// The call that last asked for a link.
    linked: BTreeMap<(DeviceId, Incarnation), CallId>,
    /// The body that each webhook-id stood for, wherever it was posted, with the batch of its
    /// lease.
    bodies: BTreeMap<EntityId, (Arc<[u8]>, BatchRef)>,
    pub(crate) begun: u64,
    pub(crate) delivered: u64,
}

impl Sending {
    /// The process is gone, with all that it was sending.
    pub(crate) fn cut_off(&mut self) {
        self.live.clear();
        self.waiting.clear();
    }

    pub(crate) fn ask_link(&mut self, device: &DeviceId, client: Incarnation, call: CallId) {
        self.linked.insert((device.clone(), client), call);
    }

    pub(crate) fn cut(
        &mut self,
        device: &DeviceId,
        client: Option<Incarnation>,
        call: CallId,
        batch: BatchRef,
    ) {
        let cut = self.cut.entry((device.clone(), client)).or_insert((call, batch));
        *cut = (*cut).max((call, batch));
    }

    /// What came of batches of a partition after `seq` never happened.
    pub(crate) fn forget_after(&mut self, partition: PartitionId, seq: u64) {
        let is_left = |batch: &BatchRef| batch.0 != partition || batch.1 <= seq;
        self.cut.retain(|_, (_, batch)| is_left(batch));
        self.bodies.retain(|_, (_, batch)| is_left(batch));
    }

    /// When the next attempt under way ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.live.iter().map(Attempt::is_told).min()
    }

    fn check_linked(&self, device: &DeviceId, client: Incarnation) -> Checked {
        let linked = self.linked.get(&(device.clone(), client)).copied().unwrap_or(0);
        let cut =
            [Some(client), None].into_iter().filter_map(|client| self.cut.get(&(device.clone(), client)));
        let cut = cut.map(|(call, _)| *call).max().unwrap_or(0);
        Invariant::LOOKED_UP_AT_THE_LAST_MOMENT.check(cut <= linked, || {
            format!("an attempt at {device} for client {} begins after call {cut} had cut that", client.0)
        })
    }

    /// One webhook-id is one body, for ever.
    fn check_body(&mut self, due: &AttemptDue, batch: u64) -> Checked {
        let posted = || (Arc::clone(&due.body), (due.partition, batch));
        let (first, _) = self.bodies.entry(due.delivery).or_insert_with(posted);
        Invariant::ONE_EFFECT_PER_CAUSE
            .check(*first == due.body, || format!("{:?} was posted with two bodies", due.delivery))
    }
}

impl Attempt {
    fn ends(&self) -> Timestamp {
        self.begun.after(self.took)
    }

    /// When its partition can hear of its end.
    fn is_told(&self) -> Timestamp {
        self.ends().after(self.way_back)
    }
}

impl World {
    /// Hands in what stale clients are to be told again.
    pub(super) fn order_stale(&mut self) {
        let now = self.now();
        let Some(server) = &self.server else { return };
        for StaleOrder { partition, client, probe } in server.context.devices.stale.take(now) {
            self.machine
                .trace
                .note(format_args!("{partition} tells stale client {} again, a probe: {probe}", client.0));
            let input = DeviceInput::TellStale { client, probe };
            // Where there is no room, the client's next success or probe says it again.
            let _room = self.hand_in(partition, input, Meant::TellStale { client, probe });
        }
    }

    /// A client is told again by hand, one partition after the other.
    pub(super) fn resend(&mut self, client: Incarnation, partition: PartitionId, after: Option<DeviceSlot>) {
        if partition.0 >= self.machine.plan.partitions {
            return;
        }
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = DeviceInput::Resend { client, after, reply };
        let answer = (Waiting::on(receiver, calls::Answer::Resent), Then::ResendOn(client, partition));
        self.ask(partition, input, Meant::Resend { call, client, after }, answer);
    }

    /// The sender's own loop: takes what became due, and leases as its lanes allow.
    pub(super) fn drive_lanes(&mut self) -> Checked {
        let Some(server) = &mut self.server else { return Ok(()) };
        if server.clients_changed.has_changed().unwrap_or(false) {
            server.clients_changed.mark_unchanged();
            server.lanes.clients_changed();
        }
        let mut named: Vec<Lane> = server.context.devices.lanes.take_now();
        named.sort_unstable();
        let most = self.model.len() * self.clients_ever();
        Invariant::BOUNDED
            .check(named.len() <= most, || format!("{} lanes are named, of {most}", named.len()))?;
        let Some(server) = &mut self.server else { return Ok(()) };
        server.lanes.mark_due(named);
        if self.machine.random.chance(1, 20) {
            let directory = server.context.directory();
            server.lanes.sweep(|client| status_of(directory.get(client)));
        }
        let now = self.now();
        loop {
            let Some(server) = &mut self.server else { return Ok(()) };
            let (directory, breakers) = (server.context.directory(), &self.breakers);
            let drops = self.machine.injects(BREAKER_DROPS);
            let standing = |client| match directory.get(client) {
                Some(client) if drops && breakers.is_open(&client) => ClientStatus::Gone,
                present => status_of(present),
            };
            let Some(lease) = server.lanes.next(now, standing) else { return Ok(()) };
            self.check_breaker(&lease)?;
            self.lease(lease);
        }
    }

    /// Whether the client's breaker allows a lease.
    fn check_breaker(&mut self, lease: &LaneLease) -> Checked {
        let now = self.now();
        let Some(server) = &self.server else { return Ok(()) };
        let Some(client) = server.context.directory().get(lease.client) else { return Ok(()) };
        self.breakers.know(lease.client, Some(&client), now);
        let of_client =
            |call: &&Call| matches!(&call.then, Then::Send(other) if other.client == lease.client);
        let leases = self.calls.waiting.iter().filter(of_client).count();
        let attempts = self.sending.live.iter().filter(|attempt| attempt.what.client == lease.client).count();
        let pause = self.settings.retry.base;
        self.breakers.check_lease(&client, (lease.max, leases + attempts), now, pause)
    }

    fn lease(&mut self, lease: LaneLease) {
        let (partition, client, max) = (lease.partition, lease.client, lease.max);
        let call = self.next_call();
        let (reply, receiver) = Reply::new();
        let input = DeviceInput::Lease { wanted: vec![(client, max)], reply };
        if self.hand_in(partition, input, Meant::Lease { call, client, max }) {
            self.machine.trace.note(format_args!("call {call}: lease {max} of {} in {partition}", client.0));
            let answer = (Waiting::on(receiver, calls::leased), Then::Send(lease));
            self.await_answer(vec![partition], answer);
        } else if let Some(server) = &mut self.server {
            server.lanes.leased(lease, 0);
        }
    }

    /// A lease was answered: every attempt begins at this moment.
    pub(super) fn leased(
        &mut self,
        lease: LaneLease,
        due: Vec<AttemptDue>,
        (batch, expected): (u64, Vec<ExpectedAttempt>),
    ) -> Checked {
        let Some(server) = &mut self.server else { return Ok(()) };
        server.lanes.leased(lease, due.len());
        let mut due = due;
        due.sort_by_key(|due| due.delivery);
        Invariant::AS_THE_MODEL.same("attempts leased", &due.len(), &expected.len())?;
        for (due, expected) in due.into_iter().zip(expected) {
            let found = (due.delivery, due.attempt, due.client, due.until);
            Invariant::AS_THE_MODEL.same(
                "attempt",
                &found,
                &(expected.delivery, expected.number, expected.client, expected.lease_end),
            )?;
            let body: serde_json::Value = serde_json::from_slice(&due.body).unwrap_or_default();
            Invariant::NEWEST_WINS.same(format_args!("body of {:?}", due.delivery), &body, &expected.body)?;
            if self.machine.injects(ATTEMPTS_WAIT) {
                self.sending.waiting.push((due, expected, batch));
                continue;
            }
            self.begin(&due, &expected, batch)?;
            if self.machine.injects(ATTEMPT_TWICE) {
                self.begin(&due, &expected, batch)?;
            }
        }
        Ok(())
    }

    /// A broken sender comes back to what it let wait.
    pub(super) fn begin_waiting(&mut self) -> Checked {
        for (due, expected, batch) in std::mem::take(&mut self.sending.waiting) {
            self.begin(&due, &expected, batch)?;
        }
        Ok(())
    }

    fn begin(&mut self, due: &AttemptDue, expected: &ExpectedAttempt, batch: u64) -> Checked {
        let Some(server) = &self.server else { return Ok(()) };
        let now = self.machine.clock.now();
        let what = AttemptRef {
            device: expected.device.clone(),
            client: due.client,
            delivery: due.delivery,
            number: due.attempt,
        };
        // A lease that cannot outlast its attempt, because its commit took so long, is not used.
        let holds = now.after(self.settings.attempt_timeout) <= due.until;
        let client = server.context.directory().get(due.client).filter(|client| client.enabled && holds);
        let Some(client) = client else {
            self.machine.trace.note(format_args!("withheld {what:?}"));
            let end = withheld(now);
            let ended = Ended { what, partition: due.partition, reservation: due.reservation, end, to: None };
            self.record(ended);
            return Ok(());
        };
        self.check_begin(&what, &client, expected, now)?;
        self.sending.check_body(due, batch)?;
        let known = self.registry.durable().clients.get(&client.id);
        let url = known.map(|known| known.url.clone());
        let at_hand = url.as_ref() == Some(&client.url) || !self.is_registry_settled();
        Invariant::LOOKED_UP_AT_THE_LAST_MOMENT
            .check(at_hand, || format!("{} is posted to {}, and is at {url:?}", what.device, client.url))?;
        let post = Post {
            client: due.client,
            device: what.device.clone(),
            delivery: due.delivery,
            body: Arc::clone(&due.body),
            batch: (due.partition, batch),
        };
        let (took, answer) =
            self.receivers.receive(client.id.as_str(), post, &mut self.machine.random.numbers());
        self.machine.trace.note(format_args!("begins {what:?}: {answer:?} after {took:?}"));
        self.sending.begun += 1;
        let (partition, reservation) = (due.partition, due.reservation);
        if self.machine.injects(STALE_LEASE_HONOURED) {
            let before = self.sending.live.iter_mut().filter(|other| other.what.delivery == what.delivery);
            before.for_each(|other| other.way_back = Duration::ZERO);
        }
        let way_back = self.any_way_back();
        let attempt =
            Attempt { what, partition, reservation, to: client, begun: now, took, answer, way_back };
        self.sending.live.push(attempt);
        Ok(())
    }

    /// Mostly none; sometimes a sender that has its answer hangs until the lease is over.
    fn any_way_back(&mut self) -> Duration {
        let one_in = if self.machine.injects(STALE_LEASE_HONOURED) { 3 } else { 60 };
        let hangs = self.quiet_since.is_none() && self.machine.random.chance(1, one_in);
        if hangs { Duration::from_secs(20 + self.machine.random.below(120)) } else { Duration::ZERO }
    }

    fn check_begin(
        &self,
        what: &AttemptRef,
        to: &Arc<Client>,
        expected: &ExpectedAttempt,
        now: Timestamp,
    ) -> Checked {
        let live = || self.sending.live.iter().filter(|attempt| attempt.ends() > now);
        // An attempt whose device was deleted meanwhile cannot be called back; a new device of the
        // same id does not wait for it.
        let same = live().find(|other| {
            (&other.what.device, other.what.client) == (&what.device, what.client)
                && !self.is_of_deleted(&other.what)
        });
        Invariant::ONE_LEASE.check(same.is_none(), || {
            format!("{what:?} begins while {:?} is under way", same.map(|other| &other.what))
        })?;
        let of_client = live().filter(|other| other.what.client == what.client).count();
        let most = self.plan.per_client_in_flight;
        Invariant::BOUNDED.check(of_client < most, || {
            format!("client {} has {of_client} attempts under way; {most} are allowed", what.client.0)
        })?;
        Invariant::NEVER_EARLY_HARDLY_LATE.check(expected.due <= now, || {
            format!("{what:?} begins at {now} and is due at {}", expected.due)
        })?;
        self.check_not_late(what, to, expected, now)?;
        self.sending.check_linked(&what.device, what.client)
    }

    /// Whether the device of an attempt was deleted.
    fn is_of_deleted(&self, attempt: &AttemptRef) -> bool {
        let of_partition = |track: &Track<Partition>| {
            let Partition { deliveries, devices, .. } = &track.present;
            let delivery = deliveries.iter().find(|delivery| delivery.id == attempt.delivery);
            delivery.is_some_and(|delivery| devices.values().all(|device| device.slot != delivery.slot))
        };
        self.model.iter().any(of_partition)
    }

    /// An attempt that is over is told to its partition, by way of the registry where the receiver
    /// said that it is gone.
    pub(super) fn end_attempt(&mut self, index: usize) {
        let Attempt { what, partition, reservation, to, begun, took, answer, .. } =
            self.sending.live.swap_remove(index);
        self.machine.trace.note(format_args!("ends {what:?}"));
        self.sending.delivered += u64::from(matches!(answer, AttemptOutcome::Status { code: 200..=299, .. }));
        let end = AttemptEnd { at: begun, took, answer, detail: AttemptDetail::default() };
        let ended = Ended { what, partition, reservation, end, to: Some(to) };
        if !matches!(answer, AttemptOutcome::Status { code: 410, .. }) {
            return self.record(ended);
        }
        let (call, client, tried) = (self.next_call(), ended.client(), ended.tried());
        let (reply, receiver) = Reply::new();
        let url = ended.to.as_ref().map_or_else(String::new, |to| to.url.clone());
        let meant = MeantClient::Disable { call, client, url: url.clone() };
        if self.hand_in_registry(RegistryInput::Disable { client, url, reply }, meant) {
            let answer = (Waiting::on(receiver, calls::Answer::Done), Then::Record(Box::new(ended)));
            self.await_answer(vec![PartitionId::REGISTRY], answer);
        } else {
            self.finished(client, tried);
        }
    }

    /// Hands an attempt's end to its partition. Where that is not accepting, it will count as
    /// interrupted.
    pub(super) fn record(&mut self, ended: Ended) {
        let (client, tried) = (ended.client(), ended.tried());
        let Ended { what, partition, reservation, end, .. } = ended;
        let took_ms = end.took.as_millis() as u32;
        let meant = Meant::Ended { attempt: what, at: end.at, took_ms, answer: end.answer };
        let reservation = self.reservation_shown(&meant).unwrap_or(reservation);
        // The simulated sender does not hand in again what was lost: its lease runs out.
        let (reply, _not_waited_for) = Reply::new();
        let input = DeviceInput::AttemptsEnded { ended: Arc::from([(reservation, end)]), reply };
        let _not_accepting = self.hand_in(partition, input, meant);
        self.finished(client, tried);
    }

    /// Where a broken harness has it so, an attempt shows the reservation of the one that was
    /// leased after it.
    fn reservation_shown(&self, meant: &Meant) -> Option<Reservation> {
        let Meant::Ended { attempt, .. } = meant else { return None };
        let is_later =
            |other: &&Attempt| other.what.delivery == attempt.delivery && other.what.number > attempt.number;
        let later = self.sending.live.iter().find(is_later).map(|later| later.reservation);
        later.filter(|_| self.machine.injects(STALE_LEASE_HONOURED))
    }

    /// The lanes are told that a place is free, and what was tried; so is the model of the
    /// breakers.
    pub(super) fn finished(&mut self, client: Incarnation, tried: Option<AttemptReport>) {
        let now = self.now();
        let Some(server) = &mut self.server else { return };
        let present = server.context.directory().get(client);
        self.breakers.know(client, present.as_ref(), now);
        if let Some((tried, present)) = tried.as_ref().zip(present.as_ref())
            && present.enabled
            && Arc::ptr_eq(&tried.to, present)
        {
            self.breakers.ended(present, (tried.delivery, tried.at), tried.answer, now);
        }
        let told = tried.filter(|_| !self.machine.injects(BREAKER_IGNORED));
        server.lanes.finished(client, told, |_| status_of(present));
        server.lanes.take_breaker_events().for_each(drop);
    }

    /// Attempts that are over by now.
    pub(super) fn over(&self) -> Vec<usize> {
        let now = self.machine.clock.now();
        (0..self.sending.live.len()).filter(|index| self.sending.live[*index].is_told() <= now).collect()
    }
}

/// How a client stands that the directory shows so.
fn status_of(present: Option<Arc<Client>>) -> ClientStatus {
    match present {
        None => ClientStatus::Gone,
        Some(client) if !client.enabled => ClientStatus::Disabled,
        Some(client) => ClientStatus::Enabled(client),
    }
}

/// The end of an attempt that was not begun.
fn withheld(now: Timestamp) -> AttemptEnd {
    let (answer, detail) = (AttemptOutcome::Withheld, AttemptDetail::default());
    AttemptEnd { at: now, took: Duration::ZERO, answer, detail }
}
