//! What queues keep of a partition in memory: parked jobs, dead letters and kept answers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use base::Timestamp;
use records::{
    AliasKey, AnswerKey, DeadJob, GroupKey, JobClock, JobHead, JobId, KeptAnswer, ParkedJob, ParkedKey,
    Queue, QueueCounts, QueueKey,
};

use super::partition::MemoryPartition;
use crate::port::{ParkedTimes, Resident, StoredJob, parked_lines, parked_span, parked_time};

/// A line of jobs that wait for a worker, and a place in it.
type InLine = ((QueueKey, Option<GroupKey>), (Timestamp, u64));

/// What is kept of queues.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryQueues {
    queues: BTreeMap<QueueKey, Queue>,
    counts: BTreeMap<QueueKey, QueueCounts>,
    parked: BTreeMap<JobId, ParkedJob>,
    /// By span of time and id, as the embedded store has them.
    by_time: BTreeSet<(JobClock, i64, JobId, Timestamp)>,
    by_line: BTreeMap<InLine, JobId>,
    aliases: BTreeMap<(QueueKey, AliasKey), JobId>,
    dead: BTreeMap<(QueueKey, u64), DeadJob>,
    dead_ids: BTreeMap<(QueueKey, JobId), u64>,
    answers: BTreeMap<AnswerKey, KeptAnswer>,
    answers_by_time: BTreeSet<(Timestamp, AnswerKey)>,
}

fn in_lines(key: &ParkedKey) -> impl Iterator<Item = InLine> + '_ {
    parked_lines(key).map(|group| ((key.queue, group), (key.visible_at, key.number)))
}

impl MemoryQueues {
    pub(super) fn put(&mut self, queue: Queue) {
        self.queues.insert(queue.key, queue);
    }

    pub(super) fn delete(&mut self, queue: QueueKey) {
        self.queues.remove(&queue);
        self.counts.remove(&queue);
    }

    pub(super) fn count(&mut self, queue: QueueKey, counts: QueueCounts) {
        self.counts.insert(queue, counts);
    }

    pub(super) fn assert_not_parked(&self, id: JobId) {
        assert!(!self.parked.contains_key(&id), "{id:?} is resident or parked, not both");
    }

    pub(super) fn park(&mut self, job: ParkedJob) {
        let key = job.key();
        self.assert_not_parked(key.id);
        self.by_time.extend(parked_time(&key).map(|(clock, at)| (clock, parked_span(at), key.id, at)));
        for place in in_lines(&key) {
            let other = self.by_line.insert(place, key.id);
            assert_eq!(
                other, None,
                "a place in a line is that of one job: publish numbers are not used again"
            );
        }
        if let Some(alias) = key.alias {
            let other = self.aliases.insert((key.queue, alias), key.id);
            assert_eq!(
                other, None,
                "an alias has one job of a queue: the parked one before {:?} is not",
                key.id
            );
        }
        self.parked.insert(key.id, job);
    }

    pub(super) fn unpark(&mut self, key: &ParkedKey) {
        let job = self.parked.remove(&key.id);
        assert_eq!(job.map(|job| job.key()).as_ref(), Some(key), "a job is unparked as it was parked");
        if let Some((clock, at)) = parked_time(key) {
            self.by_time.remove(&(clock, parked_span(at), key.id, at));
        }
        for place in in_lines(key) {
            self.by_line.remove(&place);
        }
        if let Some(alias) = key.alias {
            self.aliases.remove(&(key.queue, alias));
        }
    }

    pub(super) fn put_dead(&mut self, dead: DeadJob) {
        let other = self.dead_ids.insert((dead.queue, dead.id), dead.number);
        assert_eq!(other.filter(|other| *other != dead.number), None, "a job dies once");
        self.dead.insert((dead.queue, dead.number), dead);
    }

    pub(super) fn delete_dead(&mut self, queue: QueueKey, number: u64, id: JobId) {
        self.dead.remove(&(queue, number));
        self.dead_ids.remove(&(queue, id));
    }

    pub(super) fn put_answer(&mut self, answer: KeptAnswer) {
        self.answers_by_time.insert((answer.at, answer.key));
        let other = self.answers.insert(answer.key, answer);
        assert_eq!(other, None, "an answer is deleted before the next one of its key");
    }

    pub(super) fn delete_answer(&mut self, key: AnswerKey, at: Timestamp) {
        self.answers.remove(&key);
        self.answers_by_time.remove(&(at, key));
    }

    pub(super) fn load(&self, resident: &mut dyn FnMut(Resident)) {
        for (key, queue) in &self.queues {
            let counts = self.counts.get(key).copied().unwrap_or_default();
            resident(Resident::Queue(Box::new(queue.clone()), counts));
        }
    }

    fn parked(&self, id: JobId) -> Option<ParkedJob> {
        self.parked.get(&id).cloned()
    }

    pub(super) fn parked_alias(&self, queue: QueueKey, alias: AliasKey) -> Option<ParkedJob> {
        self.aliases.get(&(queue, alias)).and_then(|id| self.parked(*id))
    }

    pub(super) fn parked_times(
        &self,
        clock: JobClock,
        (at, id): (Timestamp, JobId),
        scan_max: usize,
    ) -> ParkedTimes {
        let low = Bound::Excluded((clock, parked_span(at), id, at));
        let places = self.by_time.range((low, Bound::Unbounded)).take_while(|(other, ..)| *other == clock);
        let found: Vec<_> = places.map(|(_, _, id, at)| (*at, *id)).take(scan_max).collect();
        let next = found.last().copied().filter(|_| found.len() == scan_max);
        ParkedTimes { found, next }
    }

    pub(super) fn parked_line(
        &self,
        line: (QueueKey, Option<GroupKey>),
        after: Option<(Timestamp, u64)>,
        from_back: bool,
        limit: usize,
    ) -> Vec<ParkedJob> {
        let place = |at, number| (line, (Timestamp(at), number));
        let places = self.by_line.range(place(i64::MIN, 0)..=place(i64::MAX, u64::MAX));
        let is_behind =
            |of: (Timestamp, u64)| after.is_none_or(|after| if from_back { of < after } else { of > after });
        let jobs = places.filter(|((_, place), _)| is_behind(*place)).filter_map(|(_, id)| self.parked(*id));
        if from_back { jobs.rev().take(limit).collect() } else { jobs.take(limit).collect() }
    }

    pub(super) fn dead(
        &self,
        queue: QueueKey,
        after: Option<u64>,
        ascending: bool,
        limit: usize,
    ) -> Vec<DeadJob> {
        let dead = self.dead.range((queue, 0)..=(queue, u64::MAX)).map(|(_, dead)| dead.clone());
        if ascending {
            dead.filter(|dead| after.is_none_or(|after| dead.number > after)).take(limit).collect()
        } else {
            dead.rev().filter(|dead| after.is_none_or(|after| dead.number < after)).take(limit).collect()
        }
    }

    pub(super) fn dead_by_id(&self, queue: QueueKey, id: JobId) -> Option<DeadJob> {
        self.dead_ids.get(&(queue, id)).and_then(|number| self.dead.get(&(queue, *number)).cloned())
    }

    pub(super) fn answer(&self, key: AnswerKey) -> Option<KeptAnswer> {
        self.answers.get(&key).cloned()
    }

    pub(super) fn answers_before(&self, at: Timestamp, limit: usize) -> Vec<(Timestamp, AnswerKey)> {
        self.answers_by_time.range(..(at, AnswerKey(0))).take(limit).copied().collect()
    }
}

impl MemoryPartition {
    pub(super) fn job(&self, id: JobId) -> Option<StoredJob> {
        let resident = self.jobs.get(&id).cloned().map(StoredJob::Resident);
        resident.or_else(|| self.queues.parked(id).map(StoredJob::Parked))
    }

    /// Every job behind an id, in order.
    pub(super) fn jobs_of(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
        (scan_max, limit): (usize, usize),
        keep: &dyn Fn(&JobHead) -> bool,
    ) -> (Vec<JobHead>, Option<JobId>) {
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let resident = self.jobs.range(range).map(|(id, head)| (*id, head));
        let parked = self.queues.parked.range(range).map(|(id, job)| (*id, &job.head));
        let all: BTreeMap<_, _> = resident.chain(parked).collect();
        let mut found = Vec::new();
        let mut last = after;
        for (scanned, (id, head)) in all.into_iter().enumerate() {
            if scanned >= scan_max || found.len() >= limit {
                return (found, last);
            }
            last = Some(id);
            if head.queue == queue && keep(head) {
                found.push(head.clone());
            }
        }
        (found, None)
    }
}
