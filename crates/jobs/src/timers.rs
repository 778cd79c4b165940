//! What happens at a time: jobs become available, leases run out, jobs expire, tokens come.
//!
//! There is a timer for each clock, because the wall clock may jump. From its first lease on, a job
//! is on the engine's.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use records::{JobClock, QueueOrder};

use crate::clocks::{ClockOffset, ClockTimes};
use crate::entry::{JobEntry, JobPlace};
use crate::priority_queue::PriorityQueue;
use crate::queues::QueueEntry;
use crate::slab::Handle;
use crate::table::Entries;

/// The timers.
#[derive(Default)]
pub(crate) struct Timers {
    /// Jobs that wait for a time of the engine clock: their own, a retry's, or their lease's end.
    engine: PriorityQueue,
    /// Jobs that wait for a time of the wall clock.
    wall: PriorityQueue,
    /// Waiting jobs that expire, by when and by publish number.
    expiries: BTreeMap<(Timestamp, u64), Handle<JobEntry>>,
    /// Queues with ready jobs that wait for their rate.
    refills: BTreeSet<(Timestamp, Handle<QueueEntry>)>,
}

/// What is due.
pub(crate) enum DueTimer {
    /// A waiting job has expired.
    Expiry(Handle<JobEntry>),
    /// The `visible_at` of a job has come: it is available, or its lease is over.
    Job(Handle<JobEntry>),
    /// A queue's rate allows more.
    Refill(Timestamp, Handle<QueueEntry>),
}

impl Timers {
    /// What is due first: jobs that expire, so that nobody gets them, then by the engine clock and
    /// by the wall clock.
    pub(crate) fn due(&self, entries: &Entries, time: ClockTimes) -> Option<DueTimer> {
        if let Some(((at, _), job)) = self.expiries.first_key_value()
            && *at <= time.now
        {
            return Some(DueTimer::Expiry(*job));
        }
        let is_due = |timer: &PriorityQueue, by| {
            timer.first(entries, QueueOrder::Fifo).filter(|job| entries[*job].visible_at <= by)
        };
        if let Some(job) = is_due(&self.engine, time.now).or_else(|| is_due(&self.wall, time.wall)) {
            return Some(DueTimer::Job(job));
        }
        self.refills
            .first()
            .filter(|(at, _)| *at <= time.now)
            .map(|(at, queue)| DueTimer::Refill(*at, *queue))
    }

    /// Whether a job is due that goes before this place.
    pub(crate) fn are_due_before(
        &self,
        entries: &Entries,
        place: (Timestamp, u64),
        time: ClockTimes,
    ) -> bool {
        let is_before = |timer: &PriorityQueue, by| {
            first(timer, entries).is_some_and(|first| first.visible_at <= by && first.order() < place)
        };
        is_before(&self.engine, time.now) || is_before(&self.wall, time.wall)
    }

    /// When something is due next, on the engine clock.
    pub(crate) fn next(&self, entries: &Entries, clocks: &ClockOffset) -> Option<Timestamp> {
        let first_at = |timer| first(timer, entries).map(|first| first.visible_at);
        let by_wall = first_at(&self.wall).map(|at| clocks.on_engine(JobClock::Wall, at));
        let expiry = self.expiries.first_key_value().map(|((at, _), _)| *at);
        let refill = self.refills.first().map(|(at, _)| *at);
        [first_at(&self.engine), by_wall, expiry, refill].into_iter().flatten().min()
    }

    /// Whether a job waits for a time of the wall clock.
    pub(crate) fn wait_on_wall(&self) -> bool {
        self.wall.len() > 0
    }

    /// Has a job wait for its `visible_at`.
    pub(crate) fn time(&mut self, entries: &mut Entries, job: Handle<JobEntry>) {
        let before = entries.set_place(job, JobPlace::Timed);
        debug_assert_eq!(before, JobPlace::Nowhere, "a job is in one place at a time");
        self.timer(entries[job].clock_of_wait()).insert(entries, job, QueueOrder::Fifo);
    }

    /// Takes out a job that waits for its `visible_at`.
    pub(crate) fn take_out(&mut self, entries: &mut Entries, job: Handle<JobEntry>) {
        self.timer(entries[job].clock_of_wait()).remove(entries, job, QueueOrder::Fifo);
    }

    /// Notes when a waiting job expires.
    pub(crate) fn note_expiry(&mut self, at: Timestamp, number: u64, job: Handle<JobEntry>) {
        self.expiries.insert((at, number), job);
    }

    /// A job no longer waits.
    pub(crate) fn forget_expiry(&mut self, at: Timestamp, number: u64) {
        self.expiries.remove(&(at, number));
    }

    /// Notes when a queue's rate allows more.
    pub(crate) fn note_refill(&mut self, at: Timestamp, queue: Handle<QueueEntry>) {
        self.refills.insert((at, queue));
    }

    /// A queue waits for its rate no longer.
    pub(crate) fn forget_refill(&mut self, at: Timestamp, queue: Handle<QueueEntry>) {
        self.refills.remove(&(at, queue));
    }

    fn timer(&mut self, clock: JobClock) -> &mut PriorityQueue {
        match clock {
            JobClock::Engine => &mut self.engine,
            JobClock::Wall => &mut self.wall,
        }
    }
}

fn first<'a>(timer: &PriorityQueue, entries: &'a Entries) -> Option<&'a JobEntry> {
    timer.first(entries, QueueOrder::Fifo).map(|job| &entries[job])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now: i64, wall: i64) -> ClockTimes {
        ClockTimes { now: Timestamp(now), wall: Timestamp(wall) }
    }

    /// Has a job wait for that time of a clock.
    fn time(
        timers: &mut Timers,
        entries: &mut Entries,
        clock: JobClock,
        visible_at: i64,
    ) -> Handle<JobEntry> {
        let number = entries.count() as u64;
        let job = entries.add(JobEntry { clock, ..JobEntry::sample(visible_at, number) });
        timers.time(entries, job);
        job
    }

    fn due_job(timers: &Timers, entries: &Entries, time: ClockTimes) -> Option<Handle<JobEntry>> {
        match timers.due(entries, time)? {
            DueTimer::Job(job) => Some(job),
            DueTimer::Expiry(_) | DueTimer::Refill(..) => None,
        }
    }

    #[test]
    fn a_job_is_due_when_its_own_clock_shows_its_time() {
        let (mut timers, mut entries) = (Timers::default(), Entries::default());
        let on_wall = time(&mut timers, &mut entries, JobClock::Wall, 100);
        assert!(timers.wait_on_wall());
        assert!(timers.due(&entries, at(500, 99)).is_none(), "the engine clock says nothing of it");
        assert!(due_job(&timers, &entries, at(0, 100)) == Some(on_wall));
        let on_engine = time(&mut timers, &mut entries, JobClock::Engine, 100);
        assert!(due_job(&timers, &entries, at(100, 100)) == Some(on_engine), "the engine clock comes first");
        timers.take_out(&mut entries, on_engine);
        timers.take_out(&mut entries, on_wall);
        assert!(!timers.wait_on_wall() && timers.due(&entries, at(500, 500)).is_none());
    }

    #[test]
    fn who_expires_does_so_before_anybody_is_available_and_rates_come_last() {
        let (mut timers, mut entries) = (Timers::default(), Entries::default());
        let job = time(&mut timers, &mut entries, JobClock::Engine, 1);
        let queue = entries[job].queue;
        timers.note_refill(Timestamp(0), queue);
        timers.note_expiry(Timestamp(2), 0, job);
        assert!(due_job(&timers, &entries, at(1, 1)) == Some(job), "it has not expired yet");
        assert!(matches!(timers.due(&entries, at(2, 2)), Some(DueTimer::Expiry(_))));
        timers.forget_expiry(Timestamp(2), 0);
        timers.take_out(&mut entries, job);
        assert!(matches!(timers.due(&entries, at(2, 2)), Some(DueTimer::Refill(Timestamp(0), _))));
        timers.forget_refill(Timestamp(0), queue);
        assert!(timers.due(&entries, at(2, 2)).is_none());
    }

    #[test]
    fn the_next_time_is_told_on_the_engine_clock() {
        let (mut timers, mut entries, mut clocks) =
            (Timers::default(), Entries::default(), ClockOffset::default());
        assert_eq!(timers.next(&entries, &clocks), None);
        clocks.set_wall(Timestamp(0), Timestamp(1_000));
        let job = time(&mut timers, &mut entries, JobClock::Wall, 1_050);
        assert_eq!(timers.next(&entries, &clocks), Some(Timestamp(50)));
        timers.note_refill(Timestamp(40), entries[job].queue);
        assert_eq!(timers.next(&entries, &clocks), Some(Timestamp(40)));
        timers.note_expiry(Timestamp(30), 0, job);
        assert_eq!(timers.next(&entries, &clocks), Some(Timestamp(30)));
        time(&mut timers, &mut entries, JobClock::Engine, 20);
        assert_eq!(timers.next(&entries, &clocks), Some(Timestamp(20)));
    }

    #[test]
    fn only_due_jobs_that_go_before_a_place_count_as_earlier() {
        let (mut timers, mut entries) = (Timers::default(), Entries::default());
        time(&mut timers, &mut entries, JobClock::Engine, 10);
        let before = |place, time| timers.are_due_before(&entries, (Timestamp(place), 5), time);
        assert!(before(11, at(10, 0)) && before(10, at(10, 0)), "its publish number is lower");
        assert!(!before(9, at(10, 0)), "it goes behind");
        assert!(!before(11, at(9, 500)), "its time has not come");
    }
}
