//! The end of a run: nothing new is asked, everybody is well, and after a while nothing may be left
//! to do.

use super::port::AnyPort;
use super::run::Run;
use super::storage::End;
use super::violation::{Checked, Invariant};
use super::workload::{Rest, Workload};

/// Starts that a machine without faults may take.
const STARTS_MAX: usize = 10;
/// Steps at one moment: far more than any moment needs.
pub(super) const STEPS_AT_ONCE_MAX: usize = 100_000;
/// How much time passes at most before somebody looks again, in milliseconds.
const PASS_MS_MAX: i64 = 3_600_000;

impl<W: Workload> Run<W> {
    /// Lets everything come to rest, and looks at what is there then.
    pub(super) fn come_to_rest(&mut self) -> Checked {
        self.machine.storage().heal();
        self.revive()?;
        // A clock that is slewed runs away from the timers by a tenth.
        self.machine.clock.step_wall(-self.machine.clock.wall_ahead());
        self.machine.trace.note(format_args!("quiet from now on"));
        self.workload.become_quiet();
        self.settle()?;
        self.audit_all()?;
        loop {
            match self.workload.rest()? {
                Rest::Found => return self.check_rest(),
                Rest::Asked => self.settle()?,
                Rest::Waits(ms) => self.wait(ms)?,
            }
        }
    }

    fn check_rest(&mut self) -> Checked {
        let settled = self.is_up() && self.ports().all(AnyPort::is_settled);
        Invariant::BOUNDED.check(settled, || "no rest is found".to_owned())?;
        self.audit_all()?;
        self.audit_after_a_crash()?;
        self.workload.check_rest()
    }

    /// So much time passes; what comes due meanwhile is done when it does.
    fn wait(&mut self, ms: i64) -> Checked {
        let until = self.machine.now().0 + ms.clamp(1, PASS_MS_MAX);
        while self.machine.now().0 < until {
            let now = self.machine.now().0;
            let next = self.workload.next_wakeup(&self.machine).map_or(until, |next| next.0.min(until));
            self.pass((next - now).max(1));
            self.settle()?;
        }
        Ok(())
    }

    /// The process is up and well. No partition knows of a store that failed under a read. And
    /// nobody has noticed an end of the process in what it did with its disk beside the store.
    pub(super) fn revive(&mut self) -> Checked {
        self.notice_end();
        for _ in 0..STARTS_MAX {
            if self.is_up() && !self.is_broken() && self.machine.storage().reader().is_some() {
                return Ok(());
            }
            self.machine.storage().heal();
            if self.is_up() {
                self.end_life(End::Kill);
            }
            self.start()?;
        }
        Err(Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken("the server does not start on a disk that is well"))
    }

    /// Does everything that can be done at this moment.
    pub(super) fn settle(&mut self) -> Checked {
        for _ in 0..STEPS_AT_ONCE_MAX {
            if !self.step_at_rest()? {
                return self.workload.check_settled();
            }
            self.revive()?;
        }
        Err(Invariant::BOUNDED.broken("there is no end to what is to be done at one moment"))
    }

    pub(super) fn step_at_rest(&mut self) -> Checked<bool> {
        let now = self.machine.timers_now();
        let first = self.ports().find(|port| port.wants_step(now)).map(AnyPort::id);
        if let Some(partition) = first {
            return self.workload.step_partition(partition, usize::MAX).map(|()| true);
        }
        Ok(self.commit_and_tell()? || self.workload.act_at_rest()?)
    }
}
