//! The runs with queues: those of CI, and those that once found something.

use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::{Found, Runs};

const RUNS: Runs<World> = Runs { test: "many_lives_of_queues", in_ci: 0..240, plan: Plan::of };
/// Runs with a crowd.
const CROWDED: Runs<World> = Runs { test: "crowds_of_groups", in_ci: 10_000..10_050, plan: Plan::crowded };
/// And with thousands of groups.
const MANY_GROUPS: Runs<World> =
    Runs { test: "thousands_of_groups", in_ci: 20_000..20_002, plan: Plan::with_many_groups };

const FOUND_BUGS: &[Found] = &[
    Found {
        seed: 76,
        with: "resident_max=9 control=0",
        what: "the model was wrong about a job under an alias that had expired as it started",
    },
    Found {
        seed: 274,
        with: "resident_max=8 control=0",
        what: "jobs that workers had counted as too many in memory, so nothing was read by its time: a parked job that had expired was counted as scheduled",
    },
    Found {
        seed: 680,
        with: "control=0",
        what: "the model forgot that a job may be behind one of its group that the wall clock had made ready",
    },
    Found {
        seed: 1017,
        with: "control=0",
        what: "the model called a successor ready that had expired before it started",
    },
    Found {
        seed: 1023,
        with: "control=0",
        what: "a consumer waited behind one that another queue had told first, and that did not pass on its signal",
    },
    Found {
        seed: 3040,
        with: "resident_max=9 control=0",
        what: "what had been parked a moment ago was read in at once, and parked again, without end",
    },
    Found {
        seed: 1_795_984_818,
        with: "backlog=32 resident_max=26",
        what: "the model had jobs reserved at once that were leased at the end of the step, when others had been read",
    },
];

#[test]
fn many_lives_of_queues_keep_every_promise() {
    RUNS.check(|seen, _| seen.unseen().is_empty());
}

#[test]
fn crowds_of_groups_in_little_memory_keep_every_promise() {
    CROWDED.check(|(_, seen), runs| {
        seen.parked > 20 * runs && seen.leased > 50 * runs && seen.steps_at_a_limit > 10 * runs
    });
}

#[test]
fn thousands_of_groups_in_little_memory_keep_every_promise() {
    MANY_GROUPS.check(|(_, seen), runs| {
        seen.published > 1_500 * runs && seen.leased > 1_000 * runs && seen.steps_at_a_limit > 100 * runs
    });
}

#[test]
fn what_once_went_wrong_with_queues_stays_right() {
    RUNS.check_found(FOUND_BUGS);
}

#[test]
fn a_run_with_queues_that_fails_is_made_smaller() {
    let broken = |seed| Plan::of(seed).without_controls().with_fault(super::fault_injection::GROUP_IGNORED);
    Runs::<World> { plan: broken, ..RUNS }.check_shrinks(1);
}

#[test]
fn a_seed_repeats_its_run_with_queues_to_the_last_step() {
    RUNS.check_repeats(3..6);
}
