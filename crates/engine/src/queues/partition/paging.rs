//! Reads parked jobs in, within the step's budget: those due soon, and the fronts of short lines.

use base::Timestamp;
use jobs::{Horizon, ReadRequest};
use records::{GroupKey, JobClock, ParkedJob, QueueKey, QueueOrder};
use store::{StoreError, parked_time};

use super::recently_parked::Place;
use super::soonest::{LAST_ID, Soonest, SoonestPage, TimePlace};
use super::{QueuePartition, QueueStep};
use crate::queues::id;

/// Parked jobs, and up to where these are all that there are.
type PageOfParked = (Vec<ParkedJob>, Option<Horizon>);

/// Rows of a line that are read beside those that are wanted: some may be gone already.
const GONE_EXPECTED: usize = 4;

/// The soonest parked jobs of each clock.
#[derive(Debug)]
pub(super) struct ParkedClocks {
    engine: Soonest,
    wall: Soonest,
}

impl ParkedClocks {
    pub(super) fn new(resident_max: usize) -> Self {
        Self { engine: Soonest::new(resident_max), wall: Soonest::new(resident_max) }
    }

    pub(super) fn of(&mut self, clock: JobClock) -> &mut Soonest {
        match clock {
            JobClock::Engine => &mut self.engine,
            JobClock::Wall => &mut self.wall,
        }
    }
}

impl QueuePartition {
    /// Reads in what the rules want, `left` jobs at most. Whether there was anything, be it left
    /// for the next step.
    pub(super) fn read_in(
        &mut self,
        left: impl Fn(&QueueStep<'_>) -> usize,
        step: &mut QueueStep<'_>,
    ) -> Result<bool, StoreError> {
        let mut any = self.read_at_once(step)?;
        while let Some(request) = self.jobs.next_read(step.now) {
            any = true;
            let left = left(step);
            if left == 0 || !self.read_one(request, left, step)? {
                break;
            }
            self.read_at_once(step)?;
        }
        Ok(any)
    }

    /// Reads what is before the next job of a queue that can be leased, as far as the step goes.
    /// Beyond that, consumers that wait are served in the next step. Whether there was anything.
    pub(super) fn read_in_of(
        &mut self,
        queue: QueueKey,
        step: &mut QueueStep<'_>,
    ) -> Result<bool, StoreError> {
        let Some(request) = self.jobs.next_read_of(queue) else { return Ok(false) };
        match step.own.budget.left_to_read() {
            0 => {
                self.waiting.set_unread(queue);
                Ok(false)
            }
            left => self.read_one(request, left, step),
        }
    }

    /// Reads what is before the first job of a queue, for a caller that looks at it and is answered
    /// in this step. Where the step has read all it may, it reads one job at a time. Whether there
    /// was anything.
    pub(super) fn read_first_of(
        &mut self,
        queue: QueueKey,
        step: &mut QueueStep<'_>,
    ) -> Result<bool, StoreError> {
        if step.own.budget.left_to_read() > 0 {
            return self.read_in_of(queue, step);
        }
        let request = self.jobs.next_read_of(queue).filter(|_| step.own.budget.may_read_at_once());
        let Some(request) = request else { return Ok(false) };
        let read = self.read_page(request, 1, step)?;
        step.own.budget.spent.read_at_once += read.unwrap_or_default().max(1);
        Ok(read.is_some())
    }

    /// Reads one job of each group that nothing else leads to, whatever the step has done. Whether
    /// there was any.
    pub(super) fn read_at_once(&mut self, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        let mut any = false;
        while let Some(request) = self.jobs.next_urgent_read() {
            any = true;
            let read = self.read_page(request, 1, step)?;
            step.own.budget.spent.read_at_once += read.unwrap_or_default();
        }
        Ok(any)
    }

    /// One page. Whether it could be read.
    fn read_one(
        &mut self,
        request: ReadRequest,
        left: usize,
        step: &mut QueueStep<'_>,
    ) -> Result<bool, StoreError> {
        let page_max = self.jobs.page_max(request).min(left);
        let Some(read) = self.read_page(request, page_max, step)? else { return Ok(false) };
        // A page without jobs is work too.
        step.own.budget.spent.read += read.max(1);
        Ok(true)
    }

    /// How many jobs were read; `None` if it is not known yet which.
    fn read_page(
        &mut self,
        request: ReadRequest,
        page_max: usize,
        step: &mut QueueStep<'_>,
    ) -> Result<Option<usize>, StoreError> {
        self.note_parked(step);
        let (jobs, to) = match request {
            ReadRequest::Time { clock, .. } => match self.soonest(clock, page_max, step)? {
                Some(page) => page,
                None => return Ok(None),
            },
            ReadRequest::Line { queue, group } => self.first_of_line(queue, group, page_max, step)?,
        };
        for parked in &jobs {
            self.note_body(parked, step.seq);
            self.jobs.take_in(parked, &mut step.jobs());
        }
        self.jobs.read_to(request, to, &mut step.jobs());
        Ok(Some(jobs.len()))
    }

    /// The soonest parked jobs of a clock, and up to where these are all; `None` if the store has
    /// to be looked through further.
    fn soonest(
        &mut self,
        clock: JobClock,
        page_max: usize,
        step: &mut QueueStep<'_>,
    ) -> Result<Option<PageOfParked>, StoreError> {
        self.look_through(clock, step)?;
        let SoonestPage::Jobs(page, to) = self.clocks.of(clock).page(page_max) else { return Ok(None) };
        let jobs = page.iter().map(|moment| self.parked_as_known(clock, *moment, step));
        let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        // Of the jobs of the last moment those are there whose id, and so whose number, is not
        // above the last one's.
        let next = self.jobs.numbers().next_job;
        let number = |id| if id == LAST_ID { u64::MAX } else { id::number_before(id, next) };
        Ok(Some((jobs, to.map(|(at, id)| Horizon { at, number: number(id) }))))
    }

    /// Goes on looking through the store for the soonest jobs, if few are known.
    fn look_through(&mut self, clock: JobClock, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        let Self { clocks, parked, .. } = self;
        let soonest = clocks.of(clock);
        loop {
            let lately = parked.parked().filter_map(|parked| moment_of(parked, clock));
            let Some(scan) = soonest.wants(clock, lately) else { return Ok(()) };
            let scan_max = step.own.budget.left_to_scan().min(super::KEYS_AT_A_TIME);
            if scan_max == 0 {
                return Ok(());
            }
            let times = step.fetch.view()?.parked_times(&scan, scan_max)?;
            step.own.budget.spent.scanned += scan_max;
            soonest.scanned(times, |id| parked.get(id).is_none());
            // While some are known, a little of it at a time is enough.
            if matches!(soonest.page(1), SoonestPage::Jobs(..)) {
                return Ok(());
            }
        }
    }

    /// A job that is known to be parked.
    fn parked_as_known(
        &self,
        clock: JobClock,
        (at, id): TimePlace,
        step: &QueueStep<'_>,
    ) -> Result<ParkedJob, StoreError> {
        let found = match self.parked.get(id) {
            Some(recent) => recent.cloned(),
            None => step.fetch.view()?.parked_at(clock, (at, id))?,
        };
        found.ok_or_else(|| StoreError::Damaged {
            file: "the tables".to_owned(),
            at: id::id_text(id),
            what: "the parked job that a time names is missing".to_owned(),
        })
    }

    /// The first parked jobs of a line, and up to where these are all.
    fn first_of_line(
        &self,
        queue: QueueKey,
        group: Option<GroupKey>,
        page_max: usize,
        step: &QueueStep<'_>,
    ) -> Result<(Vec<ParkedJob>, Option<Horizon>), StoreError> {
        let order = self.queues.get(&queue).map_or(QueueOrder::Fifo, |queue| queue.settings.order);
        let from_back = group.is_none() && order == QueueOrder::Lifo;
        let after = self.jobs.line_horizon(queue, group).map(|horizon| (horizon.at, horizon.number));
        let asked = page_max + if self.parked.is_empty() { 1 } else { GONE_EXPECTED };
        let stored = step.fetch.view()?.parked_line(queue, group, after, from_back, asked)?;
        let end = stored.last().filter(|_| stored.len() == asked).map(place_of);
        let is_within =
            |place: Place| end.is_none_or(|end| if from_back { place >= end } else { place <= end });
        let untouched = stored.into_iter().filter(|parked| self.parked.get(parked.head.id).is_none());
        let mut jobs: Vec<ParkedJob> = untouched.collect();
        let lately = self.parked.line((queue, group), after, from_back);
        let lately = lately.take_while(|(place, _)| is_within(*place)).take(page_max + 1);
        jobs.extend(lately.map(|(_, parked)| parked.clone()));
        jobs.sort_unstable_by_key(place_of);
        if from_back {
            jobs.reverse();
        }
        let mut to = end;
        if jobs.len() > page_max {
            jobs.truncate(page_max);
            to = jobs.last().map(place_of);
        }
        Ok((jobs, to.map(|(at, number)| Horizon { at, number })))
    }
}

fn place_of(parked: &ParkedJob) -> Place {
    (parked.head.visible_at, parked.head.number)
}

/// By when a parked job is found on a clock, and its id.
pub(super) fn moment_of(parked: &ParkedJob, clock: JobClock) -> Option<TimePlace> {
    let (_, at): (_, Timestamp) = parked_time(&parked.key()).filter(|(of, _)| *of == clock)?;
    Some((at, parked.head.id))
}
