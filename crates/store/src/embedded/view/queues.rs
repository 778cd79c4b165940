//! What queues keep: jobs wherever they are, dead letters and kept answers.

use base::Timestamp;
use records::{
    AliasKey, AnswerKey, DeadJob, GroupKey, JobClock, JobHead, JobId, KeptAnswer, ParkedJob, QueueKey,
};
use std::iter::Peekable;
use std::ops::Bound;

use super::EmbeddedView;
use super::merged::Merged;
use crate::codec::Stored;
use crate::codec::key::{self, Key, TimedKey};
use crate::embedded::tables::Table;
use crate::key_range::KeyRange;
use crate::port::{ParkedTimes, StoreError, StoredJob};

impl EmbeddedView {
    pub(super) fn job_by_id(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        match self.record(Table::JobHeads, &key::job(id))? {
            Some(head) => Ok(Some(StoredJob::Resident(head))),
            None => Ok(self.parked(id)?.map(StoredJob::Parked)),
        }
    }

    fn parked(&self, id: JobId) -> Result<Option<ParkedJob>, StoreError> {
        self.record(Table::ParkedJobs, &key::job(id))
    }

    /// The parked job that a row names.
    fn named(&self, table: Table, key: &[u8], id: JobId) -> Result<ParkedJob, StoreError> {
        let missing = || self.damaged_at(table, key, "the parked job that it names is missing".to_owned());
        self.parked(id)?.ok_or_else(missing)
    }

    fn named_by_value(&self, table: Table, key: &[u8], value: &[u8]) -> Result<ParkedJob, StoreError> {
        let id = key::job_from(value).map_err(|error| self.damaged(table, key, &error))?;
        self.named(table, key, id)
    }

    pub(super) fn parked_with_alias(
        &self,
        queue: QueueKey,
        alias: AliasKey,
    ) -> Result<Option<ParkedJob>, StoreError> {
        let (table, key) = (Table::ParkedAliases, key::alias(queue, alias));
        self.get(table, &key)?.map(|value| self.named_by_value(table, &key, &value)).transpose()
    }

    fn timed(&self, key: &[u8]) -> Result<TimedKey, StoreError> {
        TimedKey::from_key(key).map_err(|error| self.damaged(Table::ParkedByTime, key, &error))
    }

    pub(super) fn times(
        &self,
        clock: JobClock,
        (at, id): (Timestamp, JobId),
        scan_max: usize,
    ) -> Result<ParkedTimes, StoreError> {
        let low = Bound::Excluded(TimedKey { clock, at, id }.to_key());
        let mut rows = self.rows(Table::ParkedByTime, &KeyRange { low, ..of_clock(clock) }, true)?;
        let mut times = ParkedTimes::default();
        for _ in 0..scan_max {
            let Some(row) = rows.next_or_gone() else { return Ok(ParkedTimes { next: None, ..times }) };
            let (key, row) = row?;
            let TimedKey { at, id, .. } = self.timed(&key)?;
            times.next = Some((at, id));
            if row.is_some() {
                times.found.push((at, id));
            }
        }
        Ok(times)
    }

    pub(super) fn line(
        &self,
        (queue, group): (QueueKey, Option<GroupKey>),
        after: Option<(Timestamp, u64)>,
        from_back: bool,
        limit: usize,
    ) -> Result<Vec<ParkedJob>, StoreError> {
        let last = after.map(|after| key::place_in_line(queue, group, after));
        let (table, range) = (Table::ParkedByLine, KeyRange::of(&key::line(queue, group)));
        let range = if from_back { range.before(last) } else { range.after(last) };
        let rows = self.rows(table, &range, !from_back)?.take(limit);
        let named = |row: Result<(Key, Vec<u8>), StoreError>| {
            row.and_then(|(key, value)| self.named_by_value(table, &key, &value))
        };
        rows.map(named).collect()
    }

    pub(super) fn jobs_in(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
        (scan_max, limit): (usize, usize),
        keep: &dyn Fn(&JobHead) -> bool,
    ) -> Result<(Vec<JobHead>, Option<JobId>), StoreError> {
        let mut found = Vec::new();
        let mut last = after;
        for (scanned, head) in AllJobs::after(self, after)?.enumerate() {
            if scanned >= scan_max || found.len() >= limit {
                return Ok((found, last));
            }
            let head = head?;
            last = Some(head.id);
            if head.queue == queue && keep(&head) {
                found.push(head);
            }
        }
        Ok((found, None))
    }

    pub(super) fn dead_of(
        &self,
        queue: QueueKey,
        after: Option<u64>,
        ascending: bool,
        limit: usize,
    ) -> Result<Vec<DeadJob>, StoreError> {
        let mut range = KeyRange::of(&key::queue(queue));
        if let Some(after) = after.map(|number| Bound::Excluded(key::dead(queue, number))) {
            if ascending {
                range.low = after;
            } else {
                range.high = after;
            }
        }
        let rows = self.rows(Table::Dead, &range, ascending)?.take(limit);
        rows.map(|row| row.and_then(|(key, row)| self.decoded(Table::Dead, &key, &row))).collect()
    }

    pub(super) fn dead_letter(&self, queue: QueueKey, id: JobId) -> Result<Option<DeadJob>, StoreError> {
        let key = key::job_of(queue, id);
        let Some(value) = self.get(Table::DeadIds, &key)? else { return Ok(None) };
        let wrong = |what: &str| self.damaged_at(Table::DeadIds, &key, what.to_owned());
        let number = <[u8; 8]>::try_from(&*value).map_err(|_| wrong("it is no number of a dead letter"))?;
        let dead = self.record(Table::Dead, &key::dead(queue, u64::from_be_bytes(number)))?;
        dead.map(Some).ok_or_else(|| wrong("the dead letter that it names is missing"))
    }

    pub(super) fn kept_answer(&self, key: AnswerKey) -> Result<Option<KeptAnswer>, StoreError> {
        self.record(Table::Answers, &key::answer(key))
    }

    pub(super) fn answers_given_before(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, AnswerKey)>, StoreError> {
        let range = KeyRange { low: Bound::Unbounded, high: Bound::Excluded(key::time(at)) };
        let rows = self.rows(Table::AnswersByTime, &range, true)?.take(limit);
        let named = |row: Result<(Key, Vec<u8>), StoreError>| {
            let (key, _) = row?;
            key::answer_from_key(&key).map_err(|error| self.damaged(Table::AnswersByTime, &key, &error))
        };
        rows.map(named).collect()
    }
}

/// The keys of every parked job that is found by this clock.
fn of_clock(clock: JobClock) -> KeyRange {
    let wall = TimedKey::bucket(JobClock::Wall, TimedKey::FIRST);
    match clock {
        JobClock::Engine => KeyRange { low: Bound::Unbounded, high: Bound::Excluded(wall) },
        JobClock::Wall => KeyRange { low: Bound::Included(wall), high: Bound::Unbounded },
    }
}

/// Every job of a partition, resident and parked, in order of id.
struct AllJobs<'a> {
    view: &'a EmbeddedView,
    resident: Peekable<Merged<'a>>,
    parked: Peekable<Merged<'a>>,
}

impl<'a> AllJobs<'a> {
    fn after(view: &'a EmbeddedView, after: Option<JobId>) -> Result<Self, StoreError> {
        let range = KeyRange::all().after(after.map(key::job));
        let rows = |table| view.rows(table, &range, true).map(Iterator::peekable);
        Ok(Self { view, resident: rows(Table::JobHeads)?, parked: rows(Table::ParkedJobs)? })
    }
}

impl Iterator for AllJobs<'_> {
    type Item = Result<JobHead, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let is_parked = match (self.resident.peek(), self.parked.peek()) {
            (None, None) => return None,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(Ok((resident, _))), Some(Ok((parked, _)))) => parked < resident,
            (Some(resident), Some(_)) => resident.is_ok(),
        };
        let head = if is_parked {
            head(self.view, Table::ParkedJobs, self.parked.next()?, |job: ParkedJob| job.head)
        } else {
            head(self.view, Table::JobHeads, self.resident.next()?, |head: JobHead| head)
        };
        Some(head)
    }
}

fn head<T: Stored>(
    view: &EmbeddedView,
    table: Table,
    row: Result<(Key, Vec<u8>), StoreError>,
    head: impl Fn(T) -> JobHead,
) -> Result<JobHead, StoreError> {
    row.and_then(|(key, row)| view.decoded(table, &key, &row)).map(head)
}
