//! What is parked of one queue: how many jobs, how far its line is resident, and when the rest is
//! due.

use base::Timestamp;
use records::{JobClock, Parking, QueueOrder};

use crate::groups::GroupLine;
use crate::parked::horizon::Horizon;

/// When the first of some jobs may be due at the earliest, on each clock; `None` if none is on it.
#[derive(Clone, Copy, Default)]
pub(crate) struct EarliestDue {
    engine: Option<Timestamp>,
    wall: Option<Timestamp>,
}

impl EarliestDue {
    /// Jobs may be due at any time.
    pub(crate) const UNKNOWN: Self =
        Self { engine: Some(Timestamp(i64::MIN)), wall: Some(Timestamp(i64::MIN)) };

    /// The earliest time on one clock.
    pub(crate) fn on(&self, clock: JobClock) -> Option<Timestamp> {
        match clock {
            JobClock::Engine => self.engine,
            JobClock::Wall => self.wall,
        }
    }

    fn note(&mut self, clock: JobClock, at: Timestamp) {
        let from = match clock {
            JobClock::Engine => &mut self.engine,
            JobClock::Wall => &mut self.wall,
        };
        *from = Some(from.map_or(at, |from| from.min(at)));
    }
}

/// What is parked of a queue.
#[derive(Default)]
pub(crate) struct ParkedQueue {
    scheduled: u64,
    ready: u64,
    /// When the scheduled ones are due.
    earliest: EarliestDue,
    /// How far the jobs without a group are resident; `None` if all of them are.
    line: Option<Horizon>,
    /// Whether groups that are not in memory may have parked jobs.
    groups_unknown: bool,
    /// Horizons of groups hold within one epoch. It ends when no ready job is parked any more.
    epoch: u64,
    /// Whether the counts have changed since the caller took them.
    is_changed: bool,
}

impl ParkedQueue {
    pub(super) fn new(epoch: u64) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// The stored counts are all that is known after a start.
    pub(super) fn loaded(scheduled: u64, ready: u64, order: QueueOrder) -> Self {
        Self {
            scheduled,
            ready,
            earliest: if scheduled > 0 { EarliestDue::UNKNOWN } else { EarliestDue::default() },
            line: Some(Horizon::unknown(order)),
            groups_unknown: true,
            epoch: 0,
            is_changed: false,
        }
    }

    /// How many jobs are parked: those that wait for their time, and those that wait for a worker.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.scheduled, self.ready)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scheduled == 0 && self.ready == 0
    }

    /// When the jobs that wait for their time are due; `None` if there are none.
    pub(crate) fn earliest(&self) -> Option<EarliestDue> {
        (self.scheduled > 0).then_some(self.earliest)
    }

    /// How far the line of jobs without a group is resident; `None` if all of it is.
    pub(crate) fn line(&self) -> Option<Horizon> {
        self.line.filter(|_| self.ready > 0)
    }

    /// As [`ParkedQueue::line`], also while eviction has only planned to park some of it.
    pub(crate) fn planned_line(&self) -> Option<Horizon> {
        self.line
    }

    /// How far a group is resident: `known` is what its own record says, if it has one.
    pub(crate) fn group_line(&self, known: Option<Option<GroupLine>>) -> Option<GroupLine> {
        if self.ready == 0 {
            return None;
        }
        match known {
            Some(line) => line.filter(|line| line.epoch == self.epoch),
            None => self.groups_unknown.then_some(GroupLine { to: Horizon::LEAST, epoch: self.epoch }),
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn set_line(&mut self, to: Option<Horizon>) {
        self.line = to;
    }

    /// The line has another order from now on: how far it is resident is unknown.
    pub(crate) fn reorder(&mut self, order: QueueOrder) {
        if let Some(line) = &mut self.line {
            *line = Horizon::unknown(order);
        }
    }

    /// One more job is parked.
    pub(super) fn add(&mut self, parking: Parking, clock: JobClock, visible_at: Timestamp) {
        match parking {
            Parking::Time => {
                self.scheduled += 1;
                self.earliest.note(clock, visible_at);
            }
            Parking::Worker | Parking::Head => self.ready += 1,
        }
        self.groups_unknown |= parking == Parking::Head;
    }

    /// A job is parked no longer. Where none is, none is behind a horizon, and another epoch
    /// begins.
    pub(super) fn remove(&mut self, parking: Parking, next_epoch: u64) {
        let count = match parking {
            Parking::Time => &mut self.scheduled,
            Parking::Worker | Parking::Head => &mut self.ready,
        };
        debug_assert!(*count > 0, "what is parked is counted");
        *count = count.saturating_sub(1);
        if self.scheduled == 0 {
            self.earliest = EarliestDue::default();
        }
        if self.ready == 0 {
            (self.line, self.groups_unknown, self.epoch) = (None, false, next_epoch);
        }
    }

    /// Sets whether the counts have changed; answers whether they had before.
    pub(super) fn set_changed(&mut self, is_changed: bool) -> bool {
        std::mem::replace(&mut self.is_changed, is_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(10);

    #[test]
    fn a_horizon_holds_while_a_ready_job_is_parked() {
        let mut parked = ParkedQueue::new(1);
        parked.set_line(Some(Horizon::LEAST));
        assert_eq!((parked.line(), parked.planned_line()), (None, Some(Horizon::LEAST)));
        parked.add(Parking::Worker, JobClock::Engine, NOW);
        assert_eq!(parked.line(), Some(Horizon::LEAST));
        parked.remove(Parking::Worker, 2);
        assert_eq!((parked.line(), parked.planned_line(), parked.epoch()), (None, None, 2));
    }

    #[test]
    fn what_a_group_knows_is_worth_nothing_in_another_epoch() {
        let mut parked = ParkedQueue::new(1);
        parked.add(Parking::Worker, JobClock::Engine, NOW);
        let line = |epoch| GroupLine { to: Horizon { at: NOW, number: 5 }, epoch };
        assert!(parked.group_line(Some(Some(line(1)))).is_some_and(|line| line.to.number == 5));
        assert!(parked.group_line(Some(Some(line(0)))).is_none());
        assert!(parked.group_line(None).is_none(), "all groups with parked jobs are in memory");
        parked.add(Parking::Head, JobClock::Engine, NOW);
        assert!(parked.group_line(None).is_some_and(|line| line.to == Horizon::LEAST));
    }

    #[test]
    fn the_earliest_time_is_kept_for_each_clock_while_a_scheduled_job_is_parked() {
        let mut parked = ParkedQueue::new(1);
        assert!(parked.earliest().is_none());
        for (clock, at) in [(JobClock::Engine, 30), (JobClock::Wall, 20), (JobClock::Engine, 10)] {
            parked.add(Parking::Time, clock, Timestamp(at));
        }
        let earliest = parked.earliest().expect("three are parked");
        assert_eq!(earliest.on(JobClock::Engine), Some(Timestamp(10)));
        assert_eq!(earliest.on(JobClock::Wall), Some(Timestamp(20)));
        (0..3).for_each(|_| parked.remove(Parking::Time, 2));
        assert!(parked.earliest().is_none() && parked.is_empty());
    }

    #[test]
    fn after_a_start_only_the_counts_are_known() {
        let parked = ParkedQueue::loaded(1, 2, QueueOrder::Lifo);
        assert_eq!(parked.counts(), (1, 2));
        assert_eq!(parked.line(), Some(Horizon::unknown(QueueOrder::Lifo)));
        let earliest = parked.earliest().expect("one is parked");
        assert_eq!(earliest.on(JobClock::Wall), Some(Timestamp(i64::MIN)));
        assert!(parked.group_line(None).is_some());
    }
}
