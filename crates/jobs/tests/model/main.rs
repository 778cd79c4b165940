//! The engine of jobs beside a naive model, under random operations, steps of time, jumps of the
//! wall clock and restarts.
//!
//! The model shares only ids and input types with the engine, and parks nothing. Every answer is
//! compared. After every operation so are all jobs in memory and in the store, the bodies that a
//! caller keeps, and the counts. A consumer that was given nothing must have been told of the next
//! job.

mod allowed;
mod calendar;
mod naive;
mod operation;
mod store;
mod world;

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use operation::{Scope, operations};
use world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_model_does(steps in vec(operations(Scope::WIDE), 1..120)) {
        World::roomy().run(&steps);
    }

    #[test]
    fn so_it_does_with_plain_jobs(steps in vec(operations(Scope::PLAIN), 1..120)) {
        World::roomy().run(&steps);
    }

    #[test]
    fn so_it_does_when_everybody_wants_the_same_alias(steps in vec(operations(Scope::ONE_ALIAS), 1..120)) {
        World::roomy().run(&steps);
    }

    #[test]
    fn so_it_does_when_most_jobs_are_of_a_group(steps in vec(operations(Scope::GROUPS), 1..120)) {
        World::roomy().run(&steps);
    }

    #[test]
    fn parking_jobs_changes_nothing_that_is_seen(steps in vec(operations(Scope::WIDE), 1..120)) {
        World::cramped(8).run(&steps);
    }

    #[test]
    fn nor_does_it_where_most_jobs_are_of_a_group(steps in vec(operations(Scope::GROUPS), 1..160)) {
        World::cramped(8).run(&steps);
    }
}

/// Longer histories than a failing one can be shrunk from, for what only many jobs bring about. How
/// many jobs were parked, in each of the ways, in all of them.
fn for_long(world: fn() -> World) -> [u64; 4] {
    let parkings = Cell::new([0; 4]);
    let mut runner = TestRunner::new(ProptestConfig { cases: 3, ..ProptestConfig::default() });
    runner
        .run(&vec(operations(Scope::CROWD), 1_500..2_000), |steps| {
            let mut world = world();
            world.run(&steps);
            let (before, more) = (parkings.get(), world.stored.parkings);
            parkings.set(std::array::from_fn(|way| before[way] + more[way]));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    parkings.get()
}

#[test]
fn the_engine_does_what_the_model_does_for_long() {
    assert_eq!(for_long(World::roomy), [0; 4], "nobody parks with room");
}

#[test]
fn parking_jobs_changes_nothing_for_long() {
    let [of_time, of_queues, of_groups, heads] = for_long(|| World::cramped(24));
    let is_enough = of_time.min(of_queues).min(of_groups) > 30 && heads > 0;
    assert!(is_enough, "{of_time} by time, {of_queues} of queues, {of_groups} of groups, {heads} heads");
}
