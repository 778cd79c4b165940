//! Reads parked jobs in: those whose time is near, those of lines that get short, and those that a call is about.
//!
//! The store is the caller's to read. Here it is said what is wanted of it, and what becomes of the jobs that were found.

use base::Timestamp;
use records::{Batch, GroupKey, JobClock, Op, ParkedJob, Parking, QueueKey};

use crate::entry::Entry;
use crate::jobs::{Jobs, Turn};
use crate::parking::Horizon;
use crate::queues::Queue;
use crate::recurrence::NoCalendar;
use crate::slab::Handle;

/// What the store should be read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The soonest of the jobs that wait for their time on this clock, or that expire while they wait for a worker.
    Time {
        /// The clock.
        clock: JobClock,
        /// None are due before.
        from: Timestamp,
    },
    /// The first that wait for a worker in this line, in the queue's order; those of a group in the order of their time.
    Line {
        /// The queue.
        queue: QueueKey,
        /// The group; `None` is the jobs without one.
        group: Option<GroupKey>,
    },
}

impl Jobs {
    /// What should be read from the store now: [`Jobs::take_in`] each job that is found, then [`Jobs::read_to`]. Lines come
    /// first: ask until these are done in the step in which they are wanted, because a group with parked jobs keeps one that
    /// is resident, by which it is known after a crash. Of what comes due, a page a step is enough.
    pub fn wanted(&mut self, now: Timestamp) -> Option<Want> {
        self.wanted_line().or_else(|| self.wanted_time(now))
    }

    fn wanted_line(&mut self) -> Option<Want> {
        while let Some((key, group)) = self.lot.short.first().copied() {
            // One that waited for what is no longer parked is told so by reading nothing.
            let still = |queue| self.line(queue, group).is_none() || self.is_short(queue, group);
            if self.queues.find(key).is_some_and(still) {
                return Some(Want::Line { queue: key, group });
            }
            self.lot.short.pop_first();
        }
        None
    }

    fn wanted_time(&mut self, now: Timestamp) -> Option<Want> {
        if self.lot.is_empty() || !self.lot.leaving.is_empty() || self.must_shrink_first() {
            return None;
        }
        // Of both clocks together, because together they are too many.
        let is_short = self.counts().scheduled < (self.lot.resident_max / 16).max(1) && self.is_roomy();
        let wall = self.see_wall(now);
        for (clock, time) in [(JobClock::Engine, now), (JobClock::Wall, wall)] {
            let Some(horizon) = self.lot.horizon(clock) else { continue };
            if horizon.is_near(time) || is_short {
                self.lot.drawn_in = None;
                return Some(Want::Time { clock, from: horizon.at });
            }
        }
        None
    }

    /// Whether so many are resident that some are to be parked before more are read in, and can be.
    fn must_shrink_first(&self) -> bool {
        let most = self.lot.resident_max.saturating_add(self.lot.resident_max / 4);
        self.table.entries.len() > most && !self.lot.stuck.is_stuck()
    }

    /// Says how far that has been read in which was wanted; `None` if nothing of it is parked any more.
    pub fn read_to(
        &mut self,
        now: Timestamp,
        want: Want,
        to: Option<Horizon>,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) {
        match want {
            Want::Time { clock, .. } => {
                // What was read may have joined a line meanwhile, and expire there.
                let drawn_in = self.lot.drawn_in.take().filter(|_| clock == JobClock::Engine);
                self.lot.set_horizon(clock, to.into_iter().chain(drawn_in).min());
                let wall = self.see_wall(now);
                let mut turn = Turn { now, wall, calendar: &mut NoCalendar, batch, wakes: Some(wakes) };
                self.review_held_up(&mut turn);
            }
            Want::Line { queue: key, group } => {
                let Some(queue) = self.queues.find(key) else { return };
                self.lot.short.remove(&(key, group));
                self.set_line(queue, group, to);
                let wall = self.see_wall(now);
                let mut turn = Turn { now, wall, calendar: &mut NoCalendar, batch, wakes: Some(wakes) };
                self.move_up(queue, group, &mut turn);
            }
        }
    }

    /// Makes a parked job resident that a call is about, wherever the horizons are.
    pub fn unpark(
        &mut self,
        now: Timestamp,
        parked: &ParkedJob,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) {
        let wall = self.see_wall(now);
        let mut turn = Turn { now, wall, calendar: &mut NoCalendar, batch, wakes: Some(wakes) };
        let job = self.enter_parked(parked, &mut turn);
        let queue = self.table.entries[job].queue;
        self.stay(job, parked.parking, &mut turn);
        self.let_go(queue, &mut turn);
    }

    /// Makes a parked job resident that was read because it was wanted; one that has come due behind its line stays parked, in
    /// that.
    pub fn take_in(
        &mut self,
        now: Timestamp,
        parked: &ParkedJob,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) {
        let wall = self.see_wall(now);
        let mut turn = Turn { now, wall, calendar: &mut NoCalendar, batch, wakes: Some(wakes) };
        let job = self.enter_parked(parked, &mut turn);
        let queue = self.table.entries[job].queue;
        let joins_line = parked.parking == Parking::Time && self.is_due(job, &turn);
        match self.parking_of(job, &turn).filter(|_| joins_line) {
            Some(parking) => self.park(job, parking, turn.batch),
            None => self.stay(job, parked.parking, &mut turn),
        }
        self.let_go(queue, &mut turn);
    }

    /// Looks again at what waited for jobs of this queue to be read, if none of them is left that could be missed.
    fn let_go(&mut self, queue: Handle<Queue>, turn: &mut Turn<'_>) {
        let is_missed = self.queues[queue].parked.as_ref().is_some_and(|parked| parked.scheduled > 0);
        if !is_missed && !self.lot.held_up.is_empty() {
            self.review_held_up(turn);
        }
    }

    fn enter_parked(&mut self, parked: &ParkedJob, turn: &mut Turn<'_>) -> Handle<Entry> {
        turn.batch.ops.push(Op::UnparkJob(Box::new(parked.key())));
        let job = self.enter(&parked.head);
        self.count_less(self.table.entries[job].queue, parked.parking);
        job
    }

    fn stay(&mut self, job: Handle<Entry>, parking: Parking, turn: &mut Turn<'_>) {
        self.put(job, turn.batch);
        // What is ready stays so, though the wall clock may have gone back.
        let is_due = parking == Parking::Worker || self.is_due(job, turn);
        self.file_as(job, is_due, turn);
    }

    /// Notes that a line should be read if little of it is resident; nobody looks at it again before something happens to it.
    pub(crate) fn watch_line(&mut self, queue: Handle<Queue>, group: Option<GroupKey>) {
        if self.line(queue, group).is_some() && self.is_short(queue, group) {
            self.lot.short.insert((self.queues[queue].key, group));
        }
    }

    /// Whether a line, of which some is parked, gives consumers little or nothing before it is read.
    fn is_short(&self, queue: Handle<Queue>, group: Option<GroupKey>) -> bool {
        let low = if self.is_roomy() { (self.lot.front / 4).max(1) } else { 1 };
        match group {
            Some(group) => {
                let line = self.line(queue, Some(group));
                self.groups.is_headless(queue, group, line) || self.groups.is_short(queue, group, low)
            }
            None => {
                let first = self.queues[queue].ready.first();
                self.queues[queue].ready.len() < low
                    || first.is_some_and(|first| self.is_behind_unread(first))
            }
        }
    }

    /// Whether reading in some jobs does not have others parked soon.
    fn is_roomy(&self) -> bool {
        self.table.entries.len() < self.lot.resident_max / 2
    }
}
