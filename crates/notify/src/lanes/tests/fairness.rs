//! Whose turn it is, and how much of it: one case each, without a model.

use super::*;

const B: Incarnation = Incarnation(1);
const NOW: Timestamp = Timestamp(0);

fn enabled(client: Incarnation) -> ClientStatus {
    ClientStatus::Enabled(record(client))
}

#[test]
fn a_busy_client_does_not_hold_up_the_others() {
    let mut world = World::new(limits(1, 100));
    for client in (0..CLIENTS).map(Incarnation) {
        world.add((PartitionId(0), client), if client == A { 1_000 } else { 10 });
    }
    // One at a time in flight for all: turns are what decides.
    let mut turns = Vec::new();
    for _ in 0..40 {
        assert!(world.next());
        turns.push(world.leases[0].client);
        world.carry_out(0);
        world.finish(*turns.last().expect("pushed"), 200);
    }
    for round in turns.chunks(CLIENTS as usize) {
        let asked: BTreeSet<_> = round.iter().collect();
        assert_eq!(asked.len(), CLIENTS as usize, "{round:?}");
    }
}

#[test]
fn clients_whose_receivers_hang_leave_room_for_others() {
    let mut lanes = Lanes::new(limits(16, 2_048));
    for client in 0..400 {
        lanes.mark_due([(PartitionId(0), Incarnation(client))]);
    }
    while let Some(lease) = lanes.next(NOW, enabled) {
        let max = lease.max;
        lanes.leased(lease, max);
    }
    assert!(lanes.due() > 0, "they would send more");
    lanes.mark_due([(PartitionId(0), Incarnation(400))]);
    let lease = lanes.next(NOW, enabled).expect("room for one that comes new");
    assert_eq!(lease.client, Incarnation(400));
}

#[test]
fn a_client_on_its_own_may_use_its_whole_limit() {
    for per_client in [1, 16, 500, 5_000] {
        let mut lanes = Lanes::new(limits(per_client, 2_048));
        lanes.mark_due((0..16).map(|partition| (PartitionId(partition), A)));
        while let Some(lease) = lanes.next(NOW, enabled) {
            let max = lease.max;
            lanes.leased(lease, max);
        }
        let least = if per_client <= 16 { per_client } else { per_client.min(2_048) / 2 };
        assert!((least..=per_client).contains(&lanes.in_flight()), "{} of {per_client}", lanes.in_flight());
    }
}

#[test]
fn what_a_client_may_send_is_spread_over_its_lanes() {
    let mut lanes = Lanes::new(limits(10, 1_000));
    lanes.mark_due((0..4).map(|partition| (PartitionId(partition), A)));
    let asked: Vec<usize> = std::iter::from_fn(|| lanes.next(NOW, enabled)).map(|lease| lease.max).collect();
    assert_eq!(asked, [3, 3, 2, 2]);
}

#[test]
fn a_disabled_client_keeps_its_lanes_and_goes_on_when_it_is_enabled() {
    let mut lanes = Lanes::new(limits(4, 100));
    lanes.mark_due([(PartitionId(0), A), (PartitionId(0), B)]);
    let only_b = |client| if client == A { ClientStatus::Disabled } else { enabled(client) };
    assert_eq!(lanes.next(NOW, only_b).expect("b").client, B);
    lanes.clients_changed();
    assert_eq!(lanes.next(NOW, only_b), None);
    lanes.mark_due([(PartitionId(1), A)]);
    assert_eq!((lanes.next(NOW, enabled), lanes.due()), (None, 2), "nobody said that a client has changed");
    lanes.clients_changed();
    let leased: Vec<_> = std::iter::from_fn(|| lanes.next(NOW, enabled))
        .map(|lease| (lease.partition, lease.client))
        .collect();
    assert_eq!(leased, [(PartitionId(0), A), (PartitionId(1), A)]);
}

#[test]
fn a_lane_named_while_it_is_leased_is_leased_again() {
    let mut lanes = Lanes::new(limits(4, 100));
    lanes.mark_due([(PartitionId(0), A)]);
    let lease = lanes.next(NOW, enabled).expect("due");
    lanes.mark_due([(PartitionId(0), A)]);
    assert_eq!(lanes.next(NOW, enabled), None, "one lease of a lane at a time");
    lanes.leased(lease, 0);
    let lease = lanes.next(NOW, enabled).expect("named again");
    lanes.leased(lease, 0);
    assert_eq!((lanes.next(NOW, enabled), lanes.clients()), (None, 0));
}

#[test]
fn a_deleted_client_is_forgotten_once_nothing_of_it_is_in_flight() {
    let mut lanes = Lanes::new(limits(4, 100));
    lanes.mark_due([(PartitionId(0), A)]);
    let lease = lanes.next(NOW, enabled).expect("due");
    let max = lease.max;
    lanes.leased(lease, max);
    lanes.finished(A, None, enabled);
    assert_eq!(lanes.next(NOW, |_| ClientStatus::Gone), None);
    assert_eq!((lanes.due(), lanes.clients(), lanes.in_flight()), (0, 1, 3));
    for _ in 0..3 {
        lanes.finished(A, None, enabled);
    }
    assert_eq!((lanes.clients(), lanes.in_flight()), (0, 0));
}
