//! Lives of the process: it starts, is killed, loses its power, or stops well; and starts again over what is left.

use std::sync::Arc;

use base::{Clock, PartitionId, Timestamp};
use records::Process;
use store::StoreError;

use super::World;
use super::server::Server;
use crate::harness::storage::End;
use crate::tap::Tap;
use crate::violation::{Checked, Invariant};

/// Steps that a clean stop may take: far more than any needs.
const STOP_STEPS_MAX: usize = 10_000;

impl World {
    /// The process starts. With faults of the disk it may not get far, and is started again later.
    pub(super) fn start(&mut self) -> Checked {
        if self.processes > 0 {
            self.check_rows()?;
        }
        match self.try_start() {
            Ok(server) => self.started(server),
            Err(error) => {
                self.trace.note(format_args!("the start fails: {error}"));
                if let Some(end) = self.storage.take_end() {
                    self.trace.note(format_args!("{end:?} while it starts"));
                    self.counts.ends_in_a_start += 1;
                    self.power_may_have_failed(end)?;
                    return Ok(());
                }
                self.counts.refused_opens += 1;
                let excused = self.storage.is_faulty();
                Invariant::DurableBeforeAcknowledged
                    .check(excused, || format!("a disk without faults is refused: {error}"))?;
                self.storage.heal();
                self.storage.kill();
                Ok(())
            }
        }
    }

    fn try_start(&mut self) -> Result<Server, StoreError> {
        let store = self.storage.open()?;
        self.clock.start(store.recorded_now());
        let machine = &self.plan.machine;
        let tap = Tap::new(store, machine.sabotage);
        self.processes += 1;
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Server::start(&tap, clock, &machine.settings, Process(self.processes), self.plan.resident_max)
    }

    fn started(&mut self, server: Server) -> Checked {
        self.trace.note(format_args!("process {} starts at {}", self.processes, self.now().0));
        let loaded = server.tap.take_loaded();
        self.server = Some(server);
        self.closing = false;
        let now = self.now();
        for (partition, head) in loaded {
            self.load_model(partition, head.seq, now)?;
        }
        // An opening makes durable what it finds.
        self.all_synced();
        for partition in self.partitions() {
            self.audit_at_start(partition)?;
        }
        if self.plan.machine.weights.audit > 0 && self.random.chance(1, 3) {
            // What a start shows must be durable, whatever the life before it has left unsynced.
            self.audit_after_a_crash()?;
        }
        Ok(())
    }

    fn audit_at_start(&mut self, partition: PartitionId) -> Checked {
        if self.plan.machine.weights.audit == 0 { Ok(()) } else { self.audit(partition) }
    }

    /// The model of a partition goes back to what was loaded.
    pub(super) fn load_model(&mut self, partition: PartitionId, seq: u64, now: Timestamp) -> Checked {
        let track = &mut self.model[usize::from(partition.queues_index().unwrap_or_default())];
        track.back_to(seq)?;
        track.present.loaded(now, self.clock.wall(), Process(self.processes));
        Ok(())
    }

    /// The process ends without a word.
    pub(super) fn end_life(&mut self, end: End) -> Checked {
        self.trace.note(format_args!("{end:?}"));
        // The disk goes first: a process that dies writes nothing more.
        match end {
            End::Kill => {
                self.counts.kills += 1;
                self.storage.kill();
            }
            End::Crash => {
                self.counts.crashes += 1;
                self.storage.crash(&mut self.random);
            }
        }
        self.ended(end)
    }

    fn ended(&mut self, end: End) -> Checked {
        let done = self.power_may_have_failed(end);
        self.bury();
        done
    }

    /// What was answered and not synced is as if it had never been: nobody can hold it against the server.
    fn power_may_have_failed(&mut self, end: End) -> Checked {
        if end == End::Crash {
            for index in 0..self.model.len() {
                let track = &mut self.model[index];
                track.power_failed();
                let (partition, kept) = (PartitionId::of_queues(index as u16), track.surely_kept());
                self.history.forget_after(partition, kept);
                self.forget_leases_after(partition, kept);
            }
        }
        Ok(())
    }

    /// Syncs what is committed, where the store does so later than it answers.
    pub(super) fn sync(&mut self) -> Checked {
        let synced = self.storage.sync_step();
        if !self.notice_end()? && synced {
            self.trace.note(format_args!("synced"));
            self.all_synced();
        }
        Ok(())
    }

    fn all_synced(&mut self) {
        self.unsynced_since = None;
        self.model.iter_mut().for_each(crate::model::track::Track::synced);
    }

    /// Commits what waits. Whether there was anything.
    pub(super) fn commit(&mut self) -> bool {
        let any = self.storage.commit_step(&mut self.random);
        if any {
            self.unsynced_since.get_or_insert(self.clock.now());
        }
        any
    }

    /// The process may have come to its end within what its store was just asked to do. Whether it has.
    pub(super) fn notice_end(&mut self) -> Checked<bool> {
        let Some(end) = self.storage.take_end() else { return Ok(false) };
        self.trace.note(format_args!("{end:?} in the middle of a step"));
        self.counts.ends_in_a_step += 1;
        self.ended(end)?;
        Ok(true)
    }

    /// Whoever waited for the process waits for nothing.
    fn bury(&mut self) {
        self.server = None;
        self.closing = false;
        for call in std::mem::take(&mut self.calls) {
            self.unanswered(call.then);
        }
        self.expectations.clear();
        self.several.clear();
        self.hung_up.clear();
    }

    /// The process is asked to stop: it finishes what it took, and then ends.
    pub(super) fn stop_well(&mut self) -> Checked {
        self.trace.note(format_args!("stop"));
        for _ in 0..STOP_STEPS_MAX {
            if !self.drain_step()? {
                break;
            }
        }
        self.closing = true;
        let Some(server) = &mut self.server else { return Ok(()) };
        server.doors.iter_mut().for_each(|door| door.port.runner.close());
        for partition in self.partitions() {
            if self.server.as_mut().is_some_and(|server| !server.port(partition).dead) {
                self.step_partition(partition, 0)?;
            }
        }
        for _ in 0..STOP_STEPS_MAX {
            if !self.commit_and_tell()? {
                break;
            }
        }
        if self.server.is_none() {
            // It came to another end.
            return Ok(());
        }
        let settled = self.server.as_ref().is_none_or(Server::is_settled_or_dead);
        Invariant::Bounded.check(settled, || "a clean stop does not come to an end".to_owned())?;
        self.nobody_waits()?;
        self.counts.stops += 1;
        self.bury();
        let synced = self.storage.stop();
        if !self.notice_end()? && synced {
            self.all_synced();
        }
        Ok(())
    }

    /// A clean stop sends every consumer home.
    fn nobody_waits(&self) -> Checked {
        let broken = self.server.as_ref().is_some_and(Server::is_broken);
        let waiting = self.calls.iter().map(|call| call.id).collect::<Vec<_>>();
        Invariant::Bounded
            .check(broken || waiting.is_empty(), || format!("after a clean stop, calls {waiting:?} wait"))
    }

    /// A step of whoever has something left. Whether anybody had.
    fn drain_step(&mut self) -> Checked<bool> {
        let Some(server) = &self.server else { return Ok(false) };
        let waiting = server.ports().find(|port| !port.dead && port.runner.may_step() && port.has_input());
        let waiting = waiting.map(|port| port.runner.id());
        if let Some(partition) = waiting {
            self.step_partition(partition, usize::MAX)?;
            return Ok(true);
        }
        self.commit_and_tell()
    }

    /// A commit, or an outcome. Whether there was either.
    pub(super) fn commit_and_tell(&mut self) -> Checked<bool> {
        if self.outcomes_waiting() > 0 {
            self.tell_outcome(0)?;
            return Ok(true);
        }
        let any = self.commit();
        Ok(any && !self.notice_end()?)
    }
}
