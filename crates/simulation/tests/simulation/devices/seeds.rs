//! The runs of devices: those of CI, and those that once found something.

use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::{Found, Runs};

const RUNS: Runs<World> = Runs { test: "many_lives_keep", in_ci: 0..400, plan: Plan::of };

const FOUND_BUGS: &[Found] = &[Found {
    seed: 525,
    with: "",
    what: "a step that inputs had filled did not let time pass: who was silent, and what was due, waited for an end of the load",
}];

#[test]
fn many_lives_keep_every_promise() {
    RUNS.check(|seen, _| seen.unseen().is_empty());
}

#[test]
fn what_once_went_wrong_stays_right() {
    RUNS.check_found(FOUND_BUGS);
}

#[test]
fn a_run_that_fails_is_made_smaller() {
    let broken = |seed| Plan::of(seed).with_fault(super::fault_injection::EVENT_TWICE);
    Runs::<World> { plan: broken, ..RUNS }.check_shrinks(1);
}

#[test]
fn a_seed_repeats_its_run_to_the_last_step() {
    RUNS.check_repeats(3..6);
}
