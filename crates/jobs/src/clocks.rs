//! The two clocks of a partition: the engine clock, which never goes back, and the wall clock,
//! which may jump.
//!
//! The caller hands in both. Jobs are timed on one or the other; wake-ups and expiries are on the
//! engine clock.

use base::Timestamp;
use records::JobClock;

/// What both clocks show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockTimes {
    /// The engine clock.
    pub(crate) now: Timestamp,
    /// The wall clock.
    pub(crate) wall: Timestamp,
}

impl ClockTimes {
    /// What one of the clocks shows.
    pub(crate) fn on(self, clock: JobClock) -> Timestamp {
        match clock {
            JobClock::Engine => self.now,
            JobClock::Wall => self.wall,
        }
    }
}

/// How far the wall clock is ahead of the engine clock.
#[derive(Default)]
pub(crate) struct ClockOffset {
    /// Negative if it is behind.
    wall_ahead_ms: i64,
}

impl ClockOffset {
    /// When the engine clock shows `now`, the wall clock shows `wall`.
    pub(crate) fn set_wall(&mut self, now: Timestamp, wall: Timestamp) {
        self.wall_ahead_ms = wall.0.saturating_sub(now.0);
    }

    /// What both clocks show when the engine clock shows `now`.
    pub(crate) fn at(&self, now: Timestamp) -> ClockTimes {
        ClockTimes { now, wall: self.on_wall(now) }
    }

    /// A time of the engine clock on the wall clock.
    pub(crate) fn on_wall(&self, at: Timestamp) -> Timestamp {
        Timestamp(at.0.saturating_add(self.wall_ahead_ms))
    }

    /// A time of a clock on the engine clock.
    pub(crate) fn on_engine(&self, clock: JobClock, at: Timestamp) -> Timestamp {
        match clock {
            JobClock::Engine => at,
            JobClock::Wall => Timestamp(at.0.saturating_sub(self.wall_ahead_ms)),
        }
    }

    /// The earlier of what a time means on the engine clock and on the wall clock, on the engine
    /// clock.
    pub(crate) fn earliest_on_engine(&self, at: Timestamp) -> Timestamp {
        at.min(self.on_engine(JobClock::Wall, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_wall_clock_both_are_the_engine_clock() {
        let clocks = ClockOffset::default();
        assert_eq!(clocks.at(Timestamp(5)), ClockTimes { now: Timestamp(5), wall: Timestamp(5) });
        assert_eq!(clocks.on_engine(JobClock::Wall, Timestamp(9)), Timestamp(9));
    }

    #[test]
    fn a_time_is_converted_by_the_difference_of_the_clocks() {
        // (engine, wall, a time of the wall clock, the same on the engine clock, the earlier
        // meaning)
        let rows = [(10, 110, 150, 50, 50), (10, 4, 20, 26, 20), (10, 10, 7, 7, 7)];
        for (now, wall, at, on_engine, earliest) in rows {
            let mut clocks = ClockOffset::default();
            clocks.set_wall(Timestamp(now), Timestamp(wall));
            assert_eq!(clocks.at(Timestamp(now)).wall, Timestamp(wall));
            assert_eq!(clocks.on_engine(JobClock::Wall, Timestamp(at)), Timestamp(on_engine));
            assert_eq!(clocks.on_wall(Timestamp(on_engine)), Timestamp(at), "and back");
            assert_eq!(clocks.earliest_on_engine(Timestamp(at)), Timestamp(earliest));
        }
    }
}
