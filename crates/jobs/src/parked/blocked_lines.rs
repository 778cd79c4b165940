//! Lines whose next job must wait until earlier parked jobs are read, in the order of these jobs.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use records::{GroupKey, QueueKey};

use crate::parked::read_queue::Line;

/// A place in the order of time: `visible_at` and publish number.
type Place = (Timestamp, u64);

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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(queue: u64, group: Option<u64>) -> Line {
        (QueueKey(queue), group.map(GroupKey))
    }

    fn place(at: i64) -> Place {
        (Timestamp(at), 0)
    }

    #[test]
    fn the_line_with_the_earliest_job_is_let_go_first() {
        let mut blocked = BlockedLines::default();
        blocked.hold(line(1, None), place(30));
        blocked.hold(line(2, Some(5)), place(20));
        assert_eq!(blocked.first(), Some((place(20), line(2, Some(5)))));
        blocked.hold(line(2, Some(5)), place(40));
        assert_eq!(blocked.first(), Some((place(30), line(1, None))), "it has one place");
        blocked.release(line(1, None));
        blocked.release(line(2, Some(5)));
        assert_eq!(blocked.first(), None);
    }

    #[test]
    fn all_lines_of_a_queue_are_let_go_one_by_one() {
        let mut blocked = BlockedLines::default();
        for blocked_line in [line(1, None), line(1, Some(u64::MAX)), line(2, None)] {
            blocked.hold(blocked_line, place(10));
        }
        assert_eq!(blocked.release_of(QueueKey(1)), Some(line(1, None)));
        assert_eq!(blocked.release_of(QueueKey(1)), Some(line(1, Some(u64::MAX))));
        assert_eq!(blocked.release_of(QueueKey(1)), None);
        assert_eq!(blocked.first(), Some((place(10), line(2, None))));
    }
}
