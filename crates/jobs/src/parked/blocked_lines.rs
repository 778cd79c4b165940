//! Lines whose next job must wait until earlier parked jobs are read, in the order of these jobs.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use records::{GroupKey, JobClock, QueueKey, QueueOrder};

use crate::entry::Entry;
use crate::jobs::Jobs;
use crate::parked::read_queue::Line;
use crate::queues::Queue;
use crate::slab::Handle;
use crate::step::StepContext;

/// A place in the order of time: `visible_at` and publish number.
type Place = (Timestamp, u64);

/// When the first of some jobs may be due at the earliest, on each clock; `None` if there are none on it.
#[derive(Clone, Copy, Default)]
pub(crate) struct EarliestDue {
    pub(crate) engine: Option<Timestamp>,
    pub(crate) wall: Option<Timestamp>,
}

impl EarliestDue {
    /// Nothing is known.
    pub(crate) const UNKNOWN: Self =
        Self { engine: Some(Timestamp(i64::MIN)), wall: Some(Timestamp(i64::MIN)) };

    pub(crate) fn note(&mut self, clock: JobClock, at: Timestamp) {
        let from = match clock {
            JobClock::Engine => &mut self.engine,
            JobClock::Wall => &mut self.wall,
        };
        *from = Some(from.map_or(at, |from| from.min(at)));
    }
}

/// The lines.
#[derive(Default)]
pub(crate) struct BlockedLines {
    places: BTreeMap<Line, Place>,
    lines: BTreeSet<(Place, Line)>,
}

impl BlockedLines {
    /// A line's first job has this place.
    pub(crate) fn hold(&mut self, line: Line, place: Place) {
        if let Some(before) = self.places.insert(line, place) {
            self.lines.remove(&(before, line));
        }
        self.lines.insert((place, line));
    }

    /// The line that is let go first.
    pub(crate) fn first(&self) -> Option<(Place, Line)> {
        self.lines.first().copied()
    }

    pub(crate) fn release(&mut self, line: Line) {
        if let Some(place) = self.places.remove(&line) {
            self.lines.remove(&(place, line));
        }
    }

    /// Releases a line of this queue.
    pub(crate) fn release_of(&mut self, queue: QueueKey) -> Option<Line> {
        let lines = (queue, None)..=(queue, Some(GroupKey(u64::MAX)));
        let line = self.places.range(lines).next().map(|(line, _)| *line)?;
        self.release(line);
        Some(line)
    }
}

impl Jobs {
    /// Notes that a line has a job at this place which waits until others are read.
    pub(crate) fn block_line(&mut self, queue: Handle<Queue>, group: Option<GroupKey>, place: Place) {
        self.parked.blocked_lines.hold((self.queues[queue].key(), group), place);
    }

    /// The place of a ready job that must wait until jobs are read whose time came before its own.
    pub(crate) fn blocked_at(&self, ready: Handle<Entry>) -> Option<(Timestamp, u64)> {
        let entry = &self.table[ready];
        let place = match self.queues[entry.queue].order() {
            QueueOrder::Fifo => entry.order(),
            QueueOrder::Lifo if self.table.group(ready).is_some() && !entry.is_started() => {
                entry.order_in_group()
            }
            QueueOrder::Lifo => return None,
        };
        self.may_miss_before(entry.queue, place).then_some(place)
    }

    /// Whether jobs of the queue whose time has come, and that go before this place, may not have been read.
    pub(crate) fn may_miss_before(&self, queue: Handle<Queue>, place: (Timestamp, u64)) -> bool {
        let parked = self.queues[queue].parked();
        parked.is_some_and(|parked| parked.scheduled > 0 && self.parked.may_miss_between(parked.from, place))
    }

    /// Looks again at the lines with a job that waited until others are read, and does so no more.
    pub(crate) fn unblock_lines(&mut self, step: &mut StepContext<'_>) {
        while let Some((place, line)) = self.parked.blocked_lines.first()
            && !self.parked.may_miss_before(place)
        {
            self.parked.blocked_lines.release(line);
            let (key, group) = line;
            if let Some(queue) = self.queues.find(key) {
                self.promote_next(queue, group, step);
            }
        }
    }
}
