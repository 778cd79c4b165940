//! The runs with several nodes: those of CI, and those that once found something.

use super::fault_injection::ORIGIN_NOT_SENT;
use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::{Found, Runs};

const RUNS: Runs<World> = Runs { test: "many_lives_of_nodes", in_ci: 0..70, plan: Plan::of };

const FOUND_BUGS: &[Found] = &[Found {
    seed: 1_795_983_321,
    with: "twice=0 answer_lost=0",
    what: "a receipt of a stream whose deletion was on its way was held against the stream that came after it",
}];

#[test]
fn what_once_went_wrong_with_nodes_stays_right() {
    RUNS.check_found(FOUND_BUGS);
}

#[test]
fn many_lives_of_nodes_keep_every_promise() {
    RUNS.check(|seen, _| seen.1.unseen().is_empty());
}

#[test]
fn a_seed_repeats_its_run_of_nodes_to_the_last_step() {
    RUNS.check_repeats(3..5);
}

#[test]
fn a_run_with_nodes_that_fails_is_made_smaller() {
    let broken = |seed| Plan::of(seed).with_fault(ORIGIN_NOT_SENT);
    Runs::<World> { plan: broken, ..RUNS }.check_shrinks(5);
}
