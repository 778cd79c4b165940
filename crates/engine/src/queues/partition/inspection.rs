//! Looking at jobs and queues without taking anything, and changing what waits.

use std::sync::Arc;

use base::{PartitionId, Problem, Timestamp};
use records::{JobClock, JobHead, JobId, Op, QueueKey};
use store::{ScannedJobs, StoreError};

use super::publishing::due_at;
use super::{QueuePartition, QueueStep};
use crate::Engine;
use crate::kernel::reply::InputFailure;
use crate::queries::{BoundedPage, LOOKED_AT_MAX};
use crate::queues::input::InspectedJob;
use crate::queues::stats::QueueStats;
use crate::queues::{DueTime, JobPayload, JobRef, JobState, JobView, QueueName, body, calls, checks, id};

/// Where a list of queues goes on.
pub type QueueMark = QueueName;

/// Queues that one step looks at for a list: those that have nothing are passed over.
const NAMES_SEEN_MAX: usize = 10_000;
/// The clocks are read one after the other, in whole milliseconds.
const CLOCKS_ROUNDING_MS: u64 = 10;

/// A part of a list of queues.
#[derive(Debug)]
pub struct QueuePage {
    /// The queues.
    pub queues: Vec<QueueStats>,
    /// Others may come behind this one, though these are fewer than were asked for.
    pub next: Option<QueueMark>,
}

impl QueuePartition {
    pub(super) fn look(
        &mut self,
        queue: &QueueName,
        job: Option<&JobRef>,
        step: &mut QueueStep<'_>,
    ) -> Result<InspectedJob, InputFailure> {
        let head = match (job, self.key_of(queue)) {
            (_, None) => None,
            (Some(job), Some(key)) => self.find(key, job, step)?,
            (None, Some(key)) => {
                // What is first may be in the store.
                while self.jobs.peek(key).is_none() && self.read_first_of(key, step)? {}
                self.jobs.peek(key)
            }
        };
        let head = head.ok_or_else(|| unknown_job(queue))?;
        Ok(self.seen(head, step)?)
    }

    fn seen(&self, head: JobHead, step: &mut QueueStep<'_>) -> Result<InspectedJob, StoreError> {
        let body = self.body(head.id, step)?;
        // Nobody gets a successor, whatever its time is, before the job ends that holds its alias.
        let state = if self.jobs.is_successor(head.id) {
            JobState::Scheduled
        } else {
            state_of(&head, step.now, step.wall)
        };
        Ok(InspectedJob { head, state, body })
    }

    /// A job of a queue, resident or not. One whose time to live has ended unnoticed, as that of a
    /// successor may, is gone.
    fn find(
        &mut self,
        queue: QueueKey,
        job: &JobRef,
        step: &mut QueueStep<'_>,
    ) -> Result<Option<JobHead>, StoreError> {
        let found = self.find_as_it_was(queue, job, step)?;
        let waits = found.as_ref().filter(|head| head.state == records::HeadState::Waiting);
        let ended = waits.filter(|head| head.terms.expires_at.is_some_and(|at| at <= step.now));
        let Some(alias) = ended.and_then(|head| head.alias) else { return Ok(found) };
        self.settle_alias(queue, alias, step)?;
        self.find_as_it_was(queue, job, step)
    }

    fn find_as_it_was(
        &mut self,
        queue: QueueKey,
        job: &JobRef,
        step: &mut QueueStep<'_>,
    ) -> Result<Option<JobHead>, StoreError> {
        let head = match job {
            JobRef::Id(id) => match self.jobs.get(*id) {
                Some(head) => Some(head),
                None => {
                    let parked = self.parked_job(*id, step)?;
                    self.parked_now(parked, step)?
                }
            },
            JobRef::Alias(alias) => {
                let alias = checks::alias_key(alias);
                match self.jobs.by_alias(queue, alias) {
                    Some(head) => Some(head),
                    None => {
                        let parked = self.parked_under(queue, alias, step)?;
                        self.parked_now(parked, step)?
                    }
                }
            }
        };
        Ok(head.filter(|head| head.queue == queue))
    }

    pub(super) fn change(
        &mut self,
        queue: &QueueName,
        job: &JobRef,
        payload: Option<JobPayload>,
        due: Option<DueTime>,
        step: &mut QueueStep<'_>,
    ) -> Result<InspectedJob, InputFailure> {
        let key = self.key_of(queue).ok_or_else(|| unknown_job(queue))?;
        let head = self.find(key, job, step)?.ok_or_else(|| unknown_job(queue))?;
        if matches!(head.state, records::HeadState::Reserved { .. }) {
            let detail = "a consumer has the job; it can be changed when it is waiting again";
            return Err(Problem::conflict("job_reserved", detail).into());
        }
        self.read_in_job(head.id, step)?;
        if let Some(due) = due {
            let (clock, run_at, delay) = due_at(due, step.now, step.wall)?;
            let due_on_engine = step.now.after(delay);
            // A run that was not begun takes its ttl along.
            let takes_along = head.terms.recurrence.is_some() && head.attempt == 0;
            let expires_at = head.terms.expires_at.filter(|_| !takes_along);
            if expires_at.is_some_and(|expires_at| expires_at <= due_on_engine) {
                let detail = "the job's ttl ends before that time: it would never run";
                return Err(Problem::not_allowed("invalid_time", detail).into());
            }
            let clock = if head.attempt > 0 && clocks_agree(step) { JobClock::Engine } else { clock };
            let moved = self.jobs.reschedule(head.id, clock, run_at, &mut step.jobs());
            debug_assert!(moved.is_ok(), "it waits, as was just seen");
        }
        if let Some(payload) = payload {
            let mut body = body::read(&self.body(head.id, step)?)?;
            body.payload = payload;
            self.put_body(head.id, Arc::from(body.write()), step);
        }
        step.own.touched.push(key);
        // It may be parked again, until its new time.
        let head = self.find(key, &JobRef::Id(head.id), step)?.unwrap_or(head);
        Ok(self.seen(head, step)?)
    }

    pub(super) fn cancel(
        &mut self,
        queue: &QueueName,
        job: &JobRef,
        step: &mut QueueStep<'_>,
    ) -> Result<(), InputFailure> {
        let key = self.key_of(queue).ok_or_else(|| unknown_job(queue))?;
        let head = self.find(key, job, step)?.ok_or_else(|| unknown_job(queue))?;
        self.read_in_job(head.id, step)?;
        self.jobs.cancel(head.id, &mut step.jobs());
        step.own.counted.cancelled += 1;
        step.own.touched.push(key);
        Ok(())
    }

    pub(super) fn stats(&self, name: &QueueName, now: Timestamp) -> QueueStats {
        let key = self.key_of(name);
        let queue = key.and_then(|key| self.queues.get(&key));
        let (Some(key), Some(queue)) = (key, queue) else {
            return QueueStats::empty(name.clone());
        };
        let jobs = self.jobs.counts_of(key);
        let (parked_scheduled, parked_ready) = self.jobs.parked(key);
        // Nobody waited for a job before it was published, whatever time it was given.
        let since = |job, at: Timestamp| at.max(id::published_at(job));
        let oldest_ready_at = self.jobs.ready_since(key, since);
        QueueStats {
            name: name.clone(),
            key: Some(key),
            scheduled: jobs.scheduled as u64 + parked_scheduled,
            ready: jobs.ready as u64 + parked_ready,
            reserved: jobs.reserved as u64,
            dead: queue.dead,
            oldest_ready: oldest_ready_at.map(|at| now.since(at)),
            oldest_ready_at,
            rates: queue.recent.as_ref().map(|recent| recent.rates(now)).unwrap_or_default(),
            paused: queue.paused,
            settings: queue.settings,
        }
    }

    pub(super) fn list(
        &self,
        namespace: Option<&str>,
        after: Option<&QueueName>,
        limit: usize,
        now: Timestamp,
    ) -> QueuePage {
        let start = match (after, namespace) {
            (Some(after), _) => std::ops::Bound::Excluded(after.clone()),
            (None, Some(namespace)) => std::ops::Bound::Included(QueueName::unchecked(namespace, "")),
            (None, None) => std::ops::Bound::Unbounded,
        };
        let queues = self.names.range((start, std::ops::Bound::Unbounded)).map(|(name, _)| name);
        let within = queues.take_while(|name| namespace.is_none_or(|of| name.namespace() <= of));
        let wanted = within.filter(|name| namespace.is_none_or(|of| name.namespace() == of));
        let (mut queues, mut seen) = (Vec::new(), 0);
        for name in wanted {
            if queues.len() == limit {
                break;
            }
            seen += 1;
            if self.key_of(name).is_some_and(|key| !self.is_empty(key)) {
                queues.push(self.stats(name, now));
            }
            if seen == NAMES_SEEN_MAX {
                return QueuePage { queues, next: Some(name.clone()) };
            }
        }
        QueuePage { queues, next: None }
    }
}

/// Whether both clocks show the same but for rounding. A retry waits by the engine clock: as long
/// as they agree, its time is the one that was given.
fn clocks_agree(step: &QueueStep<'_>) -> bool {
    step.wall.0.abs_diff(step.now.0) <= CLOCKS_ROUNDING_MS
}

pub(super) fn unknown_job(queue: &QueueName) -> Problem {
    Problem::unknown(
        "unknown_job",
        format!("queue {queue} has no such job: it is done, dead, gone, or never was"),
    )
}

pub(super) fn state_of(head: &JobHead, now: Timestamp, wall: Timestamp) -> JobState {
    let clock = match head.clock_of_wait() {
        JobClock::Wall => wall,
        JobClock::Engine => now,
    };
    match head.state {
        records::HeadState::Reserved { .. } => JobState::Reserved,
        records::HeadState::Waiting if head.visible_at > clock => JobState::Scheduled,
        records::HeadState::Waiting => JobState::Ready,
    }
}

/// A page of a queue's jobs as the store has them, as far as `cost_max` jobs of its partition lead.
/// A reserved job is always resident, so only those are looked through for it.
///
/// # Errors
/// 503 when the store cannot be read.
pub fn listed(
    engine: &Engine,
    (partition, queue): (PartitionId, QueueKey),
    state: Option<JobState>,
    after: Option<JobId>,
    (limit, cost_max): (usize, usize),
) -> Result<BoundedPage<JobView, JobId>, Problem> {
    let unreadable = |error: StoreError| Problem::unavailable(error.to_string());
    let (now, wall) = (engine.clock().now(), engine.clock().wall());
    let view = engine.store().view(partition).map_err(unreadable)?;
    let wanted = |head: &JobHead| state.is_none_or(|state| state_of(head, now, wall) == state);
    let scan_max = cost_max.clamp(1, LOOKED_AT_MAX);
    let scanned = match state {
        Some(JobState::Reserved) => view.resident_jobs_of(queue, after, scan_max, limit, &wanted),
        _ => view.jobs_of(queue, after, scan_max, limit, &wanted),
    };
    let ScannedJobs { found: heads, next, scanned } = scanned.map_err(unreadable)?;
    let mut jobs = Vec::with_capacity(heads.len());
    for head in heads {
        // A job's body is there as long as its head.
        let Some(body) = view.job_body(head.id).map_err(unreadable)? else { continue };
        let state = state_of(&head, now, wall);
        jobs.push(calls::view(InspectedJob { head, state, body })?);
    }
    Ok(BoundedPage { found: jobs, next, looked_at: Some(scanned as u64), cost: scanned })
}

/// What is written of a queue.
pub(super) fn put_queue(queue: &super::PartitionQueue, key: QueueKey, deleted: bool) -> Op {
    Op::PutQueue(Box::new(records::Queue {
        key,
        namespace: queue.name.namespace().into(),
        name: queue.name.queue().into(),
        deleted,
        paused: queue.paused,
        settings: queue.settings,
    }))
}
