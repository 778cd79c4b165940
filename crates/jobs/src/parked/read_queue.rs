//! Lines that should be read from the store, and how much depends on each.

use std::collections::{BTreeMap, BTreeSet};

use records::{GroupKey, QueueKey};

/// The jobs of a queue whose time has come, or of one of its groups.
pub(crate) type Line = (QueueKey, Option<GroupKey>);

/// What depends on reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPriority {
    /// A group has parked jobs, and no other job leads to them after a crash: it is read in this step.
    Orphan,
    /// Nobody is leased what comes behind it before it is read.
    Blocking,
    /// Little of it is resident: it is read while there is room.
    Prefetch,
}

/// The lines, by need. Those of one need are read in step.
#[derive(Default)]
pub(crate) struct ReadQueue {
    read_queue: BTreeMap<Line, ReadPriority>,
    orphans: BTreeSet<Line>,
    blocking: BTreeSet<Line>,
    prefetch: BTreeSet<Line>,
    /// The line that was read last.
    last: Option<Line>,
}

impl ReadQueue {
    pub(crate) fn set(&mut self, line: Line, need: ReadPriority) {
        match self.read_queue.insert(line, need) {
            Some(before) if before == need => return,
            Some(before) => drop(self.lines_mut(before).remove(&line)),
            None => {}
        }
        self.lines_mut(need).insert(line);
    }

    pub(crate) fn remove(&mut self, line: Line) {
        if let Some(need) = self.read_queue.remove(&line) {
            self.lines_mut(need).remove(&line);
        }
    }

    pub(crate) fn get(&self, line: Line) -> Option<ReadPriority> {
        self.read_queue.get(&line).copied()
    }

    /// The line whose turn it is among those of a need.
    pub(crate) fn next(&self, need: ReadPriority) -> Option<Line> {
        let lines = self.lines(need);
        let behind = self.last.and_then(|last| lines.range(last..).find(|line| **line != last));
        behind.or_else(|| lines.first()).copied()
    }

    /// A line was read: others come before it.
    pub(crate) fn was_read(&mut self, line: Line) {
        self.last = Some(line);
    }

    /// A line of the queue on which leases wait.
    pub(crate) fn next_of(&self, queue: QueueKey) -> Option<Line> {
        let of_queue = [&self.orphans, &self.blocking].into_iter().filter_map(|lines| {
            lines.range((queue, None)..=(queue, Some(GroupKey(u64::MAX)))).next().copied()
        });
        of_queue.min()
    }

    /// Whether leases of the queue wait until one of its groups is read.
    pub(crate) fn block(&self, queue: QueueKey) -> bool {
        let groups = (queue, Some(GroupKey(u64::MIN)))..=(queue, Some(GroupKey(u64::MAX)));
        self.blocking.range(groups.clone()).next().is_some() || self.orphans.range(groups).next().is_some()
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
