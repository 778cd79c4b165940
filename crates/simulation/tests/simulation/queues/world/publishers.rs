//! Those who publish: single jobs and many, under aliases and in groups, at once and later, once
//! and again.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Timestamp};
use engine::kernel::reply::Reply;
use engine::queues::{
    ConflictPolicy, DueTime, IdempotencyKey, JobPayload, NewJob, PublishedJob, QueueInput, QueueName,
    RecurrenceTerms, driving,
};
use records::AnswerKey;

use super::World;
use super::calls::{Answer, Then, Waiting};
use crate::queues::fault_injection::{GROUP_IGNORED, JOBS_TOO_SOON};
use crate::queues::meant::Meant;
use crate::queues::model::evidence::MARK;
use crate::queues::model::job::{CALENDARS, Rule};

/// A request to publish, as its publisher keeps it to repeat it.
#[derive(Clone)]
pub(crate) struct Publishing {
    pub(crate) queue: QueueName,
    pub(crate) jobs: Vec<NewJob>,
    pub(crate) idempotency: Option<IdempotencyKey>,
}

/// Requests that are kept to be repeated.
const REPEATS_MAX: usize = 8;
/// Jobs that somebody was told of which are kept to be touched.
const SEEN_JOBS_MAX: usize = 60;

impl World {
    /// Somebody publishes, or repeats what nobody answered.
    pub(super) fn publish(&mut self) {
        if !self.repeats.is_empty() && self.machine.random.chance(1, 6) {
            let index = self.machine.random.below(self.repeats.len() as u64) as usize;
            let mut again = self.repeats[index].clone();
            if self.machine.random.chance(1, 10) {
                // Another request under the same key.
                let job = self.any_job();
                again.jobs = vec![job];
                let body = u128::from(self.machine.random.next_u64());
                again.idempotency =
                    again.idempotency.map(|idempotency| IdempotencyKey { body, ..idempotency });
            }
            self.hand_in_jobs(again);
            return;
        }
        let queue = self.any_queue();
        if self
            .model_of(&queue)
            .queues
            .get(&queue)
            .is_some_and(|there| there.jobs.len() as u64 > self.plan.backlog)
        {
            return;
        }
        let most = self.plan.mix.call_max;
        let count = if self.machine.random.chance(2, 3) { 1 } else { 1 + self.machine.random.below(most) };
        let jobs = (0..count).map(|_| self.any_job()).collect();
        let idempotency = self.machine.random.chance(1, 4).then(|| IdempotencyKey {
            key: AnswerKey(u128::from(self.machine.random.next_u64())),
            body: u128::from(self.machine.random.next_u64()),
        });
        self.hand_in_jobs(Publishing { queue, jobs, idempotency });
    }

    fn hand_in_jobs(&mut self, publishing: Publishing) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let wall = self.machine.clock.wall();
        let Publishing { queue, mut jobs, idempotency } = publishing.clone();
        let made = driving::to_publish(&self.as_given(&jobs), wall);
        let made = made.expect("the workload makes jobs that may be");
        // A calendar begins behind the moment of the call.
        jobs.iter_mut().for_each(|job| begin_calendar(job, wall));
        let input =
            QueueInput::Publish { queue: queue.clone(), jobs: made, idempotency, source: None, reply };
        let meant = Meant::Publish { call, queue: queue.clone(), jobs, idempotency };
        let then = Then::Published(Box::new(publishing));
        self.ask(&queue, (input, meant), Waiting::on(receiver, Answer::Published), then);
    }

    /// Jobs as the server is given them: those that were meant, unless the harness is broken.
    fn as_given(&self, jobs: &[NewJob]) -> Vec<NewJob> {
        let mut jobs = jobs.to_vec();
        for job in &mut jobs {
            if self.machine.injects(GROUP_IGNORED) {
                job.group = None;
            }
            if self.machine.injects(JOBS_TOO_SOON)
                && let Some(DueTime::After(delay)) = &mut job.due
            {
                *delay /= 2;
            }
        }
        jobs
    }

    pub(super) fn any_queue(&mut self) -> QueueName {
        let index = self.machine.random.below(self.queues.len() as u64) as usize;
        self.queues[index].clone()
    }

    fn any_job(&mut self) -> NewJob {
        let mix = self.plan.mix;
        let comes_again = self.machine.random.chance(1, mix.recurs_in);
        let recurs = if comes_again { Some(self.any_recurrence()) } else { None };
        let due = self.any_due();
        let name = |world: &mut Self, of: u64, what: &str| {
            world
                .machine
                .random
                .chance(1, of)
                .then(|| format!("{what}{}", world.machine.random.below(world.plan.names)).into())
        };
        NewJob {
            payload: self.any_payload(),
            due,
            ttl: self.any_ttl(),
            tries: 1 + self.machine.random.below(3) as u32,
            alias: name(self, mix.alias_in, "alias"),
            on_conflict: match self.machine.random.below(3) {
                0 => ConflictPolicy::Reject,
                1 => ConflictPolicy::Keep,
                _ => ConflictPolicy::Replace,
            },
            group: name(self, mix.group_in, "group"),
            recurs,
            idempotency_key: None,
            attributes: Vec::new(),
        }
    }

    pub(super) fn any_payload(&mut self) -> JobPayload {
        self.last_payload += 1;
        let text = format!("{}{}{}", MARK.0, self.last_payload, MARK.1);
        if self.machine.random.chance(1, 3) {
            JobPayload::Bytes(Arc::from(text.into_bytes()))
        } else {
            JobPayload::Json(Arc::from(format!("\"{text}\"")))
        }
    }

    pub(super) fn any_due(&mut self) -> Option<DueTime> {
        let soon = |world: &mut Self| match world.machine.random.below(3) {
            0 => Duration::from_millis(world.machine.random.below(500)),
            1 => Duration::from_millis(world.machine.random.below(60_000)),
            _ => Duration::from_secs(world.machine.random.below(7_200)),
        };
        match self.machine.random.below(self.plan.mix.later_in) {
            0 => Some(DueTime::After(soon(self))),
            1 => {
                let (wall, delay) = (self.machine.clock.wall(), soon(self));
                // A moment may have passed already.
                let at =
                    if self.machine.random.chance(1, 5) { wall.before(delay) } else { wall.after(delay) };
                Some(DueTime::At(at))
            }
            _ => None,
        }
    }

    fn any_ttl(&mut self) -> Option<Duration> {
        match self.machine.random.below(8) {
            0 => Some(Duration::from_millis(1 + self.machine.random.below(5_000))),
            1 => Some(Duration::from_secs(1 + self.machine.random.below(10_000))),
            _ => None,
        }
    }

    fn any_recurrence(&mut self) -> RecurrenceTerms {
        let executions = self.machine.random.chance(3, 4).then(|| 1 + self.machine.random.below(4) as u32);
        if self.machine.random.chance(1, 2) {
            let interval = Duration::from_millis(1_000 + self.machine.random.below(60_000));
            return RecurrenceTerms::Every { interval, executions };
        }
        let (expression, _) = CALENDARS[self.machine.random.below(CALENDARS.len() as u64) as usize];
        let zone = self.machine.random.chance(1, 2).then(|| "Europe/Berlin".into());
        RecurrenceTerms::Cron { expression: expression.into(), zone, executions }
    }

    /// Jobs were published, or that was refused.
    pub(super) fn published<E>(&mut self, publishing: Publishing, outcome: &Result<Vec<PublishedJob>, E>) {
        let Ok(jobs) = outcome else { return };
        self.counts.published += jobs.len() as u64;
        for job in jobs {
            self.saw(&publishing.queue, job.id);
        }
        if self.machine.random.chance(1, 3) {
            // Its publisher did not hear of it.
            self.publish_again_later(publishing);
        }
    }

    /// Somebody knows of a job.
    pub(super) fn saw(&mut self, queue: &QueueName, job: records::JobId) {
        if self.seen_jobs.len() == SEEN_JOBS_MAX {
            self.seen_jobs.remove(0);
        }
        self.seen_jobs.push((queue.clone(), job));
    }

    /// Only with a key: who repeats without one publishes another job.
    pub(super) fn publish_again_later(&mut self, publishing: Publishing) {
        if publishing.idempotency.is_none() {
            return;
        }
        if self.repeats.len() == REPEATS_MAX {
            self.repeats.remove(0);
        }
        self.repeats.push(publishing);
    }
}

/// A calendar's first time is the first behind the moment at which it is told.
fn begin_calendar(job: &mut NewJob, wall: Timestamp) {
    if let (None, Some(RecurrenceTerms::Cron { .. }), Some((rule, _))) = (job.due, &job.recurs, Rule::of(job))
    {
        job.due = Some(DueTime::At(rule.next(wall, wall)));
    }
}
