//! The engine of jobs beside a naive model, under random operations, steps of time and restarts.
//!
//! The model shares only ids and input types with the engine. Every answer is compared; after every operation so are all
//! jobs in memory and in the store, the bodies that a caller keeps, the queues that were named, and the promise that a
//! consumer which was given nothing is told of the next job.

mod naive;
mod operation;
mod world;

use proptest::collection::vec;
use proptest::prelude::*;

use operation::{Scope, operations};
use world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_model_does(steps in vec(operations(Scope::WIDE), 1..120)) {
        World::default().run(&steps);
    }

    #[test]
    fn so_it_does_when_everybody_wants_the_same_alias(steps in vec(operations(Scope::ONE_ALIAS), 1..120)) {
        World::default().run(&steps);
    }
}

/// Longer histories than a failing one can be shrunk from, for what only many jobs bring about.
#[test]
fn the_engine_does_what_the_model_does_for_long() {
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 3, ..ProptestConfig::default() });
    runner
        .run(&vec(operations(Scope::CROWD), 1_500..2_000), |steps| {
            World::default().run(&steps);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
