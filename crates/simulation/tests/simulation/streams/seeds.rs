//! The runs with streams.

use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::Runs;

const RUNS: Runs<World> = Runs { test: "many_lives_of_streams", in_ci: 0..120, plan: Plan::of };

#[test]
fn many_lives_of_streams_keep_every_promise() {
    RUNS.check(|seen, _| seen.unseen().is_empty());
}

#[test]
fn a_seed_repeats_its_run_of_streams_to_the_last_step() {
    RUNS.check_repeats(3..6);
}

#[test]
fn a_run_with_streams_that_fails_is_made_smaller() {
    let broken = |seed| Plan::of(seed).with_fault(super::fault_injection::CHUNK_LOST);
    Runs::<World> { plan: broken, ..RUNS }.check_shrinks(1);
}
