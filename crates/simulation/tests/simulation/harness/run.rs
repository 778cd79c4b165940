//! A run: the scheduler picks one of the steps that are possible, again and again, and the checkers
//! look after each.
//!
//! Everything happens on one thread, and all chance comes from the seed, so a run repeats to the
//! last byte.

use std::rc::Rc;

use base::PartitionId;
use store::Store;

use super::machine::{Machine, MachineCounts};
use super::port::AnyPort;
use super::process::Process;
use super::trace::Trace;
use super::track::Past;
use super::violation::{Checked, Invariant, Violation, unreadable};
use super::workload::{Plan, Stored, Workload};

/// What a run saw: of the machine, and of what ran on it.
pub(crate) type Seen<W> = (MachineCounts, <W as Workload>::Counts);

/// A run under way.
pub(super) struct Run<W> {
    pub(super) machine: Rc<Machine>,
    /// While it is up.
    pub(super) process: Option<Process>,
    pub(super) workload: W,
}

/// Runs a plan from beginning to end.
pub(crate) fn run<W: Workload>(plan: Plan<W::Plan>) -> (Result<Seen<W>, Violation>, Trace) {
    let machine = Rc::new(Machine::new(plan.machine));
    let workload = W::new(plan.workload, &machine);
    let mut run = Run { machine, process: None, workload };
    let result = run.run().map(|()| (run.machine.counts(), run.workload.counts()));
    (result, run.machine.trace.taken())
}

impl<W: Workload> Run<W> {
    fn run(&mut self) -> Checked {
        self.start()?;
        for part in 0.. {
            if !self.workload.begin(part) {
                break;
            }
            self.settle()?;
        }
        for _ in 0..self.machine.plan.steps {
            self.step()?;
        }
        self.come_to_rest()?;
        self.machine.check_rows()
    }

    pub(super) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// All partitions of a process that is up; those first that are not drawn.
    pub(super) fn ports(&self) -> impl Iterator<Item = &dyn AnyPort> {
        let mut partitions = self.workload.partitions();
        partitions.sort_by_key(|partition| self.workload.is_drawn(*partition));
        partitions.into_iter().filter_map(|partition| self.workload.port(partition))
    }

    /// Whether some partition takes nothing more, because its store does not go on.
    pub(super) fn is_broken(&self) -> bool {
        self.ports().any(AnyPort::is_dead)
    }

    /// Compares all that a reader sees of a partition with what the model has at the same batch.
    pub(super) fn audit(&mut self, partition: PartitionId) -> Checked {
        let Some(store) = self.machine.storage().reader() else { return Ok(()) };
        self.machine.count(|counts| counts.audits += 1);
        let checked = self.check_stored(&*store, partition, Past::Life);
        let failed = self.machine.storage().is_faulty() && store.failure().is_some();
        if failed && checked.is_err() {
            self.machine.trace.note(format_args!("the audit of {partition} met a fault of the storage"));
            return Ok(());
        }
        let seq = checked?;
        self.machine.trace.note(format_args!("audit of {partition} at batch {seq}"));
        // It was read: from now on it must stay.
        self.workload.track(partition).shown(seq);
        Ok(())
    }

    pub(super) fn audit_all(&mut self) -> Checked {
        self.workload.partitions().into_iter().try_for_each(|partition| self.audit(partition))
    }

    /// Compares what a crash at this moment would leave with what is durable.
    pub(super) fn audit_after_a_crash(&mut self) -> Checked {
        let store = self.machine.storage().after_a_crash().map_err(|error| {
            let detail = format!("after a crash at this moment the store refuses to open: {error}");
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(detail)
        })?;
        self.machine.count(|counts| counts.audits += 1);
        for partition in self.workload.partitions() {
            self.check_stored(&*store, partition, Past::LossOfPower)?;
        }
        Ok(())
    }

    /// At which batch the partition is.
    fn check_stored(&self, store: &dyn Store, partition: PartitionId, past: Past) -> Checked<u64> {
        let view = store.load(partition).map_err(unreadable)?;
        let seq = view.head().seq;
        self.workload.check_stored(partition, Stored { seq, view, blocks: store.blocks() }, past)?;
        Ok(seq)
    }
}
