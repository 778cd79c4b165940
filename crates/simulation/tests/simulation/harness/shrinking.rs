//! A run that fails is made smaller for as long as it fails. It gets fewer steps, fewer ends of the
//! process, fewer faults, and less of what its workload brings.
//!
//! Each number of the plan is tried at its least, then closer to where it is. As the run may go
//! another way because of that, some variations of its chance are tried too. What counts is that
//! the same promise is broken.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::machine::MachinePlan;
use super::seeds::{Failure, run_plan};
use super::violation::Invariant;
use super::workload::{Plan, Workload};

/// Variations of its chance in which a smaller plan is tried.
const VARIATIONS: u64 = 3;
/// Runs, and the time, in which smaller plans are looked for.
const RUNS_MAX: u64 = 400;
const TIME_MAX: Duration = Duration::from_secs(60);

/// A number of a plan that can be made smaller.
pub(crate) struct Knob<'a> {
    name: &'static str,
    value: &'a mut u64,
    least: u64,
}

impl<'a> Knob<'a> {
    pub(crate) fn new(name: &'static str, value: &'a mut u64, least: u64) -> Self {
        Self { name, value, least }
    }
}

/// The smallest plan that was found.
pub(super) struct Shrunk<P> {
    pub(super) plan: Plan<P>,
    /// How it fails; nothing if it is the plan that there was.
    pub(super) failure: Option<Failure>,
    /// Plans that were tried.
    pub(super) runs: u64,
}

impl MachinePlan {
    fn knobs(&mut self) -> Vec<Knob<'_>> {
        let weights = &mut self.weights;
        vec![
            Knob::new("steps", &mut self.steps, 0),
            Knob::new("crash", &mut weights.crash, 0),
            Knob::new("kill", &mut weights.kill, 0),
            Knob::new("doom", &mut weights.doom, 0),
            Knob::new("stop", &mut weights.stop, 0),
            Knob::new("storage_fault", &mut weights.storage_fault, 0),
            Knob::new("leap", &mut weights.leap, 0),
            Knob::new("day", &mut weights.day, 0),
            Knob::new("wall", &mut weights.wall, 0),
        ]
    }
}

fn knobs<W: Workload>(plan: &mut Plan<W::Plan>) -> Vec<Knob<'_>> {
    plan.machine.knobs().into_iter().chain(W::knobs(&mut plan.workload)).collect()
}

/// All numbers of a plan, by name. The variation is one, but none that could be smaller.
fn numbers<W: Workload>(plan: &mut Plan<W::Plan>) -> Vec<(&'static str, u64)> {
    let variation = ("variation", plan.machine.variation);
    let knobs = knobs::<W>(plan).into_iter().map(|knob| (knob.name, *knob.value));
    knobs.chain([variation]).collect()
}

/// Sets numbers of a plan: `steps=40 crash=0`.
pub(super) fn set<W: Workload>(plan: &mut Plan<W::Plan>, with: &str) {
    for text in with.split_whitespace() {
        let parsed = text.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
        let (name, value) = parsed.unwrap_or_else(|| panic!("{text:?} is not like steps=40"));
        if name == "variation" {
            plan.machine.variation = value;
            continue;
        }
        let mut knobs = knobs::<W>(plan);
        let knob = knobs.iter_mut().find(|knob| knob.name == name);
        *knob.unwrap_or_else(|| panic!("a plan has no number {name:?}")).value = value;
    }
}

/// What makes one plan of another, as it is set.
pub(super) fn differences<W: Workload>(from: &Plan<W::Plan>, to: &Plan<W::Plan>) -> String {
    let (from, to) = (numbers::<W>(&mut from.clone()), numbers::<W>(&mut to.clone()));
    let mut text = String::new();
    for ((_, _), (name, value)) in from.iter().zip(&to).filter(|(from, to)| from != to) {
        let space = if text.is_empty() { "" } else { " " };
        write!(text, "{space}{name}={value}").expect("a text takes all");
    }
    text
}

/// A smaller plan that breaks the same promise, or panics where the first one did.
pub(super) fn shrink<W: Workload>(plan: &Plan<W::Plan>, broken: Option<Invariant>) -> Shrunk<W::Plan> {
    let until = Instant::now() + TIME_MAX;
    let mut best = Shrunk { plan: plan.clone(), failure: None, runs: 0 };
    let count = knobs::<W>(&mut plan.clone()).len();
    loop {
        let before = numbers::<W>(&mut best.plan);
        // First all of it, then half of it, then less.
        for part in [1, 2, 4, 8] {
            for index in 0..count {
                let goes_on = |best: &Shrunk<_>| best.runs < RUNS_MAX && Instant::now() < until;
                while goes_on(&best) && make_smaller::<W>(&mut best, (index, part), broken) {}
            }
        }
        if numbers::<W>(&mut best.plan) == before {
            return best;
        }
    }
}

/// Takes a part of one number away. Whether the run fails then as before.
fn make_smaller<W: Workload>(
    best: &mut Shrunk<W::Plan>,
    (index, part): (usize, u64),
    broken: Option<Invariant>,
) -> bool {
    let knob = &knobs::<W>(&mut best.plan)[index];
    let value = *knob.value;
    let less = value.saturating_sub(knob.least).div_ceil(part);
    if less == 0 {
        return false;
    }
    for variation in 0..VARIATIONS {
        let mut plan = best.plan.clone();
        plan.machine.variation += variation;
        *knobs::<W>(&mut plan)[index].value = value - less;
        best.runs += 1;
        let failure = run_plan::<W>(plan.clone()).err();
        if let Some(failure) = failure.filter(|failure| failure.invariant() == broken) {
            (best.plan, best.failure) = (plan, Some(failure));
            return true;
        }
    }
    false
}
