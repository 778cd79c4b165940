//! The runs of a workload: those of CI, those that once found something, and those that somebody
//! asks for. The first that fails ends them; it is made smaller, and printed with the command that
//! repeats it.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::counts::Counted;
use super::fault_injection::InjectedFault;
use super::machine::StorageKind;
use super::processors::{self, Processor};
use super::run::{self, Seen};
use super::shrinking;
use super::trace::Trace;
use super::violation::{Invariant, Violation};
use super::workload::{Plan, Workload};

/// How often a long run says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Numbers of a plan that are to be others than its seed says: `SIM_WITH="steps=40 crash=0"`.
const WITH: &str = "SIM_WITH";

/// Runs of one kind.
pub(crate) struct Runs<W: Workload> {
    /// The test by whose name one can be repeated.
    pub(crate) test: &'static str,
    pub(crate) in_ci: Range<u64>,
    pub(crate) plan: fn(u64) -> Plan<W::Plan>,
}

/// A seed that found a bug. They stay for ever, wherever the seeds of CI go.
pub(crate) struct Found {
    pub(crate) seed: u64,
    /// Numbers of its plan that were others than the seed says.
    pub(crate) with: &'static str,
    pub(crate) what: &'static str,
}

/// How a run failed.
pub(crate) enum Failure {
    Broken(Violation, Trace),
    Panicked,
}

impl Failure {
    /// The promise that was broken, unless it panicked.
    pub(crate) fn invariant(&self) -> Option<Invariant> {
        if let Self::Broken(violation, _) = self { Some(violation.invariant) } else { None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(violation, trace) => {
                write!(f, "breaks {violation}\n\nthe last steps:\n{}", trace.tail())
            }
            Self::Panicked => f.write_str("panics, see above"),
        }
    }
}

/// One run; a panic is a failure like others.
pub(crate) fn run_plan<W: Workload>(plan: Plan<W::Plan>) -> Result<Seen<W>, Failure> {
    match catch_unwind(AssertUnwindSafe(|| run::run::<W>(plan))) {
        Ok((Ok(seen), _)) => Ok(seen),
        Ok((Err(violation), trace)) => Err(Failure::Broken(violation, trace)),
        Err(_) => Err(Failure::Panicked),
    }
}

/// Runs plans with a fault until something is found: the first thing must be one of these.
pub(crate) fn check_fault_is_found<W: Workload>(
    plans: impl Iterator<Item = Plan<W::Plan>>,
    (fault, storage): (InjectedFault, StorageKind),
    expected: &[Invariant],
) {
    for mut plan in plans {
        let seed = plan.machine.seed;
        plan.machine.storage = storage;
        if let Err(failure) = run_plan::<W>(plan.with_fault(fault)) {
            let found = failure.invariant().is_some_and(|invariant| expected.contains(&invariant));
            assert!(found, "{fault:?}, seed {seed} {failure}");
            return;
        }
    }
    panic!("{fault:?} is never found out");
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// What the environment asks for.
fn asked_for() -> Option<Seeds> {
    if let Some(seed) = variable("SEED") {
        return Some(Seeds::of(number(&seed)..number(&seed) + 1));
    }
    if let Some(seconds) = variable("SIM_SECONDS") {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
        let until = Some(Instant::now() + Duration::from_secs(number(&seconds)));
        return Some(Seeds { until, ..Seeds::of(since_1970.as_secs()..u64::MAX) });
    }
    variable("SEEDS").map(|range| match range.split_once("..") {
        Some((from, to)) => Seeds::of(number(from)..number(to)),
        None => Seeds::of(0..number(&range)),
    })
}

/// Seeds that threads take one after the other, until one of them has found something.
struct Seeds {
    next: AtomicU64,
    end: u64,
    until: Option<Instant>,
    found: AtomicBool,
}

impl Seeds {
    fn of(range: Range<u64>) -> Self {
        let (next, end) = (AtomicU64::new(range.start), range.end);
        Self { next, end, until: None, found: AtomicBool::new(false) }
    }

    fn take(&self) -> Option<u64> {
        let goes_on =
            self.until.is_none_or(|until| Instant::now() < until) && !self.found.load(Ordering::Relaxed);
        let seed = goes_on.then(|| self.next.fetch_add(1, Ordering::Relaxed))?;
        (seed < self.end).then_some(seed)
    }
}

impl<W: Workload> Runs<W> {
    /// Runs what the environment asks for, or the seeds of CI. These must see enough, or they prove
    /// less than they seem to.
    #[expect(clippy::print_stdout, reason = "for whoever asked for many runs")]
    pub(crate) fn check(&self, is_enough: impl Fn(&Seen<W>, u64) -> bool) {
        let asked = asked_for();
        let is_ci = asked.is_none() && variable(WITH).is_none();
        let (all, runs) = self.run_all(&asked.unwrap_or_else(|| Seeds::of(self.in_ci.clone())));
        println!("{runs} runs: {all:?}");
        assert!(!is_ci || is_enough(&all, runs), "the seeds of CI leave out {:?}: {all:?}", all.unseen());
    }

    /// What once went wrong stays right.
    pub(crate) fn check_found(&self, found: &[Found]) {
        for Found { seed, with, what } in found {
            let report = self.run_one(*seed, with).err();
            assert!(report.is_none(), "{what}\n{}", report.unwrap_or_default());
        }
    }

    /// A seed repeats its run to the last step; another seed is another run.
    pub(crate) fn check_repeats(&self, seeds: Range<u64>) {
        let mut hashes = Vec::new();
        for seed in seeds {
            let ((first, one), (second, other)) = (self.run(seed), self.run(seed));
            assert_eq!(first.expect("a good run"), second.expect("a good run"), "seed {seed}");
            assert_eq!(one.hash(), other.hash(), "seed {seed}");
            hashes.push(one.hash());
        }
        hashes.dedup();
        assert!(hashes.len() > 1, "all seeds are one run");
    }

    /// A seed whose plan has a fault is found, made much smaller, and repeated by what is printed.
    pub(crate) fn check_shrinks(&self, seed: u64) {
        let report = self.run_one(seed, "").expect_err("the fault is found");
        let command = report.rsplit(WITH).next().unwrap_or_default();
        let small = self.plan_with(seed, command.split('"').nth(1).unwrap_or_default());
        let (steps, whole) = (small.machine.steps, (self.plan)(seed));
        assert!(steps * 4 <= whole.machine.steps, "{steps} steps are left: {report}");
        let broken = |plan| run_plan::<W>(plan).expect_err("the fault is found").invariant();
        assert_eq!(broken(small), broken(whole), "{report}");
    }

    fn run(&self, seed: u64) -> (Result<Seen<W>, Violation>, Trace) {
        run::run::<W>((self.plan)(seed))
    }

    /// The plan of a seed, with numbers that are others than the seed says.
    pub(crate) fn plan_with(&self, seed: u64, with: &str) -> Plan<W::Plan> {
        let mut plan = (self.plan)(seed);
        shrinking::set::<W>(&mut plan, with);
        plan
    }

    /// One run; makes it smaller if it fails, and says how to see it again.
    fn run_one(&self, seed: u64, with: &str) -> Result<Seen<W>, String> {
        let plan = self.plan_with(seed, with);
        let failure = match run_plan::<W>(plan.clone()) {
            Ok(seen) => return Ok(seen),
            Err(failure) => failure,
        };
        let small = shrinking::shrink::<W>(&plan, failure.invariant());
        let (first, whole) = (self.command(seed, with), (self.plan)(seed));
        let with = shrinking::differences::<W>(&whole, &small.plan);
        let (second, runs) = (self.command(seed, &with), small.runs);
        let smaller = small.failure.map_or("nothing smaller fails".to_owned(), |failure| {
            format!("smaller, it {failure}\n\n{second}")
        });
        Err(format!("seed {seed} {failure}\n\n{first}\n\nAfter {runs} runs of smaller plans: {smaller}"))
    }

    fn command(&self, seed: u64, with: &str) -> String {
        let with = if with.is_empty() { String::new() } else { format!("{WITH}=\"{with}\" ") };
        format!("SEED={seed} {with}cargo test -p simulation --test simulation {} -- --nocapture", self.test)
    }

    /// Runs seeds until there is none left; what each run saw is given to `seen`. How many runs it
    /// took.
    fn run_rest(&self, seeds: &Seeds, mut seen: impl FnMut(&Seen<W>)) -> Result<u64, String> {
        let with = variable(WITH).unwrap_or_default();
        let (mut runs, mut said) = (0, Instant::now());
        loop {
            let _processor = Processor::take();
            let Some(seed) = seeds.take() else { return Ok(runs) };
            let ended = self.run_one(seed, &with).inspect_err(|_| seeds.found.store(true, Ordering::Relaxed));
            seen(&ended?);
            runs += 1;
            if seeds.until.is_some() && said.elapsed() >= SAY_EVERY {
                eprintln!("seed {seed} is good, the {runs}th of this thread");
                said = Instant::now();
            }
        }
    }

    /// Runs all that is asked for, on several threads. The first that breaks a promise ends it.
    fn run_all(&self, seeds: &Seeds) -> (Seen<W>, u64) {
        let (mut all, mut runs) = (Seen::<W>::default(), 0);
        let part = || {
            let mut seen = Seen::<W>::default();
            self.run_rest(seeds, |one| seen.add(one)).map(|runs| (seen, runs))
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..processors::count()).map(|_| scope.spawn(part)).collect();
            for thread in threads {
                match thread.join() {
                    Ok(Ok((seen, of_thread))) => {
                        all.add(&seen);
                        runs += of_thread;
                    }
                    Ok(Err(report)) => panic!("{report}"),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        assert!(runs > 0, "no run was begun");
        (all, runs)
    }
}
