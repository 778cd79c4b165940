//! The index of parked jobs: which jobs are not resident, as far as that is known without the
//! store.
//!
//! What is parked is behind a [`Horizon`]. Of a clock's scheduled jobs, everything up to the
//! clock's horizon is resident. Of a line (the jobs of a queue, or of a group, whose time has come)
//! everything up to the line's is. A resident job may also be behind a horizon. Then it waits
//! until all before it is resident: nobody is leased a job while a parked one may come before it.

pub(crate) mod blocked_lines;
pub(crate) mod eviction;
pub(crate) mod horizon;
pub(crate) mod queue;
pub(crate) mod read_queue;
pub(crate) mod resident_limit;

use base::Timestamp;
use records::{JobClock, JobHead, Parking, QueueOrder};

use crate::clocks::{ClockOffset, ClockTimes};
use crate::parked::horizon::Horizon;
use crate::parked::queue::{EarliestDue, ParkedQueue};
use crate::queues::QueueEntry;
use crate::slab::Handle;

/// How many jobs are parked, and how far the clocks are resident. What is known of one queue is
/// kept with the queue, and changed here.
pub(crate) struct ParkedIndex {
    scheduled: u64,
    ready: u64,
    /// How far the scheduled jobs of the engine clock are resident; `None` if all of them are.
    engine: Option<Horizon>,
    /// And those of the wall clock.
    wall: Option<Horizon>,
    /// How far the engine clock's horizon was pulled in while jobs of that clock were being read.
    pulled_in: Option<Horizon>,
    /// Counts the epochs of all queues.
    epochs: u64,
    /// Up to where time has moved on.
    advanced_to: ClockTimes,
    /// Queues whose counts have changed.
    changed: Vec<Handle<QueueEntry>>,
}

impl Default for ParkedIndex {
    fn default() -> Self {
        let never = Timestamp(i64::MIN);
        Self {
            scheduled: 0,
            ready: 0,
            engine: None,
            wall: None,
            pulled_in: None,
            epochs: 0,
            advanced_to: ClockTimes { now: never, wall: never },
            changed: Vec::new(),
        }
    }
}

impl ParkedIndex {
    pub(crate) fn is_empty(&self) -> bool {
        self.scheduled == 0 && self.ready == 0
    }

    /// How many jobs are parked: those that wait for their time, and those that wait for a worker.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.scheduled, self.ready)
    }

    /// The store has so many jobs of a queue. Nothing is known of their places.
    pub(crate) fn load(&mut self, queue: &mut QueueEntry, scheduled: u64, ready: u64) {
        let order = queue.order();
        *queue.parked_mut() = Some(Box::new(ParkedQueue::loaded(scheduled, ready, order)));
        self.scheduled += scheduled;
        self.ready += ready;
        (self.engine, self.wall) = (Some(Horizon::LEAST), Some(Horizon::LEAST));
    }

    /// A job of a queue is parked from now on.
    pub(crate) fn add(
        &mut self,
        queue: (Handle<QueueEntry>, &mut QueueEntry),
        head: &JobHead,
        parking: Parking,
    ) {
        match parking {
            Parking::Time => self.scheduled += 1,
            Parking::Worker | Parking::Head => {
                self.ready += 1;
                // The store finds it by its expiry too, among the scheduled jobs of the engine
                // clock.
                if let Some(at) = head.terms.expires_at {
                    self.pull_in(JobClock::Engine, (at, 0));
                }
            }
        }
        self.change(queue).add(parking, head.clock_of_wait(), head.visible_at);
    }

    /// A job of a queue is parked no longer. Where nothing is parked, nothing is behind a horizon.
    pub(crate) fn remove(&mut self, queue: (Handle<QueueEntry>, &mut QueueEntry), parking: Parking) {
        let count = match parking {
            Parking::Time => &mut self.scheduled,
            Parking::Worker | Parking::Head => &mut self.ready,
        };
        *count = count.saturating_sub(1);
        self.epochs += 1;
        let epoch = self.epochs;
        self.change(queue).remove(parking, epoch);
        if self.is_empty() {
            (self.engine, self.wall) = (None, None);
        }
    }

    /// What is parked of a queue, about to be changed.
    pub(crate) fn change<'a>(
        &mut self,
        (handle, queue): (Handle<QueueEntry>, &'a mut QueueEntry),
    ) -> &'a mut ParkedQueue {
        let parked = queue.parked_mut().get_or_insert_with(|| {
            self.epochs += 1;
            Box::new(ParkedQueue::new(self.epochs))
        });
        if !parked.set_changed(true) {
            self.changed.push(handle);
        }
        parked
    }

    /// The queues whose counts have changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> Vec<Handle<QueueEntry>> {
        std::mem::take(&mut self.changed)
    }

    /// The counts of a changed queue. Nothing is kept of one that has nothing parked any more.
    pub(crate) fn take_counts(queue: &mut QueueEntry) -> Option<(u64, u64)> {
        let parked = queue.parked_mut().as_mut()?;
        parked.set_changed(false);
        let counts = parked.counts();
        if parked.is_empty() {
            *queue.parked_mut() = None;
        }
        Some(counts)
    }

    /// When jobs should be read by their time, on the engine clock.
    pub(crate) fn next(&self, clocks: &ClockOffset) -> Option<Timestamp> {
        let near = |clock| {
            let horizon: Option<Horizon> = self.horizon(clock);
            horizon.map(|horizon| clocks.on_engine(clock, horizon.near_from()))
        };
        let first = near(JobClock::Engine).into_iter().chain(near(JobClock::Wall)).min();
        first.filter(|_| !self.is_empty())
    }

    /// Time has moved on: parked jobs whose time has come are missed from now on until they are
    /// read.
    pub(crate) fn advance_to(&mut self, time: ClockTimes) {
        self.advanced_to = time;
    }

    /// Whether a parked job of any queue may be due and go before this place. The horizon of what
    /// was read last stays when nothing is parked any more.
    pub(crate) fn may_miss_before(&self, place: (Timestamp, u64)) -> bool {
        !self.is_empty() && self.may_miss(EarliestDue::UNKNOWN, place)
    }

    /// Whether a parked job of this queue may be due and go before this place.
    pub(crate) fn may_miss_of(&self, queue: &QueueEntry, place: (Timestamp, u64)) -> bool {
        let earliest = queue.parked().and_then(ParkedQueue::earliest);
        earliest.is_some_and(|earliest| self.may_miss(earliest, place))
    }

    fn may_miss(&self, earliest: EarliestDue, place: (Timestamp, u64)) -> bool {
        [JobClock::Engine, JobClock::Wall].into_iter().any(|clock| {
            let time = self.advanced_to.on(clock);
            earliest.on(clock).is_some_and(|from| from <= time && from <= place.0)
                && self.horizon(clock).is_some_and(|horizon| {
                    horizon < Horizon { at: time, number: u64::MAX }
                        && horizon.is_before(place, QueueOrder::Fifo)
                })
        })
    }

    /// How far the scheduled jobs of a clock are resident; `None` if all of them are.
    pub(crate) fn horizon(&self, clock: JobClock) -> Option<Horizon> {
        match clock {
            JobClock::Engine => self.engine,
            JobClock::Wall => self.wall,
        }
    }

    /// Whether the horizon of a clock is before this place.
    pub(crate) fn is_behind(&self, clock: JobClock, place: (Timestamp, u64)) -> bool {
        self.horizon(clock).is_some_and(|horizon| horizon.is_before(place, QueueOrder::Fifo))
    }

    /// Has jobs of a clock be resident no further than to just before this place.
    pub(crate) fn pull_in(&mut self, clock: JobClock, place: (Timestamp, u64)) {
        let before = Horizon::just_before(place.0, place.1);
        if clock == JobClock::Engine {
            self.pulled_in = Some(self.pulled_in.map_or(before, |pulled_in| pulled_in.min(before)));
        }
        let horizon = self.horizon(clock).map_or(before, |horizon| horizon.min(before));
        self.set_horizon(clock, Some(horizon));
    }

    /// The caller reads on from the horizon of a clock.
    pub(crate) fn begin_reading(&mut self) {
        self.pulled_in = None;
    }

    /// The caller has read up to here; `None` if nothing of this clock is parked any more. A job
    /// that was read may have joined a line meanwhile, and expire there.
    pub(crate) fn read_to(&mut self, clock: JobClock, to: Option<Horizon>) {
        let pulled_in = self.pulled_in.take().filter(|_| clock == JobClock::Engine);
        self.set_horizon(clock, to.into_iter().chain(pulled_in).min());
    }

    fn set_horizon(&mut self, clock: JobClock, to: Option<Horizon>) {
        match clock {
            JobClock::Engine => self.engine = to,
            JobClock::Wall => self.wall = to,
        }
    }
}

#[cfg(test)]
mod tests {
    use records::{AliasKey, HeadState, JobId, JobTerms, QueueKey};

    use super::*;
    use crate::queues::QueueTable;

    fn head(visible_at: i64, expires_at: Option<i64>) -> JobHead {
        JobHead {
            id: JobId([1; 16]),
            queue: QueueKey(7),
            number: 3,
            run_at: Timestamp(visible_at),
            visible_at: Timestamp(visible_at),
            attempt: 0,
            tries: 1,
            state: HeadState::Waiting,
            alias: None::<AliasKey>,
            terms: JobTerms { expires_at: expires_at.map(Timestamp), ..JobTerms::default() },
            successor: None,
        }
    }

    /// An index with one parked job.
    fn parked(visible_at: i64, expires_at: Option<i64>, parking: Parking) -> (ParkedIndex, QueueTable) {
        let (mut index, mut queues) = (ParkedIndex::default(), QueueTable::default());
        let queue = queues.enter(QueueKey(7));
        index.add((queue, &mut queues[queue]), &head(visible_at, expires_at), parking);
        (index, queues)
    }

    fn moment(now: i64) -> ClockTimes {
        ClockTimes { now: Timestamp(now), wall: Timestamp(now) }
    }

    #[test]
    fn counts_are_told_once_and_an_empty_queue_is_forgotten() {
        let (mut index, mut queues) = parked(100, None, Parking::Time);
        let queue = queues.enter(QueueKey(7));
        assert_eq!(index.counts(), (1, 0));
        assert!(index.take_changed() == [queue] && index.take_changed().is_empty());
        assert_eq!(ParkedIndex::take_counts(&mut queues[queue]), Some((1, 0)));
        index.remove((queue, &mut queues[queue]), Parking::Time);
        assert!(index.is_empty() && index.take_changed() == [queue]);
        assert_eq!(ParkedIndex::take_counts(&mut queues[queue]), Some((0, 0)));
        assert!(queues[queue].parked().is_none());
    }

    #[test]
    fn a_job_is_missed_once_time_has_moved_on_to_it_and_until_it_is_read() {
        let (mut index, mut queues) = parked(5_000, None, Parking::Time);
        let queue = queues.enter(QueueKey(7));
        index.pull_in(JobClock::Engine, (Timestamp(5_000), 3));
        let misses = |index: &ParkedIndex, at| index.may_miss_of(&queues[queue], (Timestamp(at), 9));
        index.advance_to(moment(4_999));
        assert!(!misses(&index, 6_000), "its time has not come");
        index.advance_to(moment(5_000));
        assert!(misses(&index, 6_000) && !misses(&index, 4_000), "it goes before the later one only");
        index.begin_reading();
        index.read_to(JobClock::Engine, Some(Horizon { at: Timestamp(5_000), number: 3 }));
        assert!(misses(&index, 6_000), "others may be due at the same time");
        index.read_to(JobClock::Engine, None);
        assert!(!misses(&index, 6_000));
    }

    #[test]
    fn nothing_is_missed_where_nothing_is_parked_however_far_was_read() {
        let (mut index, mut queues) = parked(5_000, None, Parking::Time);
        let queue = queues.enter(QueueKey(7));
        index.advance_to(moment(5_000));
        index.begin_reading();
        index.remove((queue, &mut queues[queue]), Parking::Time);
        index.read_to(JobClock::Engine, Some(Horizon { at: Timestamp(5_000), number: 3 }));
        assert!(!index.may_miss_before((Timestamp(6_000), 9)));
    }

    #[test]
    fn a_parked_job_is_read_a_second_before_its_time_by_either_clock() {
        let (mut index, _) = parked(5_000, None, Parking::Time);
        let mut clocks = ClockOffset::default();
        assert_eq!(index.next(&clocks), None, "no horizon is before it yet");
        index.pull_in(JobClock::Wall, (Timestamp(5_000), 3));
        clocks.set_wall(Timestamp(0), Timestamp(3_000));
        assert_eq!(index.next(&clocks), Some(Timestamp(1_000)));
    }

    #[test]
    fn a_job_that_expires_in_its_line_keeps_the_horizon_before_its_expiry() {
        let (mut index, _) = parked(0, Some(9_000), Parking::Worker);
        assert!(index.is_behind(JobClock::Engine, (Timestamp(9_000), 0)));
        index.begin_reading();
        index.pull_in(JobClock::Engine, (Timestamp(8_000), 0));
        index.read_to(JobClock::Engine, None);
        assert!(index.is_behind(JobClock::Engine, (Timestamp(8_000), 0)), "it came while jobs were read");
        assert!(!index.is_behind(JobClock::Engine, (Timestamp(7_999), 0)));
    }
}
