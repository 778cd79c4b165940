//! Jobs that are not resident: only the store has them, in the order of their time or of their line.
//!
//! What is parked is behind a [`Horizon`]: of a clock's scheduled jobs, everything up to its horizon is resident, and of a
//! line - the jobs of a queue, or of a group, whose time has come - everything up to the line's. Whoever publishes behind a
//! horizon that is there parks at once. Horizons move out when the caller has read in what was [`Jobs::wanted`], and in
//! when [`Jobs::shrink`] makes room. A resident job may also be behind a horizon; then it waits until all before it is
//! resident: nobody is leased a job while one that is parked may come before it. The first of a group is parked in its queue's
//! line too, as its head: the group is forgotten then, and read when its head is. Where the newest goes first, that holds of
//! its line only, and a job whose time has come counts once it is read: new ones may keep coming for ever.

pub(crate) mod blocked_lines;
pub(crate) mod read_queue;
pub(crate) mod read_throttle;

use std::time::Duration;

use base::Timestamp;
use records::{Batch, GroupKey, JobClock, JobId, Op, ParkedJob, Parking, QueueKey, QueueOrder};

use crate::clocks::{Clocks, Moment};
use crate::entry::Entry;
use crate::groups::GroupLine;
use crate::jobs::Jobs;
use crate::jobs::eviction::EvictionBackoff;
use crate::parked::blocked_lines::{BlockedLines, EarliestDue};
use crate::parked::read_queue::{ReadPriority, ReadQueue};
use crate::parked::read_throttle::ReadThrottle;
use crate::queues::Queue;
use crate::slab::Handle;
use crate::step::StepContext;

/// Jobs that stay at the front of each line, if there is room for so many, and that are read of one at once.
pub(crate) const FRONT_MAX: usize = 1_000;
/// A parked job is read in this long before its time, at least.
pub(crate) const READ_AHEAD: Duration = Duration::from_secs(1);

/// A place in the order of `visible_at` and publish number: everything up to it, itself included, is resident. In a queue
/// that gives the newest first, everything from it on is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Horizon {
    /// The `visible_at` of the last resident job.
    pub at: Timestamp,
    /// Its publish number.
    pub number: u64,
}

impl Horizon {
    /// Before everything.
    pub const LEAST: Self = Self { at: Timestamp(i64::MIN), number: 0 };
    const GREATEST: Self = Self { at: Timestamp::MAX, number: u64::MAX };

    /// Just before everything: nothing is known to be resident.
    fn unknown(order: QueueOrder) -> Self {
        match order {
            QueueOrder::Fifo => Self::LEAST,
            QueueOrder::Lifo => Self::GREATEST,
        }
    }

    pub(crate) fn is_before(self, (at, number): (Timestamp, u64), order: QueueOrder) -> bool {
        let place = Self { at, number };
        match order {
            QueueOrder::Fifo => self < place,
            QueueOrder::Lifo => self > place,
        }
    }

    /// From when on something behind this is due within a second, by its clock.
    fn near_from(self) -> Timestamp {
        let first = if self.number == u64::MAX { Timestamp(self.at.0.saturating_add(1)) } else { self.at };
        first.before(READ_AHEAD)
    }

    /// Whether something behind this is due within a second, or was before.
    pub(crate) fn is_near(self, time: Timestamp) -> bool {
        self.near_from() <= time
    }

    /// The place just before this one, in the order of time.
    #[must_use]
    pub fn just_before(at: Timestamp, number: u64) -> Self {
        match number.checked_sub(1) {
            Some(number) => Self { at, number },
            None => Self { at: Timestamp(at.0.saturating_sub(1)), number: u64::MAX },
        }
    }
}

/// What is parked of a queue.
#[derive(Default)]
pub(crate) struct ParkedQueue {
    pub(crate) scheduled: u64,
    pub(crate) ready: u64,
    /// None of those that wait for their time is due before this.
    pub(crate) from: EarliestDue,
    /// How far the jobs without a group are resident; `None` if all of them are.
    pub(crate) line: Option<Horizon>,
    /// Whether groups that nothing is known of may have parked jobs.
    pub(crate) groups_unknown: bool,
    /// What is known of groups is from the same one. Another begins when nothing waits for a worker any more.
    pub(crate) epoch: u64,
    /// Whether the counts have changed since they were taken.
    is_changed: bool,
}

impl ParkedQueue {
    fn is_empty(&self) -> bool {
        self.scheduled == 0 && self.ready == 0
    }
}

/// What is parked of all queues.
pub(crate) struct ParkedIndex {
    pub(crate) resident_max: usize,
    scheduled: u64,
    ready: u64,
    engine: Option<Horizon>,
    wall: Option<Horizon>,
    /// How far the engine clock's was drawn in while it was being read.
    pub(crate) pulled_in: Option<Horizon>,
    /// Counts the epochs of all queues.
    epochs: u64,
    /// Up to where time has moved on, by the engine clock and by the wall clock.
    advanced_to: Moment,
    /// Lines to be read.
    pub(crate) read_queue: ReadQueue,
    /// Lines that have a job which waits until those whose time came before are read.
    pub(crate) blocked_lines: BlockedLines,
    /// A line was read last, not a clock: they take turns.
    pub(crate) line_was_last: bool,
    /// Jobs taken in since something was wanted.
    pub(crate) taken_in: usize,
    /// When jobs are read by their time although there is little room.
    pub(crate) read_throttle: ReadThrottle,
    /// Queues whose counts have changed.
    changed: Vec<Handle<Queue>>,
    /// Jobs that stayed at the front of each line when there was too little room; a line is read in when a quarter of it is left.
    pub(crate) front: usize,
    /// Jobs that shrinking parks, the last first.
    pub(crate) planned: Vec<(JobId, Parking)>,
    /// Of all that are resident.
    pub(crate) backoff: EvictionBackoff,
    /// Of those that wait for their time.
    pub(crate) scheduled_backoff: EvictionBackoff,
}

impl Default for ParkedIndex {
    fn default() -> Self {
        Self {
            resident_max: usize::MAX,
            scheduled: 0,
            ready: 0,
            engine: None,
            wall: None,
            pulled_in: None,
            epochs: 0,
            advanced_to: Moment { now: Timestamp(i64::MIN), wall: Timestamp(i64::MIN) },
            read_queue: ReadQueue::default(),
            blocked_lines: BlockedLines::default(),
            line_was_last: false,
            taken_in: 0,
            read_throttle: ReadThrottle::default(),
            changed: Vec::new(),
            front: FRONT_MAX,
            planned: Vec::new(),
            backoff: EvictionBackoff::default(),
            scheduled_backoff: EvictionBackoff::default(),
        }
    }
}

impl ParkedIndex {
    pub(crate) fn is_empty(&self) -> bool {
        self.scheduled == 0 && self.ready == 0
    }

    /// When something should be read in, on the engine clock.
    pub(crate) fn next(&self, clocks: &Clocks) -> Option<Timestamp> {
        let engine = self.engine.map(Horizon::near_from);
        let wall = self.wall.map(|horizon| clocks.on_engine(JobClock::Wall, horizon.near_from()));
        engine.into_iter().chain(wall).min().filter(|_| !self.is_empty())
    }

    /// Time has moved on to this: parked jobs whose time has come are missed from now on until they are read.
    pub(crate) fn advance_to(&mut self, time: Moment) {
        self.advanced_to = time;
    }

    /// Whether jobs of any queue whose time has come, and that go before this place, may not have been read.
    pub(crate) fn may_miss_before(&self, place: (Timestamp, u64)) -> bool {
        self.may_miss_between(EarliestDue::UNKNOWN, place)
    }

    /// Whether jobs that are due from then on, whose time has come, and that go before this place, may not have been read.
    pub(crate) fn may_miss_between(&self, from: EarliestDue, place: (Timestamp, u64)) -> bool {
        let misses = |horizon: Option<Horizon>, time, from: Option<Timestamp>| {
            from.is_some_and(|from| from <= time && from <= place.0)
                && horizon.is_some_and(|horizon| {
                    horizon < Horizon { at: time, number: u64::MAX }
                        && horizon.is_before(place, QueueOrder::Fifo)
                })
        };
        misses(self.engine, self.advanced_to.now, from.engine)
            || misses(self.wall, self.advanced_to.wall, from.wall)
    }

    /// How far the scheduled jobs of a clock are resident; `None` if all of them are.
    pub(crate) fn horizon(&self, clock: JobClock) -> Option<Horizon> {
        match clock {
            JobClock::Engine => self.engine,
            JobClock::Wall => self.wall,
        }
    }

    pub(crate) fn set_horizon(&mut self, clock: JobClock, to: Option<Horizon>) {
        match clock {
            JobClock::Engine => self.engine = to,
            JobClock::Wall => self.wall = to,
        }
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
}

impl Jobs {
    /// Most jobs that are resident before some are parked. Without it none are.
    pub fn set_resident_max(&mut self, max: usize) {
        self.parked.resident_max = max;
        self.parked.front = self.parked.front.min(max / 8).max(1);
    }

    /// Whether any job is parked.
    #[must_use]
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// How far a line is resident, if any of it is parked: where reading it goes on.
    #[must_use]
    pub fn line_horizon(&self, queue: QueueKey, group: Option<GroupKey>) -> Option<Horizon> {
        self.line(self.queues.find(queue)?, group)
    }

    /// How many jobs of all queues are parked: those that wait for their time, and those that wait for a worker.
    #[must_use]
    pub fn parked_in_all(&self) -> (u64, u64) {
        (self.parked.scheduled, self.parked.ready)
    }

    /// How many jobs of a queue are parked: those that wait for their time, and those that wait for a worker.
    #[must_use]
    pub fn parked(&self, queue: QueueKey) -> (u64, u64) {
        let parked = self.queues.get(queue).and_then(Queue::parked);
        parked.map_or((0, 0), |parked| (parked.scheduled, parked.ready))
    }

    /// Says how many jobs of a queue are parked, before its jobs are loaded.
    pub fn load_counts(&mut self, queue: QueueKey, scheduled: u64, ready: u64) {
        if scheduled == 0 && ready == 0 {
            return;
        }
        let record = self.queues.enter(queue);
        let line = Some(Horizon::unknown(self.queues[record].order()));
        *self.queues[record].parked_mut() = Some(Box::new(ParkedQueue {
            scheduled,
            ready,
            from: if scheduled > 0 { EarliestDue::UNKNOWN } else { EarliestDue::default() },
            line,
            groups_unknown: true,
            epoch: 0,
            is_changed: false,
        }));
        self.parked.scheduled += scheduled;
        self.parked.ready += ready;
        self.parked.set_horizon(JobClock::Engine, Some(Horizon::LEAST));
        self.parked.set_horizon(JobClock::Wall, Some(Horizon::LEAST));
        self.note_starved(record);
        if ready > 0 {
            self.parked.read_queue.set((queue, None), ReadPriority::Blocking);
        }
    }

    /// The queues whose counts have changed since this was last asked: how many jobs of each are parked that wait for their
    /// time, and that wait for a worker.
    pub fn take_changed_counts(&mut self, changed: &mut Vec<(QueueKey, u64, u64)>) {
        for queue in std::mem::take(&mut self.parked.changed) {
            let record = &mut self.queues[queue];
            let key = record.key();
            let Some(parked) = record.parked_mut() else { continue };
            parked.is_changed = false;
            changed.push((key, parked.scheduled, parked.ready));
            if parked.is_empty() {
                *record.parked_mut() = None;
                self.queues.leave(queue);
            }
        }
    }

    /// Takes a parked job out of the world, with what it carries.
    pub fn drop_parked(&mut self, parked: &ParkedJob, batch: &mut Batch) {
        batch.ops.push(Op::UnparkJob(Box::new(parked.key())));
        batch.ops.push(Op::DeleteJobBody(parked.head.id));
        let queue = self.queues.enter(parked.head.queue);
        self.count_less(queue, parked.parking);
        self.queues.leave(queue);
    }

    /// What a job that is in no place, and is to wait, waits for in the store; `None` if it stays resident.
    pub(crate) fn parking_of(&self, job: Handle<Entry>, step: &StepContext<'_>) -> Option<Parking> {
        if self.parked.is_empty() || !self.table.can_be_parked(job) {
            return None;
        }
        if self.is_due(job, step) {
            let lasts = !self.expires_soon(job, step.time.now);
            (lasts && self.is_behind_line(job)).then_some(Parking::Worker)
        } else {
            let outlives = self.outlives_its_wait(job);
            (outlives && self.is_behind_time(job)).then_some(Parking::Time)
        }
    }

    /// Whether a job would be read in again at once because it expires.
    pub(crate) fn expires_soon(&self, job: Handle<Entry>, now: Timestamp) -> bool {
        self.table.expires_at(job).is_some_and(|at| at <= now.after(READ_AHEAD))
    }

    /// Whether a job comes due before it expires. The store finds one that waits for its time by that only.
    pub(crate) fn outlives_its_wait(&self, job: Handle<Entry>) -> bool {
        let Entry { visible_at, clock, .. } = self.table[job];
        let due = self.clocks.on_engine(clock, visible_at);
        self.table.expires_at(job).is_none_or(|at| at > due)
    }

    pub(crate) fn is_behind_time(&self, job: Handle<Entry>) -> bool {
        let entry = &self.table[job];
        let horizon = self.parked.horizon(entry.clock);
        horizon.is_some_and(|horizon| horizon.is_before(entry.order(), QueueOrder::Fifo))
    }

    pub(crate) fn is_behind_line(&self, job: Handle<Entry>) -> bool {
        let (entry, group) = (&self.table[job], self.table.group(job));
        let queue = entry.queue;
        let order = if group.is_some() { QueueOrder::Fifo } else { self.queues[queue].order() };
        // What is parked of a group comes behind one that is resident, or that is parked as its head.
        let is_led = group.is_none_or(|group| self.groups.has_active(queue, group));
        let line = self.line(queue, group).filter(|_| is_led);
        line.is_some_and(|line| line.is_before(entry.order(), order))
    }

    /// How far a line is resident; `None` if all of it is.
    pub(crate) fn line(&self, queue: Handle<Queue>, group: Option<GroupKey>) -> Option<Horizon> {
        let parked = self.queues[queue].parked().filter(|parked| parked.ready > 0)?;
        match group {
            None => parked.line,
            Some(group) => self.group_line(queue, group).map(|line| line.to),
        }
    }

    /// How far a group is resident; `None` if all of it is.
    pub(crate) fn group_line(&self, queue: Handle<Queue>, group: GroupKey) -> Option<GroupLine> {
        let parked = self.queues[queue].parked().filter(|parked| parked.ready > 0)?;
        match self.groups.line(queue, group) {
            Some(line) => line.filter(|line| line.epoch == parked.epoch),
            None => parked.groups_unknown.then_some(GroupLine { to: Horizon::LEAST, epoch: parked.epoch }),
        }
    }

    pub(crate) fn set_line(&mut self, queue: Handle<Queue>, group: Option<GroupKey>, to: Option<Horizon>) {
        match group {
            Some(group) => {
                let epoch = self.parked_mut(queue).epoch;
                self.groups.set_line(queue, group, to.map(|to| GroupLine { to, epoch }));
            }
            None => self.parked_mut(queue).line = to,
        }
    }

    /// Has a job be in the store only, where a horizon is before it, or is drawn in to be.
    pub(crate) fn park(&mut self, job: Handle<Entry>, parking: Parking, batch: &mut Batch) {
        let head = self.head(job);
        let queue = self.table[job].queue;
        let expiry = head.terms.expires_at.filter(|_| parking != Parking::Time);
        if let Some(at) = expiry {
            self.parked.pull_in(JobClock::Engine, (at, 0));
        }
        self.table.remove(job);
        let parked = self.parked_mut(queue);
        match parking {
            Parking::Time => {
                parked.scheduled += 1;
                parked.from.note(head.terms.clock, head.visible_at);
            }
            Parking::Worker | Parking::Head => parked.ready += 1,
        }
        parked.groups_unknown |= parking == Parking::Head;
        match parking {
            Parking::Time => {
                self.parked.scheduled += 1;
                self.note_starved(queue);
            }
            Parking::Worker | Parking::Head => self.parked.ready += 1,
        }
        if let Some(group) = head.terms.group.filter(|_| parking == Parking::Head) {
            // From now on its head leads to it, as after a start.
            self.groups.forget(queue, group);
            let line = (self.queues[queue].key(), Some(group));
            self.parked.read_queue.remove(line);
            self.parked.blocked_lines.release(line);
        }
        self.queues[queue].uncount_job();
        batch.ops.push(Op::ParkJob(Box::new(ParkedJob { head, parking })));
    }

    /// A job of a queue is parked no longer. Where nothing is parked, nothing is behind a horizon.
    pub(crate) fn count_less(&mut self, queue: Handle<Queue>, parking: Parking) {
        let of_all = match parking {
            Parking::Time => &mut self.parked.scheduled,
            Parking::Worker | Parking::Head => &mut self.parked.ready,
        };
        *of_all = of_all.saturating_sub(1);
        self.parked.epochs += 1;
        let epoch = self.parked.epochs;
        let parked = self.parked_mut(queue);
        let of_queue = match parking {
            Parking::Time => &mut parked.scheduled,
            Parking::Worker | Parking::Head => &mut parked.ready,
        };
        debug_assert!(*of_queue > 0, "what is parked is counted");
        *of_queue = of_queue.saturating_sub(1);
        if parked.scheduled == 0 {
            parked.from = EarliestDue::default();
        }
        if parked.ready == 0 {
            (parked.line, parked.groups_unknown) = (None, false);
            parked.epoch = epoch;
        }
        if self.parked.is_empty() {
            (self.parked.engine, self.parked.wall) = (None, None);
        }
    }

    /// What is parked of a queue, about to be changed.
    fn parked_mut(&mut self, queue: Handle<Queue>) -> &mut ParkedQueue {
        let epochs = &mut self.parked.epochs;
        let parked = self.queues[queue].parked_mut().get_or_insert_with(|| {
            *epochs += 1;
            Box::new(ParkedQueue { epoch: *epochs, ..ParkedQueue::default() })
        });
        if !std::mem::replace(&mut parked.is_changed, true) {
            self.parked.changed.push(queue);
        }
        parked
    }

    /// Whether the first ready job of its queue must wait because one that is parked may come before it.
    pub(crate) fn is_blocked(&self, first: Handle<Entry>) -> bool {
        let queue = self.table[first].queue;
        self.queues[queue].parked().is_some()
            && (self.is_behind_parked(first)
                || self.blocked_at(first).is_some()
                || self.parked.read_queue.block(self.queues[queue].key()))
    }

    /// Whether a ready job is behind what is resident of its queue's line.
    pub(crate) fn is_behind_parked(&self, ready: Handle<Entry>) -> bool {
        let entry = &self.table[ready];
        let line = self.line(entry.queue, None);
        line.is_some_and(|line| line.is_before(entry.order(), self.queues[entry.queue].order()))
    }

    /// The line of a queue goes by another order from now on: what was known of it says nothing any more.
    pub(crate) fn line_is_reordered(&mut self, queue: Handle<Queue>) {
        let order = self.queues[queue].order();
        if let Some(line) = self.queues[queue].parked_mut().as_mut().and_then(|parked| parked.line.as_mut()) {
            *line = Horizon::unknown(order);
        }
    }
}
