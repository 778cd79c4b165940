//! Lives of the process: it starts, is killed, loses its power, or stops well; and starts again
//! over what is left.

use std::sync::Arc;

use base::Clock;
use store::StoreError;

use super::port::{AnyPort, Outcome};
use super::process::Process;
use super::run::Run;
use super::storage::End;
use super::store_spy::{Ending, StoreSpy};
use super::violation::{Checked, Invariant};
use super::workload::Workload;

/// Steps that a clean stop may take: far more than any needs.
const STOP_STEPS_MAX: usize = 10_000;

impl<W: Workload> Run<W> {
    /// The process starts. With faults of the disk it may not get far, and is started again later.
    pub(super) fn start(&mut self) -> Checked {
        if self.machine.processes() > 0 {
            self.machine.check_rows()?;
        }
        let error = match self.try_start() {
            Ok(process) => return self.started(process),
            Err(error) => error,
        };
        self.workload.bury();
        self.machine.trace.note(format_args!("the start fails: {error}"));
        let end = self.machine.storage().take_end();
        if let Some(end) = end {
            self.machine.trace.note(format_args!("{end:?} while it starts"));
            self.machine.count(|counts| counts.ends_in_a_start += 1);
            if end == End::Crash {
                self.power_failed();
            }
            return Ok(());
        }
        self.machine.count(|counts| counts.refused_opens += 1);
        let mut storage = self.machine.storage();
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED
            .check(storage.is_faulty(), || format!("a disk without faults is refused: {error}"))?;
        storage.heal();
        storage.kill();
        Ok(())
    }

    fn try_start(&mut self) -> Result<Process, StoreError> {
        let store = self.machine.storage().open()?;
        self.machine.clock.start(store.recorded_now());
        let spy = StoreSpy::new(store, self.machine.plan.injected);
        let clock = Arc::clone(&self.machine.clock) as Arc<dyn Clock>;
        let process = Process::new(self.machine.next_process(), spy, clock);
        self.workload.load(&process)?;
        Ok(process)
    }

    /// The process is up; the model goes to where the store is.
    fn started(&mut self, process: Process) -> Checked {
        let (machine, loaded) = (&self.machine, process.spy.take_loaded());
        machine.trace.note(format_args!("process {} starts at {}", process.number.0, machine.now().0));
        self.process = Some(process);
        for (partition, head) in loaded {
            self.machine.trace.note(format_args!("{partition} is loaded at batch {}", head.seq));
            self.workload.loaded(partition, head.seq, true)?;
        }
        // An opening makes durable what it finds.
        self.all_synced();
        if self.machine.plan.audits_starts {
            self.audit_all()?;
            if self.machine.random.chance(1, 3) {
                // What a start shows must be durable, whatever the life before it has left
                // unsynced.
                self.audit_after_a_crash()?;
            }
        }
        self.workload.started()
    }

    /// The process ends without a word.
    pub(super) fn end_life(&mut self, end: End) {
        let machine = &self.machine;
        machine.trace.note(format_args!("{end:?}"));
        // The disk goes first: a process that dies writes nothing more.
        match end {
            End::Kill => {
                machine.count(|counts| counts.kills += 1);
                machine.storage().kill();
            }
            End::Crash => {
                machine.count(|counts| counts.crashes += 1);
                machine.storage().crash(&mut machine.random.numbers());
            }
        }
        self.ended(end);
    }

    fn ended(&mut self, end: End) {
        if end == End::Crash {
            self.power_failed();
        }
        self.bury();
    }

    /// What was answered and not synced is as if it had never been.
    fn power_failed(&mut self) {
        for partition in self.workload.partitions() {
            let (kept, taken) = self.workload.track(partition).power_failed();
            self.machine.count(|counts| counts.taken_by_power += taken);
            self.workload.power_failed(partition, kept);
        }
    }

    fn bury(&mut self) {
        self.process = None;
        self.workload.bury();
    }

    /// The process may have come to its end within what its store was just asked to do. Whether it
    /// has.
    pub(super) fn notice_end(&mut self) -> bool {
        let Some(end) = self.machine.storage().take_end() else { return false };
        self.machine.trace.note(format_args!("{end:?} in the middle of a step"));
        self.machine.count(|counts| counts.ends_in_a_step += 1);
        self.ended(end);
        true
    }

    /// Syncs what is committed, where the store does so later than it answers.
    pub(super) fn sync(&mut self) {
        let synced = self.machine.storage().sync_step();
        if !self.notice_end() && synced {
            self.machine.trace.note(format_args!("synced"));
            self.all_synced();
        }
    }

    fn all_synced(&mut self) {
        self.machine.synced();
        for partition in self.workload.partitions() {
            self.workload.track(partition).synced();
        }
    }

    /// The process is asked to stop: it finishes what it took, and then ends.
    pub(super) fn stop_well(&mut self) -> Checked {
        self.machine.trace.note(format_args!("stop"));
        for _ in 0..STOP_STEPS_MAX {
            if !self.drain_step()? {
                break;
            }
        }
        // It may come to another end at any moment.
        if self.is_up() {
            self.close()?;
        }
        for _ in 0..STOP_STEPS_MAX {
            if !self.commit_and_tell()? {
                break;
            }
        }
        if !self.is_up() {
            return Ok(());
        }
        let settled = self.ports().all(|port| port.is_dead() || port.is_settled());
        Invariant::BOUNDED.check(settled, || "a clean stop does not come to an end".to_owned())?;
        self.workload.check_stopped()?;
        self.machine.count(|counts| counts.stops += 1);
        self.bury();
        let synced = self.machine.storage().stop();
        if !self.notice_end() && synced {
            self.all_synced();
        }
        Ok(())
    }

    /// Nobody takes inputs any more; each takes its last step.
    fn close(&mut self) -> Checked {
        self.workload.closing();
        let mut partitions = self.workload.partitions();
        partitions.retain(|partition| self.workload.is_drawn(*partition));
        for partition in &partitions {
            if let Some(port) = self.workload.port_mut(*partition) {
                port.close();
            }
        }
        for partition in partitions {
            if self.workload.port(partition).is_some_and(|port| !port.is_dead()) {
                self.workload.step_partition(partition, 0)?;
            }
        }
        Ok(())
    }

    /// A step of whoever has something left. Whether anybody had.
    fn drain_step(&mut self) -> Checked<bool> {
        let waiting = self.ports().find(|port| port.may_take_input()).map(AnyPort::id);
        match waiting {
            Some(partition) => self.workload.step_partition(partition, usize::MAX).map(|()| true),
            None => self.commit_and_tell(),
        }
    }

    /// A commit, or an outcome. Whether there was either.
    pub(super) fn commit_and_tell(&mut self) -> Checked<bool> {
        if self.outcomes_waiting() > 0 {
            return self.tell_outcome(0).map(|()| true);
        }
        Ok(self.is_up() && self.machine.commit() && !self.notice_end())
    }

    /// Outcomes of commits that are known and not told yet.
    pub(super) fn outcomes_waiting(&self) -> usize {
        self.process.as_ref().map_or(0, |process| process.outcomes.waiting())
    }

    /// Tells a partition the outcome at `index`; those of one partition keep their order. One that
    /// was loaded again of it goes back to what the store has. One that has stopped hears nothing:
    /// its driver, which listens for outcomes, has ended, and nobody is answered any more.
    pub(super) fn tell_outcome(&mut self, index: usize) -> Checked {
        let Some(process) = &self.process else { return Ok(()) };
        let Some(outcome) = process.outcomes.take(index) else { return Ok(()) };
        let Outcome { partition, seq, ending, result } = outcome;
        let trace = &self.machine.trace;
        if let Some(port) = self.workload.port_mut(partition).filter(|port| !port.is_dead()) {
            trace.note(format_args!("{partition} is told of batch {seq}: {ending:?}"));
            port.tell(result, ending, trace);
            if ending == Ending::Durable && !port.is_dead() {
                self.workload.track(partition).shown(seq);
            }
        } else {
            trace.note(format_args!("nobody is told of batch {seq} of {partition}: {ending:?}"));
        }
        for (partition, head) in process.spy.take_loaded() {
            self.machine.count(|counts| counts.reloads += 1);
            self.machine.trace.note(format_args!("{partition} is loaded again at batch {}", head.seq));
            self.workload.loaded(partition, head.seq, false)?;
        }
        self.workload.told()
    }
}
