//! What may happen next, and how likely it is: the steps of the machine, and among them those of a
//! workload.

use base::PartitionId;

use super::port::AnyPort;
use super::run::Run;
use super::storage::End;
use super::violation::Checked;
use super::workload::Workload;

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

impl<A> Acts<A> {
    pub(super) fn map<B>(self, act: impl Fn(A) -> B) -> Acts<B> {
        let map = |acts: Weighted<A>| acts.into_iter().map(|(of, weight)| (act(of), weight)).collect();
        let Self { engine, outside, surroundings } = self;
        Acts { engine: map(engine), outside: map(outside), surroundings: map(surroundings) }
    }

    /// Those of another workload besides.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.engine.extend(other.engine);
        self.outside.extend(other.outside);
        self.surroundings.extend(other.surroundings);
        self
    }
}

/// A weight where something is possible, else none.
pub(crate) fn when(possible: bool, weight: u64) -> u64 {
    if possible { weight } else { 0 }
}

impl<W: Workload> Run<W> {
    /// One step of the run.
    pub(super) fn step(&mut self) -> Checked {
        let steps = if self.is_up() { self.steps_while_up() } else { self.steps_while_down() };
        let total: u64 = steps.iter().map(|(_, weight)| weight).sum();
        let mut chosen = self.machine.random.below(total);
        for (step, weight) in steps {
            if chosen < weight {
                self.take(step)?;
                return self.workload.after_step();
            }
            chosen -= weight;
        }
        Ok(())
    }

    fn steps_while_up(&self) -> Weighted<Step<W::Act>> {
        let weights = &self.machine.plan.weights;
        let storage_fails = self.machine.storage().is_faulty();
        let broken = self.is_broken();
        let or_broken = |weight: u64| if broken { weight.max(60) } else { weight };
        let Acts { engine, outside, surroundings } = self.workload.acts();
        let acts = |acts: Weighted<W::Act>| acts.into_iter().map(|(act, weight)| (Step::Act(act), weight));
        let mut steps = vec![(Step::Partition, when(!self.partitions_that_want().is_empty(), 400))];
        steps.extend(acts(engine));
        steps.extend([
            (Step::Commit, 300),
            (Step::Upkeep, 40),
            (Step::Sync, when(self.machine.plan.sync_interval().is_some(), 30)),
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

    fn steps_while_down(&self) -> Weighted<Step<W::Act>> {
        let weights = &self.machine.plan.weights;
        let mut steps = vec![
            (Step::Start, 60),
            // A machine of a world of several has no time of its own.
            (Step::Time, when(weights.time > 0, 30)),
            (Step::Leap, when(weights.time > 0, 5)),
            (Step::Day, weights.day),
            (Step::Wall, weights.wall),
        ];
        let surroundings = self.workload.acts().surroundings;
        steps.extend(surroundings.into_iter().map(|(act, weight)| (Step::Act(act), weight)));
        steps.extend([
            (Step::StorageFault, weights.storage_fault),
            (Step::End(End::Crash), weights.crash),
            (Step::Doom, weights.doom),
        ]);
        steps
    }

    fn take(&mut self, step: Step<W::Act>) -> Checked {
        match step {
            Step::Partition => {
                let waiting = self.partitions_that_want();
                let chosen = waiting[self.machine.random.below(waiting.len() as u64) as usize];
                let count = self.machine.batch_size();
                return self.workload.step_partition(chosen, count);
            }
            Step::Commit => {
                let any = self.machine.commit();
                self.machine.trace.note(format_args!("commit: {any}"));
                self.notice_end();
                return self.machine.check_bounded(self.workload.partitions().len());
            }
            Step::Outcome => {
                let waiting = self.outcomes_waiting() as u64;
                let index = self.machine.random.below(waiting) as usize;
                return self.tell_outcome(index);
            }
            Step::Audit => {
                let partition = self.workload.any_partition();
                return self.audit(partition);
            }
            Step::AuditAfterACrash => return self.audit_after_a_crash(),
            Step::Stop => return self.stop_well(),
            Step::Start => return self.start(),
            Step::Act(act) => {
                let checked = self.workload.act(act);
                // It may have written files of its own.
                self.notice_end();
                return checked;
            }
            Step::Upkeep => {
                self.machine.upkeep();
                self.notice_end();
            }
            Step::Sync => self.sync(),
            Step::End(end) => self.end_life(end),
            Step::Time => self.let_time_pass(),
            Step::Leap => {
                let ms = 10_000 + self.machine.random.below(7_200_000) as i64;
                self.pass(ms);
            }
            Step::Day => {
                let ms = (DAY_MS / 4 + self.machine.random.below(DAY_MS)) as i64;
                self.pass(ms);
            }
            Step::Wall => self.machine.set_wall(),
            Step::StorageFault => self.machine.fail_storage(),
            Step::Doom => self.machine.doom(),
            Step::Heal => self.machine.heal_storage(),
        }
        Ok(())
    }

    /// Time passes: a little, or to when something is due.
    fn let_time_pass(&mut self) {
        let now = self.machine.now();
        let next = self.workload.next_wakeup(&self.machine).map(|at| at.0.saturating_sub(now.0));
        let random = &self.machine.random;
        let ms = match (random.below(4), next) {
            (0 | 1, Some(next)) if next > 0 && next < W::NEXT_MS_MAX => next,
            (2, _) => 1 + random.below(3_000) as i64,
            _ => 1 + random.below(60) as i64,
        };
        self.pass(ms);
    }

    pub(super) fn pass(&mut self, ms: i64) {
        if self.machine.must_sync_within(ms) {
            self.sync();
        }
        self.machine.pass(ms, self.is_up());
    }

    /// Partitions that the production drivers would step now.
    fn partitions_that_want(&self) -> Vec<PartitionId> {
        let now = self.machine.timers_now();
        let ports = self.ports().filter(|port| port.wants_step(now)).map(AnyPort::id);
        ports.filter(|partition| self.workload.is_drawn(*partition)).collect()
    }
}
