//! Publishing in the model: all jobs of a call or none, and the same answer for a repeat.

use std::time::Duration;

use base::Timestamp;
use engine::queues::{
    ConflictPolicy, DueTime, IdempotencyKey, JobPayload, JobRef, NewJob, PublishedJob, QueueName,
};
use records::JobId;

use super::evidence::Evidence;
use super::job::{Again, Job, Next, Rule, Stands};
use super::{ANSWERS_KEPT_MS, ModelAnswer, Partition};
use crate::harness::violation::{Checked, Invariant};

impl Partition {
    pub(super) fn publish(
        &mut self,
        name: &QueueName,
        jobs: &[NewJob],
        idempotency: Option<IdempotencyKey>,
        evidence: &Evidence,
    ) -> Checked<Result<Vec<PublishedJob>, &'static str>> {
        if let Some((idempotency, kept)) =
            idempotency.and_then(|idempotency| Some((idempotency, self.still_kept(idempotency)?)))
        {
            let answer =
                if kept.body == idempotency.body { Ok(kept.jobs) } else { Err("idempotency_key_reused") };
            self.counts.answered_again += 1;
            return Ok(answer);
        }
        if let Err(refused) = self.check_new(name, jobs, evidence) {
            return Ok(Err(refused));
        }
        let mut published = Vec::new();
        for job in jobs {
            published.push(self.publish_one(name, job, evidence)?);
        }
        if let Some(IdempotencyKey { key, body }) = idempotency {
            self.kept.insert(key, ModelAnswer { at: self.now, body, jobs: published.clone() });
        }
        Ok(Ok(published))
    }

    fn still_kept(&self, idempotency: IdempotencyKey) -> Option<ModelAnswer> {
        self.kept.get(&idempotency.key).filter(|kept| kept.at.0 + ANSWERS_KEPT_MS > self.now.0).cloned()
    }

    fn check_new(
        &mut self,
        name: &QueueName,
        jobs: &[NewJob],
        evidence: &Evidence,
    ) -> Result<(), &'static str> {
        let alias = |job: &NewJob| job.alias.as_ref().map(ToString::to_string);
        for (place, job) in jobs.iter().enumerate() {
            if alias(job).is_some() && jobs[..place].iter().any(|other| alias(other) == alias(job)) {
                return Err("alias_repeated");
            }
        }
        jobs.iter().filter_map(|job| job.alias.as_deref()).for_each(|alias| self.settle_alias(name, alias));
        // A parked job that has expired counts until it is read.
        let counted_yet = if self.is_parking { self.expired_in_step } else { 0 };
        let queue = self.queue(name);
        let most = queue.settings.jobs_max.unwrap_or(u64::MAX);
        let holder = |job: &NewJob| queue.holder_of(job.alias.as_deref()?);
        let added = jobs.iter().filter(|job| holder(job).is_none()).count();
        let all = (queue.jobs.len() + added) as u64;
        let is_stored = || jobs.iter().any(|job| evidence.id_of(&job.payload, |_| true).is_some());
        if added > 0 && (all > most || (all + counted_yet > most && !is_stored())) {
            return Err("queue_full");
        }
        for job in jobs {
            let is_held = alias(job).is_some_and(|alias| queue.holder_of(&alias).is_some());
            if is_held && job.on_conflict == ConflictPolicy::Reject {
                return Err("alias_taken");
            }
        }
        for job in jobs {
            let made = self.make(job, NOBODY);
            let due = if made.by_wall { self.on_engine(made.run_at) } else { made.run_at };
            // A moment that has passed is now.
            if made.expires_at.is_some_and(|at| at <= due.max(self.now)) {
                return Err("invalid_ttl");
            }
        }
        Ok(())
    }

    fn publish_one(&mut self, name: &QueueName, new: &NewJob, evidence: &Evidence) -> Checked<PublishedJob> {
        let holder = new.alias.as_deref().and_then(|alias| self.queue(name).holder_of(alias));
        let Some(place) = holder else {
            let job = self.made(new, None, evidence)?;
            let published = PublishedJob { id: job.id, run_at: job.run_at };
            self.file(name, job);
            return Ok(published);
        };
        let holder = self.queue(name).jobs[place].clone();
        if new.on_conflict == ConflictPolicy::Keep {
            let next = holder.next.as_ref().map(|next| &next.job);
            let kept = if holder.is_reserved() { next } else { Some(&holder) };
            if let Some(kept) = kept {
                self.counts.kept += 1;
                return Ok(PublishedJob { id: kept.id, run_at: kept.run_at });
            }
        }
        if holder.is_reserved() {
            self.counts.succeeds += 1;
            let job = self.made(new, None, evidence)?;
            let published = PublishedJob { id: job.id, run_at: job.run_at };
            let next = Next { job, after_job: new.on_conflict == ConflictPolicy::Keep };
            self.queue(name).jobs[place].next = Some(Box::new(next));
            return Ok(published);
        }
        self.counts.replaced += 1;
        let job = self.made(new, Some(&holder), evidence)?;
        let published = PublishedJob { id: job.id, run_at: job.run_at };
        self.queue(name).jobs.remove(place);
        self.file(name, job);
        Ok(published)
    }

    /// A new job with the id under which it was stored: one of its own, or that of the waiting job
    /// that it replaces.
    fn made(&mut self, new: &NewJob, instead_of: Option<&Job>, evidence: &Evidence) -> Checked<Job> {
        let is_new = |id| !self.knows(id) && !evidence.is_dead(id);
        let is_meant = |id| is_new(id) || instead_of.is_some_and(|before| before.id == id);
        let id = evidence.id_of(&new.payload, is_meant).ok_or_else(|| {
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED
                .broken(format!("{:?} was published and not stored", new.payload))
        })?;
        let number = self.next_number();
        let mut job = Job { number, ..self.make(new, id) };
        if let Some(before) = instead_of {
            Invariant::ALIAS_IS_UNIQUE.same("id of a job that was replaced", &id, &before.id)?;
            job.published_at = before.published_at;
        }
        Ok(job)
    }

    fn knows(&self, id: JobId) -> bool {
        let is_it = |job: &Job| job.id == id || job.next.as_ref().is_some_and(|next| next.job.id == id);
        self.queues.values().any(|queue| queue.jobs.iter().any(is_it))
    }

    fn make(&self, new: &NewJob, id: JobId) -> Job {
        let rule = Rule::of(new);
        let (by_wall, run_at) = match (new.due, &rule) {
            (Some(DueTime::At(at)), _) => (true, at),
            (Some(DueTime::After(delay)), _) => (false, self.now.after(delay)),
            (None, Some((Rule::Every(ms), _))) => (false, Timestamp(self.now.0 + ms)),
            (None, Some((Rule::Cron(_), _))) => (true, first_of(rule, self.wall)),
            (None, None) => (false, self.now),
        };
        let due = if by_wall { self.on_engine(run_at).max(self.now) } else { run_at };
        let worth_from = if rule.is_some() { due } else { self.now };
        Job {
            id,
            payload: new.payload.clone(),
            number: 0,
            published_at: self.now,
            run_at,
            by_wall,
            visible_at: run_at,
            attempt: 0,
            tries: new.tries,
            alias: new.alias.as_ref().map(ToString::to_string),
            group: new.group.as_ref().map(ToString::to_string),
            ttl: new.ttl,
            expires_at: new.ttl.map(|ttl| worth_from.after(ttl)),
            again: rule.map(|(rule, left)| Again { rule, left, run: 1 }),
            stands: Stands::Scheduled,
            next: None,
        }
    }

    /// Puts a job that waits into its queue: due if its time has come. One that has expired before
    /// is never due: it waits for that to be noticed. Such a job is a successor that waited for too
    /// long, or a run that was missed.
    pub(super) fn file(&mut self, name: &QueueName, job: Job) {
        let is_due = job.is_time(self.now, self.wall) && !job.has_expired(self.now);
        let stands = if is_due { Stands::Due } else { Stands::Scheduled };
        self.queue(name).jobs.push(Job { stands, ..job });
    }

    pub(super) fn change(
        &mut self,
        name: &QueueName,
        job: &JobRef,
        payload: Option<&JobPayload>,
        due: Option<DueTime>,
    ) -> Result<super::expected::ShownJob, &'static str> {
        let (place, of_successor) = self.find(name, job).ok_or("unknown_job")?;
        let (now, wall) = (self.now, self.wall);
        let mut holder = self.queue(name).jobs[place].clone();
        if holder.is_reserved() && !of_successor {
            return Err("job_reserved");
        }
        let job = if of_successor {
            holder.next.as_mut().map(|next| &mut next.job).ok_or("unknown_job")?
        } else {
            &mut holder
        };
        if let Some(due) = due {
            let (by_wall, at, delay) = match due {
                DueTime::After(delay) => (false, now.after(delay), delay),
                DueTime::At(at) => (true, at, at.since(wall)),
            };
            // A run of a recurring job that was not begun takes its ttl along.
            let takes_along = job.again.is_some() && !job.is_started();
            let expires_at = job.expires_at.filter(|_| !takes_along);
            if expires_at.is_some_and(|expires_at| expires_at <= now.after(delay)) {
                return Err("invalid_time");
            }
            // A retry waits by the engine clock; its time is the given one where both clocks agree.
            let as_given = !by_wall || job.is_started() && clocks_agree(now, wall);
            let on_engine = if as_given { at } else { Timestamp(at.0 + now.0 - wall.0) };
            move_to(job, (by_wall, at), on_engine);
        }
        if let Some(payload) = payload {
            job.payload = payload.clone();
        }
        let id = job.id;
        self.counts.changed += 1;
        if of_successor || due.is_none() {
            self.queue(name).jobs[place] = holder;
        } else {
            self.queue(name).jobs.remove(place);
            self.file(name, holder);
        }
        self.look(name, &JobRef::Id(id))
    }
}

/// Whether both clocks show the same but for rounding.
fn clocks_agree(now: Timestamp, wall: Timestamp) -> bool {
    (wall.0 - now.0).abs() <= 10
}

/// No job has this id.
const NOBODY: JobId = JobId([0; 16]);

fn first_of(rule: Option<(Rule, Option<u32>)>, wall: Timestamp) -> Timestamp {
    rule.map_or(wall, |(rule, _)| rule.next(wall, wall))
}

/// A job that waits has another time; one that was tried keeps when it was first due.
fn move_to(job: &mut Job, (by_wall, at): (bool, Timestamp), on_engine: Timestamp) {
    if job.is_started() {
        job.visible_at = on_engine;
        return;
    }
    (job.by_wall, job.run_at, job.visible_at) = (by_wall, at, at);
    if job.again.is_some() {
        job.expires_at = job.ttl.map(|ttl: Duration| on_engine.after(ttl));
    }
}
