//! The runs with commands: those of CI, and those that once found something.

use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::{Found, Runs};

const RUNS: Runs<World> = Runs { test: "many_lives_of_commands", in_ci: 0..120, plan: Plan::of };

const FOUND_BUGS: &[Found] = &[
    Found {
        seed: 0,
        with: "",
        what: "a command whose time came for a device whose lane was closed for want of work stayed where it was",
    },
    Found {
        seed: 430,
        with: "",
        what: "of two changes of wildcards in one step, the second forgot whose lanes the first might close",
    },
    Found {
        seed: 51,
        with: "devices=1",
        what: "a rollout that was to ask again for what it had handed out waited for a batch that never came",
    },
];

#[test]
fn what_once_went_wrong_with_commands_stays_right() {
    RUNS.check_found(FOUND_BUGS);
}

#[test]
fn many_lives_of_commands_keep_every_promise() {
    RUNS.check(|seen, _| seen.unseen().is_empty());
}

#[test]
fn a_run_with_commands_that_fails_is_made_smaller() {
    let broken = |seed| Plan::of(seed).with_fault(super::fault_injection::ANSWER_INVENTED);
    Runs::<World> { plan: broken, ..RUNS }.check_shrinks(1);
}

#[test]
fn a_seed_repeats_its_run_with_commands_to_the_last_step() {
    RUNS.check_repeats(3..6);
}
