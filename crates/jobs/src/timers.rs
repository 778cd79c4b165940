//! What happens at a time: jobs become available, leases run out, jobs expire, tokens come.
//!
//! There is a timer for each clock, because the wall clock may jump. From its first lease on, a job is on the engine's.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use records::{JobClock, QueueOrder};

use crate::entry::{Entry, Place};
use crate::heap::Heap;
use crate::queues::Queue;
use crate::slab::{Handle, Slab};

/// The timers.
#[derive(Default)]
pub(crate) struct Timers {
    /// Jobs that wait for a time of the engine clock: their own, a retry's, or their lease's end.
    engine: Heap,
    /// Jobs that wait for a time of the wall clock.
    wall: Heap,
    /// Waiting jobs that expire, by when and by publish number.
    expiries: BTreeMap<(Timestamp, u64), Handle<Entry>>,
    /// Queues with ready jobs that wait for their rate.
    refills: BTreeSet<(Timestamp, Handle<Queue>)>,
}

/// What is due.
pub(crate) enum Due {
    /// A waiting job has expired.
    Expiry(Handle<Entry>),
    /// The `visible_at` of a job has come: it is available, or its lease is over.
    Job(Handle<Entry>),
    /// A queue's rate allows more.
    Refill(Timestamp, Handle<Queue>),
}

impl Timers {
    /// What is due first: jobs that expire, so that nobody gets them, then by the engine clock and by the wall clock.
    pub(crate) fn due(&self, entries: &Slab<Entry>, now: Timestamp, wall: Timestamp) -> Option<Due> {
        if let Some(((at, _), job)) = self.expiries.first_key_value()
            && *at <= now
        {
            return Some(Due::Expiry(*job));
        }
        let is_due = |timer: &Heap, by| timer.first().filter(|job| entries[*job].visible_at <= by);
        if let Some(job) = is_due(&self.engine, now).or_else(|| is_due(&self.wall, wall)) {
            return Some(Due::Job(job));
        }
        self.refills.first().filter(|(at, _)| *at <= now).map(|(at, queue)| Due::Refill(*at, *queue))
    }

    /// Whether a job is due that goes before this place.
    pub(crate) fn are_due_before(
        &self,
        entries: &Slab<Entry>,
        place: (Timestamp, u64),
        now: Timestamp,
        wall: Timestamp,
    ) -> bool {
        let is_before = |timer: &Heap, by| {
            let first = timer.first().map(|job| &entries[job]);
            first.is_some_and(|first| first.visible_at <= by && first.order() < place)
        };
        is_before(&self.engine, now) || is_before(&self.wall, wall)
    }

    /// When something is due next, on the engine clock; the wall clock is ahead of it by `ahead_ms`.
    pub(crate) fn next(&self, entries: &Slab<Entry>, ahead_ms: i64) -> Option<Timestamp> {
        let first = |timer: &Heap| timer.first().map(|job| entries[job].visible_at);
        let by_wall = first(&self.wall).map(|at| Timestamp(at.0.saturating_sub(ahead_ms)));
        let expiry = self.expiries.first_key_value().map(|((at, _), _)| *at);
        let refill = self.refills.first().map(|(at, _)| *at);
        [first(&self.engine), by_wall, expiry, refill].into_iter().flatten().min()
    }

    /// Whether a job waits for a time of the wall clock.
    pub(crate) fn wait_on_wall(&self) -> bool {
        self.wall.first().is_some()
    }

    /// Has a job wait for its `visible_at`.
    pub(crate) fn time(&mut self, entries: &mut Slab<Entry>, job: Handle<Entry>) {
        debug_assert_eq!(entries[job].place, Place::Nowhere, "a job is in one place at a time");
        entries[job].place = Place::Timed;
        self.timer(entries[job].clock_of_wait()).insert(entries, job, QueueOrder::Fifo);
    }

    /// Takes out a job that waits for its `visible_at`.
    pub(crate) fn take_out(&mut self, entries: &mut Slab<Entry>, job: Handle<Entry>) {
        self.timer(entries[job].clock_of_wait()).remove(entries, job, QueueOrder::Fifo);
    }

    /// Notes when a waiting job expires.
    pub(crate) fn note_expiry(&mut self, at: Timestamp, number: u64, job: Handle<Entry>) {
        self.expiries.insert((at, number), job);
    }

    /// A job no longer waits.
    pub(crate) fn forget_expiry(&mut self, at: Timestamp, number: u64) {
        self.expiries.remove(&(at, number));
    }

    /// Notes when a queue's rate allows more.
    pub(crate) fn note_refill(&mut self, at: Timestamp, queue: Handle<Queue>) {
        self.refills.insert((at, queue));
    }

    /// A queue waits for its rate no longer.
    pub(crate) fn forget_refill(&mut self, at: Timestamp, queue: Handle<Queue>) {
        self.refills.remove(&(at, queue));
    }

    fn timer(&mut self, clock: JobClock) -> &mut Heap {
        match clock {
            JobClock::Engine => &mut self.engine,
            JobClock::Wall => &mut self.wall,
        }
    }
}
