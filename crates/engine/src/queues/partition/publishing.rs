//! Publishing: all jobs of a call or none, and the same answer for a repeat.

use std::collections::HashSet;
use std::time::Duration;

use base::{Problem, Timestamp};
use jobs::{NewJob, OnConflict, Published};
use records::{JobClock, QueueKey, Recurrence, Rule, Terms};

use super::{QueuePartition, QueueStep};
use crate::kernel::reply::Stop;
use crate::queues::input::ToPublish;
use crate::queues::rates::JobFlow;
use crate::queues::{Due, IdempotencyKey, PublishedJob, QueueName, answers, id};

/// Furthest that a job may lie ahead.
const AHEAD_MAX: Duration = base::duration::DURATION_MAX;

impl QueuePartition {
    pub(super) fn publish(
        &mut self,
        queue: &QueueName,
        jobs: Vec<ToPublish>,
        once: Option<IdempotencyKey>,
        step: &mut QueueStep<'_>,
    ) -> Result<Vec<PublishedJob>, Stop> {
        if let Some(once) = once
            && let Some(kept) = self.answers.recall(once, step)?
        {
            return Ok(answers::read(&kept));
        }
        let known = self.key_of(queue);
        self.check(queue, known, &jobs, step)?;
        let times = jobs.iter().map(|job| times(job, step)).collect::<Result<Vec<_>, _>>()?;
        let key = known.unwrap_or_else(|| self.create(queue, step));
        let mut published = Vec::with_capacity(jobs.len());
        for (job, (run_at, terms)) in jobs.into_iter().zip(times) {
            published.push(self.publish_one(key, job, run_at, terms, step)?);
        }
        self.flowed(key, JobFlow::Published, published.len(), step.now);
        step.own.touched.push(key);
        if let Some(once) = once {
            self.answers.remember(once, answers::write(&published).into(), step);
        }
        Ok(published)
    }

    /// Whether all can be published.
    fn check(
        &mut self,
        queue: &QueueName,
        key: Option<QueueKey>,
        jobs: &[ToPublish],
        step: &mut QueueStep<'_>,
    ) -> Result<(), Stop> {
        let mut aliases = HashSet::new();
        let repeated = jobs.iter().position(|job| job.alias.is_some_and(|alias| !aliases.insert(alias)));
        if let Some(place) = repeated {
            let detail = format!("the alias of job {} comes twice in this call", place + 1);
            return Err(Problem::conflict("alias_repeated", detail).into());
        }
        let Some(key) = key else { return Ok(()) };
        for alias in jobs.iter().filter_map(|job| job.alias) {
            self.settle_alias(key, alias, step)?;
        }
        let holder_of = |job: &ToPublish| self.jobs.by_alias(key, job.alias?);
        // Where its alias is held, a job takes its holder's place, waits for its end, or is not
        // stored.
        let added = jobs.iter().filter(|job| holder_of(job).is_none()).count();
        self.check_room(queue, key, added)?;
        for (place, job) in jobs.iter().enumerate() {
            let holder = holder_of(job).filter(|_| job.on_conflict == OnConflict::Reject);
            if let Some(holder) = holder {
                let detail = format!(
                    "the alias of job {} is held by job {}; publish with on_conflict \"keep\" or \"replace\", or wait for its end",
                    place + 1,
                    id::id_text(holder.id)
                );
                return Err(Problem::conflict("alias_taken", detail).into());
            }
        }
        Ok(())
    }

    fn check_room(&self, name: &QueueName, key: QueueKey, more: usize) -> Result<(), Problem> {
        if more as u64 > self.room_in(key) { Err(self.queue_full(name, key)) } else { Ok(()) }
    }

    /// How many more jobs a queue may hold.
    pub(super) fn room_in(&self, key: QueueKey) -> u64 {
        self.jobs_max(key).map_or(u64::MAX, |max| max.saturating_sub(self.jobs_in(key)))
    }

    fn jobs_max(&self, key: QueueKey) -> Option<u64> {
        self.queues.get(&key).and_then(|queue| queue.settings.jobs_max)
    }

    pub(super) fn queue_full(&self, name: &QueueName, key: QueueKey) -> Problem {
        let there = self.jobs_in(key);
        let max = self.jobs_max(key).unwrap_or(u64::MAX);
        let detail =
            format!("queue {name} holds {there} jobs and may hold {max}; consume some, or raise jobs_max");
        Problem::conflict("queue_full", detail)
    }

    fn publish_one(
        &mut self,
        queue: QueueKey,
        job: ToPublish,
        run_at: Timestamp,
        terms: Terms,
        step: &mut QueueStep<'_>,
    ) -> Result<PublishedJob, Stop> {
        let ToPublish { body, tries, alias, on_conflict, .. } = job;
        let new_id = id::job_id(self.lineage, self.id, self.jobs.numbers().next_job, step.now);
        let new = NewJob { id: new_id, queue, run_at, tries, terms, alias, on_conflict };
        let published = self.jobs.publish(new, &mut step.jobs());
        let id = match published {
            Published::New | Published::Succeeds { .. } => new_id,
            Published::Replaced { job, .. } => job,
            Published::Kept(job) => {
                let run_at = self.jobs.get(job).map_or(run_at, |kept| kept.run_at);
                return Ok(PublishedJob { id: job, run_at });
            }
            Published::Conflict(_) => {
                debug_assert!(false, "aliases were checked before");
                return Err(Problem::conflict("alias_taken", "the alias is held").into());
            }
        };
        step.own.counted.published += 1;
        self.put_body(id, body, step);
        Ok(PublishedJob { id, run_at })
    }
}

/// When a job is due, and what else holds of it.
pub(super) fn times(job: &ToPublish, step: &QueueStep<'_>) -> Result<(Timestamp, Terms), Problem> {
    let every = job.recurs.and_then(|(rule, _)| match rule {
        Rule::Every(ms) => Some(Duration::from_millis(ms)),
        Rule::Calendar => None,
    });
    let due = job.due.unwrap_or(Due::After(every.unwrap_or_default()));
    let (clock, run_at, delay) = due_at(due, step.now, step.wall)?;
    let due_on_engine = step.now.after(delay);
    let recurrence = job.recurs.map(|(rule, left)| Recurrence {
        rule,
        left,
        run: 1,
        ttl_ms: job.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
    });
    let worth_from = if recurrence.is_some() { due_on_engine } else { step.now };
    let expires_at = job.ttl.map(|ttl| worth_from.after(ttl));
    if expires_at.is_some_and(|expires_at| expires_at <= due_on_engine) {
        let detail = "ttl must be longer than the time until the job is due: it would never run";
        return Err(Problem::not_allowed("invalid_ttl", detail));
    }
    Ok((run_at, Terms { clock, expires_at, group: job.group, recurrence }))
}

/// A time as a job has it: its clock, its moment there, and how far ahead that is.
pub(super) fn due_at(
    due: Due,
    now: Timestamp,
    wall: Timestamp,
) -> Result<(JobClock, Timestamp, Duration), Problem> {
    let (clock, run_at, delay) = match due {
        Due::After(delay) => (JobClock::Engine, now.after(delay), delay),
        Due::At(at) => (JobClock::Wall, at, at.since(wall)),
    };
    if delay > AHEAD_MAX {
        return Err(Problem::not_allowed("invalid_time", "a job may be due at most ten years ahead"));
    }
    Ok((clock, run_at, delay))
}
