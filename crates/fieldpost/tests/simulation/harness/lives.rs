//! Lives of the process: it starts, is killed, loses its power, or stops well; and starts again
//! over what is left.

use std::sync::Arc;

use base::{Clock, PartitionId};
use records::Process;
use store::StoreError;

use super::machine::Machine;
use super::storage::End;
use crate::harness::store_spy::StoreSpy;
use crate::harness::violation::{Checked, Invariant};

/// Steps that a clean stop may take: far more than any needs.
const STOP_STEPS_MAX: usize = 10_000;

/// A workload as far as its process lives and dies.
pub(crate) trait Life {
    /// The process while it is up.
    type Server;

    fn machine(&self) -> &Machine;

    fn machine_mut(&mut self) -> &mut Machine;

    fn is_up(&self) -> bool;

    /// Before a process is loaded over a store that opened.
    fn before_load(&mut self) {}

    /// Loads the process.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(
        &mut self,
        spy: &Arc<StoreSpy>,
        clock: Arc<dyn Clock>,
        process: Process,
    ) -> Result<Self::Server, StoreError>;

    /// The process is up; the model goes to where the store is.
    fn started(&mut self, server: Self::Server) -> Checked;

    /// The power has failed: what was answered and not synced is as if it had never been.
    fn power_failed(&mut self);

    /// What is committed is synced.
    fn synced(&mut self);

    /// The process is gone. Whoever waited for it waits for nothing.
    fn bury(&mut self);

    /// One step of a partition over at most so many inputs.
    fn step_partition(&mut self, partition: PartitionId, count: usize) -> Checked;

    /// A step of whoever has an input left, over all of them. Whether anybody had.
    fn drain_inputs(&mut self) -> Checked<bool>;

    /// No input is taken from now on.
    fn close(&mut self);

    /// Partitions that may still step.
    fn living(&self) -> Vec<PartitionId>;

    /// Whether everybody who is not dead is settled.
    fn is_settled_or_dead(&self) -> bool;

    /// After a clean stop, before the process is gone.
    fn check_stopped(&self) -> Checked {
        Ok(())
    }

    /// Outcomes of commits that are known and not told yet.
    fn outcomes_waiting(&self) -> usize;

    /// Tells a partition the outcome at `index`; those of one partition keep their order.
    fn tell_outcome(&mut self, index: usize) -> Checked;

    /// Compares what a crash at this moment would leave with what is durable.
    fn audit_after_a_crash(&mut self) -> Checked;

    /// The process starts. With faults of the disk it may not get far, and is started again later.
    fn start(&mut self) -> Checked {
        if self.machine().processes > 0 {
            self.machine_mut().check_rows()?;
        }
        let error = match self.try_start() {
            Ok(server) => return self.started(server),
            Err(error) => error,
        };
        let machine = self.machine_mut();
        machine.trace.note(format_args!("the start fails: {error}"));
        if let Some(end) = machine.storage.take_end() {
            machine.trace.note(format_args!("{end:?} while it starts"));
            machine.counts.ends_in_a_start += 1;
            if end == End::Crash {
                self.power_failed();
            }
            return Ok(());
        }
        machine.counts.refused_opens += 1;
        let excused = machine.storage.is_faulty();
        Invariant::DurableBeforeAcknowledged
            .check(excused, || format!("a disk without faults is refused: {error}"))?;
        machine.storage.heal();
        machine.storage.kill();
        Ok(())
    }

    fn try_start(&mut self) -> Result<Self::Server, StoreError> {
        let machine = self.machine_mut();
        let store = machine.storage.open()?;
        machine.clock.start(store.recorded_now());
        self.before_load();
        let machine = self.machine_mut();
        let spy = StoreSpy::new(store, machine.plan.injected);
        machine.processes += 1;
        let clock = Arc::clone(&machine.clock) as Arc<dyn Clock>;
        let process = Process(machine.processes);
        self.load(&spy, clock, process)
    }

    /// The process ends without a word.
    fn end_life(&mut self, end: End) {
        let machine = self.machine_mut();
        machine.trace.note(format_args!("{end:?}"));
        // The disk goes first: a process that dies writes nothing more.
        match end {
            End::Kill => {
                machine.counts.kills += 1;
                machine.storage.kill();
            }
            End::Crash => {
                machine.counts.crashes += 1;
                machine.storage.crash(&mut machine.random);
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

    /// The process may have come to its end within what its store was just asked to do. Whether it
    /// has.
    fn notice_end(&mut self) -> bool {
        let machine = self.machine_mut();
        let Some(end) = machine.storage.take_end() else { return false };
        machine.trace.note(format_args!("{end:?} in the middle of a step"));
        machine.counts.ends_in_a_step += 1;
        self.ended(end);
        true
    }

    /// Syncs what is committed, where the store does so later than it answers.
    fn sync(&mut self) {
        let synced = self.machine_mut().storage.sync_step();
        if !self.notice_end() && synced {
            self.machine_mut().trace.note(format_args!("synced"));
            self.all_synced();
        }
    }

    fn all_synced(&mut self) {
        self.machine_mut().unsynced_since = None;
        self.synced();
    }

    /// The process is asked to stop: it finishes what it took, and then ends.
    fn stop_well(&mut self) -> Checked {
        self.machine_mut().trace.note(format_args!("stop"));
        for _ in 0..STOP_STEPS_MAX {
            if !self.drain_step()? {
                break;
            }
        }
        self.close();
        for partition in self.living() {
            // One that died of another's step takes none.
            if self.living().contains(&partition) {
                self.step_partition(partition, 0)?;
            }
        }
        for _ in 0..STOP_STEPS_MAX {
            if !self.commit_and_tell()? {
                break;
            }
        }
        if !self.is_up() {
            // It came to another end.
            return Ok(());
        }
        let settled = self.is_settled_or_dead();
        Invariant::Bounded.check(settled, || "a clean stop does not come to an end".to_owned())?;
        self.check_stopped()?;
        self.machine_mut().counts.stops += 1;
        self.bury();
        let synced = self.machine_mut().storage.stop();
        if !self.notice_end() && synced {
            self.all_synced();
        }
        Ok(())
    }

    /// A step of whoever has something left. Whether anybody had.
    fn drain_step(&mut self) -> Checked<bool> {
        if !self.is_up() {
            return Ok(false);
        }
        if self.drain_inputs()? { Ok(true) } else { self.commit_and_tell() }
    }

    /// A commit, or an outcome. Whether there was either.
    fn commit_and_tell(&mut self) -> Checked<bool> {
        if self.outcomes_waiting() > 0 {
            self.tell_outcome(0)?;
            return Ok(true);
        }
        let any = self.machine_mut().commit();
        Ok(any && !self.notice_end())
    }
}
