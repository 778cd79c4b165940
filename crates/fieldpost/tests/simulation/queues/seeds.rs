//! The runs with queues: those of CI, those that once found something, and those that somebody asks
//! for.

use std::ops::Range;

use super::plan::Plan;
use super::world::{self, Seen};
use crate::devices::seeds::{Asked, asked_for, run_all};
use crate::harness::trace::Trace;
use crate::harness::violation::Violation;

/// The seeds of CI.
const IN_CI: Range<u64> = 0..240;

/// Seeds that found a bug, each with how many jobs may be resident, where that is not the seed's to
/// say, and what it was. They stay for ever, wherever the seeds of CI go.
const FOUND_BUGS: &[(u64, Option<usize>, &str)] = &[
    (76, Some(9), "the model was wrong about a job under an alias that had expired as it started"),
    (1017, None, "the model called a successor ready that had expired before it started"),
    (
        1023,
        None,
        "a consumer waited behind one that another queue had told first, and that did not pass on its signal",
    ),
    (3040, Some(9), "what had been parked a moment ago was read in at once, and parked again, without end"),
];

fn run(seed: u64) -> (Result<Seen, Violation>, Trace) {
    run_with(seed, resident_max())
}

fn run_with(seed: u64, resident_max: Option<usize>) -> (Result<Seen, Violation>, Trace) {
    let plan = Plan::of(seed);
    world::run(match resident_max {
        Some(resident_max) => plan.with_resident(resident_max),
        None => plan,
    })
}

/// What the environment asks for, to see runs with less memory than their seeds give them.
fn resident_max() -> Option<usize> {
    std::env::var("SIM_RESIDENT_MAX").ok()?.parse().ok()
}

fn add(all: &mut Seen, one: &Seen) {
    all.0.add(&one.0);
    all.1.add(&one.1);
}

#[test]
fn many_lives_of_queues_keep_every_promise() {
    let asked = asked_for(IN_CI);
    let (all, runs) = run_all("many_lives_of_queues", &asked, run, add);
    println!("{runs} runs: {all:?}");
    if matches!(asked, Asked::Seeds(range) if range == IN_CI) {
        assert_eq!(
            [all.0.unseen(), all.1.unseen()].concat(),
            Vec::<&str>::new(),
            "the seeds of CI leave something out: {all:?}"
        );
    }
}

/// The seeds of CI with a crowd.
const CROWDED: Range<u64> = 10_000..10_060;

#[test]
fn crowds_of_groups_in_little_memory_keep_every_promise() {
    let run = |seed| world::run(Plan::of(seed).crowded());
    let (all, runs) = run_all("crowds_of_groups", &Asked::Seeds(CROWDED), run, add);
    println!("{runs} runs: {all:?}");
    assert!(all.1.parked > 20 * runs && all.1.leased > 50 * runs, "{all:?}");
}

#[test]
fn what_once_went_wrong_with_queues_stays_right() {
    for (seed, resident, what) in FOUND_BUGS {
        if let (Err(violation), trace) = run_with(*seed, resident.or_else(resident_max)) {
            panic!("{what}\nseed {seed} breaks {violation}\n{}", trace.tail());
        }
    }
}

#[test]
fn a_seed_repeats_its_run_with_queues_to_the_last_step() {
    for seed in [3, 4, 5] {
        let ((first, one), (second, other)) = (run(seed), run(seed));
        assert_eq!(first.expect("a good run"), second.expect("a good run"), "seed {seed}");
        assert_eq!(one.hash(), other.hash(), "seed {seed}");
    }
    assert_ne!(run(6).1.hash(), run(7).1.hash());
}
