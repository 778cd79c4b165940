//! The runs with streams.

use super::plan::Plan;
use super::world::World;
use crate::harness::counts::Counted;
use crate::harness::seeds::{Found, Runs};

const RUNS: Runs<World> = Runs { test: "many_lives_of_streams", in_ci: 0..120, plan: Plan::of };

const FOUND_BUGS: &[Found] = &[
    Found {
        seed: 1_795_983_468,
        with: "steps=530 doom=0 memory_bytes=3570 read=15 disk=6 variation=2",
        what: "the file of a stream that was deleted while it was written stayed, as the batch that was to delete it was lost",
    },
    Found {
        seed: 584,
        with: "",
        what: "a block that was dropped while it was brought to another storage stayed there, as the batch that was to delete it was lost",
    },
    Found {
        seed: 1036,
        with: "",
        what: "a block that was brought to another storage stayed in the first too, as nobody was told that its new row was written",
    },
    Found {
        seed: 3526,
        with: "",
        what: "the files of old blocks stayed, as nobody was told that the batch that dropped them was written",
    },
    Found {
        seed: 2182,
        with: "steps=112 stop=0 memory_bytes=500 disk=0",
        what: "the first message of a duplicate was to be told although the disk did not read its block",
    },
    Found {
        seed: 2064,
        with: "steps=93 memory_bytes=8688 set=7 delete=0 read=28 moving_percent=42",
        what: "the harness told a partition that had stopped that its batch was durable, and so a call was answered",
    },
];

#[test]
fn what_once_went_wrong_with_streams_stays_right() {
    RUNS.check_found(FOUND_BUGS);
}

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
