//! Dead letters: jobs that failed for good, kept within the queue's limits, read, and tried again.

use std::time::Duration;

use base::Timestamp;
use base::limits::DEAD_LETTERS_DEFAULT;
use compact_str::CompactString;
use jobs::{ConflictPolicy, NewJobHead};
use records::{DeadJob, DeadReason, JobId, JobTerms, Op, QueueKey};
use store::StoreError;

use super::ending::EndedRun;
use super::oldest_dead::Place;
use super::{PartitionQueue, QueuePartition, QueueStep, RECORDS_MAX};
use crate::kernel::reply::InputFailure;
use crate::queues::input::{Dead, Respawned};
use crate::queues::{Attributes, JobPayload, QueueName, body, checks, id};

/// Dead letters of a queue that are read to see whether any is too old; if all of them are, more
/// are read.
const AGED_AT_FIRST: usize = 16;

/// A dead letter with what it carries.
#[derive(Clone, Debug)]
pub struct DeadView {
    /// What became of it.
    pub dead: DeadJob,
    /// What it carries.
    pub payload: JobPayload,
    /// For edges only.
    pub attributes: Attributes,
}

impl QueuePartition {
    /// Makes a job whose body stays a dead letter under `id`.
    pub(super) fn bury(
        &mut self,
        ended: &EndedRun,
        id: JobId,
        reason: DeadReason,
        error: Option<CompactString>,
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        step.own.counted.dead += 1;
        if !self.queues.contains_key(&ended.queue) {
            // Its queue was deleted while it ran.
            step.push(Op::DeleteJobBody(id));
            return Ok(());
        }
        let dead = DeadJob {
            queue: ended.queue,
            number: self.head.next_dead,
            id,
            attempt: ended.attempt,
            tries: ended.tries,
            reason,
            error,
            died_at: step.now,
            group: ended.group,
        };
        self.head.next_dead += 1;
        let place = (dead.number, dead.id);
        self.dead.put(step.seq, (dead.queue, dead.number), Some(dead.clone()));
        step.push(Op::PutDead(Box::new(dead)));
        self.count_dead(ended.queue, step, |count| count + 1);
        let before = self.queues.get(&ended.queue).map_or(0, |queue| queue.dead - 1);
        if self.surplus(ended.queue) > 0 && self.oldest_dead.len(ended.queue) as u64 == before {
            self.oldest_dead.push(ended.queue, place);
        }
        self.keep_age(ended.queue, step.now);
        self.drop_surplus(ended.queue, step)
    }

    fn count_dead(&mut self, key: QueueKey, step: &mut QueueStep<'_>, change: impl FnOnce(u64) -> u64) {
        let Some(queue) = self.queues.get_mut(&key) else { return };
        self.dead_total -= queue.dead;
        queue.dead = change(queue.dead);
        self.dead_total += queue.dead;
        self.troubled.note(key);
        step.own.touched.push(key);
        step.own.recounted.insert(key);
    }

    /// The first one of a queue brings its age into view.
    fn keep_age(&mut self, key: QueueKey, now: Timestamp) {
        let Some(queue) = self.queues.get(&key).filter(|queue| queue.dead == 1) else { return };
        if let Some(age) = queue.settings.dead_max_age_ms {
            self.watch_age(key, now.after(Duration::from_millis(age)));
        }
    }

    /// More than a queue may keep: the oldest go, some now and the others in the steps that follow.
    pub(super) fn drop_surplus(&mut self, key: QueueKey, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        let surplus = self.surplus(key);
        if surplus == 0 {
            return Ok(());
        }
        let going = usize::try_from(surplus).unwrap_or(RECORDS_MAX).min(RECORDS_MAX);
        if self.oldest_dead.len(key) < going {
            let oldest = self.read_oldest(key, RECORDS_MAX, step)?;
            self.oldest_dead.remember(key, &oldest);
        }
        let oldest = self.oldest_dead.first(key, going);
        step.own.counted.dead_dropped += oldest.len() as u64;
        self.remove_dead(key, &oldest, true, step);
        if self.surplus(key) > 0 {
            self.overfull.insert(key);
        }
        Ok(())
    }

    /// Goes on where there was too much at once. Whether there is more of it.
    pub(super) fn drop_more_surplus(&mut self, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        if let Some(key) = self.overfull.pop_first() {
            self.drop_surplus(key, step)?;
        }
        Ok(!self.overfull.is_empty())
    }

    /// How many dead letters a queue has that it may not keep.
    fn surplus(&self, key: QueueKey) -> u64 {
        let over = |queue: &PartitionQueue| {
            queue.dead.saturating_sub(queue.settings.dead_max.unwrap_or(DEAD_LETTERS_DEFAULT))
        };
        self.queues.get(&key).map_or(0, over)
    }

    /// Has dead letters looked at when the oldest may be too old.
    pub(super) fn watch_age(&mut self, key: QueueKey, at: Timestamp) {
        let Some(queue) = self.queues.get_mut(&key) else { return };
        let ages = queue.dead > 0 && queue.settings.dead_max_age_ms.is_some();
        if !ages || queue.ages_at.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = queue.ages_at.replace(at) {
            self.ageing.remove(&(before, key));
        }
        self.ageing.insert((at, key));
    }

    /// The oldest dead letters, those of batches on their way included.
    fn read_oldest(
        &mut self,
        key: QueueKey,
        limit: usize,
        step: &QueueStep<'_>,
    ) -> Result<Vec<DeadJob>, StoreError> {
        // What is on its way to be deleted is still in the view, at its front.
        let asked = limit + self.dead.len();
        let gone = self.queues.get(&key).and_then(|queue| queue.dead_gone);
        let stored = step.fetch.view()?.dead(key, gone, true, asked)?;
        let whole = stored.len() < asked;
        let stored = stored.into_iter().map(|dead| ((dead.queue, dead.number), dead)).collect();
        let oldest = self.dead.merged(stored, whole, limit, |dead| dead.number, |dead| dead.queue == key);
        // Those that die later have higher numbers.
        let before = oldest.first().and_then(|first| first.number.checked_sub(1));
        if let Some(queue) = self.queues.get_mut(&key)
            && before.is_some()
        {
            queue.dead_gone = before;
        }
        Ok(oldest)
    }

    fn remove_dead(&mut self, key: QueueKey, dead: &[Place], body_too: bool, step: &mut QueueStep<'_>) {
        for (number, id) in dead.iter().copied() {
            self.dead.put(step.seq, (key, number), None);
            self.oldest_dead.remove(key, number);
            step.push(Op::DeleteDead(key, number, id));
            if body_too {
                step.push(Op::DeleteJobBody(id));
            }
        }
        self.count_dead(key, step, |count| count.saturating_sub(dead.len() as u64));
    }

    pub(super) fn dead_page(
        &self,
        queue: &QueueName,
        after: Option<u64>,
        limit: usize,
        step: &mut QueueStep<'_>,
    ) -> Result<Vec<DeadView>, StoreError> {
        let Some(key) = self.key_of(queue) else { return Ok(Vec::new()) };
        let asked = limit + self.dead.len();
        let stored = step.fetch.view()?.dead(key, after, true, asked)?;
        let whole = stored.len() < asked;
        let stored = stored.into_iter().map(|dead| ((dead.queue, dead.number), dead)).collect();
        let wanted = |dead: &DeadJob| dead.queue == key && after.is_none_or(|after| dead.number > after);
        let page = self.dead.merged(stored, whole, limit, |dead| dead.number, wanted);
        page.into_iter().map(|dead| self.view_dead(dead, step)).collect()
    }

    /// With what it carries; a body that cannot be read shows as nothing rather than hiding the
    /// others.
    fn view_dead(&self, dead: DeadJob, step: &mut QueueStep<'_>) -> Result<DeadView, StoreError> {
        let body = body::read(&self.body(dead.id, step)?);
        let nothing = || (JobPayload::Json("null".into()), Attributes::new());
        let (payload, attributes) = body.map_or_else(|_| nothing(), |body| (body.payload, body.attributes));
        Ok(DeadView { dead, payload, attributes })
    }

    pub(super) fn find_dead(
        &self,
        queue: &QueueName,
        id: JobId,
        step: &mut QueueStep<'_>,
    ) -> Result<Option<DeadView>, StoreError> {
        let Some(key) = self.key_of(queue) else { return Ok(None) };
        let dead = self.dead_by_id(key, id, step)?;
        dead.map(|dead| self.view_dead(dead, step)).transpose()
    }

    pub(super) fn delete_dead(
        &mut self,
        queue: &QueueName,
        which: &Dead,
        step: &mut QueueStep<'_>,
    ) -> Result<usize, StoreError> {
        let Some(key) = self.key_of(queue) else { return Ok(0) };
        let dead = self.these_dead(key, which, step)?;
        self.remove_dead(key, &places(&dead), true, step);
        Ok(dead.len())
    }

    fn these_dead(
        &mut self,
        key: QueueKey,
        which: &Dead,
        step: &QueueStep<'_>,
    ) -> Result<Vec<DeadJob>, StoreError> {
        let ids = match which {
            Dead::Oldest(most) => return self.read_oldest(key, (*most).min(RECORDS_MAX), step),
            Dead::Ids(ids) => ids,
        };
        let mut found: Vec<DeadJob> = Vec::with_capacity(ids.len());
        for id in ids {
            let known = |dead: &DeadJob| found.iter().any(|other| other.number == dead.number);
            let dead = self.dead_by_id(key, *id, step)?.filter(|dead| !known(dead));
            found.extend(dead);
        }
        Ok(found)
    }

    pub(super) fn respawn(
        &mut self,
        queue: &QueueName,
        which: &Dead,
        ttl: Option<Duration>,
        step: &mut QueueStep<'_>,
    ) -> Result<Respawned, InputFailure> {
        let Some(key) = self.key_of(queue) else { return Ok(Respawned::default()) };
        let dead = self.these_dead(key, which, step)?;
        let room = usize::try_from(self.room_in(key)).unwrap_or(usize::MAX);
        if room == 0 && !dead.is_empty() {
            return Err(self.queue_full(queue, key).into());
        }
        let mut count = 0;
        while count < dead.len().min(room) && (count == 0 || step.has_room()) {
            self.raise(&dead[count], ttl, step)?;
            count += 1;
        }
        self.remove_dead(key, &places(&dead[..count]), false, step);
        let left = (count < dead.len() && count < room).then(|| match which {
            Dead::Oldest(most) => Dead::Oldest(most - count),
            Dead::Ids(_) => Dead::Ids(dead[count..].iter().map(|dead| dead.id).collect()),
        });
        Ok(Respawned { count, left })
    }

    fn dead_by_id(
        &self,
        key: QueueKey,
        id: JobId,
        step: &QueueStep<'_>,
    ) -> Result<Option<DeadJob>, StoreError> {
        if let Some(recent) = self.dead.present().find(|dead| dead.queue == key && dead.id == id) {
            return Ok(Some(recent.clone()));
        }
        let stored = step.fetch.view()?.dead_by_id(key, id)?;
        Ok(stored.filter(|dead| self.dead.get(&(key, dead.number)).is_none()))
    }

    /// Publishes a dead job again, under its id and with all its tries; without its alias if that
    /// is held by another.
    fn raise(
        &mut self,
        dead: &DeadJob,
        ttl: Option<Duration>,
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        let stored = self.body(dead.id, step)?;
        let mut body = body::read(&stored).ok();
        let mut alias = body.as_ref().and_then(|body| body.alias.as_deref()).map(checks::alias_key);
        if let Some(alias) = alias {
            self.settle_alias(dead.queue, alias, step)?;
        }
        if alias.is_some_and(|alias| self.jobs.by_alias(dead.queue, alias).is_some()) {
            alias = None;
            if let Some(body) = &mut body {
                body.alias = None;
                let bytes = body.write().into();
                self.put_body(dead.id, bytes, step);
            }
        }
        let ttl = ttl.or_else(|| body.as_ref().and_then(|body| body.ttl)).filter(|ttl| !ttl.is_zero());
        let terms = JobTerms {
            expires_at: ttl.map(|ttl| step.now.after(ttl)),
            group: dead.group,
            ..JobTerms::default()
        };
        let job = NewJobHead {
            id: dead.id,
            queue: dead.queue,
            run_at: step.now,
            tries: dead.tries,
            terms,
            alias,
            on_conflict: ConflictPolicy::Reject,
        };
        let published = self.jobs.publish(job, &mut step.jobs());
        debug_assert_eq!(
            published,
            jobs::PublishOutcome::New,
            "its alias, if any, is free: {}",
            id::id_text(dead.id)
        );
        step.own.counted.published += 1;
        Ok(())
    }

    /// Dead letters that are too old go, as far as the step has room. Whether there may be more of
    /// them now.
    pub(super) fn age_dead(&mut self, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        while let Some((at, key)) = self.ageing.first().copied().filter(|(at, _)| *at <= step.now) {
            if !step.has_room() || !step.own.budget.may_read_dead() {
                return Ok(true);
            }
            self.ageing.remove(&(at, key));
            self.age_dead_of(key, step)?;
        }
        Ok(false)
    }

    fn age_dead_of(&mut self, key: QueueKey, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        let Some(queue) = self.queues.get_mut(&key) else { return Ok(()) };
        queue.ages_at = None;
        let Some(age) = queue.settings.dead_max_age_ms.filter(|_| queue.dead > 0) else { return Ok(()) };
        let (age, now) = (Duration::from_millis(age), step.now);
        let is_young = |dead: &DeadJob| dead.died_at.after(age) > now;
        step.own.budget.spent.dead_read += AGED_AT_FIRST;
        let mut oldest = self.read_oldest(key, AGED_AT_FIRST, step)?;
        if oldest.len() == AGED_AT_FIRST && !oldest.iter().any(is_young) {
            step.own.budget.spent.dead_read += RECORDS_MAX;
            oldest = self.read_oldest(key, RECORDS_MAX, step)?;
        }
        let young = oldest.iter().position(is_young);
        let next = young.map(|place| oldest[place].died_at.after(age));
        oldest.truncate(young.unwrap_or(oldest.len()));
        step.own.counted.dead_dropped += oldest.len() as u64;
        if oldest.is_empty() && next.is_none() {
            // The count says that there are some, and there are none: nothing will ever become too
            // old.
            debug_assert!(false, "what is counted is there");
            return Ok(());
        }
        if !oldest.is_empty() {
            self.remove_dead(key, &places(&oldest), true, step);
        }
        self.watch_age(key, next.unwrap_or(step.now));
        Ok(())
    }
}

fn places(dead: &[DeadJob]) -> Vec<Place> {
    dead.iter().map(|dead| (dead.number, dead.id)).collect()
}
