//! The end of a run: nothing new is asked, everybody is well, and what is there is consumed until
//! nothing is left.

use std::time::Duration;

use engine::queues::{QueueInput, QueueName};
use records::{JobId, QueueSettings};

use super::World;
use crate::harness::calls::CallId;
use crate::harness::violation::{Checked, Invariant};
use crate::harness::workload::{Rest, Workload};
use crate::queues::meant::{Asked, Meant};
use crate::queues::model::Partition;
use crate::queues::model::job::Job;

/// Rounds of consuming: more than the longest schedule takes.
const ROUNDS_MAX: u64 = 2_000;
/// Jobs that a round consumes of a queue.
const AT_ONCE: usize = 50;
/// How long they are reserved: nothing lapses that is acknowledged at the same moment.
const TTR: Duration = Duration::from_secs(60);

/// How far a run is with coming to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is not: things are asked for.
    Busy,
    /// Queues are set so that all can be consumed.
    Setting,
    /// Schedules without end are cancelled, in so many rounds until now: one may have waited behind
    /// another.
    Ending(u64),
    /// What is ready is consumed,
    Consuming(u64),
    /// and done.
    Acknowledging(u64),
    /// Nothing is left.
    Done,
}

impl World {
    /// Everything that is ready is consumed and done, and then time passes until something else is.
    pub(super) fn consume_all(&mut self) -> Checked<Rest> {
        match self.phase {
            Phase::Busy => {
                self.ask_about_all();
                self.phase = Phase::Setting;
            }
            Phase::Setting => {
                for queue in self.queues.clone() {
                    self.pause(&queue, false);
                    self.set(&queue, QueueSettings::default());
                }
                self.phase = Phase::Ending(0);
            }
            Phase::Ending(round) => {
                self.end_schedules();
                self.phase = Phase::Consuming(round + 1);
            }
            Phase::Consuming(_) if self.jobs_left().next().is_none() => {
                self.ask_about_all();
                self.phase = Phase::Done;
            }
            Phase::Consuming(round) => {
                let left = || self.jobs_left().collect::<Vec<_>>();
                Invariant::NEVER_EARLY_HARDLY_LATE
                    .check(round <= ROUNDS_MAX, || format!("some jobs are never consumed: {:?}", left()))?;
                for queue in self.queues.clone() {
                    let asked = Asked { max: AT_ONCE, ttr: TTR, until: self.now(), process: None };
                    self.consume_from(&queue, asked, None);
                }
                self.phase = Phase::Acknowledging(round);
            }
            Phase::Acknowledging(round) => {
                self.phase = Phase::Ending(round);
                let holdings = std::mem::take(&mut self.holdings);
                if holdings.is_empty() {
                    return Ok(Rest::Waits(self.ms_to_next(&self.machine).unwrap_or(1)));
                }
                for holding in holdings {
                    if holding.until > self.now() {
                        self.acknowledge(std::slice::from_ref(&holding), &holding.queue);
                    }
                }
            }
            Phase::Done => return Ok(Rest::Found),
        }
        Ok(Rest::Asked)
    }

    fn ask_about_all(&mut self) {
        for queue in self.queues.clone() {
            self.ask_stats(&queue);
            self.ask_dead(&queue);
        }
    }

    /// Recurring jobs without end are cancelled.
    fn end_schedules(&mut self) {
        let endless: Vec<(QueueName, JobId)> = self
            .jobs_left()
            .filter(|(_, job)| job.again.as_ref().is_some_and(|again| again.left.is_none()))
            .map(|(queue, job)| (queue.clone(), job.id))
            .collect();
        for (queue, job) in endless {
            self.cancel(&queue, job);
        }
    }

    fn jobs_left(&self) -> impl Iterator<Item = (&QueueName, &Job)> {
        let queues = self.model.iter().flat_map(|track| &track.present.queues);
        queues.flat_map(|(name, queue)| queue.jobs.iter().map(move |job| (name, job)))
    }

    /// Where most jobs are parked, a consumer that waits may get a ready one only with the next
    /// step. So this brings a step, once for each consumer. Whether anybody needed it.
    pub(super) fn nudge(&mut self) -> bool {
        if !self.plan.is_parking() {
            return false;
        }
        let waiting: Vec<CallId> = self.calls.waiting.iter().map(|call| call.id).collect();
        let overdue = |track: &crate::harness::track::Track<Partition>| track.present.clone().overdue();
        let overdue: Vec<CallId> = self.model.iter().flat_map(overdue).collect();
        let stuck = overdue.into_iter().find(|call| waiting.contains(call) && !self.nudged.contains(call));
        let Some(call) = stuck else { return false };
        self.nudged.insert(call);
        for queue in self.queues.clone() {
            let partition = self.partition_of(&queue);
            let _not_accepting = self.hand_in(partition, QueueInput::PassOn(queue), Meant::PassOn);
        }
        true
    }

    /// Nobody waits for jobs while there are some that it may have, and old dead letters are gone.
    pub(super) fn nobody_waits_in_vain(&self) -> Checked {
        for track in &self.model {
            let mut model = track.present.clone();
            let overdue = model.overdue();
            let waiting: Vec<_> = overdue
                .iter()
                .filter(|call| self.calls.waiting.iter().any(|known| known.id == **call))
                .collect();
            Invariant::NEVER_EARLY_HARDLY_LATE.check(waiting.is_empty(), || {
                format!("calls {waiting:?} wait while there is something for them")
            })?;
            Invariant::BOUNDED
                .check(!model.keeps_old_dead(), || "dead letters are kept for too long".to_owned())?;
            Invariant::BOUNDED
                .check(!model.keeps_expired(), || "jobs are there that have expired".to_owned())?;
        }
        Ok(())
    }
}
