//! The lanes against a naive model of the partitions, under random operations.

use std::collections::{BTreeMap, BTreeSet};

use base::{ClientId, EntityId};
use engine::AttemptOutcome;
use proptest::prelude::*;

use super::*;
use crate::breaker;

mod fairness;

const CLIENTS: u64 = 4;
const PARTITIONS: u16 = 3;
const A: Incarnation = Incarnation(0);

/// Everything outside the lanes: how much is due where, who is enabled, and what the receivers
/// answer.
struct World {
    lanes: Lanes,
    limits: SendLimits,
    now: Timestamp,
    due: BTreeMap<Lane, usize>,
    statuses: BTreeMap<Incarnation, ClientStatus>,
    leases: Vec<LaneLease>,
    sending: BTreeMap<Incarnation, usize>,
    sent: usize,
    /// When each attempt at a client began that failed since one got through, or since the client
    /// was changed.
    failures: BTreeMap<Incarnation, Vec<Timestamp>>,
    opened: usize,
}

const PAUSE_MS: i64 = 1_000;

/// No limit but these, and a breaker.
fn limits(per_client: usize, total: usize) -> SendLimits {
    SendLimits { per_client, total, breaker_pause: Duration::from_millis(PAUSE_MS as u64) }
}

/// A record of that client, never the same as another one.
fn record(client: Incarnation) -> Arc<Client> {
    Arc::new(Client {
        id: ClientId::new(&format!("c{}", client.0)).expect("an id"),
        incarnation: client,
        name: String::new(),
        url: String::new(),
        secret: Vec::new(),
        previous_secret: None,
        enabled: true,
        notices: false,
        created_at: Timestamp(0),
    })
}

/// An attempt at a notification that is told by `number` from all others.
fn attempt(to: &Arc<Client>, number: u32, at: Timestamp, code: u16) -> AttemptReport {
    let delivery = EntityId { routing: 0, at: Timestamp(0), number, tag: 0 };
    AttemptReport {
        to: Arc::clone(to),
        delivery,
        at,
        answer: AttemptOutcome::Status { code, retry_after: None },
    }
}

impl World {
    fn new(limits: SendLimits) -> Self {
        Self {
            lanes: Lanes::new(limits),
            limits,
            now: Timestamp(0),
            due: BTreeMap::new(),
            statuses: BTreeMap::new(),
            leases: Vec::new(),
            sending: BTreeMap::new(),
            sent: 0,
            failures: BTreeMap::new(),
            opened: 0,
        }
    }

    fn status_of(&mut self, client: Incarnation) -> ClientStatus {
        self.statuses.entry(client).or_insert_with(|| ClientStatus::Enabled(record(client))).clone()
    }

    fn add(&mut self, lane: Lane, count: usize) {
        *self.due.entry(lane).or_default() += count;
        self.lanes.mark_due([lane]);
    }

    fn next(&mut self) -> bool {
        (0..CLIENTS).map(Incarnation).for_each(|client| drop(self.status_of(client)));
        let statuses = &self.statuses;
        let Some(lease) = self.lanes.next(self.now, |client| statuses[&client].clone()) else { return false };
        assert!(matches!(statuses[&lease.client], ClientStatus::Enabled(_)));
        assert!(lease.max > 0);
        let twice = |other: &LaneLease| (other.partition, other.client) == (lease.partition, lease.client);
        assert!(!self.leases.iter().any(twice), "a lane is leased by one at a time");
        self.check_breaker(&lease);
        self.leases.push(lease);
        self.check();
        true
    }

    /// While a breaker is open one notification is sent at a time, each some while after the one
    /// before.
    fn check_breaker(&self, lease: &LaneLease) {
        let failures = self.failures.get(&lease.client).map_or(&[][..], Vec::as_slice);
        if failures.len() >= breaker::FAILED_IN_A_ROW as usize {
            assert_eq!((lease.max, self.in_flight(lease.client)), (1, 0), "{lease:?}");
            let latest = failures.iter().max().expect("some");
            assert!(self.now.0 >= latest.0 + PAUSE_MS, "{lease:?} at {}, after {latest}", self.now);
        }
    }

    /// Carries out the lease at `at`, as a partition would.
    fn carry_out(&mut self, at: usize) {
        if self.leases.is_empty() {
            return;
        }
        let lease = self.leases.swap_remove(at % self.leases.len());
        let due = self.due.entry((lease.partition, lease.client)).or_default();
        let got = lease.max.min(*due);
        *due -= got;
        *self.sending.entry(lease.client).or_default() += got;
        self.lanes.leased(lease, got);
        self.check();
    }

    /// An attempt ends, at a notification of its own.
    fn finish(&mut self, client: Incarnation, code: u16) {
        if self.sending.get(&client).is_none_or(|sending| *sending == 0) {
            return;
        }
        self.sending.entry(client).and_modify(|sending| *sending -= 1);
        self.sent += 1;
        let status = self.status_of(client);
        let tried = match &status {
            ClientStatus::Enabled(to) => Some(attempt(to, self.sent as u32, self.now, code)),
            ClientStatus::Disabled | ClientStatus::Gone => None,
        };
        match &tried {
            Some(_) if code == 200 => drop(self.failures.remove(&client)),
            Some(tried) => self.failures.entry(client).or_default().push(tried.at),
            None => {}
        }
        self.lanes.finished(client, tried, |_| status);
        let events: Vec<BreakerEvent> = self.lanes.take_breaker_events().collect();
        self.opened += events.iter().filter(|event| matches!(event, BreakerEvent::Opened { .. })).count();
        self.check();
    }

    /// A lease, its attempts, and their ends at once.
    fn turn(&mut self, code: u16) {
        if !self.next() {
            return;
        }
        let client = self.leases.last().expect("pushed").client;
        self.carry_out(self.leases.len() - 1);
        for _ in 0..self.sending[&client] {
            self.finish(client, code);
        }
    }

    fn set(&mut self, client: Incarnation, status: ClientStatus) {
        self.statuses.insert(client, status);
        self.failures.remove(&client);
        self.lanes.clients_changed();
    }

    fn in_flight(&self, client: Incarnation) -> usize {
        let leasing: usize =
            self.leases.iter().filter(|lease| lease.client == client).map(|lease| lease.max).sum();
        leasing + self.sending.get(&client).copied().unwrap_or(0)
    }

    fn check(&self) {
        let clients: BTreeSet<Incarnation> = (0..CLIENTS).map(Incarnation).collect();
        let total: usize = clients.iter().map(|client| self.in_flight(*client)).sum();
        assert_eq!(self.lanes.in_flight(), total);
        assert!(total <= self.limits.total, "{total} in flight for all");
        for client in clients {
            assert!(self.in_flight(client) <= self.limits.per_client, "too many in flight for {client:?}");
        }
    }

    /// Enables everybody and works, with receivers that are well, until nothing moves any more.
    fn work_off(&mut self) {
        for client in (0..CLIENTS).map(Incarnation) {
            if matches!(self.status_of(client), ClientStatus::Disabled) {
                self.set(client, ClientStatus::Enabled(record(client)));
            }
        }
        loop {
            let mut moved = false;
            while self.next() {
                moved = true;
            }
            while !self.leases.is_empty() {
                self.carry_out(0);
                moved = true;
            }
            for client in (0..CLIENTS).map(Incarnation) {
                while self.sending.get(&client).is_some_and(|sending| *sending > 0) {
                    self.finish(client, 200);
                    moved = true;
                }
            }
            match self.lanes.next_wakeup() {
                Some(at) if !moved => self.now = at,
                None if !moved => return,
                _ => {}
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(Lane, usize),
    Next,
    CarryOut(usize),
    Finish(Incarnation, u16),
    Turn(u16),
    Pass(i64),
    Set(Incarnation, ClientStatus),
    Sweep,
}

/// `failing` of 10 attempts fail.
fn op(failing: u32) -> impl Strategy<Value = Op> {
    let client = || (0..CLIENTS).prop_map(Incarnation);
    let lane = (0..PARTITIONS, client()).prop_map(|(partition, client)| (PartitionId(partition), client));
    let status = client().prop_flat_map(|client| {
        let enabled = Just(()).prop_map(move |()| ClientStatus::Enabled(record(client)));
        let status =
            prop_oneof![4 => enabled, 3 => Just(ClientStatus::Disabled), 1 => Just(ClientStatus::Gone)];
        status.prop_map(move |status| (client, status))
    });
    let code = move || prop_oneof![10 - failing => Just(200), failing => Just(503)];
    prop_oneof![
        40 => (lane, 1..6_usize).prop_map(|(lane, count)| Op::Add(lane, count)),
        40 => Just(Op::Next),
        30 => any::<usize>().prop_map(Op::CarryOut),
        60 => (client(), code()).prop_map(|(client, code)| Op::Finish(client, code)),
        60 => code().prop_map(Op::Turn),
        20 => (1..2 * PAUSE_MS).prop_map(Op::Pass),
        4 => status.prop_map(|(client, status)| Op::Set(client, status)),
        4 => Just(Op::Sweep),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    (0..10_u32).prop_flat_map(|failing| proptest::collection::vec(op(failing), 0..500))
}

proptest! {
    #[test]
    fn limits_and_breakers_hold_and_no_due_lane_is_forgotten(
        ops in ops(),
        per_client in 1..5_usize,
        total in 1..12_usize,
    ) {
        let mut world = World::new(limits(per_client, total));
        let mut gone = BTreeSet::new();
        for op in ops {
            match op {
                Op::Add(lane, count) => world.add(lane, count),
                Op::Next => { world.next(); }
                Op::CarryOut(at) => world.carry_out(at),
                Op::Finish(client, code) => world.finish(client, code),
                Op::Turn(code) => world.turn(code),
                Op::Pass(ms) => world.now.0 += ms,
                Op::Set(client, status) if !gone.contains(&client) => {
                    if matches!(status, ClientStatus::Gone) {
                        gone.insert(client);
                    }
                    world.set(client, status);
                }
                Op::Set(..) => {}
                Op::Sweep => {
                    let statuses = world.statuses.clone();
                    world.lanes.sweep(|client| statuses[&client].clone());
                }
            }
        }
        world.work_off();
        for (lane, due) in &world.due {
            prop_assert!(*due == 0 || gone.contains(&lane.1), "{due} left in {lane:?}");
        }
        prop_assert_eq!(world.lanes.clients(), 0, "a client without work is remembered");
        prop_assert_eq!((world.lanes.in_flight(), world.lanes.due()), (0, 0));
    }
}

#[test]
fn a_breaker_that_is_open_lets_one_through_after_the_other_until_one_is_taken() {
    let mut world = World::new(limits(4, 100));
    for partition in 0..PARTITIONS {
        world.add((PartitionId(partition), A), 20);
    }
    while world.opened == 0 {
        world.turn(503);
    }
    assert_eq!((world.sent, world.lanes.breakers_open()), (20, 1));
    for sent in 21..30 {
        assert!(!world.next(), "it is too soon");
        world.now = world.lanes.next_wakeup().expect("something is due");
        world.turn(503);
        assert_eq!(world.sent, sent);
    }
    assert!(!world.next(), "it is too soon");
    world.now = world.lanes.next_wakeup().expect("something is due");
    world.turn(200);
    assert_eq!((world.lanes.breakers_open(), world.lanes.next_wakeup()), (0, None));
    while world.next() {}
    assert_eq!(world.in_flight(A), 4, "as many as the limit allows");
}

#[test]
fn what_is_in_flight_when_a_breaker_opens_ends_before_the_next_one_goes_out() {
    let mut world = World::new(limits(30, 100));
    world.add((PartitionId(0), A), 100);
    world.next();
    world.carry_out(0);
    while world.opened == 0 {
        world.finish(A, 503);
    }
    let left = world.in_flight(A);
    assert!(left > 0);
    world.now.0 += 10 * PAUSE_MS;
    for _ in 0..left {
        assert!(!world.next(), "others are in flight");
        world.finish(A, 503);
    }
    assert!(!world.next(), "the latest attempt began now");
    world.now.0 += PAUSE_MS;
    assert!(world.next());
}

#[test]
fn a_lease_that_finds_nothing_is_no_attempt() {
    let mut world = World::new(limits(4, 100));
    world.add((PartitionId(0), A), 100);
    while world.opened == 0 {
        world.turn(503);
    }
    world.due.insert((PartitionId(0), A), 0);
    world.add((PartitionId(1), A), 1);
    world.now.0 += PAUSE_MS;
    assert!(world.next());
    world.carry_out(0);
    assert!(world.next(), "the other lane comes at once");
}

#[test]
fn a_client_that_was_changed_or_enabled_is_sent_to_at_once() {
    for statuses in [
        vec![ClientStatus::Enabled(record(A))],
        vec![ClientStatus::Disabled, ClientStatus::Enabled(record(A))],
    ] {
        let mut world = World::new(limits(4, 100));
        world.add((PartitionId(0), A), 100);
        while world.opened == 0 {
            world.turn(503);
        }
        assert!(!world.next());
        for status in statuses {
            world.set(A, status);
        }
        assert!(world.next());
        assert_eq!((world.in_flight(A), world.lanes.breakers_open()), (4, 0));
    }
}

#[test]
fn an_attempt_at_a_client_as_it_was_says_nothing_of_it_as_it_is() {
    let mut world = World::new(limits(100, 100));
    world.add((PartitionId(0), A), 100);
    assert!(world.next());
    world.carry_out(0);
    let ClientStatus::Enabled(before) = world.status_of(A) else { panic!("it is enabled") };
    world.set(A, ClientStatus::Enabled(record(A)));
    for number in 0..50 {
        let status = world.status_of(A);
        world.lanes.finished(A, Some(attempt(&before, number, Timestamp(0), 503)), |_| status);
    }
    assert_eq!(world.lanes.breakers_open(), 0);
    assert_eq!(world.lanes.take_breaker_events().count(), 0);
}

#[test]
fn breakers_of_clients_that_are_gone_are_swept() {
    let mut world = World::new(limits(4, 100));
    world.add((PartitionId(0), A), 20);
    while world.opened == 0 {
        world.turn(503);
    }
    world.now.0 += PAUSE_MS;
    world.turn(503);
    assert_eq!((world.lanes.clients(), world.lanes.breakers_open()), (0, 1), "nothing is due");
    world.lanes.sweep(|_| ClientStatus::Gone);
    assert_eq!(world.lanes.breakers_open(), 0);
    let events: Vec<BreakerEvent> = world.lanes.take_breaker_events().collect();
    assert!(matches!(events[..], [BreakerEvent::Closed { why: CloseReason::Changed, .. }]), "{events:?}");
}
