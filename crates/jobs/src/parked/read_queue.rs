//! Lines that should be read from the store, by what depends on each; and whose turn it is.

use std::collections::{BTreeMap, BTreeSet};

use records::{GroupKey, QueueKey};

/// The jobs of a queue whose time has come, or of one of its groups.
pub(crate) type Line = (QueueKey, Option<GroupKey>);

/// What depends on reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPriority {
    /// A group has parked jobs, and no other job leads to them after a crash: it is read in this
    /// step.
    Orphan,
    /// Nobody is leased what comes behind it before it is read.
    Blocking,
    /// Little of it is resident: it is read while there is room.
    Prefetch,
}

/// The lines, by need. Those of one need are read in step.
#[derive(Default)]
pub(crate) struct ReadQueue {
    priorities: BTreeMap<Line, ReadPriority>,
    orphans: BTreeSet<Line>,
    blocking: BTreeSet<Line>,
    prefetch: BTreeSet<Line>,
    /// The line that was read last.
    last: Option<Line>,
    /// A line was read last, not a clock.
    line_was_last: bool,
    /// Jobs taken in since something was wanted.
    taken_in: usize,
}

impl ReadQueue {
    /// The caller asks what it should read.
    pub(crate) fn begin(&mut self) {
        self.taken_in = 0;
    }

    /// The caller has read a job.
    pub(crate) fn count_taken_in(&mut self) {
        self.taken_in += 1;
    }

    /// Whether a clock should be read before a line, if both should be.
    pub(crate) fn is_turn_of_clock(&self) -> bool {
        self.line_was_last
    }

    /// Jobs of a clock were read.
    pub(crate) fn clock_was_read(&mut self) {
        self.line_was_last = false;
    }

    /// A line was read: others come before it.
    pub(crate) fn line_was_read(&mut self, line: Line) {
        (self.last, self.line_was_last) = (Some(line), true);
        self.remove(line);
    }

    /// The line that was read still needs to be: it is urgent no more if a job of it is resident
    /// now.
    pub(crate) fn calm(&mut self, line: Line) {
        if self.taken_in > 0 && self.get(line) == Some(ReadPriority::Orphan) {
            self.set(line, ReadPriority::Blocking);
        }
    }

    pub(crate) fn set(&mut self, line: Line, need: ReadPriority) {
        match self.priorities.insert(line, need) {
            Some(before) if before == need => return,
            Some(before) => drop(self.lines_mut(before).remove(&line)),
            None => {}
        }
        self.lines_mut(need).insert(line);
    }

    pub(crate) fn remove(&mut self, line: Line) {
        if let Some(need) = self.priorities.remove(&line) {
            self.lines_mut(need).remove(&line);
        }
    }

    fn get(&self, line: Line) -> Option<ReadPriority> {
        self.priorities.get(&line).copied()
    }

    /// The line whose turn it is among those of a priority.
    pub(crate) fn next(&self, need: ReadPriority) -> Option<Line> {
        let lines = self.lines(need);
        let behind = self.last.and_then(|last| lines.range(last..).find(|line| **line != last));
        behind.or_else(|| lines.first()).copied()
    }

    /// A line of the queue on which leases wait.
    pub(crate) fn next_of(&self, queue: QueueKey) -> Option<Line> {
        let of_queue = [&self.orphans, &self.blocking].into_iter().filter_map(|lines| {
            lines.range((queue, None)..=(queue, Some(GroupKey(u64::MAX)))).next().copied()
        });
        of_queue.min()
    }

    /// Whether leases of the queue wait until one of its groups is read.
    pub(crate) fn blocks(&self, queue: QueueKey) -> bool {
        let groups = (queue, Some(GroupKey(u64::MIN)))..=(queue, Some(GroupKey(u64::MAX)));
        self.blocking.range(groups.clone()).next().is_some() || self.orphans.range(groups).next().is_some()
    }

    /// Whether no line waits to be read on which leases, or a whole group, depend.
    pub(crate) fn are_heads_read(&self) -> bool {
        self.orphans.is_empty() && self.blocking.is_empty()
    }

    fn lines(&self, need: ReadPriority) -> &BTreeSet<Line> {
        match need {
            ReadPriority::Orphan => &self.orphans,
            ReadPriority::Blocking => &self.blocking,
            ReadPriority::Prefetch => &self.prefetch,
        }
    }

    fn lines_mut(&mut self, need: ReadPriority) -> &mut BTreeSet<Line> {
        match need {
            ReadPriority::Orphan => &mut self.orphans,
            ReadPriority::Blocking => &mut self.blocking,
            ReadPriority::Prefetch => &mut self.prefetch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(queue: u64, group: Option<u64>) -> Line {
        (QueueKey(queue), group.map(GroupKey))
    }

    #[test]
    fn lines_of_one_priority_take_turns() {
        let mut reads = ReadQueue::default();
        for queue in [1, 2, 3] {
            reads.set(line(queue, None), ReadPriority::Prefetch);
        }
        assert_eq!(reads.next(ReadPriority::Prefetch), Some(line(1, None)));
        reads.line_was_read(line(1, None));
        reads.set(line(1, None), ReadPriority::Prefetch);
        assert_eq!(reads.next(ReadPriority::Prefetch), Some(line(2, None)));
        reads.line_was_read(line(3, None));
        assert_eq!(reads.next(ReadPriority::Prefetch), Some(line(1, None)), "from the start again");
        assert_eq!(reads.next(ReadPriority::Blocking), None);
    }

    #[test]
    fn a_line_has_one_priority() {
        let mut reads = ReadQueue::default();
        reads.set(line(1, None), ReadPriority::Prefetch);
        reads.set(line(1, None), ReadPriority::Blocking);
        assert_eq!(reads.next(ReadPriority::Prefetch), None);
        reads.remove(line(1, None));
        assert_eq!(reads.next(ReadPriority::Blocking), None);
    }

    #[test]
    fn groups_block_the_leases_of_their_queue() {
        let mut reads = ReadQueue::default();
        reads.set(line(1, None), ReadPriority::Blocking);
        reads.set(line(2, Some(5)), ReadPriority::Orphan);
        assert!(!reads.blocks(QueueKey(1)), "its own line is judged by its horizon");
        assert!(reads.blocks(QueueKey(2)) && !reads.blocks(QueueKey(3)));
        assert_eq!(reads.next_of(QueueKey(1)), Some(line(1, None)));
        assert_eq!(reads.next_of(QueueKey(2)), Some(line(2, Some(5))));
    }

    #[test]
    fn an_orphan_is_urgent_until_a_job_of_it_was_taken_in() {
        let mut reads = ReadQueue::default();
        reads.set(line(1, Some(5)), ReadPriority::Orphan);
        reads.begin();
        reads.calm(line(1, Some(5)));
        assert_eq!(reads.next(ReadPriority::Orphan), Some(line(1, Some(5))));
        reads.count_taken_in();
        reads.calm(line(1, Some(5)));
        assert_eq!(reads.next(ReadPriority::Orphan), None);
        assert_eq!(reads.next(ReadPriority::Blocking), Some(line(1, Some(5))));
    }

    #[test]
    fn lines_and_clocks_take_turns() {
        let mut reads = ReadQueue::default();
        reads.line_was_read(line(1, None));
        assert!(reads.is_turn_of_clock());
        reads.clock_was_read();
        assert!(!reads.is_turn_of_clock());
    }
}
