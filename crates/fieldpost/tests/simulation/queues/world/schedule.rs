//! What may happen next, and how likely it is.

use std::sync::PoisonError;

use base::PartitionId;

use super::World;
use super::server::Server;
use crate::harness::storage::End;
use crate::sabotage::Sabotage;
use crate::violation::{Checked, Invariant};

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Partition,
    Commit,
    Upkeep,
    Sync,
    Outcome,
    Publish,
    Consume,
    Work,
    Touch,
    Manage,
    HangUp,
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
}

/// How far the wall clock is set at most.
const WALL_STEP_MS: u64 = 3_600_000;
/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 3_600_000;

impl World {
    /// One step of the run.
    pub(super) fn step(&mut self) -> Checked {
        let steps = if self.server.is_some() { self.steps_while_up() } else { self.steps_while_down() };
        let total: u64 = steps.iter().map(|(_, weight)| weight).sum();
        let mut chosen = self.random.below(total);
        for (step, weight) in steps {
            if chosen < weight {
                return self.take(step);
            }
            chosen -= weight;
        }
        Ok(())
    }

    fn steps_while_up(&self) -> Vec<(Step, u64)> {
        let (machine, users) = (&self.plan.machine.weights, &self.plan.weights);
        let when = |possible: bool, weight: u64| if possible { weight } else { 0 };
        let storage_fails = self.storage.is_faulty();
        let broken = self.server.as_ref().is_some_and(Server::is_broken);
        let or_broken = |weight: u64| if broken { weight.max(60) } else { weight };
        vec![
            (Step::Partition, when(!self.partitions_that_want().is_empty(), 400)),
            (Step::Commit, 300),
            (Step::Upkeep, 40),
            (Step::Sync, when(self.plan.machine.sync_interval().is_some(), 30)),
            (Step::Outcome, when(self.outcomes_waiting() > 0, 300)),
            (Step::Publish, users.publish),
            (Step::Consume, users.consume),
            (Step::Work, when(!self.holdings.is_empty(), users.work)),
            (Step::Touch, users.touch),
            (Step::Manage, users.manage),
            (Step::HangUp, 4),
            (Step::Time, machine.time),
            (Step::Leap, machine.leap),
            (Step::Day, machine.day),
            (Step::Wall, machine.wall),
            (Step::End(End::Crash), machine.crash),
            (Step::End(End::Kill), or_broken(machine.kill)),
            (Step::Doom, machine.doom),
            (Step::Stop, or_broken(machine.stop)),
            (Step::StorageFault, when(!storage_fails, machine.storage_fault)),
            (Step::Heal, when(storage_fails, 20)),
            (Step::Audit, machine.audit),
            (Step::AuditAfterACrash, machine.audit / 3),
        ]
    }

    fn steps_while_down(&self) -> Vec<(Step, u64)> {
        let weights = &self.plan.machine.weights;
        vec![
            (Step::Start, 60),
            (Step::Time, 30),
            (Step::Leap, 5),
            (Step::Day, weights.day),
            (Step::Wall, weights.wall),
            (Step::StorageFault, weights.storage_fault),
            (Step::End(End::Crash), weights.crash),
            (Step::Doom, weights.doom),
        ]
    }

    fn take(&mut self, step: Step) -> Checked {
        match step {
            Step::Partition => {
                let waiting = self.partitions_that_want();
                let chosen = waiting[self.random.below(waiting.len() as u64) as usize];
                let count = self.batch_size();
                self.step_partition(chosen, count)
            }
            Step::Commit => {
                let any = self.commit();
                self.trace.note(format_args!("commit: {any}"));
                self.notice_end()?;
                self.storage.is_bounded().map_err(|found| Invariant::Bounded.broken(found))
            }
            Step::Upkeep => {
                let any = self.storage.upkeep_step(&mut self.random);
                self.trace.note(format_args!("upkeep: {any}"));
                self.notice_end().map(drop)
            }
            Step::Sync => self.sync(),
            Step::Outcome => {
                let index = self.random.below(self.outcomes_waiting() as u64) as usize;
                self.tell_outcome(index)
            }
            Step::Audit => {
                let index = self.random.below(u64::from(self.plan.machine.partitions));
                self.audit(PartitionId::of_queues(index as u16))
            }
            Step::AuditAfterACrash => self.audit_after_a_crash(),
            Step::End(end) => self.end_life(end),
            Step::Stop => self.stop_well(),
            Step::Start => self.start(),
            Step::Time => self.let_time_pass(),
            Step::Leap => {
                let ms = 10_000 + self.random.below(7_200_000) as i64;
                self.pass(ms)
            }
            Step::Day => {
                let ms = (DAY_MS / 4 + self.random.below(DAY_MS)) as i64;
                self.pass(ms)
            }
            other => {
                self.act(other);
                Ok(())
            }
        }
    }

    /// What needs no check, because nobody sees anything of it yet.
    fn act(&mut self, step: Step) {
        match step {
            Step::Publish => self.publish(),
            Step::Consume => self.consume(),
            Step::Work => self.work(),
            Step::Touch => self.touch(),
            Step::Manage => self.manage(),
            Step::HangUp => self.hang_up(),
            Step::Wall => {
                let span = self.random.below(2 * WALL_STEP_MS) as i64 - WALL_STEP_MS as i64;
                // Away from the engine clock only so far: a day would refuse the start.
                let ahead = self.clock.wall_ahead();
                let ms = if ahead.abs() > 2 * WALL_STEP_MS as i64 { -ahead } else { span };
                self.trace.note(format_args!("the wall clock is set by {ms} ms"));
                self.clock.step_wall(ms);
            }
            Step::StorageFault => {
                let fault = self.storage.fault(&mut self.random);
                self.trace.note(format_args!("storage: {fault}"));
            }
            Step::Doom => {
                let doom = self.storage.doom(&mut self.random);
                self.trace.note(format_args!("storage: {doom}"));
            }
            Step::Heal => {
                self.trace.note(format_args!("storage heals"));
                self.storage.heal();
            }
            _ => {}
        }
    }

    /// Time passes: a little, or to when something is due.
    fn let_time_pass(&mut self) -> Checked {
        let next = self.next_moment().map(|at| at.0.saturating_sub(self.now().0));
        let ms = match (self.random.below(4), next) {
            (0 | 1, Some(next)) if next > 0 && next < DAY_MS as i64 => next,
            (2, _) => 1 + self.random.below(3_000) as i64,
            _ => 1 + self.random.below(60) as i64,
        };
        self.pass(ms)
    }

    pub(super) fn pass(&mut self, ms: i64) -> Checked {
        let due = self.unsynced_since.zip(self.plan.machine.sync_interval());
        if due.is_some_and(|(since, interval)| since.after(interval).0 <= self.now().0 + ms) {
            self.sync()?;
        }
        if self.server.is_some() {
            self.clock.pass(ms);
        } else {
            self.clock.pass_down(ms);
        }
        self.trace.note(format_args!("{ms} ms pass, it is {}", self.now().0));
        Ok(())
    }

    /// When some partition has something to do.
    pub(super) fn next_moment(&self) -> Option<base::Timestamp> {
        let now = self.now();
        let wakes = self.plan.machine.sabotage != Some(Sabotage::DeadlineLost);
        let living = self.server.as_ref()?.ports().filter(|port| wakes && !port.dead);
        living.filter_map(|port| port.runner.next_wakeup(now)).min()
    }

    /// How many inputs a step takes: mostly few, sometimes all.
    fn batch_size(&mut self) -> usize {
        match self.random.below(4) {
            0 => usize::MAX,
            1 => 1,
            _ => 1 + self.random.below(6) as usize,
        }
    }

    pub(super) fn partitions_that_want(&self) -> Vec<PartitionId> {
        let wakes = self.plan.machine.sabotage != Some(Sabotage::DeadlineLost);
        let now = if wakes { self.now() } else { base::Timestamp(0) };
        let ports = self.server.iter().flat_map(Server::ports);
        ports.filter(|port| port.wants_step(now)).map(|port| port.runner.id()).collect()
    }

    pub(super) fn outcomes_waiting(&self) -> usize {
        self.server
            .as_ref()
            .map_or(0, |server| server.outcomes.lock().unwrap_or_else(PoisonError::into_inner).len())
    }
}
