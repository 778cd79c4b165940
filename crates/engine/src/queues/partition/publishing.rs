//! Publishing: all jobs of a call or none, and the same answer for a repeat.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use base::{Problem, Timestamp};
use jobs::{ConflictPolicy, NewJobHead, PublishOutcome};
use records::{AnswerKey, JobClock, JobTerms, Op, QueueKey, Recurrence, RecurrenceRule};
use sha2::{Digest, Sha256};

use super::{QueuePartition, QueueStep};
use crate::kernel::idempotency::NewestCall;
use crate::kernel::reply::InputFailure;
use crate::queues::input::ToPublish;
use crate::queues::rates::JobFlow;
use crate::queues::{DueTime, IdempotencyKey, PublishedJob, QueueName, SourceCall, answers, id};

/// Furthest that a job may lie ahead.
const AHEAD_MAX: Duration = base::duration::DURATION_MAX;

/// What a job carries is parked with it up to this size: reading in what a step may leaves room in
/// its batch for calls.
const BODY_PARKED_MAX: usize = 256;

/// A job of a call that was not published before.
struct NewInCall {
    /// Its place in the call.
    place: usize,
    job: ToPublish,
    /// Its own idempotency key.
    idempotency: Option<IdempotencyKey>,
}

/// Where the answer for a job of a call comes from.
enum AnswerPlace {
    /// Its key came in an earlier call.
    Kept(PublishedJob),
    /// It is this one of the new jobs, or has the same key.
    Added(usize),
}

struct AnswerPlaces(Vec<AnswerPlace>);

impl AnswerPlaces {
    fn answers(&self, added: &[PublishedJob]) -> Vec<PublishedJob> {
        let answer = |place: &AnswerPlace| match place {
            AnswerPlace::Kept(kept) => *kept,
            AnswerPlace::Added(number) => added[*number],
        };
        self.0.iter().map(answer).collect()
    }
}

/// A job's own key, which belongs to the queue by its name: whoever publishes, and also when the
/// queue is made anew. What the job carries is not compared.
fn job_once(queue: &QueueName, key: &str) -> IdempotencyKey {
    // No name has a slash, so it is clear where each part ends.
    let whole = format!("job/{}/{}/{key}", queue.namespace(), queue.queue());
    IdempotencyKey { key: AnswerKey::of_digest(&Sha256::digest(whole).into()), body: 0 }
}

impl QueuePartition {
    /// Publishes all jobs of a call or none, unless the call came before. This is no `Idempotent`
    /// machine: a call may be known by its own key, by its source, or by keys of single jobs.
    pub(super) fn publish(
        &mut self,
        queue: &QueueName,
        jobs: Vec<ToPublish>,
        (idempotency, source): (Option<IdempotencyKey>, Option<AnswerKey>),
        step: &mut QueueStep<'_>,
    ) -> Result<Vec<PublishedJob>, InputFailure> {
        if let Some(idempotency) = idempotency
            && let Some(kept) = self.answers.recall(idempotency, step)?
        {
            return Ok(answers::read(&kept));
        }
        let call = idempotency.zip(source).map(|(idempotency, source)| SourceCall { source, idempotency });
        let newest = call.map(|call| Ok::<_, InputFailure>((call, self.answers.recall_newest(call, step)?)));
        let newest = newest.transpose()?;
        if let Some((_, NewestCall::This(kept))) = &newest {
            return Ok(answers::read(kept));
        }
        let (new, places) = self.known_apart(queue, jobs, step)?;
        let added = self.publish_new(queue, new, step)?;
        let published = places.answers(&added);
        if let Some(idempotency) = idempotency {
            let answer: Arc<[u8]> = answers::write(&published).into();
            self.answers.remember(idempotency, Arc::clone(&answer), step);
            if let Some((call, before)) = &newest {
                self.answers.remember_newest(*call, before, answer, step);
            }
        }
        Ok(published)
    }

    /// The jobs whose idempotency keys are new, or that have none, and where the answers of all
    /// come from.
    fn known_apart(
        &mut self,
        queue: &QueueName,
        jobs: Vec<ToPublish>,
        step: &mut QueueStep<'_>,
    ) -> Result<(Vec<NewInCall>, AnswerPlaces), InputFailure> {
        let (mut new, mut places) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        let mut keys = HashMap::new();
        for (place, job) in jobs.into_iter().enumerate() {
            let idempotency = job.idempotency_key.as_deref().map(|key| job_once(queue, key));
            let known = idempotency.and_then(|idempotency| keys.get(&idempotency.key).copied());
            if let Some(known) = known {
                places.push(AnswerPlace::Added(known));
                continue;
            }
            let kept =
                idempotency.map(|idempotency| self.answers.recall(idempotency, step)).transpose()?.flatten();
            if let Some(kept) = kept.and_then(|kept| answers::read(&kept).first().copied()) {
                places.push(AnswerPlace::Kept(kept));
                continue;
            }
            if let Some(idempotency) = idempotency {
                keys.insert(idempotency.key, new.len());
            }
            places.push(AnswerPlace::Added(new.len()));
            new.push(NewInCall { place, job, idempotency });
        }
        Ok((new, AnswerPlaces(places)))
    }

    /// Publishes all of these or none.
    fn publish_new(
        &mut self,
        queue: &QueueName,
        jobs: Vec<NewInCall>,
        step: &mut QueueStep<'_>,
    ) -> Result<Vec<PublishedJob>, InputFailure> {
        let known = self.key_of(queue);
        self.check(queue, known, &jobs, step)?;
        let times = jobs.iter().map(|new| times(&new.job, step)).collect::<Result<Vec<_>, _>>()?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let key = known.unwrap_or_else(|| self.create(queue, step));
        let mut published = Vec::with_capacity(jobs.len());
        for (NewInCall { job, idempotency, .. }, (run_at, terms)) in jobs.into_iter().zip(times) {
            let answer = self.publish_one(key, job, run_at, terms, step)?;
            if let Some(idempotency) = idempotency {
                self.answers.remember(idempotency, answers::write(&[answer]).into(), step);
            }
            published.push(answer);
        }
        self.flowed(key, JobFlow::Published, published.len(), step.now);
        step.own.touched.push(key);
        Ok(published)
    }

    /// Whether all can be published.
    fn check(
        &mut self,
        queue: &QueueName,
        key: Option<QueueKey>,
        jobs: &[NewInCall],
        step: &mut QueueStep<'_>,
    ) -> Result<(), InputFailure> {
        let mut aliases = HashSet::new();
        let is_repeated = |new: &&NewInCall| new.job.alias.is_some_and(|alias| !aliases.insert(alias));
        if let Some(NewInCall { place, .. }) = jobs.iter().find(is_repeated) {
            let detail = format!("the alias of job {} comes twice in this call", place + 1);
            return Err(Problem::conflict("alias_repeated", detail).into());
        }
        let Some(key) = key else { return Ok(()) };
        for alias in jobs.iter().filter_map(|new| new.job.alias) {
            self.settle_alias(key, alias, step)?;
        }
        let holder_of = |new: &NewInCall| self.jobs.by_alias(key, new.job.alias?);
        // Where its alias is held, a job takes its holder's place, waits for its end, or is not
        // stored.
        let added = jobs.iter().filter(|new| holder_of(new).is_none()).count();
        self.check_room(queue, key, added)?;
        for new in jobs {
            let holder = holder_of(new).filter(|_| new.job.on_conflict == ConflictPolicy::Reject);
            if let Some(holder) = holder {
                let detail = format!(
                    "the alias of job {} is held by job {}; publish with on_conflict \"keep\" or \"replace\", or wait for its end",
                    new.place + 1,
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
        terms: JobTerms,
        step: &mut QueueStep<'_>,
    ) -> Result<PublishedJob, InputFailure> {
        let ToPublish { body, tries, alias, on_conflict, .. } = job;
        let new_id = id::job_id(self.lineage, self.id, self.jobs.numbers().next_job, step.now);
        let new = NewJobHead { id: new_id, queue, run_at, tries, terms, alias, on_conflict };
        let before = step.batch.ops.len();
        let published = self.jobs.publish(new, &mut step.jobs());
        let id = match published {
            PublishOutcome::New | PublishOutcome::Succeeds { .. } => new_id,
            PublishOutcome::Replaced { job, .. } => job,
            PublishOutcome::Kept(job) => {
                let run_at = self.jobs.get(job).map_or(run_at, |kept| kept.run_at);
                return Ok(PublishedJob { id: job, run_at });
            }
            PublishOutcome::Conflict(_) => {
                debug_assert!(false, "aliases were checked before");
                return Err(Problem::conflict("alias_taken", "the alias is held").into());
            }
        };
        step.own.counted.published += 1;
        let parked = step.batch.ops[before..].iter_mut().find_map(|op| match op {
            Op::ParkJob(parked) if published == PublishOutcome::New && parked.head.id == id => Some(parked),
            _ => None,
        });
        match parked.filter(|_| body.len() <= BODY_PARKED_MAX) {
            Some(parked) => {
                parked.body = Some(Arc::clone(&body));
                self.bodies.put(step.seq, id, Some(body));
            }
            None => self.put_body(id, body, step),
        }
        Ok(PublishedJob { id, run_at })
    }
}

/// When a job is due, and what else holds of it.
pub(super) fn times(job: &ToPublish, step: &QueueStep<'_>) -> Result<(Timestamp, JobTerms), Problem> {
    let every = job.recurs.and_then(|(rule, _)| match rule {
        RecurrenceRule::Every(ms) => Some(Duration::from_millis(ms)),
        RecurrenceRule::Calendar => None,
    });
    let due = job.due.unwrap_or(DueTime::After(every.unwrap_or_default()));
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
    Ok((run_at, JobTerms { clock, expires_at, group: job.group, recurrence }))
}

/// A time as a job has it: its clock, its moment there, and how far ahead that is.
pub(super) fn due_at(
    due: DueTime,
    now: Timestamp,
    wall: Timestamp,
) -> Result<(JobClock, Timestamp, Duration), Problem> {
    let (clock, run_at, delay) = match due {
        DueTime::After(delay) => (JobClock::Engine, now.after(delay), delay),
        DueTime::At(at) => (JobClock::Wall, at, at.since(wall)),
    };
    if delay > AHEAD_MAX {
        return Err(Problem::not_allowed("invalid_time", "a job may be due at most ten years ahead"));
    }
    Ok((clock, run_at, delay))
}
