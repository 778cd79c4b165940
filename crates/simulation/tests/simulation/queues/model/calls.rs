//! Looking at jobs and queues in the model, cancelling, and deleting.

use std::time::Duration;

use base::Timestamp;
use engine::queues::{JobRef, JobState, QueueName};
use records::QueueOrder;

use super::Partition;
use super::expected::{Expected, ShownJob, ShownStats};
use super::job::{Job, Stands};

impl Partition {
    /// The place of the job that is meant, and whether it is its successor.
    pub(super) fn find(&mut self, name: &QueueName, job: &JobRef) -> Option<(usize, bool)> {
        let now = self.now;
        let (place, of_successor) = self.find_as_it_was(name, job)?;
        let holder = &self.queue(name).jobs[place];
        let meant = if of_successor { holder.meant() } else { holder };
        let Some(alias) = meant.alias.clone().filter(|_| meant.has_expired_waiting(now)) else {
            return Some((place, of_successor));
        };
        self.settle_alias(name, &alias);
        self.find_as_it_was(name, job)
    }

    fn find_as_it_was(&mut self, name: &QueueName, job: &JobRef) -> Option<(usize, bool)> {
        let queue = self.queue(name);
        match job {
            JobRef::Alias(alias) => {
                let place = queue.holder_of(alias)?;
                Some((place, queue.jobs[place].next.is_some()))
            }
            JobRef::Id(id) => queue.place_of(*id).map(|place| (place, false)).or_else(|| {
                let is_next = |job: &Job| job.next.as_ref().is_some_and(|next| next.job.id == *id);
                queue.jobs.iter().position(is_next).map(|place| (place, true))
            }),
        }
    }

    pub(super) fn look(&mut self, name: &QueueName, job: &JobRef) -> Result<ShownJob, &'static str> {
        let (place, of_successor) = self.find(name, job).ok_or("unknown_job")?;
        let (now, wall) = (self.now, self.wall);
        let holder = &self.queue(name).jobs[place];
        if of_successor {
            // Whatever its time is, it waits for the other one to end.
            return Ok(ShownJob { state: JobState::Scheduled, ..shown(holder.meant(), now, wall) });
        }
        Ok(shown(holder, now, wall))
    }

    /// The jobs that may be shown as the next one. Where most are parked and the newest goes first,
    /// it is the newest that was read.
    pub(super) fn peek(&mut self, name: &QueueName) -> Vec<ShownJob> {
        let (now, wall, is_parking) = (self.now, self.wall, self.is_parking);
        let queue = self.queue(name);
        let places: Vec<usize> = match queue.settings.order {
            QueueOrder::Lifo if is_parking => queue.ready().collect(),
            QueueOrder::Lifo | QueueOrder::Fifo => queue.sure_first(now).into_iter().collect(),
        };
        let first = queue.sure_first(now).filter(|_| queue.settings.order == QueueOrder::Fifo);
        let may_be = (0..queue.jobs.len()).filter(|place| queue.may_go_before(*place, first, now));
        let places = places.into_iter().chain(may_be).collect::<Vec<_>>();
        places.into_iter().map(|place| shown(&queue.jobs[place], now, wall)).collect()
    }

    pub(super) fn cancel(&mut self, name: &QueueName, job: &JobRef) -> Result<(), &'static str> {
        let (place, of_successor) = self.find(name, job).ok_or("unknown_job")?;
        self.counts.cancelled += 1;
        if of_successor {
            self.queue(name).jobs[place].next = None;
        } else {
            self.end(name, place);
        }
        Ok(())
    }

    fn stats(&mut self, name: &QueueName) -> ShownStats {
        let (now, is_parking) = (self.now, self.is_parking);
        let ahead = self.wall.0 - now.0;
        let queue = self.queue(name);
        let count =
            |is: &dyn Fn(&Stands) -> bool| queue.jobs.iter().filter(|job| is(&job.stands)).count() as u64;
        let since = |place: usize| {
            let job = &queue.jobs[place];
            let at = job.visible_at.0 - if job.waits_by_wall() { ahead } else { 0 };
            // Nobody waited for it before it was published.
            Duration::from_millis((now.0 - at.max(job.published_at.0)).max(0) as u64)
        };
        ShownStats {
            name: name.clone(),
            scheduled: count(&|stands| {
                matches!(stands, Stands::Scheduled | Stands::MayBeDue | Stands::PassedOver)
            }),
            ready: count(&|stands| matches!(stands, Stands::Due)),
            reserved: count(&|stands| matches!(stands, Stands::Reserved(_))),
            dead: queue.dead.len() as u64,
            // Of the jobs in memory only: which these are, the model does not know.
            oldest_ready: queue.ready().map(since).max().filter(|_| !is_parking),
            paused: queue.paused,
            settings: queue.settings,
        }
    }

    pub(super) fn stats_of(&mut self, names: &[QueueName]) -> Expected {
        let shown = names.iter().map(|name| self.stats(name)).collect();
        let mut jobs = self.queues.values().flat_map(|queue| &queue.jobs);
        let is_sure = jobs.all(|job| job.stands != Stands::MayBeDue);
        Expected::QueueStats { shown, is_sure, late: self.expired_in_step }
    }

    /// Whether jobs have expired, and should be gone. One on the wall clock is looked at when its
    /// time comes.
    pub(crate) fn keeps_expired(&self) -> bool {
        let is_late = |job: &Job| job.has_expired_waiting(self.now) && job.is_time(self.now, self.wall);
        self.queues.values().any(|queue| queue.jobs.iter().any(is_late))
    }

    /// The queues that have something.
    pub(super) fn list(&self, namespace: Option<&str>) -> Vec<QueueName> {
        let there = self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(name, _)| name.clone());
        there.filter(|name| namespace.is_none_or(|namespace| name.namespace() == namespace)).collect()
    }

    /// A queue with all that it has is gone; whoever waits goes on waiting.
    pub(super) fn delete(&mut self, name: &QueueName) {
        self.counts.deleted += 1;
        self.control(name, None);
        self.queue(name).empty();
    }
}

/// A job as it is looked at.
pub(crate) fn shown(job: &Job, now: Timestamp, wall: Timestamp) -> ShownJob {
    let state = match job.stands {
        Stands::Reserved(_) => JobState::Reserved,
        _ if job.is_time(now, wall) => JobState::Ready,
        _ => JobState::Scheduled,
    };
    ShownJob {
        id: job.id,
        state,
        payload: job.payload.clone(),
        run_at: if job.is_reserved() { job.run_at } else { job.visible_at },
        published_at: job.published_at,
        expires_at: job.expires_at,
        attempt: job.attempt,
        tries: job.tries,
        alias: job.alias.clone(),
        group: job.group.clone(),
    }
}
