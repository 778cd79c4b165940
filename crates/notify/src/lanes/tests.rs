//! The lanes against a naive model of the partitions, under random operations.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const CLIENTS: u64 = 4;
const PARTITIONS: u16 = 3;

/// Everything outside the lanes: how much is due where, and who is enabled.
struct World {
    lanes: Lanes,
    limits: Limits,
    due: BTreeMap<Lane, usize>,
    standing: BTreeMap<Incarnation, Standing>,
    leases: Vec<Lease>,
    sending: BTreeMap<Incarnation, usize>,
    sent: usize,
}

impl World {
    fn new(limits: Limits) -> Self {
        Self {
            lanes: Lanes::new(limits),
            limits,
            due: BTreeMap::new(),
            standing: BTreeMap::new(),
            leases: Vec::new(),
            sending: BTreeMap::new(),
            sent: 0,
        }
    }

    fn standing(&self, client: Incarnation) -> Standing {
        self.standing.get(&client).copied().unwrap_or(Standing::Enabled)
    }

    fn add(&mut self, lane: Lane, count: usize) {
        *self.due.entry(lane).or_default() += count;
        self.lanes.mark_due([lane]);
    }

    fn next(&mut self) -> bool {
        let standing = self.standing.clone();
        let lease = self.lanes.next(|client| standing.get(&client).copied().unwrap_or(Standing::Enabled));
        let Some(lease) = lease else { return false };
        assert_eq!(self.standing(lease.client), Standing::Enabled);
        assert!(lease.max > 0);
        let twice = |other: &Lease| (other.partition, other.client) == (lease.partition, lease.client);
        assert!(!self.leases.iter().any(twice), "a lane is leased by one at a time");
        self.leases.push(lease);
        self.check();
        true
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

    fn finish(&mut self, client: Incarnation) {
        if let Some(sending) = self.sending.get_mut(&client).filter(|sending| **sending > 0) {
            *sending -= 1;
            self.sent += 1;
            self.lanes.finished(client);
            self.check();
        }
    }

    fn set(&mut self, client: Incarnation, standing: Standing) {
        self.standing.insert(client, standing);
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

    /// Enables everybody and works until nothing moves any more.
    fn work_off(&mut self) {
        for client in (0..CLIENTS).map(Incarnation) {
            if self.standing(client) == Standing::Disabled {
                self.set(client, Standing::Enabled);
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
                    self.finish(client);
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(Lane, usize),
    Next,
    CarryOut(usize),
    Finish(Incarnation),
    Set(Incarnation, Standing),
}

fn op() -> impl Strategy<Value = Op> {
    let client = || (0..CLIENTS).prop_map(Incarnation);
    let lane = (0..PARTITIONS, client()).prop_map(|(partition, client)| (PartitionId(partition), client));
    let standing =
        prop_oneof![4 => Just(Standing::Enabled), 3 => Just(Standing::Disabled), 1 => Just(Standing::Gone)];
    prop_oneof![
        4 => (lane, 1..6_usize).prop_map(|(lane, count)| Op::Add(lane, count)),
        6 => Just(Op::Next),
        4 => any::<usize>().prop_map(Op::CarryOut),
        6 => client().prop_map(Op::Finish),
        1 => (client(), standing).prop_map(|(client, standing)| Op::Set(client, standing)),
    ]
}

proptest! {
    #[test]
    fn limits_hold_and_no_due_lane_is_forgotten(
        ops in proptest::collection::vec(op(), 0..300),
        per_client in 1..5_usize,
        total in 1..12_usize,
    ) {
        let mut world = World::new(Limits { per_client, total });
        let mut gone = BTreeSet::new();
        for op in ops {
            match op {
                Op::Add(lane, count) => world.add(lane, count),
                Op::Next => { world.next(); }
                Op::CarryOut(at) => world.carry_out(at),
                Op::Finish(client) => world.finish(client),
                Op::Set(client, standing) if !gone.contains(&client) => {
                    if standing == Standing::Gone {
                        gone.insert(client);
                    }
                    world.set(client, standing);
                }
                Op::Set(..) => {}
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

const A: Incarnation = Incarnation(0);
const B: Incarnation = Incarnation(1);

fn enabled(_: Incarnation) -> Standing {
    Standing::Enabled
}

#[test]
fn a_busy_client_does_not_hold_up_the_others() {
    let mut world = World::new(Limits { per_client: 1, total: 100 });
    for client in (0..CLIENTS).map(Incarnation) {
        world.add((PartitionId(0), client), if client == A { 1_000 } else { 10 });
    }
    // One at a time in flight for all: turns are what decides.
    let mut turns = Vec::new();
    for _ in 0..40 {
        assert!(world.next());
        turns.push(world.leases[0].client);
        world.carry_out(0);
        world.finish(*turns.last().expect("pushed"));
    }
    for round in turns.chunks(CLIENTS as usize) {
        let asked: BTreeSet<_> = round.iter().collect();
        assert_eq!(asked.len(), CLIENTS as usize, "{round:?}");
    }
}

#[test]
fn clients_whose_receivers_hang_leave_room_for_others() {
    let mut lanes = Lanes::new(Limits { per_client: 16, total: 2_048 });
    for client in 0..400 {
        lanes.mark_due([(PartitionId(0), Incarnation(client))]);
    }
    while let Some(lease) = lanes.next(enabled) {
        let max = lease.max;
        lanes.leased(lease, max);
    }
    assert!(lanes.due() > 0, "they would send more");
    lanes.mark_due([(PartitionId(0), Incarnation(400))]);
    let lease = lanes.next(enabled).expect("room for one that comes new");
    assert_eq!(lease.client, Incarnation(400));
}

#[test]
fn a_client_on_its_own_may_use_its_whole_limit() {
    for per_client in [1, 16, 500, 5_000] {
        let mut lanes = Lanes::new(Limits { per_client, total: 2_048 });
        lanes.mark_due((0..16).map(|partition| (PartitionId(partition), A)));
        while let Some(lease) = lanes.next(enabled) {
            let max = lease.max;
            lanes.leased(lease, max);
        }
        let least = if per_client <= 16 { per_client } else { per_client.min(2_048) / 2 };
        assert!((least..=per_client).contains(&lanes.in_flight()), "{} of {per_client}", lanes.in_flight());
    }
}

#[test]
fn what_a_client_may_send_is_spread_over_its_lanes() {
    let mut lanes = Lanes::new(Limits { per_client: 10, total: 1_000 });
    lanes.mark_due((0..4).map(|partition| (PartitionId(partition), A)));
    let asked: Vec<usize> = std::iter::from_fn(|| lanes.next(enabled)).map(|lease| lease.max).collect();
    assert_eq!(asked, [3, 3, 2, 2]);
}

#[test]
fn a_disabled_client_keeps_its_lanes_and_goes_on_when_it_is_enabled() {
    let mut lanes = Lanes::new(Limits { per_client: 4, total: 100 });
    lanes.mark_due([(PartitionId(0), A), (PartitionId(0), B)]);
    let only_b = |client| if client == A { Standing::Disabled } else { Standing::Enabled };
    assert_eq!(lanes.next(only_b).expect("b").client, B);
    lanes.clients_changed();
    assert_eq!(lanes.next(only_b), None);
    lanes.mark_due([(PartitionId(1), A)]);
    assert_eq!((lanes.next(enabled), lanes.due()), (None, 2), "nobody said that a client has changed");
    lanes.clients_changed();
    let leased: Vec<_> =
        std::iter::from_fn(|| lanes.next(enabled)).map(|lease| (lease.partition, lease.client)).collect();
    assert_eq!(leased, [(PartitionId(0), A), (PartitionId(1), A)]);
}

#[test]
fn a_lane_named_while_it_is_leased_is_leased_again() {
    let mut lanes = Lanes::new(Limits { per_client: 4, total: 100 });
    lanes.mark_due([(PartitionId(0), A)]);
    let lease = lanes.next(enabled).expect("due");
    lanes.mark_due([(PartitionId(0), A)]);
    assert_eq!(lanes.next(enabled), None, "one lease of a lane at a time");
    lanes.leased(lease, 0);
    let lease = lanes.next(enabled).expect("named again");
    lanes.leased(lease, 0);
    assert_eq!((lanes.next(enabled), lanes.clients()), (None, 0));
}

#[test]
fn a_deleted_client_is_forgotten_once_nothing_of_it_is_in_flight() {
    let mut lanes = Lanes::new(Limits { per_client: 4, total: 100 });
    lanes.mark_due([(PartitionId(0), A)]);
    let lease = lanes.next(enabled).expect("due");
    let max = lease.max;
    lanes.leased(lease, max);
    lanes.finished(A);
    assert_eq!(lanes.next(|_| Standing::Gone), None);
    assert_eq!((lanes.due(), lanes.clients(), lanes.in_flight()), (0, 1, 3));
    for _ in 0..3 {
        lanes.finished(A);
    }
    assert_eq!((lanes.clients(), lanes.in_flight()), (0, 0));
}
