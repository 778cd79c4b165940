//! Which jobs leave memory: chosen at once, parked in steps, and not looked for in vain again and
//! again.

use base::Timestamp;
use records::{JobId, Parking, QueueOrder};

/// A job in the order of its line or clock.
pub(crate) type Placed = ((Timestamp, u64), JobId);

/// The jobs that were chosen, and whether looking for more is worth it.
#[derive(Default)]
pub(crate) struct Eviction {
    /// The last leaves first.
    planned: Vec<(JobId, Parking)>,
    /// Of all that are resident.
    backoff: EvictionBackoff,
    /// Of those that wait for their time.
    scheduled_backoff: EvictionBackoff,
    /// Some jobs can leave as soon as the heads of their groups are read.
    awaits_heads: bool,
}

impl Eviction {
    /// Whether jobs were chosen that have not left yet.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.planned.is_empty()
    }

    /// Chooses jobs that leave; the last of them leaves first.
    pub(crate) fn plan(&mut self, planned: Vec<(JobId, Parking)>) {
        self.planned = planned;
    }

    /// The job that leaves next.
    pub(crate) fn next(&mut self) -> Option<(JobId, Parking)> {
        self.planned.pop()
    }

    /// Whether too many jobs are resident and too few of them could be parked.
    pub(crate) fn is_stuck(&self) -> bool {
        self.backoff.is_active()
    }

    /// Whether more jobs are resident than may be, and looking for some to park is worth it.
    pub(crate) fn is_due(&mut self, resident: usize, max: usize) -> bool {
        self.backoff.is_over(resident, max)
    }

    /// As [`Eviction::is_due`], of those that wait for their time.
    pub(crate) fn is_due_of_scheduled(&mut self, scheduled: usize, max: usize) -> bool {
        self.scheduled_backoff.is_over(scheduled, max)
    }

    /// `found` jobs of the `wanted` can leave; so many are resident.
    pub(crate) fn found(&mut self, found: usize, wanted: usize, resident: usize) {
        self.backoff.note(found <= wanted / 4, resident);
    }

    /// As [`Eviction::found`], of those that wait for their time.
    pub(crate) fn found_of_scheduled(&mut self, found: usize, wanted: usize, scheduled: usize) {
        self.scheduled_backoff.note(found <= wanted / 4, scheduled);
    }

    /// Some jobs could leave if the heads of their groups were read.
    pub(crate) fn await_heads(&mut self) {
        self.awaits_heads = true;
    }

    /// Whether there are such: asked once the heads are read.
    pub(crate) fn take_awaits_heads(&mut self) -> bool {
        std::mem::take(&mut self.awaits_heads)
    }

    /// None of the chosen jobs could be parked.
    pub(crate) fn found_none(&mut self, resident: usize, scheduled: usize) {
        self.backoff.note(true, resident);
        self.scheduled_backoff.note(true, scheduled);
    }
}

/// How many jobs there were when too few of them could be parked; 0 if enough could.
#[derive(Default)]
struct EvictionBackoff(usize);

impl EvictionBackoff {
    /// Whether there are more than `max`, and many more than when too few could be parked.
    fn is_over(&mut self, count: usize, max: usize) -> bool {
        if count <= max {
            self.0 = 0;
        }
        count > max.max(self.0)
    }

    fn note(&mut self, are_too_few: bool, count: usize) {
        self.0 = if are_too_few { count + count / 4 } else { 0 };
    }

    fn is_active(&self) -> bool {
        self.0 > 0
    }
}

/// Splits off the `excess` jobs whose time comes last, in no order.
pub(crate) fn split_latest<T>(jobs: &mut Vec<(Placed, T)>, excess: usize) -> Vec<(Placed, T)> {
    let kept = jobs.len().saturating_sub(excess);
    if (1..jobs.len()).contains(&kept) {
        jobs.select_nth_unstable_by_key(kept, |((order, _), _)| *order);
    }
    jobs.split_off(kept)
}

/// Sorts a line by its order, and splits off up to `excess` jobs at its end; `front` jobs stay.
pub(crate) fn split_end(
    line: &mut Vec<Placed>,
    order: QueueOrder,
    front: usize,
    excess: usize,
) -> Vec<Placed> {
    line.sort_unstable_by_key(|(order, _)| *order);
    if order == QueueOrder::Lifo {
        line.reverse();
    }
    let kept = front.max(line.len().saturating_sub(excess)).min(line.len());
    line.split_off(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(times: &[i64]) -> Vec<Placed> {
        times.iter().map(|at| ((Timestamp(*at), 0), JobId([0; 16]))).collect()
    }

    fn times(jobs: &[Placed]) -> Vec<i64> {
        jobs.iter().map(|((at, _), _)| at.0).collect()
    }

    #[test]
    fn those_leave_whose_time_comes_last() {
        for (excess, expect) in [(0, vec![]), (2, vec![40, 50]), (9, vec![10, 20, 30, 40, 50])] {
            let mut jobs: Vec<_> = placed(&[30, 10, 50, 20, 40]).into_iter().map(|job| (job, ())).collect();
            let gone = split_latest(&mut jobs, excess);
            let mut gone = times(&gone.into_iter().map(|(job, ())| job).collect::<Vec<_>>());
            gone.sort_unstable();
            assert_eq!((gone, jobs.len()), (expect.clone(), 5 - expect.len()));
        }
    }

    #[test]
    fn a_line_loses_its_end_and_keeps_its_front() {
        // (order, front, excess, those that leave)
        let rows = [
            (QueueOrder::Fifo, 1, 2, vec![20, 30]),
            (QueueOrder::Lifo, 1, 2, vec![20, 10]),
            (QueueOrder::Fifo, 2, 9, vec![30]),
            (QueueOrder::Fifo, 5, 9, vec![]),
        ];
        for (order, front, excess, expect) in rows {
            let mut line = placed(&[20, 30, 10]);
            assert_eq!(
                times(&split_end(&mut line, order, front, excess)),
                expect,
                "{order:?} {front} {excess}"
            );
        }
    }

    #[test]
    fn after_a_look_in_vain_the_next_waits_until_there_are_a_quarter_more() {
        let mut eviction = Eviction::default();
        assert!(eviction.is_due(101, 100) && !eviction.is_due(100, 100));
        eviction.found(1, 40, 120);
        assert!(eviction.is_stuck() && !eviction.is_due(150, 100));
        assert!(eviction.is_due(151, 100));
        assert!(!eviction.is_due(100, 100) && !eviction.is_stuck(), "there is room again");
        eviction.found(30, 40, 120);
        assert!(!eviction.is_stuck(), "enough were found");
    }
}
