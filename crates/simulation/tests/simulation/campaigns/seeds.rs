//! The runs with tasks and campaigns: those of CI, and those that once found something.

use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::{Found, Runs};

const RUNS: Runs<World> = Runs { test: "many_lives_of_campaigns", in_ci: 0..120, plan: Plan::of };

const FOUND_BUGS: &[Found] = &[
    Found {
        seed: 1_795_983_088,
        with: "steps=300 devices=3 campaigns=2 managed=27 deletions=12",
        what: "the checker forgot that the log keeps the segment that is written to, also where the tables cover all of a long batch in it",
    },
    Found {
        seed: 3208,
        with: "steps=112 crash=0 doom=0 stop=0 storage_fault=0 leap=40 day=0 wall=0 devices=1 campaigns=5 managed=200 tasks=0 presence=0 variation=8",
        what: "the checker took two batches of skipped slots, committed at once, for more than a commit may add to the log",
    },
];

#[test]
fn what_once_went_wrong_with_campaigns_stays_right() {
    RUNS.check_found(FOUND_BUGS);
}

#[test]
fn many_lives_of_campaigns_keep_every_promise() {
    // Syncs are never put off, so the power takes nothing that was answered.
    RUNS.check(|(_, seen), _| seen.unseen().is_empty());
}

#[test]
fn a_seed_repeats_its_run_of_campaigns_to_the_last_step() {
    RUNS.check_repeats(3..6);
}
