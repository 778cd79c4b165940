//! Jobs that are not resident: read in when their time is near, when their line gets short, or when a call is about one.

use base::Timestamp;
use jobs::{Horizon, Want};
use records::{AliasKey, GroupKey, JobClock, JobHead, JobId, Op, ParkedJob, Parking, QueueKey, QueueOrder};
use store::{StoreError, StoredJob, parked_time};

use super::{QueuePartition, Turn};
use crate::queues::id;

/// Most jobs that are read in at once by their time, and of a line.
pub(super) const TIMED_AT_ONCE_MAX: usize = 500;
pub(super) const LINED_AT_ONCE_MAX: usize = 1_000;
/// After a start it is not known how far the jobs that are resident reach: few are read to see it.
const TIMED_AT_FIRST_MAX: usize = 64;

impl QueuePartition {
    /// Notes what this step has parked and taken out so far: a view does not show it yet.
    pub(super) fn note_parked(&mut self, turn: &mut Turn<'_>) {
        for op in &turn.batch.ops[turn.noted..] {
            match op {
                Op::ParkJob(parked) => {
                    let head = &parked.head;
                    self.parked.put(turn.seq, head.id, Some((**parked).clone()));
                    if let Some(alias) = head.alias {
                        self.parked_aliases.put(turn.seq, (head.queue, alias), Some(head.id));
                    }
                }
                Op::UnparkJob(key) => {
                    self.parked.put(turn.seq, key.id, None);
                    if let Some(alias) = key.alias {
                        self.parked_aliases.put(turn.seq, (key.queue, alias), None);
                    }
                }
                _ => {}
            }
        }
        turn.noted = turn.batch.ops.len();
    }

    /// A job that is parked.
    pub(super) fn parked_job(
        &mut self,
        id: JobId,
        turn: &mut Turn<'_>,
    ) -> Result<Option<ParkedJob>, StoreError> {
        if !self.jobs.has_parked() {
            return Ok(None);
        }
        self.note_parked(turn);
        match self.parked.get(&id) {
            Some(recent) => Ok(recent.cloned()),
            None => match turn.fetch.view()?.job(id)? {
                Some(StoredJob::Parked(parked)) => Ok(Some(parked)),
                Some(StoredJob::Resident(_)) | None => Ok(None),
            },
        }
    }

    /// A parked job for whoever asks for it: one that has expired is gone, or makes its next run, before anybody sees it.
    pub(super) fn parked_now(
        &mut self,
        parked: Option<ParkedJob>,
        turn: &mut Turn<'_>,
    ) -> Result<Option<JobHead>, StoreError> {
        let Some(parked) = parked else { return Ok(None) };
        let id = parked.head.id;
        if parked.head.terms.expires_at.is_none_or(|at| at > turn.now) {
            return Ok(Some(parked.head));
        }
        self.unpark(&parked, turn);
        while self.advance_jobs(turn)? {}
        match self.jobs.get(id) {
            Some(head) => Ok(Some(head)),
            None => Ok(self.parked_job(id, turn)?.map(|parked| parked.head)),
        }
    }

    /// The job that is parked and holds an alias.
    pub(super) fn parked_under(
        &mut self,
        queue: QueueKey,
        alias: AliasKey,
        turn: &mut Turn<'_>,
    ) -> Result<Option<ParkedJob>, StoreError> {
        if !self.jobs.has_parked() {
            return Ok(None);
        }
        self.note_parked(turn);
        match self.parked_aliases.get(&(queue, alias)).map(Option::<&JobId>::copied) {
            Some(Some(id)) => self.parked_job(id, turn),
            Some(None) => Ok(None),
            None => match turn.fetch.view()?.parked_alias(queue, alias)? {
                Some(parked) => self.parked_job(parked.head.id, turn),
                None => Ok(None),
            },
        }
    }

    /// Makes the job resident that holds an alias: the rules see it then.
    pub(super) fn read_in_alias(
        &mut self,
        queue: QueueKey,
        alias: AliasKey,
        turn: &mut Turn<'_>,
    ) -> Result<(), StoreError> {
        if self.jobs.has_parked() && self.jobs.by_alias(queue, alias).is_none() {
            let parked = self.parked_under(queue, alias, turn)?;
            parked.iter().for_each(|parked| self.unpark(parked, turn));
        }
        Ok(())
    }

    /// Makes a job resident: the rules see it then.
    pub(super) fn read_in_job(&mut self, id: JobId, turn: &mut Turn<'_>) -> Result<(), StoreError> {
        if self.jobs.has_parked() && self.jobs.get(id).is_none() {
            let parked = self.parked_job(id, turn)?;
            parked.iter().for_each(|parked| self.unpark(parked, turn));
        }
        Ok(())
    }

    fn unpark(&mut self, parked: &ParkedJob, turn: &mut Turn<'_>) {
        self.jobs.unpark(turn.now, parked, &mut turn.batch, &mut turn.wakes);
    }

    /// Reads in what the rules want. Whether there was anything.
    pub(super) fn read_in(&mut self, turn: &mut Turn<'_>) -> Result<bool, StoreError> {
        let mut any = false;
        while let Some(want) = self.jobs.wanted(turn.now) {
            any = true;
            self.note_parked(turn);
            let (jobs, to) = match want {
                Want::Time { clock, from } => self.soonest(clock, from, turn)?,
                Want::Line { queue, group } => self.first_of_line(queue, group, turn)?,
            };
            for parked in &jobs {
                self.jobs.take_in(turn.now, parked, &mut turn.batch, &mut turn.wakes);
            }
            self.jobs.read_to(turn.now, want, to, &mut turn.batch, &mut turn.wakes);
            // A flood that is due at once is not for one step; a line is read to its end, or what it gives would be out of order.
            if matches!(want, Want::Time { .. }) && !turn.has_room() {
                break;
            }
        }
        Ok(any)
    }

    /// The soonest parked jobs of a clock, and up to where these are all.
    fn soonest(
        &self,
        clock: JobClock,
        from: Timestamp,
        turn: &Turn<'_>,
    ) -> Result<(Vec<ParkedJob>, Option<Horizon>), StoreError> {
        // Of the first moment some may be there still that were taken out since the view's moment.
        let page = if from == Horizon::LEAST.at { TIMED_AT_FIRST_MAX } else { TIMED_AT_ONCE_MAX };
        let page = page.min(self.timed_at_once);
        let asked = page + self.parked.len();
        let after = (Timestamp(from.0.saturating_sub(1)), JobId([u8::MAX; 16]));
        let stored = turn.fetch.view()?.parked_soonest(clock, Some(after), asked)?;
        let last = stored.last().filter(|_| stored.len() == asked);
        let place = |parked: &ParkedJob| time_of(parked, clock).map(|at| (at, parked.head.id));
        let mut to = last.and_then(place);
        let within = |parked: &ParkedJob| match (time_of(parked, clock), to) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(at), Some(to)) => (at, parked.head.id) <= to,
        };
        let mut jobs = self.as_they_are(stored, within);
        // Those that were parked a moment ago come on top: with them there may be so many that they are parked again.
        if jobs.len() > page {
            jobs.sort_by_key(place);
            jobs.truncate(page);
            to = jobs.last().and_then(place);
        }
        // Of the jobs of the last moment those are there whose id, and so whose number, is not above the last one's.
        let next = self.jobs.numbers().next_job;
        let to = to.map(|(at, id)| Horizon { at, number: id::number_before(id, next) });
        Ok((jobs, to))
    }

    /// The first parked jobs of a line, and up to where these are all.
    fn first_of_line(
        &self,
        queue: QueueKey,
        group: Option<GroupKey>,
        turn: &Turn<'_>,
    ) -> Result<(Vec<ParkedJob>, Option<Horizon>), StoreError> {
        let order = self.queues.get(&queue).map_or(QueueOrder::Fifo, |queue| queue.settings.order);
        let from_back = group.is_none() && order == QueueOrder::Lifo;
        let after = self.jobs.line_horizon(queue, group).map(|horizon| (horizon.at, horizon.number));
        let stored = turn.fetch.view()?.parked_line(queue, group, after, from_back, self.lined_at_once)?;
        let last = stored.last().filter(|_| stored.len() == self.lined_at_once);
        let to = last.map(|last| (last.head.visible_at, last.head.number));
        let within = |parked: &ParkedJob| {
            let head = &parked.head;
            let is_meant =
                parked.parking == Parking::Worker && head.queue == queue && head.terms.group == group;
            let place = (head.visible_at, head.number);
            let is_behind = after.is_none_or(|after| if from_back { place < after } else { place > after });
            is_meant && is_behind && to.is_none_or(|to| if from_back { place >= to } else { place <= to })
        };
        let jobs = self.as_they_are(stored, within);
        Ok((jobs, to.map(|(at, number)| Horizon { at, number })))
    }

    /// What was read, and what was changed since it became durable: as it is now, so far as it is wanted.
    fn as_they_are(&self, stored: Vec<ParkedJob>, wanted: impl Fn(&ParkedJob) -> bool) -> Vec<ParkedJob> {
        let stored = stored.into_iter().map(|parked| (parked.head.id, parked)).collect();
        self.parked.merged(stored, true, usize::MAX, |parked| parked.head.id, wanted)
    }
}

/// By when a parked job is found on a clock.
fn time_of(parked: &ParkedJob, clock: JobClock) -> Option<Timestamp> {
    parked_time(&parked.key()).filter(|(of, _)| *of == clock).map(|(_, at)| at)
}
