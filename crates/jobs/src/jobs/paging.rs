//! Reads parked jobs in: those whose time is near, those of lines that get short, and those that a call is about.
//!
//! The store is the caller's to read. Here it is said what is wanted of it, and what becomes of the jobs that were found.

use base::Timestamp;
use records::{Batch, GroupKey, JobClock, Op, ParkedJob, Parking, QueueKey, QueueOrder};

use crate::entry::Entry;
use crate::groups::GroupLine;
use crate::jobs::{Jobs, Turn};
use crate::parked::Horizon;
use crate::parked::read_queue::Need;
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

/// Jobs that are read in at once by their time.
const TIMED_AT_ONCE: usize = 500;
/// After a start it is not known how far the jobs that are resident reach: few are read to see it.
const TIMED_AT_FIRST: usize = 64;

impl Jobs {
    /// What should be read from the store now: [`Jobs::take_in`] each job that is found, then [`Jobs::read_to`]. Some of it may
    /// wait for a later step, but for what is [`Jobs::wanted_at_once`].
    pub fn wanted(&mut self, now: Timestamp) -> Option<Want> {
        self.lot.taken_in = 0;
        if let Some(want) = self.wanted_at_once() {
            return Some(want);
        }
        if self.lot.line_was_last {
            self.wanted_time(now).or_else(|| self.wanted_line())
        } else {
            self.wanted_line().or_else(|| self.wanted_time(now))
        }
    }

    /// What must be read in this step: of a group with parked jobs one is resident, or parked as its head, so that it is found
    /// again after a crash. There is one such group at most for each job of a group that ended, or was moved, in the step.
    pub fn wanted_at_once(&mut self) -> Option<Want> {
        self.lot.taken_in = 0;
        self.line_in_need(Need::Orphan)
    }

    /// What should be read before the next job of this queue can be leased.
    pub fn wanted_of(&mut self, queue: QueueKey) -> Option<Want> {
        self.lot.taken_in = 0;
        let (queue, group) = self.lot.needs.next_of(queue)?;
        Some(Want::Line { queue, group })
    }

    /// How many jobs should be taken in of what is wanted: a part of those that there is room for, and one at least.
    #[must_use]
    pub fn page_max(&self, want: Want) -> usize {
        let room = self.lot.resident_max.saturating_sub(self.waiting_in_memory());
        match want {
            Want::Time { from, .. } => {
                let most = if from == Horizon::LEAST.at { TIMED_AT_FIRST } else { TIMED_AT_ONCE };
                (self.lot.resident_max / 32).clamp(1, most)
            }
            Want::Line { .. } => (room / 4).clamp(1, self.lot.front),
        }
    }

    fn wanted_line(&mut self) -> Option<Want> {
        self.line_in_need(Need::Blocking)
            .or_else(|| if self.is_roomy() { self.line_in_need(Need::Ahead) } else { None })
    }

    fn line_in_need(&mut self, need: Need) -> Option<Want> {
        while let Some((key, group)) = self.lot.needs.next(need) {
            let Some(queue) = self.queues.find(key) else {
                self.lot.needs.remove((key, group));
                continue;
            };
            // One that waited for what is no longer parked is told so by reading nothing.
            if need != Need::Ahead || self.need_of(queue, group).is_some() {
                return Some(Want::Line { queue: key, group });
            }
            self.lot.needs.remove((key, group));
        }
        None
    }

    fn wanted_time(&mut self, now: Timestamp) -> Option<Want> {
        if self.lot.is_empty() || !self.lot.leaving.is_empty() || self.must_shrink_first() {
            return None;
        }
        // Of both clocks together, because together they are too many.
        if now < self.pause_ends() {
            return None;
        }
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
        self.waiting_in_memory() > self.lot.resident_max && !self.lot.stuck.is_stuck()
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
        self.lot.line_was_last = matches!(want, Want::Line { .. });
        let wall = self.see_wall(now);
        let mut turn = Turn { now, wall, calendar: &mut NoCalendar, batch, wakes: Some(wakes) };
        match want {
            Want::Time { clock, .. } => {
                // What was read may have joined a line meanwhile, and expire there.
                let drawn_in = self.lot.drawn_in.take().filter(|_| clock == JobClock::Engine);
                self.lot.set_horizon(clock, to.into_iter().chain(drawn_in).min());
                self.lot.read_pause.read(now);
                self.forget_read();
                self.review_held_up(&mut turn);
            }
            Want::Line { queue: key, group } => {
                self.lot.needs.was_read((key, group));
                self.lot.needs.remove((key, group));
                let Some(queue) = self.queues.find(key) else { return };
                self.set_line(queue, group, to);
                self.move_up(queue, group, &mut turn);
                // It has one that leads to it, be it one that has expired.
                if self.lot.taken_in > 0 && self.lot.needs.get((key, group)) == Some(Need::Orphan) {
                    self.lot.needs.set((key, group), Need::Blocking);
                }
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
        self.lot.taken_in += 1;
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
        if is_missed {
            return;
        }
        while let Some((_, group)) = self.lot.held_up.release_of(self.queues[queue].key) {
            self.move_up(queue, group, turn);
        }
        if self.lot.is_empty() {
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
        let entry = &self.table.entries[job];
        let (queue, order) = (entry.queue, entry.order_in_group());
        // Where the newest goes first, another head may have been parked before it: then the group is read.
        let leads = parking == Parking::Head && self.queues[queue].order == QueueOrder::Fifo;
        if let Some(group) = self.table.group(job).filter(|_| leads)
            && self.groups.line(queue, group).is_none()
            && let Some(line) = self.group_line(queue, group)
        {
            let to = Horizon { at: order.0, number: order.1 };
            self.groups.know(queue, group, GroupLine { to, ..line });
        }
        // What is ready stays so, though the wall clock may have gone back.
        let is_due = parking != Parking::Time || self.is_due(job, turn);
        self.file_as(job, is_due, turn);
    }

    /// Notes whether a line should be read; nobody looks at it again before something happens to it.
    pub(crate) fn watch_line(&mut self, queue: Handle<Queue>, group: Option<GroupKey>) {
        let line = (self.queues[queue].key, group);
        match self.need_of(queue, group) {
            Some(need) => self.lot.needs.set(line, need),
            None => self.lot.needs.remove(line),
        }
    }

    /// What depends on reading a line of which some is parked.
    fn need_of(&self, queue: Handle<Queue>, group: Option<GroupKey>) -> Option<Need> {
        let line = self.line(queue, group)?;
        if let Some(group) = group {
            // Of one that is forgotten nobody asks for more.
            self.groups.line(queue, group)?;
        }
        let low = if self.is_roomy() { self.lot.front / 4 } else { 0 };
        let is_short = match group {
            Some(group) if self.groups.has_nobody(queue, group) => return Some(Need::Orphan),
            Some(group) if self.groups.is_headless(queue, group, Some(line)) => return Some(Need::Blocking),
            Some(group) => self.groups.is_short(queue, group, low),
            None => match self.queues[queue].ready.first() {
                Some(first) if !self.is_behind_unread(first) => self.queues[queue].ready.len() < low,
                Some(_) | None => return Some(Need::Blocking),
            },
        };
        is_short.then_some(Need::Ahead)
    }

    /// Whether reading in some jobs does not have others parked soon.
    pub(crate) fn is_roomy(&self) -> bool {
        self.waiting_in_memory() < self.lot.resident_max / 2
    }

    /// Resident jobs that no worker has: only these can be parked.
    pub(crate) fn waiting_in_memory(&self) -> usize {
        self.table.entries.len() - self.table.leases.len()
    }
}
