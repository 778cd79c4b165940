//! The lane of a device: what it has not answered, and what may go out to it next.

use std::time::Duration;

use base::Timestamp;
use base::limits::COMMANDS_IN_FLIGHT_MAX;
use records::CommandKey;

use crate::unanswered::Unanswered;

/// Most commands that a device has unanswered at a time, whatever its pace.
pub(crate) const UNANSWERED_MAX: usize = COMMANDS_IN_FLIGHT_MAX as usize;

/// How commands go to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishPace {
    /// How many may be unanswered at a time; 1 to 1,000.
    pub in_flight: u32,
    /// Least time from one publish to the next.
    pub gap: Duration,
}

impl PublishPace {
    fn unanswered_max(self) -> usize {
        (self.in_flight as usize).clamp(1, UNANSWERED_MAX)
    }
}

/// The lane of a device. Open, it has all unanswered commands of the device; closed, those on their
/// last try, because they fail without anybody's doing. The others need no memory until the device
/// is back.
#[derive(Debug, Default)]
pub(crate) struct DeviceLane {
    /// How commands go out; `None` while closed.
    pace: Option<PublishPace>,
    /// Whether commands of the device wait in the store. Only known while open.
    has_waiting: bool,
    unanswered: Vec<Unanswered>,
    /// Where the table has the lane among its timers.
    pub(crate) timer: Option<Timestamp>,
    /// What the table has counted of it as remembered, in bytes.
    pub(crate) counted_bytes: usize,
}

/// What a lane does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneMove {
    /// The last try of this command was not answered.
    Fail(CommandKey),
    /// This unanswered command goes out again.
    Repeat(CommandKey),
    /// The first of those that wait goes out.
    Fill,
}

impl DeviceLane {
    pub(crate) fn pace(&self) -> Option<PublishPace> {
        self.pace
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.has_waiting
    }

    /// What its unanswered commands take.
    pub(crate) fn remembered_bytes(&self) -> usize {
        self.unanswered.iter().map(Unanswered::remembered_bytes).sum()
    }

    /// Whether it could be closed without anybody noticing.
    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.is_empty() && !self.has_waiting
    }

    /// Whether it has nothing to remember.
    pub(crate) fn is_forgettable(&self) -> bool {
        self.pace.is_none() && self.unanswered.is_empty()
    }

    /// The device is reachable again. `unanswered` are all those that it has not answered.
    pub(crate) fn open(&mut self, pace: PublishPace, mut unanswered: Vec<Unanswered>, has_waiting: bool) {
        unanswered.iter_mut().for_each(Unanswered::came_back);
        (self.pace, self.unanswered, self.has_waiting) = (Some(pace), unanswered, has_waiting);
    }

    /// The device is reachable in another way: what it has not answered goes out again.
    pub(crate) fn reopen(&mut self, pace: PublishPace) {
        self.pace = Some(pace);
        self.unanswered.iter_mut().for_each(Unanswered::came_back);
    }

    /// Commands go out at another pace from now on. What went out stays with its device.
    pub(crate) fn set_pace(&mut self, pace: PublishPace) {
        self.pace = self.pace.map(|_| pace);
    }

    /// When a command went out last that its device has not answered. Only known while open.
    pub(crate) fn published_at(&self) -> Option<Timestamp> {
        let unanswered = self.unanswered.iter().filter(|_| self.pace.is_some());
        unanswered.filter_map(|one| one.published_at).max()
    }

    pub(crate) fn close(&mut self) {
        (self.pace, self.has_waiting) = (None, false);
        self.unanswered.retain(Unanswered::is_on_last_try);
    }

    pub(crate) fn set_waiting(&mut self, has_waiting: bool) {
        self.has_waiting = has_waiting && self.pace.is_some();
    }

    /// Takes in a command that went out, if there is a reason to remember it.
    pub(crate) fn put(&mut self, unanswered: Unanswered) {
        if self.pace.is_none() && !unanswered.is_on_last_try() {
            return;
        }
        if self.unanswered.is_empty() {
            // Most lanes have a window of one.
            self.unanswered.reserve_exact(1);
        }
        self.unanswered.push(unanswered);
    }

    /// Takes out a command that moves on.
    pub(crate) fn take(&mut self, key: CommandKey) -> Option<Unanswered> {
        let place = self.unanswered.iter().position(|unanswered| unanswered.key() == key)?;
        let taken = self.unanswered.swap_remove(place);
        if self.unanswered.is_empty() {
            self.unanswered = Vec::new();
        }
        Some(taken)
    }

    /// A command that its device has not answered.
    pub(crate) fn unanswered(&self, key: CommandKey) -> Option<&Unanswered> {
        self.unanswered.iter().find(|unanswered| unanswered.key() == key)
    }

    /// There is no room for the outcome of a command that was to end: it does nothing by itself.
    pub(crate) fn put_off(&mut self, key: CommandKey) {
        let found = self.unanswered.iter_mut().find(|unanswered| unanswered.key() == key);
        found.into_iter().for_each(|unanswered| unanswered.is_put_off = true);
    }

    /// There may be room for the outcomes of its commands.
    pub(crate) fn resume(&mut self) {
        self.unanswered.iter_mut().for_each(|unanswered| unanswered.is_put_off = false);
    }

    /// The command that the device is to answer first.
    pub(crate) fn first(&self) -> Option<&Unanswered> {
        self.unanswered.iter().min_by_key(|unanswered| unanswered.rank())
    }

    /// The pace, if a new command would go out before any other.
    pub(crate) fn goes_at_once(&self, now: Timestamp, gap_end: Timestamp) -> Option<PublishPace> {
        let is_free = gap_end <= now && self.next_move(now, gap_end).is_none();
        self.pace.filter(|pace| is_free && self.has_room(*pace))
    }

    /// What it does now; `gap_end` is when something may go out again.
    pub(crate) fn next_move(&self, now: Timestamp, gap_end: Timestamp) -> Option<LaneMove> {
        let first = |is_due: fn(&Unanswered) -> Option<Timestamp>| {
            let due = self.unanswered.iter().filter(|one| is_due(one).is_some_and(|at| at <= now));
            due.min_by_key(|one| one.rank()).map(Unanswered::key)
        };
        if let Some(key) = first(Unanswered::fails_at) {
            return Some(LaneMove::Fail(key));
        }
        let pace = self.pace.filter(|_| gap_end <= now)?;
        if let Some(key) = first(Unanswered::repeats_at) {
            return Some(LaneMove::Repeat(key));
        }
        (self.has_waiting && self.has_room(pace)).then_some(LaneMove::Fill)
    }

    /// When [`DeviceLane::next_move`] has something.
    pub(crate) fn moves_at(&self, gap_end: Timestamp) -> Option<Timestamp> {
        let fails_at = self.unanswered.iter().filter_map(Unanswered::fails_at).min();
        let goes_out_at = self.pace.and_then(|pace| {
            let repeats_at = self.unanswered.iter().filter_map(Unanswered::repeats_at).min();
            let fills = self.has_waiting && self.has_room(pace);
            let repeats_at = repeats_at.map(|at| at.max(gap_end));
            fills.then_some(gap_end).into_iter().chain(repeats_at).min()
        });
        fails_at.into_iter().chain(goes_out_at).min()
    }

    fn has_room(&self, pace: PublishPace) -> bool {
        self.unanswered.len() < pace.unanswered_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unanswered::tests::sample;

    const PACE: PublishPace = PublishPace { in_flight: 2, gap: Duration::ZERO };
    /// No gap.
    const NONE: Timestamp = Timestamp(i64::MIN);

    fn open_lane(unanswered: &[Unanswered], has_waiting: bool) -> DeviceLane {
        let mut lane = DeviceLane::default();
        lane.open(PACE, Vec::new(), has_waiting);
        unanswered.iter().cloned().for_each(|one| lane.put(one));
        lane
    }

    #[test]
    fn last_tries_fail_first_then_repeats_go_out_then_what_waits() {
        let (last, high, low) = (sample(1, -5, 3), sample(2, 5, 1), sample(3, 0, 1));
        let [last_key, high_key, low_key] = [&last, &high, &low].map(Unanswered::key);
        let mut lane = open_lane(&[low, high, last], true);
        let late = Timestamp(500);
        assert_eq!(lane.next_move(late, NONE), Some(LaneMove::Fail(last_key)));
        lane.take(last_key);
        assert_eq!(lane.next_move(late, NONE), Some(LaneMove::Repeat(high_key)), "the higher priority");
        lane.take(high_key);
        assert_eq!(lane.next_move(late, NONE), Some(LaneMove::Repeat(low_key)));
        lane.take(low_key);
        assert_eq!(lane.next_move(late, NONE), Some(LaneMove::Fill));
        lane.set_waiting(false);
        assert_eq!(lane.next_move(late, NONE), None);
    }

    #[test]
    fn a_full_window_lets_nothing_more_out() {
        let before = Timestamp(105);
        assert_eq!(open_lane(&[sample(1, 0, 1)], true).next_move(before, NONE), Some(LaneMove::Fill));
        let full = open_lane(&[sample(1, 0, 1), sample(2, 0, 1)], true);
        assert_eq!(full.next_move(before, NONE), None);
        assert_eq!(full.moves_at(NONE), Some(Timestamp(110)), "not before the deadline");
    }

    #[test]
    fn a_gap_holds_back_what_goes_out_but_no_failure() {
        let lane = open_lane(&[sample(1, 0, 3), sample(2, 0, 1)], true);
        assert_eq!(
            lane.next_move(Timestamp(150), Timestamp(200)),
            Some(LaneMove::Fail(sample(1, 0, 3).key()))
        );
        assert_eq!(lane.moves_at(Timestamp(200)), Some(Timestamp(110)));
        let lane = open_lane(&[sample(2, 0, 1)], true);
        assert_eq!(lane.next_move(Timestamp(150), Timestamp(200)), None);
        assert_eq!(lane.moves_at(Timestamp(200)), Some(Timestamp(200)));
    }

    #[test]
    fn a_new_command_goes_at_once_only_if_nothing_goes_before_it() {
        let before = Timestamp(105);
        assert_eq!(open_lane(&[sample(1, 0, 1)], false).goes_at_once(before, NONE), Some(PACE));
        assert_eq!(open_lane(&[sample(1, 0, 1)], true).goes_at_once(before, NONE), None, "others wait");
        assert_eq!(open_lane(&[sample(1, 0, 1)], false).goes_at_once(Timestamp(110), NONE), None, "a repeat");
        assert_eq!(open_lane(&[], false).goes_at_once(before, Timestamp(106)), None, "a gap");
        assert_eq!(DeviceLane::default().goes_at_once(before, NONE), None, "it is closed");
    }

    #[test]
    fn a_closed_lane_keeps_last_tries_only() {
        let mut lane = open_lane(&[sample(1, 0, 1), sample(2, 0, 3)], true);
        lane.close();
        assert_eq!(lane.unanswered.len(), 1);
        assert_eq!(lane.moves_at(NONE), Some(Timestamp(110)));
        lane.put(sample(3, 0, 2));
        assert_eq!(lane.unanswered.len(), 1, "it has a try left");
        lane.take(sample(2, 0, 3).key());
        assert!(lane.is_forgettable());
    }

    #[test]
    fn a_window_is_one_at_least_and_has_a_bound() {
        for (in_flight, expect) in [(0, 1), (1, 1), (7, 7), (u32::MAX, UNANSWERED_MAX)] {
            assert_eq!(PublishPace { in_flight, ..PACE }.unanswered_max(), expect);
        }
    }
}
