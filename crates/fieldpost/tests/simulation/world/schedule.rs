//! What may happen next, and how likely it is.

use std::sync::PoisonError;

use base::{PartitionId, WayIn};

use super::World;
use crate::harness::storage::End;
use crate::receivers::Mood;
use crate::sabotage::Sabotage;
use crate::violation::{Checked, Invariant};

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Partition,
    Registry,
    Commit,
    Upkeep,
    Sync,
    Outcome,
    Lanes,
    AttemptEnds,
    Reports,
    RegistryCall,
    Attend,
    Time,
    Leap,
    Day,
    Wall,
    Mood,
    End(End),
    Doom,
    Stop,
    StorageFault,
    Heal,
    Audit,
    AuditAfterACrash,
    Start,
}

/// How far the wall clock is set at most, and how far it may be off for it to be set at all.
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
                self.take(step)?;
                return if self.random.chance(1, 20) { self.begin_waiting() } else { Ok(()) };
            }
            chosen -= weight;
        }
        Ok(())
    }

    fn steps_while_up(&self) -> Vec<(Step, u64)> {
        let weights = &self.plan.weights;
        let when = |possible: bool, weight: u64| if possible { weight } else { 0 };
        let storage_fails = self.storage.is_faulty();
        let broken = self.server.as_ref().is_some_and(super::server::Server::is_broken);
        let or_broken = |weight: u64| if broken { weight.max(60) } else { weight };
        vec![
            (Step::Partition, when(!self.partitions_that_want().is_empty(), 400)),
            (Step::Registry, when(self.registry_wants(), 200)),
            (Step::Commit, 300),
            (Step::Upkeep, 40),
            (Step::Sync, when(self.plan.sync_interval().is_some(), 30)),
            (Step::Outcome, when(self.outcomes_waiting() > 0, 300)),
            (Step::Lanes, 150),
            (Step::AttemptEnds, when(!self.over().is_empty(), 200)),
            (Step::Reports, weights.reports),
            (Step::RegistryCall, weights.registry),
            (Step::Attend, weights.attend),
            (Step::Time, weights.time),
            (Step::Leap, weights.leap),
            (Step::Day, weights.day),
            (Step::Wall, weights.wall),
            (Step::Mood, weights.mood),
            (Step::End(End::Crash), weights.crash),
            (Step::End(End::Kill), or_broken(weights.kill)),
            (Step::Doom, weights.doom),
            (Step::Stop, or_broken(weights.stop)),
            (Step::StorageFault, when(!storage_fails, weights.storage_fault)),
            (Step::Heal, when(storage_fails, 20)),
            (Step::Audit, weights.audit),
            (Step::AuditAfterACrash, weights.audit / 3),
        ]
    }

    fn steps_while_down(&self) -> Vec<(Step, u64)> {
        let weights = &self.plan.weights;
        vec![
            (Step::Start, 60),
            (Step::Time, 30),
            (Step::Leap, 5),
            (Step::Day, weights.day),
            (Step::Wall, weights.wall),
            (Step::Mood, weights.mood),
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
            Step::Registry => {
                let count = self.batch_size();
                self.step_registry(count)
            }
            Step::Commit => {
                let any = self.commit();
                self.trace.note(format_args!("commit: {any}"));
                self.notice_end();
                self.storage.is_bounded().map_err(|found| Invariant::Bounded.broken(found))
            }
            Step::Outcome => {
                let index = self.random.below(self.outcomes_waiting() as u64) as usize;
                self.tell_outcome(index)
            }
            Step::Lanes => {
                self.order_stale();
                self.drive_lanes()
            }
            Step::AttemptEnds => {
                let over = self.over();
                let index = over[self.random.below(over.len() as u64) as usize];
                self.end_attempt(index);
                Ok(())
            }
            Step::Audit => {
                let registry = self.random.chance(1, 4);
                let partition = if registry { PartitionId::REGISTRY } else { self.random_partition() };
                self.audit(partition)
            }
            Step::AuditAfterACrash => self.audit_after_a_crash(),
            Step::End(end) => {
                self.end_life(end);
                Ok(())
            }
            Step::Stop => self.stop_well(),
            Step::Start => self.start(),
            other => {
                self.disturb(other);
                Ok(())
            }
        }
    }

    /// What needs no check, because nobody sees anything of it yet.
    fn disturb(&mut self, step: Step) {
        match step {
            Step::Reports => self.hand_in_reports(),
            Step::RegistryCall => self.call_registry(),
            Step::Attend => {
                let ways: Vec<WayIn> = self.ways().collect();
                let way = ways[self.random.below(ways.len() as u64) as usize];
                let attended = self.random.chance(2, 3);
                self.attend(way, attended);
            }
            Step::Upkeep => {
                let any = self.storage.upkeep_step(&mut self.random);
                self.trace.note(format_args!("upkeep: {any}"));
                self.notice_end();
            }
            Step::Sync => self.sync(),
            Step::Time => self.let_time_pass(),
            Step::Leap => {
                let ms = 10_000 + self.random.below(7_200_000) as i64;
                self.pass(ms);
            }
            Step::Day => {
                let ms = (DAY_MS / 4 + self.random.below(DAY_MS)) as i64;
                self.pass(ms);
            }
            Step::Wall => {
                let span = self.random.below(2 * WALL_STEP_MS) as i64 - WALL_STEP_MS as i64;
                // Away from the engine clock only so far: a day would refuse the start.
                let ahead = self.clock.wall_ahead();
                let ms = if ahead.abs() > 2 * WALL_STEP_MS as i64 { -ahead } else { span };
                self.trace.note(format_args!("the wall clock is set by {ms} ms"));
                self.clock.step_wall(ms);
            }
            Step::Mood => {
                let client = self.any_client_id();
                let mood = if self.plan.moods_last { Mood::plain } else { Mood::any }(&mut self.random);
                self.trace.note(format_args!("{client} is {mood:?}"));
                self.receivers.set_mood(&client, mood);
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
    fn let_time_pass(&mut self) {
        let next = self.next_moment().map(|at| at.0 - self.now().0);
        let ms = match (self.random.below(4), next) {
            (0 | 1, Some(next)) if next > 0 => next,
            (2, _) => 1 + self.random.below(3_000) as i64,
            _ => 1 + self.random.below(60) as i64,
        };
        self.pass(ms);
    }

    pub(super) fn pass(&mut self, ms: i64) {
        self.sync_if_due(ms);
        if self.server.is_some() {
            self.clock.pass(ms);
        } else {
            self.clock.pass_down(ms);
        }
        self.trace.note(format_args!("{ms} ms pass, it is {}", self.now().0));
    }

    /// What is not synced is synced before it would be too old.
    fn sync_if_due(&mut self, ms: i64) {
        let due = self.unsynced_since.zip(self.plan.sync_interval());
        if due.is_some_and(|(since, interval)| since.after(interval).0 <= self.now().0 + ms) {
            self.sync();
        }
    }

    /// When somebody who waits for a time has something to do.
    pub(super) fn next_moment(&self) -> Option<base::Timestamp> {
        let now = self.now();
        let server = self.server.as_ref()?;
        let wakes = self.plan.sabotage != Some(Sabotage::DeadlineLost);
        let living = server.partitions.iter().filter(|port| wakes && !port.dead);
        let stale = server.context.devices.stale.next_probe();
        living
            .filter_map(|port| port.runner.next_wakeup(now))
            .chain(self.sending.next_end())
            .chain(stale)
            .chain(server.lanes.next_wakeup())
            .min()
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
        let wakes = self.plan.sabotage != Some(Sabotage::DeadlineLost);
        let now = if wakes { self.now() } else { base::Timestamp(0) };
        let ports = self.server.iter().flat_map(|server| &server.partitions);
        ports.filter(|port| port.wants_step(now)).map(|port| port.runner.id()).collect()
    }

    pub(super) fn registry_wants(&self) -> bool {
        self.server.as_ref().is_some_and(|server| {
            let port = &server.registry;
            !port.dead && port.runner.may_step() && !port.inbox.is_empty()
        })
    }

    pub(super) fn outcomes_waiting(&self) -> usize {
        self.server
            .as_ref()
            .map_or(0, |server| server.outcomes.lock().unwrap_or_else(PoisonError::into_inner).len())
    }
}
