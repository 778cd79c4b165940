//! The runs: those of CI, those that once found something, and those that somebody asks for.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::devices::plan::Plan;
use crate::devices::world::{self, Seen};
use crate::harness::trace::Trace;
use crate::harness::violation::Violation;

/// The seeds of CI.
const IN_CI: Range<u64> = 0..400;
/// Threads that share them.
const THREADS: usize = 2;

/// Seeds that found a bug, each with what it was. They stay for ever, wherever the seeds of CI go.
const FOUND_BUGS: &[(u64, &str)] = &[(
    525,
    "a step that inputs had filled did not let time pass: who was silent, and what was due, waited for an end of the load",
)];

/// How often a long run says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// What to run.
pub(crate) enum Asked {
    Seeds(Range<u64>),
    /// From this seed on, until then.
    Until(u64, Instant),
}

/// What a run comes to.
type Ended<C> = (Result<C, Violation>, Trace);

/// What the environment asks for, or the seeds of CI.
pub(crate) fn asked_for(in_ci: Range<u64>) -> Asked {
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{text:?} is no number"));
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(seed) = variable("SEED") {
        return Asked::Seeds(number(&seed)..number(&seed) + 1);
    }
    if let Some(seconds) = variable("SIM_SECONDS") {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
        return Asked::Until(since_1970.as_secs(), Instant::now() + Duration::from_secs(number(&seconds)));
    }
    Asked::Seeds(variable("SEEDS").map_or(in_ci, |range| match range.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&range),
    }))
}

/// One run; says how to see it again if it fails.
fn run_one<C>(test: &str, seed: u64, run: impl Fn(u64) -> Ended<C>) -> Result<C, String> {
    let command = format!("SEED={seed} cargo test -p fieldpost --test simulation {test} -- --nocapture");
    let ended = catch_unwind(AssertUnwindSafe(|| run(seed)));
    match ended {
        Ok((Ok(counts), _)) => Ok(counts),
        Ok((Err(violation), trace)) => {
            Err(format!("seed {seed} breaks {violation}\n\nthe last steps:\n{}\n\n{command}", trace.tail()))
        }
        Err(_) => Err(format!("seed {seed} panics, see above\n\n{command}")),
    }
}

/// Seeds that threads take one after the other, until one of them has found something.
struct Seeds {
    next: AtomicU64,
    end: u64,
    until: Option<Instant>,
    found: AtomicBool,
}

impl Seeds {
    fn new(asked: &Asked) -> Self {
        let (from, end, until) = match asked {
            Asked::Seeds(range) => (range.start, range.end, None),
            Asked::Until(from, until) => (*from, u64::MAX, Some(*until)),
        };
        Self { next: AtomicU64::new(from), end, until, found: AtomicBool::new(false) }
    }

    fn take(&self) -> Option<u64> {
        let goes_on =
            self.until.is_none_or(|until| Instant::now() < until) && !self.found.load(Ordering::Relaxed);
        let seed = goes_on.then(|| self.next.fetch_add(1, Ordering::Relaxed))?;
        (seed < self.end).then_some(seed)
    }

    /// Runs what is left; what each run saw is given to `seen`. How many runs it took.
    fn run_rest<C>(
        &self,
        test: &str,
        run: impl Fn(u64) -> Ended<C>,
        mut seen: impl FnMut(&C),
    ) -> Result<u64, String> {
        let (mut runs, mut said) = (0, Instant::now());
        while let Some(seed) = self.take() {
            let ended = run_one(test, seed, &run).inspect_err(|_| self.found.store(true, Ordering::Relaxed));
            seen(&ended?);
            runs += 1;
            if self.until.is_some() && said.elapsed() >= SAY_EVERY {
                eprintln!("seed {seed} is good, the {runs}th of this thread");
                said = Instant::now();
            }
        }
        Ok(runs)
    }
}

/// Runs all that is asked for, on several threads: what they saw together, and how many runs it
/// took. The first that breaks a promise ends it. `test` is the name by which one can be repeated.
pub(crate) fn run_all<C: Default + Send>(
    test: &str,
    asked: &Asked,
    run: impl Fn(u64) -> Ended<C> + Sync,
    add: impl Fn(&mut C, &C) + Sync,
) -> (C, u64) {
    let seeds = Seeds::new(asked);
    let (mut all, mut runs) = (C::default(), 0);
    let part = || {
        let mut seen = C::default();
        let runs = seeds.run_rest(test, &run, |counts| add(&mut seen, counts));
        runs.map(|runs| (seen, runs))
    };
    thread::scope(|scope| {
        let count = match asked {
            Asked::Seeds(_) => THREADS,
            Asked::Until(..) => thread::available_parallelism().map_or(THREADS, usize::from),
        };
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(part)).collect();
        for thread in threads {
            match thread.join() {
                Ok(Ok((counts, of_thread))) => {
                    add(&mut all, &counts);
                    runs += of_thread;
                }
                Ok(Err(report)) => panic!("{report}"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    (all, runs)
}

fn add(all: &mut Seen, one: &Seen) {
    all.0.add(&one.0);
    all.1.add(&one.1);
}

#[test]
fn many_lives_keep_every_promise() {
    let asked = asked_for(IN_CI);
    let (all, runs) = run_all("many_lives_keep", &asked, |seed| world::run(Plan::of(seed)), add);
    println!("{runs} runs: {all:?}");
    if matches!(asked, Asked::Seeds(range) if range == IN_CI) {
        assert_eq!(
            [all.0.unseen(), all.1.unseen()].concat(),
            Vec::<&str>::new(),
            "the seeds of CI leave something out: {all:?}"
        );
    }
}

#[test]
fn what_once_went_wrong_stays_right() {
    for (seed, what) in FOUND_BUGS {
        if let Err(report) = run_one("many_lives_keep", *seed, |seed| world::run(Plan::of(seed))) {
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
