//! What may happen next, and how likely it is: the steps of the machine, and among them those of a
//! workload.

use base::PartitionId;

use super::lives::Life;
use super::storage::End;
use crate::harness::violation::{Checked, Invariant};

/// A kind of step; `A` are those of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<A> {
    Partition,
    Commit,
    Upkeep,
    Sync,
    Outcome,
    Time,
    Leap,
    Day,
    Wall,
    End(End),
    Doom,
    Stop,
    StorageFault,
    Heal,
    Audit,
    AuditAfterACrash,
    Start,
    Act(A),
}

/// Milliseconds of a day.
pub(crate) const DAY_MS: u64 = 24 * 3_600_000;

/// Steps with their weights, relative to each other.
type Weighted<A> = Vec<(A, u64)>;

/// The steps of a workload. What a seed does depends on where they stand among the others.
pub(crate) struct Acts<A> {
    /// Behind the steps of partitions.
    pub(crate) engine: Weighted<A>,
    /// Behind the outcomes of commits.
    pub(crate) outside: Weighted<A>,
    /// Behind the clocks.
    pub(crate) surroundings: Weighted<A>,
}

/// A weight where something is possible, else none.
pub(crate) fn when(possible: bool, weight: u64) -> u64 {
    if possible { weight } else { 0 }
}

/// A workload whose steps are scheduled.
pub(crate) trait Scheduled: Life {
    type Act: Copy;

    /// Time passes up to something that is due, if that is sooner than this.
    const NEXT_MS_MAX: i64;

    /// What may happen now, besides what happens to the machine. Without a process only the
    /// surroundings count.
    fn acts(&self) -> Acts<Self::Act>;

    /// Takes a step of its own.
    fn act(&mut self, act: Self::Act) -> Checked;

    /// After every step.
    fn after_step(&mut self) -> Checked {
        Ok(())
    }

    fn partitions_that_want(&self) -> Vec<PartitionId>;

    /// Whether somebody takes nothing more, because its store does not go on.
    fn is_broken(&self) -> bool;

    /// When somebody who waits for a time has something to do.
    fn next_moment(&self) -> Option<base::Timestamp>;

    /// Compares something that is stored, chosen by chance, with what the model has.
    fn audit_something(&mut self) -> Checked;

    /// One step of the run.
    fn step(&mut self) -> Checked {
        let steps = if self.is_up() { self.steps_while_up() } else { self.steps_while_down() };
        let total: u64 = steps.iter().map(|(_, weight)| weight).sum();
        let mut chosen = self.machine_mut().random.below(total);
        for (step, weight) in steps {
            if chosen < weight {
                self.take(step)?;
                return self.after_step();
            }
            chosen -= weight;
        }
        Ok(())
    }

    fn steps_while_up(&self) -> Weighted<Step<Self::Act>> {
        let weights = &self.machine().plan.weights;
        let storage_fails = self.machine().storage.is_faulty();
        let broken = self.is_broken();
        let or_broken = |weight: u64| if broken { weight.max(60) } else { weight };
        let Acts { engine, outside, surroundings } = self.acts();
        let acts = |acts: Weighted<Self::Act>| acts.into_iter().map(|(act, weight)| (Step::Act(act), weight));
        let mut steps = vec![(Step::Partition, when(!self.partitions_that_want().is_empty(), 400))];
        steps.extend(acts(engine));
        steps.extend([
            (Step::Commit, 300),
            (Step::Upkeep, 40),
            (Step::Sync, when(self.machine().plan.sync_interval.is_some(), 30)),
            (Step::Outcome, when(self.outcomes_waiting() > 0, 300)),
        ]);
        steps.extend(acts(outside));
        steps.extend([
            (Step::Time, weights.time),
            (Step::Leap, weights.leap),
            (Step::Day, weights.day),
            (Step::Wall, weights.wall),
        ]);
        steps.extend(acts(surroundings));
        steps.extend([
            (Step::End(End::Crash), weights.crash),
            (Step::End(End::Kill), or_broken(weights.kill)),
            (Step::Doom, weights.doom),
            (Step::Stop, or_broken(weights.stop)),
            (Step::StorageFault, when(!storage_fails, weights.storage_fault)),
            (Step::Heal, when(storage_fails, 20)),
            (Step::Audit, weights.audit),
            (Step::AuditAfterACrash, weights.audit / 3),
        ]);
        steps
    }

    fn steps_while_down(&self) -> Weighted<Step<Self::Act>> {
        let weights = &self.machine().plan.weights;
        let mut steps = vec![
            (Step::Start, 60),
            (Step::Time, 30),
            (Step::Leap, 5),
            (Step::Day, weights.day),
            (Step::Wall, weights.wall),
        ];
        let surroundings = self.acts().surroundings;
        steps.extend(surroundings.into_iter().map(|(act, weight)| (Step::Act(act), weight)));
        steps.extend([
            (Step::StorageFault, weights.storage_fault),
            (Step::End(End::Crash), weights.crash),
            (Step::Doom, weights.doom),
        ]);
        steps
    }

    fn take(&mut self, step: Step<Self::Act>) -> Checked {
        match step {
            Step::Partition => {
                let waiting = self.partitions_that_want();
                let chosen = waiting[self.machine_mut().random.below(waiting.len() as u64) as usize];
                let count = self.machine_mut().batch_size();
                return self.step_partition(chosen, count);
            }
            Step::Commit => {
                let any = self.machine_mut().commit();
                self.machine_mut().trace.note(format_args!("commit: {any}"));
                self.notice_end();
                let bounded = self.machine().storage.is_bounded();
                return bounded.map_err(|found| Invariant::Bounded.broken(found));
            }
            Step::Outcome => {
                let waiting = self.outcomes_waiting() as u64;
                let index = self.machine_mut().random.below(waiting) as usize;
                return self.tell_outcome(index);
            }
            Step::Audit => return self.audit_something(),
            Step::AuditAfterACrash => return self.audit_after_a_crash(),
            Step::Stop => return self.stop_well(),
            Step::Start => return self.start(),
            Step::Act(act) => return self.act(act),
            Step::Upkeep => {
                self.machine_mut().upkeep();
                self.notice_end();
            }
            Step::Sync => self.sync(),
            Step::End(end) => self.end_life(end),
            Step::Time => self.let_time_pass(),
            Step::Leap => {
                let ms = 10_000 + self.machine_mut().random.below(7_200_000) as i64;
                self.pass(ms);
            }
            Step::Day => {
                let ms = (DAY_MS / 4 + self.machine_mut().random.below(DAY_MS)) as i64;
                self.pass(ms);
            }
            Step::Wall => self.machine_mut().set_wall(),
            Step::StorageFault => self.machine_mut().fail_storage(),
            Step::Doom => self.machine_mut().doom(),
            Step::Heal => self.machine_mut().heal_storage(),
        }
        Ok(())
    }

    /// Time passes: a little, or to when something is due.
    fn let_time_pass(&mut self) {
        let now = self.machine().now();
        let next = self.next_moment().map(|at| at.0.saturating_sub(now.0));
        let random = &mut self.machine_mut().random;
        let ms = match (random.below(4), next) {
            (0 | 1, Some(next)) if next > 0 && next < Self::NEXT_MS_MAX => next,
            (2, _) => 1 + random.below(3_000) as i64,
            _ => 1 + random.below(60) as i64,
        };
        self.pass(ms);
    }

    fn pass(&mut self, ms: i64) {
        if self.machine().must_sync_within(ms) {
            self.sync();
        }
        let is_up = self.is_up();
        self.machine_mut().pass(ms, is_up);
    }
}
