//! Jobs wherever they are and what they carry, dead letters, and kept answers.

use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use base::Timestamp;
use records::{
    AliasKey, AnswerKey, DeadJob, GroupKey, JobClock, JobHead, JobId, KeptAnswer, ParkedJob, QueueKey,
};

use super::index_of;
use crate::codec::ParkedId;
use crate::codec::key::{self, ParkedPlace};
use crate::key_range::KeyRange;
use crate::port::{ParkedScan, ParkedTimes, ScannedJobs, StoreError, StoredJob, View, parked_span};
use crate::table::Table;

/// Going on at another key takes as long as looking at so many, about.
const SKIP_KEYS: usize = 8;

impl dyn View + '_ {
    /// What a job carries; it is with the job itself where that is parked with it.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn job_body(&self, job: JobId) -> Result<Option<Arc<[u8]>>, StoreError> {
        match self.get(Table::JobBodies, &key::job(job))? {
            Some(body) => Ok(Some(Arc::from(body))),
            None => Ok(self.parked_job(job)?.and_then(|parked| parked.body)),
        }
    }

    /// A job, wherever it is.
    pub fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        let key = key::job(id);
        match self.record(&key)? {
            Some(head) => Ok(Some(StoredJob::Resident(head))),
            None => Ok(self.parked_job(id)?.map(StoredJob::Parked)),
        }
    }

    /// A job that is parked.
    pub fn parked_job(&self, id: JobId) -> Result<Option<ParkedJob>, StoreError> {
        let key = key::job(id);
        let beside = self.get(Table::ParkedIds, &key)?;
        beside.map(|beside| self.parked_of(&key, &beside)).transpose()
    }

    /// The job that a row of ids leads to.
    fn parked_of(&self, id: &[u8], beside: &[u8]) -> Result<ParkedJob, StoreError> {
        self.surely_named(index_of::<ParkedJob>(Table::ParkedIds), id, beside)
    }

    /// The parked job of a queue that has this alias.
    pub fn parked_alias(&self, queue: QueueKey, alias: AliasKey) -> Result<Option<ParkedJob>, StoreError> {
        let index = index_of::<ParkedJob>(Table::ParkedAliases);
        let key = key::alias(queue, alias);
        self.get(index.table, &key)?.map(|value| self.surely_named(index, &key, &value)).transpose()
    }

    /// The parked job that this time of `clock` finds.
    pub fn parked_at(
        &self,
        clock: JobClock,
        (at, id): (Timestamp, JobId),
    ) -> Result<Option<ParkedJob>, StoreError> {
        self.record(&ParkedPlace { clock: Some(clock), at, id }.to_key())
    }

    /// Some of the parked jobs that are found by a time. Those of a span come before those of later
    /// ones ([`crate::parked_span`]), within a span in an order of the store's own. Takes as long
    /// as looking at `scan_max` keys at most; some may be of jobs that are not parked any more.
    pub fn parked_times(&self, scan: &ParkedScan, scan_max: usize) -> Result<ParkedTimes, StoreError> {
        let place = |(at, id)| ParkedPlace { clock: Some(scan.clock), at, id };
        let range = |low| KeyRange { low, ..ParkedPlace::of_clock(scan.clock) };
        let low = Bound::Excluded(place(scan.after).to_key());
        let mut rows = self.range(Table::Parked, &range(low), true)?;
        let mut times = ParkedTimes { found: Vec::new(), next: Some(scan.after) };
        let mut left = scan_max;
        while left > 0 {
            left -= 1;
            let Some(row) = rows.next() else { return Ok(ParkedTimes { next: None, ..times }) };
            let (key, row) = row?;
            let found =
                ParkedPlace::from_key(&key).map_err(|error| self.unreadable(Table::Parked, &key, &error))?;
            let moment = (found.at, found.id);
            times.next = Some(moment);
            let span = parked_span(found.at);
            if span > parked_span(scan.until.0) {
                break;
            }
            // A run is in order of time: what is known is at its front, and what is too late at its
            // end.
            let front = (moment <= scan.known && span == parked_span(scan.known.0))
                .then(|| found.front_from(scan.known).to_key())
                .filter(|front| key < *front);
            let skips_to = if let Some(front) = front {
                Bound::Included(front)
            } else if moment > scan.until {
                let end = found.end_of_run();
                times.next = Some((end.at, end.id));
                Bound::Excluded(end.to_key())
            } else {
                if row.is_some() {
                    times.found.push(moment);
                }
                continue;
            };
            rows = self.range(Table::Parked, &range(skips_to), true)?;
            left = left.saturating_sub(SKIP_KEYS);
        }
        Ok(times)
    }

    /// Parked jobs that wait for a worker, in the order of their lines: `visible_at`, then the
    /// publish number; from the back in the reverse order. The line is that of a group, or of the
    /// queue, in which jobs without a group and the heads of groups are. `after` is exclusive and
    /// in the direction of reading. What went since the last checkpoint lies at a line's front:
    /// whoever says how far it has come does not look through it again.
    pub fn parked_line(
        &self,
        queue: QueueKey,
        group: Option<GroupKey>,
        after: Option<(Timestamp, u64)>,
        from_back: bool,
        limit: usize,
    ) -> Result<Vec<ParkedJob>, StoreError> {
        let index = index_of::<ParkedJob>(Table::ParkedByLine);
        let last = after.map(|after| key::place_in_line(queue, group, after));
        let range = KeyRange::of(&key::line(queue, group));
        let range = if from_back { range.before(last) } else { range.after(last) };
        let rows = self.rows(index.table, range, !from_back)?.take(limit);
        self.surely_named_in_order(index, rows, !from_back).collect()
    }

    /// Jobs of a queue in order of id, resident and parked; their successors are not jobs of their
    /// own. Looks at no more than `scan_max` jobs of the partition. `keep` drops jobs before they
    /// count towards the limit.
    pub fn jobs_of(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
        scan_max: usize,
        limit: usize,
        keep: &dyn Fn(&JobHead) -> bool,
    ) -> Result<ScannedJobs, StoreError> {
        scan(self.all_jobs(queue, after)?, after, scan_max, limit, keep)
    }

    /// The same of the resident jobs alone: one that a worker has is among these.
    pub fn resident_jobs_of(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
        scan_max: usize,
        limit: usize,
        keep: &dyn Fn(&JobHead) -> bool,
    ) -> Result<ScannedJobs, StoreError> {
        scan(self.resident_jobs(queue, after)?, after, scan_max, limit, keep)
    }

    fn resident_jobs(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
    ) -> Result<impl Iterator<Item = Result<Listed, StoreError>>, StoreError> {
        let jobs = self.records::<JobHead>(KeyRange::all().after(after.map(key::job)), true)?;
        Ok(jobs.map(move |job| job.map(|head| (head.id, Some(head).filter(|head| head.queue == queue)))))
    }

    /// Every job of the partition, resident and parked, in order of id.
    fn all_jobs(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
    ) -> Result<impl Iterator<Item = Result<Listed, StoreError>>, StoreError> {
        let ids = self.rows(Table::ParkedIds, KeyRange::all().after(after.map(key::job)), true)?;
        let parked = ids.map(move |row| {
            let (id, value) = row?;
            let unreadable = |error| self.unreadable(Table::ParkedIds, &id, &error);
            let job = key::job_from(&id).map_err(unreadable)?;
            let is_of_queue = ParkedId::from_bytes(&value).map_err(unreadable)?.queue == queue;
            let parked = is_of_queue.then(|| self.parked_of(&id, &value)).transpose()?;
            Ok((job, parked.map(|parked| parked.head)))
        });
        let (mut resident, mut parked) = (self.resident_jobs(queue, after)?.peekable(), parked.peekable());
        Ok(std::iter::from_fn(move || {
            if is_first(&mut parked, &mut resident) { parked.next() } else { resident.next() }
        }))
    }

    /// Dead letters of a queue in order of their numbers; `after` is exclusive and in the direction
    /// of reading.
    pub fn dead(
        &self,
        queue: QueueKey,
        after: Option<u64>,
        ascending: bool,
        limit: usize,
    ) -> Result<Vec<DeadJob>, StoreError> {
        let (range, last) = (KeyRange::of(&key::queue(queue)), after.map(|number| key::dead(queue, number)));
        let range = if ascending { range.after(last) } else { range.before(last) };
        self.records(range, ascending)?.take(limit).collect()
    }

    /// One dead letter.
    pub fn dead_by_id(&self, queue: QueueKey, id: JobId) -> Result<Option<DeadJob>, StoreError> {
        let index = index_of::<DeadJob>(Table::DeadIds);
        let key = key::job_of(queue, id);
        self.get(index.table, &key)?.map(|value| self.surely_named(index, &key, &value)).transpose()
    }

    /// What a repeated request is answered. A key has one answer at a time: the one before it was
    /// deleted.
    pub fn answer(&self, key: AnswerKey) -> Result<Option<KeptAnswer>, StoreError> {
        self.record(&key::answer(key))
    }

    /// Answers given from `from` on and before `until`, oldest first. What was deleted since the
    /// last checkpoint lies at the front: whoever says how far it has come does not look through it
    /// again.
    pub fn answers_given(
        &self,
        from: Option<Timestamp>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, AnswerKey)>, StoreError> {
        let low = from.map_or(Bound::Unbounded, |from| Bound::Included(key::time(from)));
        let range = KeyRange { low, high: Bound::Excluded(key::time(until)) };
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.rows(Table::AnswersByTime, range, true)?.take(limit);
        let named = |row: Result<super::Row, StoreError>| {
            let (key, _) = row?;
            key::answer_from_key(&key).map_err(|error| self.unreadable(Table::AnswersByTime, &key, &error))
        };
        rows.map(named).collect()
    }
}

/// A job, and its head if it is of the queue that is meant.
type Listed = (JobId, Option<JobHead>);

/// Picks out those that are meant, `limit` at most, of the first `scan_max`.
fn scan(
    jobs: impl Iterator<Item = Result<Listed, StoreError>>,
    after: Option<JobId>,
    scan_max: usize,
    limit: usize,
    keep: &dyn Fn(&JobHead) -> bool,
) -> Result<ScannedJobs, StoreError> {
    let mut page = ScannedJobs { found: Vec::new(), next: after, scanned: 0 };
    for job in jobs {
        if page.scanned >= scan_max || page.found.len() >= limit {
            return Ok(page);
        }
        let (id, head) = job?;
        page.next = Some(id);
        page.scanned += 1;
        page.found.extend(head.filter(|head| keep(head)));
    }
    Ok(ScannedJobs { next: None, ..page })
}

/// Whether the job that comes next in `one` is before that in `other`. What cannot be read comes at
/// once.
fn is_first<E>(
    one: &mut Peekable<impl Iterator<Item = Result<Listed, E>>>,
    other: &mut Peekable<impl Iterator<Item = Result<Listed, E>>>,
) -> bool {
    match (one.peek(), other.peek()) {
        (None, _) | (Some(_), Some(Err(_))) => false,
        (Some(_), None) | (Some(Err(_)), Some(_)) => true,
        (Some(Ok((one, _))), Some(Ok((other, _)))) => one < other,
    }
}
