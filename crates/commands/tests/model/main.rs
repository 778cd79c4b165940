//! The rules of commands beside a naive model, under random operations, steps of time and restarts.
//!
//! The model shares only ids and input types with the rules. Every answer is compared; after every
//! operation so are all states in the store, and what the caller was told, in order. The model
//! looks at every millisecond, the rules only at the times that they name.

mod naive;
mod operation;
mod store;
mod world;

use proptest::collection::vec;
use proptest::prelude::*;

use operation::{Operation, Scope, Send, operations, paces};
use world::World;

const WIDE: Scope = Scope { devices: 3, special: 3, sending: 9 };
const PLAIN: Scope = Scope { devices: 2, special: 0, sending: 9 };
const CROWDED: Scope = Scope { devices: 1, special: 5, sending: 20 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_do_what_the_model_does(paces in paces(WIDE), steps in vec(operations(WIDE), 1..120)) {
        World::new(paces).run(&steps);
    }

    #[test]
    fn so_they_do_with_plain_commands(paces in paces(PLAIN), steps in vec(operations(PLAIN), 1..120)) {
        World::new(paces).run(&steps);
    }

    #[test]
    fn so_they_do_with_a_crowded_device(paces in paces(CROWDED), steps in vec(operations(CROWDED), 1..200)) {
        World::new(paces).run(&steps);
    }
}

fn plain() -> Operation {
    Operation::Send(plain_command())
}

fn plain_command() -> Send {
    Send {
        device: 0,
        priority: 0,
        not_before: None,
        ttl: None,
        ack_timeout: 10,
        run_timeout: 20,
        attempts_max: 3,
        key: None,
        payload_bytes: 1,
        is_told: false,
    }
}

#[test]
fn a_command_for_a_connected_device_reads_nothing_and_writes_one_state_a_step() {
    let mut world = World::new(vec![(1, 0)]);
    world.run(&[Operation::Open { device: 0 }]);
    for _ in 0..3 {
        let (reads, writes) = (world.stored.reads.get(), world.stored.state_writes);
        world.apply(&plain());
        assert_eq!(world.moved.len(), 2, "it is scheduled, and goes out");
        assert_eq!(world.stored.state_writes, writes + 1, "both in one state");
        // The test itself reads the command's device.
        world.apply(&Operation::Answer { picked: 1, foreign: false, ok: true, result: None });
        assert_eq!(world.moved.len(), 1, "it ends");
        assert_eq!(world.stored.state_writes, writes + 2);
        assert_eq!(world.stored.reads.get(), reads + 1);
    }
}

#[test]
fn the_same_answer_again_is_none_and_the_first_other_one_is_kept() {
    let answer = |ok, result| Operation::Answer { picked: 1, foreign: false, ok, result };
    let (cancel, mute) = (Operation::Cancel { picked: 1 }, Operation::Pass { time: 30 });
    for (end, repeat, other) in [
        (answer(true, Some(1)), Some(answer(true, Some(1))), answer(false, Some(1))),
        (answer(true, None), Some(answer(true, None)), answer(true, Some(2))),
        (answer(false, None), Some(answer(false, None)), answer(false, Some(1))),
        (answer(false, Some(1)), Some(answer(false, Some(1))), answer(true, None)),
        (cancel, None, answer(true, None)),
        (mute, None, answer(false, None)),
    ] {
        let mut world = World::new(vec![(1, 0)]);
        let new = Operation::Send(Send { attempts_max: 1, ..plain_command() });
        world.run(&[Operation::Open { device: 0 }, new, end.clone()]);
        if let Some(repeat) = repeat {
            world.run(std::slice::from_ref(&repeat));
            assert!(world.moved.is_empty(), "{repeat:?} after {end:?}");
        }
        world.run(std::slice::from_ref(&other));
        let told: Vec<_> = world.moved.iter().map(|moved| moved.how).collect();
        assert_eq!(told, [commands::How::Late], "{other:?} after {end:?}");
        assert!(world.moved[0].state.late.is_some());
        let third = answer(true, Some(0));
        world.run(std::slice::from_ref(&third));
        assert!(world.moved.is_empty(), "{third:?} after {end:?}");
    }
}

#[test]
fn progress_takes_a_retried_command_out_of_its_line() {
    let mut world = World::new(vec![(2, 15)]);
    let latest = 1;
    // The gap holds the retried command back, and its device is at work on it all the same.
    world.run(&[
        Operation::Open { device: 0 },
        plain(),
        Operation::Cancel { picked: latest },
        Operation::Retry { picked: latest },
        Operation::Progress { picked: latest, foreign: false, progress: 1 },
        Operation::Advance { max: 1 },
        Operation::Pass { time: 50 },
    ]);
}

#[test]
fn commands_whose_outcomes_have_no_room_expire_once_there_is_some() {
    use records::CommandStatus::{Expired, Scheduled};

    let mut world = World::new(vec![(1, 0), (1, 0)]);
    let told = Send { ttl: Some(10), is_told: true, ..plain_command() };
    let held = Send { device: 1, not_before: Some(20), ..plain_command() };
    for _ in 0..3 {
        world.apply(&Operation::Send(told.clone()));
    }
    world.apply(&Operation::Send(Send { ttl: Some(10), ..plain_command() }));
    world.apply(&Operation::Send(held));
    let statuses = |world: &World| world.stored.states.values().map(|state| state.status).collect::<Vec<_>>();
    world.stored.is_full = true;
    world.apply(&Operation::Pass { time: 30 });
    assert_eq!(statuses(&world), [Scheduled, Scheduled, Scheduled, Expired, Scheduled]);
    assert!(world.stored.states.values().all(|state| !state.is_held), "others come due past them");
    assert_eq!(world.next_wakeup().filter(|at| at.0 <= 1_030), None, "nobody looks in vain");
    let reads = world.stored.reads.get();
    world.apply(&Operation::Advance { max: 10 });
    assert_eq!(world.stored.reads.get(), reads, "not even when asked");
    world.stored.is_full = false;
    assert!(world.next_wakeup().is_some_and(|at| at.0 <= 1_030));
    world.apply(&Operation::Advance { max: 2 });
    assert_eq!(statuses(&world)[..3], [Expired; 3]);
}

#[test]
fn a_lane_ends_nothing_by_itself_while_outcomes_have_no_room() {
    use records::CommandStatus::{Expired, Failed, Published, Scheduled};

    let told = || Send { is_told: true, attempts_max: 1, ack_timeout: 5, ..plain_command() };
    let over = || Operation::Send(Send { ttl: Some(10), ..told() });
    let statuses = |world: &World| world.stored.states.values().map(|state| state.status).collect::<Vec<_>>();
    let (open, full) = (Operation::Open { device: 0 }, Operation::ToggleRoom);
    let pass = || Operation::Pass { time: 30 };

    // The device is away: the turn of a command comes long after its time was over.
    let mut world = World::new(vec![(1, 0)]);
    world.run(&[over(), over(), plain(), full.clone(), pass(), open.clone()]);
    assert_eq!(statuses(&world), [Scheduled, Scheduled, Published], "what is behind it goes out");
    world.run(&[full.clone(), Operation::Advance { max: 10 }]);
    assert_eq!(statuses(&world), [Expired, Expired, Published]);

    // The device is there, and does not answer.
    let mut world = World::new(vec![(1, 0)]);
    world.run(&[open, Operation::Send(told()), plain(), full.clone(), pass()]);
    assert_eq!(statuses(&world), [Published, Scheduled], "it keeps its place in the window");
    world.run(&[full, Operation::Advance { max: 10 }]);
    assert_eq!(statuses(&world), [Failed, Published]);
}

#[test]
fn a_poll_reads_no_more_than_the_command_that_it_is_given() {
    let mut world = World::new(vec![(100, 0)]);
    world.run(&[Operation::Open { device: 0 }]);
    (0..100).for_each(|_| world.apply(&plain()));
    world.apply(&Operation::Close { device: 0 });
    let reads = world.stored.reads.get();
    world.apply(&Operation::Poll { device: 0 });
    assert!(world.stored.reads.get() - reads <= 3, "its row, the command and its state");
}

#[test]
fn a_flood_of_commands_whose_time_is_over_leaves_room_to_the_lanes() {
    let mut world = World::new(vec![(1, 0), (1, 0)]);
    world.apply(&Operation::Open { device: 0 });
    world.apply(&Operation::Send(Send { attempts_max: 1, ..plain_command() }));
    let over = Send { device: 1, ttl: Some(10), ..plain_command() };
    (0..20).for_each(|_| world.apply(&Operation::Send(over.clone())));
    world.apply(&Operation::Skip { time: 12 });
    world.moved.clear();
    world.advance(4);
    let failed = world.moved.iter().position(|moved| moved.state.status == records::CommandStatus::Failed);
    assert!(failed.is_some_and(|place| place < 4), "{failed:?}");
    assert_eq!(world.moved.len(), 21);
}
