//! The rate of picks: whose picks go first when more are due than may be made.
//!
//! Classes go in their order, large first. Within a class an older minute's picks come before those
//! of a newer one, and within a minute older tasks before newer ones. Of any ten picks in a row,
//! each class that waited all the while gets at least one, so nobody starves. Tasks wait as
//! slots do.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use base::{Incarnation, Timestamp};
use records::PickClass;

const CLASSES: usize = PickClass::ALL.len();
const MINUTE_MS: u64 = 60_000;
/// A pick, in the unit of what may be made.
const PICK_MILLI: u64 = 1_000;
/// Picks that could have been made during at most this delay are made afterwards.
const MADE_UP_MS: u64 = 100;
/// A class that waits is passed by for so many picks at most. Two classes may be due at once, and
/// both get their pick within ten.
const PASSED_BY_MAX: u32 = 8;

/// Picks that are due, by class. It has one entry for each task, so the bound on running tasks
/// bounds it.
#[derive(Clone, Debug)]
pub struct PickRate {
    /// In a second; without, all may be made at once.
    per_second: Option<NonZeroU32>,
    /// What may be made, in thousandths of a pick, as of `at`.
    allowed_milli: u64,
    at: Timestamp,
    lines: [ClassLine; CLASSES],
    /// In which line a task is.
    tasks: BTreeMap<Incarnation, (PickClass, u64)>,
}

/// The picks of a class.
#[derive(Clone, Debug, Default)]
struct ClassLine {
    /// By the minute in which they were due, and task.
    due: BTreeMap<(u64, Incarnation), u32>,
    /// All of them.
    picks: u64,
    /// Picks of other classes since this one had one, while it waited.
    passed_by: u32,
}

impl PickRate {
    /// Nothing is due yet.
    #[must_use]
    pub fn new(per_second: Option<NonZeroU32>, now: Timestamp) -> Self {
        Self {
            per_second,
            allowed_milli: PICK_MILLI,
            at: now,
            lines: Default::default(),
            tasks: BTreeMap::new(),
        }
    }

    /// So many more picks of a task are due, replacements included. A task that waits already keeps
    /// its place.
    pub fn add(&mut self, task: Incarnation, class: PickClass, due_at: Timestamp, picks: u32) {
        if picks == 0 {
            return;
        }
        let minute = due_at.0.max(0).cast_unsigned() / MINUTE_MS;
        let (class, minute) = *self.tasks.entry(task).or_insert((class, minute));
        let line = &mut self.lines[class as usize];
        let due = line.due.entry((minute, task)).or_default();
        // A task has at most as many as it wants, and as many replacements.
        let added = picks.min(u32::MAX - *due);
        *due += added;
        line.picks += u64::from(added);
    }

    /// The task wants no more. How many of its picks were still due.
    pub fn remove(&mut self, task: Incarnation) -> u32 {
        let Some((class, minute)) = self.tasks.remove(&task) else { return 0 };
        let line = &mut self.lines[class as usize];
        let due = line.due.remove(&(minute, task)).unwrap_or(0);
        line.picks -= u64::from(due);
        if line.due.is_empty() {
            line.passed_by = 0;
        }
        due
    }

    /// A pick of the task ended, or was made, while it waited.
    pub fn drop_one(&mut self, task: Incarnation) {
        let Some((class, minute)) = self.tasks.get(&task).copied() else { return };
        let line = &mut self.lines[class as usize];
        match line.due.get_mut(&(minute, task)) {
            Some(due) if *due > 1 => {
                *due -= 1;
                line.picks -= 1;
            }
            _ => {
                self.remove(task);
            }
        }
    }

    /// Picks that are due.
    #[must_use]
    pub fn waiting(&self, class: PickClass) -> u64 {
        self.lines[class as usize].picks
    }

    /// When the next pick may be made; `None` if none is due.
    #[must_use]
    pub fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        if self.tasks.is_empty() {
            return None;
        }
        let Some(rate) = self.per_second else { return Some(now) };
        let missing = PICK_MILLI.saturating_sub(self.allowed_milli_at(now));
        let ms = missing.div_ceil(u64::from(rate.get()));
        Some(Timestamp(now.0.saturating_add_unsigned(ms)))
    }

    /// Whose picks are made now, and how many of each: `most` in all.
    pub fn take(&mut self, most: u32, now: Timestamp) -> Vec<(Incarnation, u32)> {
        self.allowed_milli = self.allowed_milli_at(now);
        self.at = self.at.max(now);
        let mut taken: Vec<(Incarnation, u32)> = Vec::new();
        let mut latest = [None; CLASSES];
        for _ in 0..most {
            if self.per_second.is_some() && self.allowed_milli < PICK_MILLI {
                break;
            }
            let Some(class) = self.next_class() else { break };
            let task = self.take_one(class);
            if self.per_second.is_some() {
                self.allowed_milli -= PICK_MILLI;
            }
            match latest[class].filter(|at: &usize| taken[*at].0 == task) {
                Some(at) => taken[at].1 += 1,
                None => {
                    latest[class] = Some(taken.len());
                    taken.push((task, 1));
                }
            }
        }
        taken
    }

    /// The class that has the next pick: the one that was passed by too often, or the first.
    fn next_class(&self) -> Option<usize> {
        let waiting = (0..CLASSES).filter(|class| !self.lines[*class].due.is_empty());
        let mut overdue = waiting.clone().filter(|class| self.lines[*class].passed_by >= PASSED_BY_MAX);
        overdue.next().or_else(|| waiting.min())
    }

    fn take_one(&mut self, class: usize) -> Incarnation {
        for (at, line) in self.lines.iter_mut().enumerate() {
            let is_passed_by = at != class && !line.due.is_empty();
            line.passed_by = if is_passed_by { line.passed_by.saturating_add(1) } else { 0 };
        }
        let line = &mut self.lines[class];
        let mut first = line.due.first_entry().expect("a class that waits has an entry");
        let (_, task) = *first.key();
        *first.get_mut() -= 1;
        line.picks -= 1;
        if *first.get() == 0 {
            first.remove();
            self.tasks.remove(&task);
        }
        task
    }

    fn allowed_milli_at(&self, now: Timestamp) -> u64 {
        let Some(rate) = self.per_second else { return PICK_MILLI };
        let rate = u64::from(rate.get());
        let elapsed_ms = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX);
        let most = (rate * MADE_UP_MS).max(PICK_MILLI);
        self.allowed_milli.saturating_add(elapsed_ms.saturating_mul(rate)).min(most)
    }
}

#[cfg(test)]
mod tests;
