//! The runs with an edge node and a centre.

use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::Runs;

const RUNS: Runs<World> = Runs { test: "many_lives_of_an_edge", in_ci: 0..60, plan: Plan::of };

#[test]
fn many_lives_of_an_edge_keep_every_promise() {
    RUNS.check(|seen, _| seen.1.unseen().is_empty());
}

#[test]
fn a_seed_repeats_its_run_of_an_edge_to_the_last_step() {
    RUNS.check_repeats(3..5);
}
