//! A queue of the model: what it has, who is next, and what its users allow.

use std::collections::VecDeque;

use base::Timestamp;
use records::{JobId, QueueOrder, QueueSettings};

use super::dead::Dead;
use super::expected::ShownDead;
use super::job::{Job, Stands};
use crate::harness::calls::CallId;
use crate::harness::violation::Invariant;
use crate::queues::meant::Asked;

/// Parts of a token of a rate: so many that every rate of the workload brings whole parts in a
/// millisecond.
const TOKEN: i128 = 1_000_000;

/// A queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) paused: bool,
    pub(crate) settings: QueueSettings,
    /// In no order.
    pub(crate) jobs: Vec<Job>,
    /// Oldest first.
    pub(crate) dead: Vec<Dead>,
    /// Consumers that wait, the first comes first.
    pub(crate) line: VecDeque<(CallId, Asked)>,
    /// Somebody in the line waits for several queues: it is told, and whoever is behind gets what
    /// it leaves, later.
    pub(crate) is_watched: bool,
    bucket: Option<Bucket>,
}

/// What is left of a rate.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    parts: i128,
    at: Timestamp,
}

impl Queue {
    /// All is gone but those that wait.
    pub(crate) fn empty(&mut self) {
        let (line, is_watched) = (std::mem::take(&mut self.line), self.is_watched);
        *self = Self { line, is_watched, ..Self::default() };
    }

    /// The job with an id; the successor of one is not meant.
    pub(crate) fn place_of(&self, id: JobId) -> Option<usize> {
        self.jobs.iter().position(|job| job.id == id)
    }

    pub(crate) fn holder_of(&self, alias: &str) -> Option<usize> {
        self.jobs.iter().position(|job| job.alias.as_deref() == Some(alias))
    }

    /// The job that the next consumer gets if the queue's rules allow it, expired or not.
    pub(crate) fn first(&self) -> Option<usize> {
        self.first_of(self.ready())
    }

    /// As [`Queue::first`], of the jobs that are surely the first of their group.
    pub(crate) fn sure_first(&self, now: Timestamp) -> Option<usize> {
        self.first_of(self.ready().filter(|place| !self.may_be_behind(*place, now)))
    }

    fn first_of(&self, places: impl Iterator<Item = usize>) -> Option<usize> {
        let order = |place: &usize| self.jobs[*place].order();
        match self.settings.order {
            QueueOrder::Fifo => places.min_by_key(order),
            QueueOrder::Lifo => places.max_by_key(order),
        }
    }

    /// The jobs that may be leased if the queue's rules allow it, expired or not.
    pub(crate) fn ready(&self) -> impl Iterator<Item = usize> {
        (0..self.jobs.len()).filter(|place| self.jobs[*place].is_due() && self.is_its_turn(*place))
    }

    /// Whether a job that is uncertain may go before the first that surely can. It may not be due,
    /// or may be behind another.
    pub(crate) fn may_go_before(&self, place: usize, first: Option<usize>, now: Timestamp) -> bool {
        let job = &self.jobs[place];
        let is_before = first.is_none_or(|first| job.order() < self.jobs[first].order());
        let is_unsure = job.stands == Stands::MayBeDue || (job.is_due() && self.may_be_behind(place, now));
        is_unsure && is_before && self.is_its_turn(place)
    }

    /// Whether another of its group may be due, or may have expired unnoticed, and goes first then.
    /// That one may stand further back in the queue: others come before both.
    fn may_be_behind(&self, place: usize, now: Timestamp) -> bool {
        let job = &self.jobs[place];
        let goes_first = |other: &Job| {
            let is_before = other.order_in_group() < job.order_in_group();
            let may_be_there = other.stands == Stands::MayBeDue || other.has_expired_waiting(now);
            other.group == job.group && may_be_there && is_before
        };
        job.group.is_some() && !job.is_started() && self.jobs.iter().any(goes_first)
    }

    /// Whether nothing of its group is before a job that is due.
    fn is_its_turn(&self, place: usize) -> bool {
        let job = &self.jobs[place];
        let Some(group) = &job.group else { return true };
        let members = || self.jobs.iter().filter(|other| other.group.as_ref() == Some(group));
        if let Some(started) = members().find(|other| other.is_started()) {
            return started.id == job.id;
        }
        // What was passed over has not left yet.
        let there = members().filter(|other| matches!(other.stands, Stands::Due | Stands::PassedOver));
        there.map(Job::order_in_group).min().is_none_or(|first| job.order_in_group() <= first)
    }

    /// The promise that is broken when a job is leased now.
    pub(crate) fn why_not(&self, job: &Job, (now, wall): (Timestamp, Timestamp)) -> Invariant {
        let place = self.jobs.iter().position(|other| other.id == job.id);
        match () {
            () if job.is_reserved() => Invariant::ONE_LEASE,
            () if !job.is_time(now, wall) => Invariant::NEVER_EARLY_HARDLY_LATE,
            () if place.is_some_and(|place| !self.is_its_turn(place)) => Invariant::GROUP_ORDER,
            () => Invariant::AS_THE_MODEL,
        }
    }

    /// Whether a job may be leased, if there is one.
    pub(crate) fn allows(&self, now: Timestamp) -> bool {
        let reserved = self.jobs.iter().filter(|job| job.is_reserved()).count();
        let has_hands = self.settings.concurrency.is_none_or(|most| reserved < most as usize);
        !self.paused && has_hands && self.tokens(now).is_none_or(|parts| parts >= TOKEN)
    }

    /// A job was leased.
    pub(crate) fn take_token(&mut self, now: Timestamp) {
        if let Some(parts) = self.tokens(now) {
            self.bucket = Some(Bucket { parts: parts - TOKEN, at: now });
        }
    }

    /// A lease reached nobody.
    pub(crate) fn give_token(&mut self, now: Timestamp) {
        if let Some(parts) = self.tokens(now) {
            self.bucket = Some(Bucket { parts: parts + TOKEN, at: now });
            self.bucket = self.tokens(now).map(|parts| Bucket { parts, at: now });
        }
    }

    /// A queue is set; what is left of a rate stays, as much as fits.
    pub(crate) fn set(&mut self, settings: QueueSettings, now: Timestamp) {
        let left = self.tokens(now);
        self.settings = settings;
        self.bucket = settings.rate.map(|_| Bucket { parts: left.unwrap_or(i128::MAX), at: now });
        self.bucket = self.tokens(now).map(|parts| Bucket { parts, at: now });
    }

    /// After a start a second's worth may go at once.
    pub(crate) fn fill_bucket(&mut self, now: Timestamp) {
        self.bucket = None;
        self.set(self.settings, now);
    }

    fn tokens(&self, now: Timestamp) -> Option<i128> {
        let (bucket, rate) = self.bucket.zip(self.settings.rate)?;
        let per_ms = (rate * TOKEN as f64 / 1_000.0) as i128;
        let most = (per_ms * 1_000).max(TOKEN);
        Some(bucket.parts.saturating_add(per_ms * i128::from((now.0 - bucket.at.0).max(0))).min(most))
    }

    pub(crate) fn shown_dead(&self) -> Vec<ShownDead> {
        self.dead.iter().map(Dead::shown).collect()
    }

    /// Whether a list of queues leaves it out.
    pub(crate) fn is_empty(&self) -> bool {
        let is_plain = !self.paused && self.settings == QueueSettings::default();
        is_plain && self.jobs.is_empty() && self.dead.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use engine::queues::JobPayload;

    use super::*;

    fn job(number: u8, group: Option<&str>, (run_at, visible_at): (i64, i64), stands: Stands) -> Job {
        Job {
            id: JobId([number; 16]),
            payload: JobPayload::Json("1".into()),
            number: number.into(),
            published_at: Timestamp(0),
            run_at: Timestamp(run_at),
            by_wall: stands == Stands::MayBeDue,
            visible_at: Timestamp(visible_at),
            attempt: 0,
            tries: 1,
            alias: None,
            group: group.map(str::to_owned),
            ttl: None,
            expires_at: None,
            again: None,
            stands,
            next: None,
        }
    }

    #[test]
    fn nobody_is_surely_first_behind_one_of_its_group_that_may_be_due() {
        let jobs = vec![
            // It was to take over earlier than it could: its place in the queue is a later one.
            job(0, Some("group"), (10, 40), Stands::MayBeDue),
            job(1, Some("group"), (20, 20), Stands::Due),
            job(2, None, (30, 30), Stands::Due),
        ];
        let mut queue = Queue { jobs, ..Queue::default() };
        let may_go = |queue: &Queue| {
            let first = queue.sure_first(Timestamp(50));
            let may_go = (0..3)
                .filter(|place| first == Some(*place) || queue.may_go_before(*place, first, Timestamp(50)));
            may_go.collect::<Vec<usize>>()
        };
        assert_eq!(may_go(&queue), [1, 2]);
        queue.jobs[0].stands = Stands::Due;
        assert_eq!(may_go(&queue), [2], "the first of the group is due, and comes later");
        queue.jobs[0].stands = Stands::Scheduled;
        assert_eq!(may_go(&queue), [1]);
        queue.jobs[0].stands = Stands::MayBeDue;
        queue.jobs[1].attempt = 1;
        assert_eq!(may_go(&queue), [1], "nobody goes before one that has started");
        queue.jobs[1].attempt = 0;
        (queue.jobs[0].stands, queue.jobs[0].expires_at) = (Stands::Scheduled, Some(Timestamp(50)));
        assert_eq!(may_go(&queue), [1, 2], "one that has expired may not be gone yet");
    }
}
