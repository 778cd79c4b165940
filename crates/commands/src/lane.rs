//! The lane of a device: what it has not answered, and what may go out to it next.

use std::time::Duration;

use base::Timestamp;
use records::CommandKey;

use crate::unanswered::Unanswered;

/// Most commands that a device has unanswered at a time, whatever its pace.
pub(crate) const UNANSWERED_MAX: usize = 1_000;

/// How commands go to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How many may be unanswered at a time; 1 to 1,000.
    pub in_flight: u32,
    /// Least time from one publish to the next.
    pub gap: Duration,
}

impl Pace {
    fn window(self) -> usize {
        (self.in_flight as usize).clamp(1, UNANSWERED_MAX)
    }
}

/// The lane of a device. Open, it has all unanswered commands of the device; closed, those on their
/// last try, because they fail without anybody's doing. The others need no memory until the device
/// is back.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// How commands go out; `None` while closed.
    pace: Option<Pace>,
    /// Whether commands of the device wait in the store. Only known while open.
    has_waiting: bool,
    unanswered: Vec<Unanswered>,
    /// Where the table has the lane among its timers.
    pub(crate) timer: Option<Timestamp>,
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

impl Lane {
    pub(crate) fn pace(&self) -> Option<Pace> {
        self.pace
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.has_waiting
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
    pub(crate) fn open(&mut self, pace: Pace, mut unanswered: Vec<Unanswered>, has_waiting: bool) {
        unanswered.iter_mut().for_each(Unanswered::came_back);
        (self.pace, self.unanswered, self.has_waiting) = (Some(pace), unanswered, has_waiting);
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

    /// The command that the device is to answer first.
    pub(crate) fn first(&self) -> Option<&Unanswered> {
        self.unanswered.iter().min_by_key(|unanswered| unanswered.rank())
    }

    /// The pace, if a new command would go out before any other.
    pub(crate) fn goes_at_once(&self, now: Timestamp, gap_end: Timestamp) -> Option<Pace> {
        let is_free = !self.has_waiting && gap_end <= now && self.next_move(now, gap_end).is_none();
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

    /// When [`Lane::next_move`] has something.
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

    fn has_room(&self, pace: Pace) -> bool {
        self.unanswered.len() < pace.window()
    }
}
