//! Lines whose next job must wait until earlier parked jobs are read, in the order of these jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

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
    by_queue: BTreeSet<(QueueKey, Place, Option<GroupKey>)>,
    /// Queues that wait for none of their own jobs, and from where on their lines are to be looked
    /// at.
    opened: BTreeMap<QueueKey, Bound<Line>>,
    /// Lines that were unblocked since their limit was set.
    unblocked: usize,
    unblocked_max: Option<usize>,
    /// The limit has left some that may wait for nothing any more.
    is_behind: bool,
}

impl BlockedLines {
    /// So many may be unblocked from now on.
    pub(crate) fn set_unblocked_max(&mut self, max: usize) {
        (self.unblocked, self.unblocked_max) = (0, Some(max));
    }

    /// How many were unblocked since then.
    pub(crate) fn unblocked(&self) -> usize {
        self.unblocked
    }

    /// Whether one more may be unblocked.
    pub(crate) fn may_unblock(&self) -> bool {
        self.unblocked_max.is_none_or(|max| self.unblocked < max)
    }

    /// Notes whether some may be left that wait for nothing any more: their limit is reached.
    pub(crate) fn note_left(&mut self) {
        self.is_behind = !self.may_unblock();
    }

    /// Whether some were left when that was last noted.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// A line's first job has this place.
    pub(crate) fn hold(&mut self, line: Line, place: Place) {
        self.release(line);
        let (queue, group) = line;
        self.places.insert(line, place);
        self.lines.insert((place, line));
        self.by_queue.insert((queue, place, group));
    }

    /// The line that is let go first.
    pub(crate) fn first(&self) -> Option<(Place, Line)> {
        self.lines.first().copied()
    }

    pub(crate) fn release(&mut self, line: Line) {
        if let Some(place) = self.places.remove(&line) {
            let (queue, group) = line;
            self.lines.remove(&(place, line));
            self.by_queue.remove(&(queue, place, group));
        }
    }

    /// A line waits no more.
    pub(crate) fn unblock(&mut self, line: Line) {
        self.release(line);
        self.unblocked += 1;
    }

    /// The place of the earliest job that a line of this queue waits with.
    pub(crate) fn first_of(&self, queue: QueueKey) -> Option<Place> {
        let least = (queue, (Timestamp(i64::MIN), 0), None);
        let (of, place, _) = self.by_queue.range(least..).next()?;
        (*of == queue).then_some(*place)
    }

    /// Whether lines of this queue are still to be given by [`BlockedLines::next_opened`].
    pub(crate) fn is_open(&self, queue: QueueKey) -> bool {
        self.opened.contains_key(&queue)
    }

    /// The queue waits for none of its own jobs: its lines are given one after the other by
    /// [`BlockedLines::next_opened`].
    pub(crate) fn open(&mut self, queue: QueueKey) {
        if self.first_of(queue).is_some() {
            self.opened.insert(queue, Bound::Included((queue, None)));
        }
    }

    /// The next line of the queues that were opened. None is given twice: it may be blocked again
    /// meanwhile, for jobs that were parked since.
    pub(crate) fn next_opened(&mut self) -> Option<Line> {
        while let Some((queue, from)) = self.opened.first_key_value().map(|(queue, from)| (*queue, *from)) {
            let behind = self.places.range((from, Bound::Included(last_of(queue)))).next();
            if let Some(line) = behind.map(|(line, _)| *line) {
                self.opened.insert(queue, Bound::Excluded(line));
                return Some(line);
            }
            self.opened.remove(&queue);
        }
        None
    }
}

fn last_of(queue: QueueKey) -> Line {
    (queue, Some(GroupKey(u64::MAX)))
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
    fn all_lines_of_a_queue_are_let_go_one_by_one_and_none_twice() {
        let mut blocked = BlockedLines::default();
        for blocked_line in [line(1, None), line(1, Some(3)), line(1, Some(u64::MAX)), line(2, None)] {
            blocked.hold(blocked_line, place(10));
        }
        blocked.open(QueueKey(1));
        for opened in [line(1, None), line(1, Some(3)), line(1, Some(u64::MAX))] {
            assert_eq!(blocked.next_opened(), Some(opened));
            blocked.unblock(opened);
            blocked.hold(line(1, None), place(20));
        }
        assert_eq!((blocked.next_opened(), blocked.unblocked()), (None, 3));
        assert_eq!(blocked.first(), Some((place(10), line(2, None))));
        let firsts = [1, 2, 3].map(|queue| blocked.first_of(QueueKey(queue)));
        assert_eq!(firsts, [Some(place(20)), Some(place(10)), None]);
    }
}
