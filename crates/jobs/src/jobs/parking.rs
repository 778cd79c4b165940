//! Which jobs are parked and which stay resident, and what waits for parked jobs to be read.
//!
//! Whoever is published behind a horizon that is there parks at once. The first of a group is
//! parked in its queue's line too, as its head. The group is forgotten then, and read when its head
//! is. Where the newest goes first, a job may be leased before parked ones whose time has come: new
//! ones may keep coming for ever.

use base::Timestamp;
use records::{Batch, GroupKey, Op, ParkedJob, Parking, QueueKey, QueueOrder};

use crate::entry::JobEntry;
use crate::groups::GroupLine;
use crate::jobs::Jobs;
use crate::parked::ParkedIndex;
use crate::parked::horizon::{Horizon, READ_AHEAD};
use crate::parked::queue::ParkedQueue;
use crate::parked::read_queue::{Line, ReadPriority};
use crate::queues::QueueEntry;
use crate::slab::Handle;
use crate::step::JobsStep;

impl Jobs {
    /// Most jobs that are resident before some are parked. Without it none are.
    pub fn set_resident_max(&mut self, max: usize) {
        self.limit.set_max(max);
    }

    /// Most lines that go on until this is said again, of those with a job that waits until parked
    /// ones are read. Without it there is no limit.
    pub fn set_unblocked_max(&mut self, max: usize) {
        self.blocked_lines.set_unblocked_max(max);
    }

    /// How many of them have gone on since then.
    #[must_use]
    pub fn unblocked(&self) -> usize {
        self.blocked_lines.unblocked()
    }

    /// Whether lines may be left whose next job waits for parked ones no more: the limit was
    /// reached. They go on with [`Jobs::advance`] when it is set again.
    #[must_use]
    pub fn has_lines_to_unblock(&self) -> bool {
        self.blocked_lines.is_behind()
    }

    /// Whether lines of this queue may be left whose next job waits for parked ones no more. Then a
    /// job that is not ready yet may go before the first that is.
    #[must_use]
    pub fn has_lines_to_unblock_of(&self, queue: QueueKey) -> bool {
        let waits_for_none = |place| !self.parked.may_miss_before(place);
        self.has_lines_to_unblock()
            && (self.blocked_lines.is_open(queue)
                || self.blocked_lines.first_of(queue).is_some_and(waits_for_none))
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

    /// How many jobs of all queues are parked: those that wait for their time, and those that wait
    /// for a worker.
    #[must_use]
    pub fn parked_in_all(&self) -> (u64, u64) {
        self.parked.counts()
    }

    /// How many jobs of a queue are parked: those that wait for their time, and those that wait for
    /// a worker.
    #[must_use]
    pub fn parked(&self, queue: QueueKey) -> (u64, u64) {
        let parked = self.queues.get(queue).and_then(QueueEntry::parked);
        parked.map_or((0, 0), ParkedQueue::counts)
    }

    /// Says how many jobs of a queue are parked, before its jobs are loaded.
    pub fn load_counts(&mut self, queue: QueueKey, scheduled: u64, ready: u64) {
        if scheduled == 0 && ready == 0 {
            return;
        }
        let record = self.queues.enter(queue);
        self.parked.load(&mut self.queues[record], scheduled, ready);
        if ready > 0 {
            self.reads.set((queue, None), ReadPriority::Blocking);
        }
    }

    /// The queues whose counts have changed since this was last asked. Each is given with how many
    /// of its parked jobs wait for their time, and how many for a worker.
    pub fn take_changed_counts(&mut self, changed: &mut Vec<(QueueKey, u64, u64)>) {
        for queue in self.parked.take_changed() {
            let record = &mut self.queues[queue];
            let Some((scheduled, ready)) = ParkedIndex::take_counts(record) else { continue };
            changed.push((record.key(), scheduled, ready));
            if record.parked().is_none() {
                self.queues.leave(queue);
            }
        }
    }

    /// Takes a parked job out of the world, with what it carries.
    pub fn drop_parked(&mut self, parked: &ParkedJob, step: &mut JobsStep<'_>) {
        step.batch.ops.push(Op::UnparkJob(Box::new(parked.key())));
        if parked.body.is_none() {
            step.batch.ops.push(Op::DeleteJobBody(parked.head.id));
        }
        let queue = self.queues.enter(parked.head.queue);
        self.parked.remove((queue, &mut self.queues[queue]), parked.parking);
        self.queues.leave(queue);
    }

    /// How the store keeps a job that is in no place and is to wait; `None` if it stays resident.
    pub(super) fn parking_of(&self, job: Handle<JobEntry>, step: &JobsStep<'_>) -> Option<Parking> {
        // What a start finds is written in several batches, but counted in the first of them.
        if self.parked.is_empty() || step.is_loading() || !self.table.can_be_parked(job) {
            return None;
        }
        if self.is_due(job, step) {
            let lasts = !self.expires_soon(job, step.now);
            (lasts && self.is_behind_line(job)).then_some(Parking::Worker)
        } else {
            (self.outlives_its_wait(job) && self.is_behind_time(job)).then_some(Parking::Time)
        }
    }

    /// Whether a job would be read in again at once because it expires.
    pub(super) fn expires_soon(&self, job: Handle<JobEntry>, now: Timestamp) -> bool {
        self.table.expires_by(job, now.after(READ_AHEAD))
    }

    /// Whether a job comes due before it expires. The store finds one that waits for its time by
    /// that only.
    pub(super) fn outlives_its_wait(&self, job: Handle<JobEntry>) -> bool {
        let entry = &self.table[job];
        !self.table.expires_by(job, self.clocks.on_engine(entry.clock_of_wait(), entry.visible_at))
    }

    pub(super) fn is_behind_time(&self, job: Handle<JobEntry>) -> bool {
        let entry = &self.table[job];
        self.parked.is_behind(entry.clock_of_wait(), entry.order())
    }

    fn is_behind_line(&self, job: Handle<JobEntry>) -> bool {
        let (entry, group) = (&self.table[job], self.table.group(job));
        // Parked jobs of a group come behind one that is resident, or that is parked as its head.
        let is_led = group.is_none_or(|group| self.groups.has_active(entry.queue, group));
        let line = self.line(entry.queue, group).filter(|_| is_led);
        line.is_some_and(|line| line.is_before(entry.order(), self.order_of(entry.queue, group)))
    }

    /// The order of a line: groups keep that of time, whatever their queue's is.
    pub(super) fn order_of(&self, queue: Handle<QueueEntry>, group: Option<GroupKey>) -> QueueOrder {
        if group.is_some() { QueueOrder::Fifo } else { self.queues[queue].order() }
    }

    /// How far a line is resident; `None` if all of it is.
    pub(super) fn line(&self, queue: Handle<QueueEntry>, group: Option<GroupKey>) -> Option<Horizon> {
        match group {
            None => self.queues[queue].parked()?.line(),
            Some(group) => self.group_line(queue, group).map(|line| line.to),
        }
    }

    /// How far a group is resident; `None` if all of it is.
    pub(super) fn group_line(&self, queue: Handle<QueueEntry>, group: GroupKey) -> Option<GroupLine> {
        let parked = self.queues[queue].parked()?;
        parked.group_line(self.groups.line(queue, group))
    }

    pub(super) fn set_line(
        &mut self,
        queue: Handle<QueueEntry>,
        group: Option<GroupKey>,
        to: Option<Horizon>,
    ) {
        let parked = self.parked.change((queue, &mut self.queues[queue]));
        match group {
            Some(group) => {
                let epoch = parked.epoch();
                self.groups.set_line(queue, group, to.map(|to| GroupLine { to, epoch }));
            }
            None => parked.set_line(to),
        }
    }

    /// Has a job be in the store only, where a horizon is before it, or is pulled in to be.
    pub(super) fn park(&mut self, job: Handle<JobEntry>, parking: Parking, batch: &mut Batch) {
        let (head, queue) = (self.head(job), self.table[job].queue);
        self.table.remove(job);
        self.parked.add((queue, &mut self.queues[queue]), &head, parking);
        if let Some(group) = head.terms.group.filter(|_| parking == Parking::Head) {
            // From now on its head leads to it, as after a start.
            self.groups.forget(queue, group);
            let line = (head.queue, Some(group));
            self.reads.remove(line);
            self.blocked_lines.release(line);
        }
        self.queues[queue].uncount_job();
        batch.ops.push(Op::ParkJob(Box::new(ParkedJob { head, parking, body: None })));
    }

    /// Whether the first ready job of its queue must wait because a parked one may come before it.
    pub(super) fn is_blocked(&self, first: Handle<JobEntry>) -> bool {
        let queue = &self.queues[self.table[first].queue];
        queue.parked().is_some()
            && (self.is_behind_parked(first)
                || self.blocked_at(first).is_some()
                || self.reads.blocks(queue.key()))
    }

    /// Whether a ready job is behind the horizon of its queue's line.
    pub(super) fn is_behind_parked(&self, ready: Handle<JobEntry>) -> bool {
        let entry = &self.table[ready];
        let line = self.line(entry.queue, None);
        line.is_some_and(|line| line.is_before(entry.order(), self.queues[entry.queue].order()))
    }

    /// The place of a ready job that must wait until jobs are read whose time came before its own.
    pub(super) fn blocked_at(&self, ready: Handle<JobEntry>) -> Option<(Timestamp, u64)> {
        let entry = &self.table[ready];
        let queue = &self.queues[entry.queue];
        let place = match queue.order() {
            QueueOrder::Fifo => entry.order(),
            QueueOrder::Lifo if self.table.group(ready).is_some() && !entry.is_started() => {
                entry.order_in_group()
            }
            QueueOrder::Lifo => return None,
        };
        self.parked.may_miss_of(queue, place).then_some(place)
    }

    /// Notes that a line has a job at this place which waits until others are read.
    pub(super) fn block_line(
        &mut self,
        queue: Handle<QueueEntry>,
        group: Option<GroupKey>,
        place: (Timestamp, u64),
    ) {
        self.blocked_lines.hold((self.queues[queue].key(), group), place);
    }

    /// Looks again at the lines with a job that waited for others to be read, and waits no more.
    /// While a flood is read, each group that gets its first job is one more of them, and all go on
    /// when it is over. Only their limit bounds that.
    pub(super) fn unblock_lines(&mut self, step: &mut JobsStep<'_>) {
        while self.blocked_lines.may_unblock()
            && let Some((key, group)) = self.next_unblocked()
        {
            self.blocked_lines.unblock((key, group));
            if let Some(queue) = self.queues.find(key) {
                self.promote_next(queue, group, step);
            }
        }
        self.blocked_lines.note_left();
    }

    fn next_unblocked(&mut self) -> Option<Line> {
        self.blocked_lines.next_opened().or_else(|| {
            let (place, line) = self.blocked_lines.first()?;
            (!self.parked.may_miss_before(place)).then_some(line)
        })
    }

    /// Looks again at what waited for jobs of this queue to be read, if none of them is left.
    pub(super) fn unblock_queue(&mut self, queue: Handle<QueueEntry>, step: &mut JobsStep<'_>) {
        if self.queues[queue].parked().and_then(ParkedQueue::earliest).is_none() {
            self.blocked_lines.open(self.queues[queue].key());
            self.unblock_lines(step);
        }
    }

    /// Whether reading in some jobs does not have others parked soon.
    pub(super) fn is_roomy(&self) -> bool {
        self.limit.is_roomy(self.table.waiting())
    }
}
