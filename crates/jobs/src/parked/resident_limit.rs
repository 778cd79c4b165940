//! How many jobs may be in memory, and what follows from it: pages, fronts of lines, low marks.

/// Jobs that stay at the front of each line, if there is room, and that are read of one at once.
const FRONT_MAX: usize = 1_000;
/// Jobs that are read in at once by their time.
const TIMED_AT_ONCE: usize = 500;
/// After a start it is not known how far the resident jobs reach: few are read to see it.
const TIMED_AT_FIRST: usize = 64;

/// The limit. Only jobs that no worker has count: only these can be parked.
pub(crate) struct ResidentLimit {
    max: usize,
    /// Jobs that stayed at the front of each line when there was too little room last.
    front: usize,
}

impl Default for ResidentLimit {
    fn default() -> Self {
        Self { max: usize::MAX, front: FRONT_MAX }
    }
}

impl ResidentLimit {
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max;
        self.front = self.front.min(max / 8).max(1);
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Most jobs that are due in more than a minute. One at least: as many are read ahead of time.
    pub(crate) fn scheduled_max(&self) -> usize {
        (self.max / 8).max(1)
    }

    /// Whether so few jobs wait for their time that more should be read.
    pub(crate) fn is_short_of_scheduled(&self, scheduled: usize) -> bool {
        scheduled < (self.max / 16).max(1)
    }

    /// Whether reading in some jobs does not have others parked soon.
    pub(crate) fn is_roomy(&self, resident: usize) -> bool {
        resident < self.max / 2
    }

    /// A line with fewer jobs than this should be read on, while there is room.
    pub(crate) fn line_low_mark(&self, resident: usize) -> usize {
        if self.is_roomy(resident) { self.front / 4 } else { 0 }
    }

    /// How many jobs of a line are read at once.
    pub(crate) fn line_page_max(&self, resident: usize) -> usize {
        (self.max.saturating_sub(resident) / 4).clamp(1, self.front)
    }

    /// How many jobs are read at once by their time.
    pub(crate) fn timed_page_max(&self, is_first: bool) -> usize {
        (self.max / 32).clamp(1, if is_first { TIMED_AT_FIRST } else { TIMED_AT_ONCE })
    }

    /// Sets and answers how many stay at the front of each queue's line, and of each group's.
    /// Where there are too many groups, only their heads stay.
    pub(crate) fn share_fronts(&mut self, queues: usize, groups: usize) -> (usize, usize) {
        let share = |lines: usize| (self.max / 4 / lines.max(1)).clamp(1, FRONT_MAX);
        let are_too_many = groups > self.max / 8;
        self.front = share(if are_too_many { queues } else { queues + groups });
        (self.front, if are_too_many { 0 } else { self.front })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(max: usize) -> ResidentLimit {
        let mut limit = ResidentLimit::default();
        limit.set_max(max);
        limit
    }

    #[test]
    fn without_a_limit_there_is_always_room() {
        let limit = ResidentLimit::default();
        assert!(limit.is_roomy(1 << 40));
        assert_eq!((limit.line_page_max(1 << 40), limit.timed_page_max(false)), (1_000, 500));
    }

    #[test]
    fn every_page_has_one_job_at_least() {
        for max in [0, 1, 8] {
            let limit = limit(max);
            assert_eq!((limit.line_page_max(max + 5), limit.timed_page_max(true)), (1, 1));
            assert!(limit.scheduled_max() >= 1 && limit.is_short_of_scheduled(0));
        }
    }

    #[test]
    fn lines_share_a_quarter_of_the_room_and_many_groups_keep_only_their_heads() {
        // (most, queues, groups, front of a queue's line, front of a group's)
        let rows = [(800, 2, 0, 100, 100), (800, 1, 1, 100, 100), (800, 2, 101, 100, 0), (8, 50, 0, 1, 1)];
        for (max, queues, groups, of_queue, of_group) in rows {
            let mut limit = limit(max);
            assert_eq!(limit.share_fronts(queues, groups), (of_queue, of_group), "{max} {queues} {groups}");
            assert_eq!(limit.line_low_mark(0), of_queue / 4);
            assert_eq!(limit.line_low_mark(max), 0, "no room");
        }
    }
}
