//! Lines whose next job must wait until earlier parked jobs are read, in the order of these jobs.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use records::{GroupKey, QueueKey};

use crate::jobs::{Jobs, Turn};
use crate::needs::Line;
use crate::queues::Queue;
use crate::slab::Handle;

/// A place in the order of time: `visible_at` and publish number.
type Place = (Timestamp, u64);

/// The lines.
#[derive(Default)]
pub(crate) struct HeldUp {
    places: BTreeMap<Line, Place>,
    lines: BTreeSet<(Place, Line)>,
}

impl HeldUp {
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
    pub(crate) fn hold_up(&mut self, queue: Handle<Queue>, group: Option<GroupKey>, place: Place) {
        self.lot.held_up.hold((self.queues[queue].key, group), place);
    }

    /// Looks again at the lines with a job that waited until others are read, and does so no more.
    pub(crate) fn review_held_up(&mut self, turn: &mut Turn<'_>) {
        while let Some((place, line)) = self.lot.held_up.first()
            && !self.lot.misses_before(place)
        {
            self.lot.held_up.release(line);
            let (key, group) = line;
            if let Some(queue) = self.queues.find(key) {
                self.move_up(queue, group, turn);
            }
        }
    }
}
