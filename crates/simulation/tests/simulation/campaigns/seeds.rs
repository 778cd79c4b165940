//! The runs with tasks and campaigns.

use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::Runs;

const RUNS: Runs<World> = Runs { test: "many_lives_of_campaigns", in_ci: 0..120, plan: Plan::of };

#[test]
fn many_lives_of_campaigns_keep_every_promise() {
    // Syncs are never put off, so the power takes nothing that was answered.
    RUNS.check(|(_, seen), _| seen.unseen().is_empty());
}

#[test]
fn a_seed_repeats_its_run_of_campaigns_to_the_last_step() {
    RUNS.check_repeats(3..6);
}
