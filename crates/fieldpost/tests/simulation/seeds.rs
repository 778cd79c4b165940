//! The runs: those of CI, those that once found something, and those that somebody asks for.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::counts::Counts;
use crate::plan::Plan;
use crate::world;

/// The seeds of CI.
const IN_CI: Range<u64> = 0..300;
/// Threads that share them.
const THREADS: u64 = 2;

/// Seeds that found a bug, each with what it was. They stay for ever, wherever the seeds of CI go.
const FOUND_BUGS: &[(u64, &str)] = &[];

/// The seeds that the environment asks for, or those of CI.
fn asked_for() -> Range<u64> {
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{text:?} is no seed"));
    if let Ok(seed) = std::env::var("SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    match std::env::var("SEEDS") {
        Ok(range) => match range.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&range),
        },
        Err(_) => IN_CI,
    }
}

/// One run; says how to see it again if it fails.
fn run(seed: u64) -> Result<Counts, String> {
    let command = format!("SEED={seed} cargo test -p fieldpost --test simulation many_lives -- --nocapture");
    let ended = catch_unwind(AssertUnwindSafe(|| world::run(Plan::of(seed))));
    match ended {
        Ok((Ok(counts), _)) => Ok(counts),
        Ok((Err(violation), trace)) => {
            Err(format!("seed {seed} breaks {violation}\n\nthe last steps:\n{}\n\n{command}", trace.tail()))
        }
        Err(_) => Err(format!("seed {seed} panics, see above\n\n{command}")),
    }
}

fn run_all(seeds: impl Iterator<Item = u64>) -> Counts {
    let mut all = Counts::default();
    for seed in seeds {
        match run(seed) {
            Ok(counts) => all.add(&counts),
            Err(report) => panic!("{report}"),
        }
    }
    all
}

#[test]
fn many_lives_keep_every_promise() {
    let seeds = asked_for();
    let share = |nth: u64| seeds.clone().filter(move |seed| seed % THREADS == nth);
    let mut all = Counts::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|nth| scope.spawn(move || run_all(share(nth)))).collect();
        for thread in threads {
            match thread.join() {
                Ok(counts) => all.add(&counts),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    println!("{} runs: {all:?}", seeds.end - seeds.start);
    if seeds == IN_CI {
        assert_eq!(all.unseen(), Vec::<&str>::new(), "the seeds of CI leave something out: {all:?}");
    }
}

#[test]
fn what_once_went_wrong_stays_right() {
    for (seed, what) in FOUND_BUGS {
        if let Err(report) = run(*seed) {
            panic!("{what}\n{report}");
        }
    }
}

#[test]
fn a_seed_repeats_its_run_to_the_last_step() {
    for seed in [3, 4, 5] {
        let (first, one) = world::run(Plan::of(seed));
        let (second, other) = world::run(Plan::of(seed));
        assert_eq!(first.expect("a good run"), second.expect("a good run"), "seed {seed}");
        assert_eq!(one.hash(), other.hash(), "seed {seed}");
    }
    let hash = |seed| world::run(Plan::of(seed)).1.hash();
    assert_ne!(hash(6), hash(7));
}
