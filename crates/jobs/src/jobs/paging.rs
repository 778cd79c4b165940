//! Reads parked jobs in: those whose time is near, those of lines that get short, and those that a
//! call is about.
//!
//! The store is the caller's to read. Here it is said what is wanted of it, and what becomes of the
//! jobs that were found.

use std::sync::Arc;

use base::Timestamp;
use records::{GroupKey, JobClock, Op, ParkedJob, Parking, QueueKey, QueueOrder};

use crate::entry::JobEntry;
use crate::groups::GroupLine;
use crate::jobs::Jobs;
use crate::parked::horizon::Horizon;
use crate::parked::read_queue::ReadPriority;
use crate::queues::QueueEntry;
use crate::slab::Handle;
use crate::step::JobsStep;

/// What the store should be read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRequest {
    /// The soonest of the jobs that wait for their time on this clock, or that expire while they
    /// wait for a worker.
    Time {
        /// The clock.
        clock: JobClock,
        /// None are due before.
        from: Timestamp,
    },
    /// The first that wait for a worker in this line, in the queue's order; those of a group in the
    /// order of their time.
    Line {
        /// The queue.
        queue: QueueKey,
        /// The group; `None` is the jobs without one.
        group: Option<GroupKey>,
    },
}

impl Jobs {
    /// What should be read from the store now: [`Jobs::take_in`] each job that is found, then
    /// [`Jobs::read_to`]. Some of it may wait for a later step, but for what is
    /// [`Jobs::next_urgent_read`].
    pub fn next_read(&mut self, now: Timestamp) -> Option<ReadRequest> {
        self.reads.begin();
        if let Some(request) = self.next_urgent_read() {
            return Some(request);
        }
        if self.reads.is_turn_of_clock() {
            self.next_time_read(now).or_else(|| self.next_line_read())
        } else {
            self.next_line_read().or_else(|| self.next_time_read(now))
        }
    }

    /// What must be read in this step. Of a group with parked jobs one is resident, or parked as
    /// its head, so that the group is found again after a crash. There is one such group at most
    /// for each job of a group that ended, or was moved, in the step.
    pub fn next_urgent_read(&mut self) -> Option<ReadRequest> {
        self.reads.begin();
        self.next_line(ReadPriority::Orphan)
    }

    /// What should be read before the next job of this queue can be leased.
    pub fn next_read_of(&mut self, queue: QueueKey) -> Option<ReadRequest> {
        self.reads.begin();
        let (queue, group) = self.reads.next_of(queue)?;
        Some(ReadRequest::Line { queue, group })
    }

    /// How many jobs should be taken in of what is wanted: a part of those that there is room for,
    /// and one at least.
    #[must_use]
    pub fn page_max(&self, request: ReadRequest) -> usize {
        match request {
            ReadRequest::Time { from, .. } => self.limit.timed_page_max(from == Horizon::LEAST.at),
            ReadRequest::Line { .. } => self.limit.line_page_max(self.table.waiting()),
        }
    }

    fn next_line_read(&mut self) -> Option<ReadRequest> {
        self.next_line(ReadPriority::Blocking)
            .or_else(|| if self.is_roomy() { self.next_line(ReadPriority::Prefetch) } else { None })
    }

    fn next_line(&mut self, need: ReadPriority) -> Option<ReadRequest> {
        while let Some((key, group)) = self.reads.next(need) {
            let Some(queue) = self.queues.find(key) else {
                self.reads.remove((key, group));
                continue;
            };
            // One that waited for what is no longer parked is told so by reading nothing.
            if need != ReadPriority::Prefetch || self.read_priority(queue, group).is_some() {
                return Some(ReadRequest::Line { queue: key, group });
            }
            self.reads.remove((key, group));
        }
        None
    }

    fn next_time_read(&mut self, now: Timestamp) -> Option<ReadRequest> {
        if self.parked.is_empty() || self.eviction.is_under_way() || self.must_evict_first() {
            return None;
        }
        // Of both clocks together, because together they are too many.
        let is_short = self.is_roomy() && self.limit.is_short_of_scheduled(self.counts().scheduled);
        let time = self.clocks.at(now);
        for clock in [JobClock::Engine, JobClock::Wall] {
            let Some(horizon) = self.parked.horizon(clock) else { continue };
            if horizon.is_near(time.on(clock)) || is_short {
                self.parked.begin_reading();
                return Some(ReadRequest::Time { clock, from: horizon.at });
            }
        }
        None
    }

    /// Whether so many are resident that some are to be parked before more are read in, and can be.
    fn must_evict_first(&self) -> bool {
        self.table.waiting() > self.limit.max() && !self.eviction.is_stuck()
    }

    /// Says how far that has been read in which was wanted; `None` if nothing of it is parked any
    /// more.
    pub fn read_to(&mut self, request: ReadRequest, to: Option<Horizon>, step: &mut JobsStep<'_>) {
        match request {
            ReadRequest::Time { clock, .. } => {
                self.reads.clock_was_read();
                self.parked.read_to(clock, to);
                self.unblock_lines(step);
            }
            ReadRequest::Line { queue: key, group } => {
                self.reads.line_was_read((key, group));
                let Some(queue) = self.queues.find(key) else { return };
                self.set_line(queue, group, to);
                self.promote_next(queue, group, step);
                // A job leads to it after a crash, be it one that has expired.
                self.reads.calm((key, group));
            }
        }
    }

    /// Makes a parked job resident that a call is about, wherever the horizons are.
    pub fn unpark(&mut self, parked: &ParkedJob, step: &mut JobsStep<'_>) {
        let job = self.enter_from_store(parked, step);
        let queue = self.table[job].queue;
        self.keep_resident(job, parked.parking, step);
        self.unblock_queue(queue, step);
    }

    /// Makes a parked job resident that was read because it was wanted; one that has come due
    /// behind its line stays parked, in that.
    pub fn take_in(&mut self, parked: &ParkedJob, step: &mut JobsStep<'_>) {
        self.reads.count_taken_in();
        let job = self.enter_from_store(parked, step);
        let queue = self.table[job].queue;
        let joins_line = parked.parking == Parking::Time && self.is_due(job, step);
        match self.parking_of(job, step).filter(|_| joins_line) {
            Some(parking) => self.park(job, parking, step.batch),
            None => self.keep_resident(job, parked.parking, step),
        }
        self.unblock_queue(queue, step);
    }

    fn enter_from_store(&mut self, parked: &ParkedJob, step: &mut JobsStep<'_>) -> Handle<JobEntry> {
        step.batch.ops.push(Op::UnparkJob(Box::new(parked.key())));
        let body = parked.body.iter().map(|body| Op::PutJobBody(parked.head.id, Arc::clone(body)));
        step.batch.ops.extend(body);
        let job = self.enter(&parked.head);
        let queue = self.table[job].queue;
        self.parked.remove((queue, &mut self.queues[queue]), parked.parking);
        job
    }

    fn keep_resident(&mut self, job: Handle<JobEntry>, parking: Parking, step: &mut JobsStep<'_>) {
        self.put(job, step.batch);
        let entry = &self.table[job];
        let (queue, order) = (entry.queue, entry.order_in_group());
        // Where the newest goes first, another head may have been parked before it: then the group
        // is read.
        let leads = parking == Parking::Head && self.queues[queue].order() == QueueOrder::Fifo;
        if let Some(group) = self.table.group(job).filter(|_| leads)
            && !self.groups.is_known(queue, group)
            && let Some(line) = self.group_line(queue, group)
        {
            let to = Horizon { at: order.0, number: order.1 };
            self.groups.insert(queue, group, GroupLine { to, ..line });
        }
        // What is ready stays so, though the wall clock may have gone back.
        let is_due = parking != Parking::Time || self.is_due(job, step);
        self.place_as(job, is_due, step);
    }

    /// Notes whether a line should be read; nobody looks at it again before something happens to
    /// it.
    pub(super) fn schedule_read(&mut self, queue: Handle<QueueEntry>, group: Option<GroupKey>) {
        let line = (self.queues[queue].key(), group);
        match self.read_priority(queue, group) {
            Some(need) => self.reads.set(line, need),
            None => self.reads.remove(line),
        }
    }

    /// What depends on reading a line of which some is parked.
    fn read_priority(&self, queue: Handle<QueueEntry>, group: Option<GroupKey>) -> Option<ReadPriority> {
        let line = self.line(queue, group)?;
        if let Some(group) = group {
            // Of one that is forgotten nobody asks for more.
            self.groups.line(queue, group)?;
        }
        let low = self.limit.line_low_mark(self.table.waiting());
        let is_short = match group {
            Some(group) if self.groups.has_nobody(queue, group) => return Some(ReadPriority::Orphan),
            Some(group) if self.groups.is_headless(queue, group, Some(line)) => {
                return Some(ReadPriority::Blocking);
            }
            Some(group) => self.groups.is_short(queue, group, low),
            None => match self.queues[queue].line().first(self.table.entries()) {
                Some(first) if !self.is_behind_parked(first) => self.queues[queue].line().ready() < low,
                Some(_) | None => return Some(ReadPriority::Blocking),
            },
        };
        is_short.then_some(ReadPriority::Prefetch)
    }
}
