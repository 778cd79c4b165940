//! One of several servers in one world: a machine of its own, with the lives of a process on it.
//! Time is that of the world.

use std::rc::Rc;
use std::sync::Arc;

use base::{Clock, Timestamp};

use super::machine::{Machine, MachinePlan};
use super::process::Process;
use super::rest::STEPS_AT_ONCE_MAX;
use super::run::Run;
use super::storage::{self, End};
use super::trace::Trace;
use super::violation::{Checked, Invariant, unreadable};
use super::workload::{Plan, Workload};

/// A server with all who use it but other servers.
pub(crate) struct Node<W: Workload>(Run<W>);

impl<W: Workload> Node<W> {
    /// On an empty disk, at a time of the world.
    pub(crate) fn new(plan: Plan<W::Plan>, trace: Trace, now: Timestamp) -> Self {
        let machine = Rc::new(Machine::with_trace(plan.machine, trace));
        machine.clock.pass_down(now.0 - machine.now().0);
        let workload = W::new(plan.workload, &machine);
        Self(Run { machine, process: None, workload })
    }

    /// The same with what a backup holds.
    pub(crate) fn restored(
        plan: Plan<W::Plan>,
        trace: Trace,
        (now, backup): (Timestamp, &[u8]),
    ) -> Checked<Self> {
        let node = Self::new(plan, trace, now);
        let machine = &node.0.machine;
        let storage = storage::restored(&machine.plan, &machine.clock, backup).map_err(unreadable)?;
        machine.replace_storage(storage);
        Ok(node)
    }

    pub(crate) fn plan(&self) -> &MachinePlan {
        &self.0.machine.plan
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.machine.clock) as Arc<dyn Clock>
    }

    /// The number of the process that is up.
    pub(crate) fn process(&self) -> Option<u64> {
        self.0.process.as_ref().map(|Process { number, .. }| number.0)
    }

    pub(crate) fn users(&self) -> &W {
        &self.0.workload
    }

    pub(crate) fn users_mut(&mut self) -> &mut W {
        &mut self.0.workload
    }

    /// One of the steps that are possible.
    pub(crate) fn step(&mut self) -> Checked {
        self.0.step()
    }

    /// Time passes, as it does for all.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.0.pass(ms);
    }

    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        self.0.workload.next_wakeup(&self.0.machine)
    }

    /// The process dies, if there is one.
    pub(crate) fn kill(&mut self) {
        if self.0.is_up() {
            self.0.end_life(End::Kill);
        }
    }

    /// A backup of what is durable, where it can be made.
    pub(crate) fn backup(&mut self) -> Option<Vec<u8>> {
        let backup = self.0.machine.storage().backup();
        if self.0.notice_end() { None } else { backup }
    }

    /// Nothing fails from now on, and the process is up.
    pub(crate) fn become_quiet(&mut self) -> Checked {
        self.0.machine.storage().heal();
        self.0.revive()?;
        self.0.workload.become_quiet();
        Ok(())
    }

    /// Does everything that can be done at this moment. Whether there was anything.
    pub(crate) fn settle(&mut self) -> Checked<bool> {
        for steps in 0..STEPS_AT_ONCE_MAX {
            if !self.0.step_at_rest()? {
                return Ok(steps > 0);
            }
            self.0.revive()?;
        }
        Err(Invariant::BOUNDED.broken("there is no end to what a node does at one moment"))
    }

    /// Holds all that is stored, and would be after a crash, against the model.
    pub(crate) fn audit(&mut self) -> Checked {
        self.0.audit_all()?;
        self.0.audit_after_a_crash()?;
        self.0.machine.check_rows()
    }
}
