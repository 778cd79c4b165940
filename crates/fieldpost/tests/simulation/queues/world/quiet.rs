//! The end of a run: nothing new is asked, everybody is well, and what is there is consumed until
//! nothing is left.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::queues::{QueueInput, QueueName};
use records::{JobId, QueueSettings};

use super::World;
use super::server::Server;
use crate::devices::meant::CallId;
use crate::harness::lives::Life;
use crate::harness::schedule::Scheduled;
use crate::harness::storage::End;
use crate::harness::violation::{Checked, Invariant};
use crate::queues::meant::{Asked, Meant};
use crate::queues::model::Partition;

/// Rounds of consuming: more than the longest schedule takes.
const ROUNDS_MAX: usize = 2_000;
/// Steps at one moment: far more than any moment needs.
const STEPS_AT_ONCE_MAX: usize = 100_000;
/// Jobs that a round consumes of a queue.
const AT_ONCE: usize = 50;
/// How long they are reserved: nothing lapses that is acknowledged at the same moment.
const TTR: Duration = Duration::from_secs(60);

impl World {
    /// Lets everything come to rest, and looks at what is there then.
    pub(super) fn become_quiet(&mut self) -> Checked {
        self.machine.storage.heal();
        self.revive()?;
        // A clock that is slewed runs away from the timers by a tenth.
        self.machine.clock.step_wall(-self.machine.clock.wall_ahead());
        self.machine.trace.note(format_args!("quiet from now on"));
        // Nobody is told that the wall clock was set: something has all partitions look at it.
        self.pass_on(self.plan.queues.clone());
        self.settle()?;
        self.is_quiet = true;
        self.audit_all()?;
        for queue in self.plan.queues.clone() {
            self.ask_figures(&queue);
            self.ask_dead(&queue);
            self.pause(&queue, false);
            self.set(&queue, QueueSettings::default());
        }
        self.settle()?;
        self.end_schedules()?;
        for _ in 0..ROUNDS_MAX {
            if self.is_all_consumed() {
                return self.check_rest();
            }
            self.consume_all()?;
            // One may have waited behind another.
            self.end_schedules()?;
        }
        let left: Vec<_> = self.jobs_left().collect();
        Err(Invariant::NeverEarlyHardlyLate.broken(format!("some jobs are never consumed: {left:?}")))
    }

    /// Recurring jobs without end are cancelled.
    fn end_schedules(&mut self) -> Checked {
        let endless: Vec<(QueueName, JobId)> = self
            .jobs_left()
            .filter(|(_, job)| job.again.as_ref().is_some_and(|again| again.left.is_none()))
            .map(|(queue, job)| (queue.clone(), job.id))
            .collect();
        for (queue, job) in endless {
            self.cancel(&queue, job);
        }
        self.settle()
    }

    fn jobs_left(&self) -> impl Iterator<Item = (&QueueName, &crate::queues::model::job::Job)> {
        let queues = self.model.iter().flat_map(|track| &track.present.queues);
        queues.flat_map(|(name, queue)| queue.jobs.iter().map(move |job| (name, job)))
    }

    fn is_all_consumed(&self) -> bool {
        self.jobs_left().next().is_none()
    }

    /// Everything that is ready is consumed and done, and then time passes until something else is.
    fn consume_all(&mut self) -> Checked {
        for queue in self.plan.queues.clone() {
            let asked = Asked { max: AT_ONCE, ttr: TTR, until: self.now(), process: None };
            self.consume_from(&queue, asked, None);
        }
        self.settle()?;
        let before = self.holdings.len();
        for holding in std::mem::take(&mut self.holdings) {
            if holding.until > self.now() {
                self.acknowledge(std::slice::from_ref(&holding), &holding.queue);
            }
        }
        self.settle()?;
        if before == 0 {
            let next = self.next_moment().map_or(1, |at| at.0.saturating_sub(self.now().0));
            self.pass(next.clamp(1, 3_600_000));
        }
        self.settle()
    }

    /// The process is up and well.
    fn revive(&mut self) -> Checked {
        for _ in 0..10 {
            if self.server.as_ref().is_some_and(|server| !server.is_broken()) {
                return Ok(());
            }
            self.machine.storage.heal();
            if self.server.is_some() {
                self.end_life(End::Kill);
            }
            self.start()?;
        }
        Err(Invariant::DurableBeforeAcknowledged.broken("the server does not start on a disk that is well"))
    }

    /// Does everything that can be done at this moment.
    fn settle(&mut self) -> Checked {
        for _ in 0..STEPS_AT_ONCE_MAX {
            if !self.step_at_rest()? && !self.nudge() {
                return self.nobody_waits_in_vain();
            }
            self.revive()?;
        }
        Err(Invariant::Bounded.broken("there is no end to what is to be done at one moment"))
    }

    /// Where most jobs are parked, one that is ready may be read in for who waits only with the
    /// next step, whatever brings that: something does, once for each consumer. Whether anybody
    /// needed it.
    fn nudge(&mut self) -> bool {
        if !self.plan.is_parking() {
            return false;
        }
        let waiting: Vec<CallId> = self.calls.iter().map(|call| call.id).collect();
        let overdue =
            |track: &crate::devices::model::track::Track<Partition>| track.present.clone().overdue();
        let overdue: Vec<CallId> = self.model.iter().flat_map(overdue).collect();
        let stuck = overdue.into_iter().find(|call| waiting.contains(call) && !self.nudged.contains(call));
        let Some(call) = stuck else { return false };
        self.nudged.insert(call);
        for queue in self.plan.queues.clone() {
            let partition = self.partition_of(&queue);
            let _not_accepting = self.hand_in(partition, QueueInput::PassOn(queue), Meant::PassOn);
        }
        true
    }

    fn step_at_rest(&mut self) -> Checked<bool> {
        if let Some(partition) = self.partitions_that_want().first() {
            self.step_partition(*partition, usize::MAX)?;
            return Ok(true);
        }
        self.commit_and_tell()
    }

    /// Nobody waits for jobs while there are some that it may have, and old dead letters are gone.
    fn nobody_waits_in_vain(&mut self) -> Checked {
        for track in &self.model {
            let mut model = track.present.clone();
            let overdue = model.overdue();
            let waiting: Vec<_> =
                overdue.iter().filter(|call| self.calls.iter().any(|known| known.id == **call)).collect();
            Invariant::NeverEarlyHardlyLate.check(waiting.is_empty(), || {
                format!("calls {waiting:?} wait while there is something for them")
            })?;
            Invariant::Bounded
                .check(!model.keeps_old_dead(), || "dead letters are kept for too long".to_owned())?;
            Invariant::Bounded
                .check(!model.keeps_expired(), || "jobs are there that have expired".to_owned())?;
        }
        Ok(())
    }

    fn audit_all(&mut self) -> Checked {
        for partition in self.partitions() {
            self.audit(partition)?;
        }
        self.audit_after_a_crash()
    }

    fn check_rest(&mut self) -> Checked {
        let settled = self.server.as_ref().is_some_and(Server::is_settled);
        Invariant::Bounded.check(settled, || "no rest is found".to_owned())?;
        for queue in self.plan.queues.clone() {
            self.ask_figures(&queue);
            self.ask_dead(&queue);
        }
        self.settle()?;
        self.audit_all()?;
        let queues = self.model.iter().flat_map(|track| track.present.queues.values());
        let dead: BTreeSet<JobId> = queues.flat_map(|queue| queue.dead.iter().map(|dead| dead.id)).collect();
        self.history.is_settled(&dead)
    }
}
