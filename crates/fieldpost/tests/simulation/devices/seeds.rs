//! The runs of devices: those of CI, and those that once found something.

use super::plan::Plan;
use super::world::World;
use crate::harness::seeds::{Found, Runs};

const RUNS: Runs<World> = Runs { test: "many_lives_keep", in_ci: 0..400, plan: Plan::of };

const FOUND_BUGS: &[Found] = &[Found {
    seed: 525,
    with: "",
    what: "a step that inputs had filled did not let time pass: who was silent, and what was due, waited for an end of the load",
}];

#[test]
fn many_lives_keep_every_promise() {
    RUNS.check_everything();
}

#[test]
fn what_once_went_wrong_stays_right() {
    RUNS.check_found(FOUND_BUGS);
}

#[test]
fn a_run_that_fails_is_made_smaller() {
    RUNS.check_shrinks(1, super::fault_injection::EVENT_TWICE);
}

#[test]
fn a_seed_repeats_its_run_to_the_last_step() {
    RUNS.check_repeats(3..6);
}
