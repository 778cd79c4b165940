//! The two clocks of a partition: the engine clock, which never goes back, and the wall clock,
//! which may jump.
//!
//! The caller hands in both. Jobs are timed on one or the other; wake-ups and expiries are on the
//! engine clock.

use base::Timestamp;
use records::JobClock;

/// What both clocks show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The engine clock.
    pub(crate) now: Timestamp,
    /// The wall clock.
    pub(crate) wall: Timestamp,
}

impl Moment {
    /// What one of the clocks shows.
    pub(crate) fn on(self, clock: JobClock) -> Timestamp {
        match clock {
            JobClock::Engine => self.now,
            JobClock::Wall => self.wall,
        }
    }

    /// A time of one clock on the other, by the difference that they have now.
    pub(crate) fn convert(self, at: Timestamp, from: JobClock, to: JobClock) -> Timestamp {
        let ahead_ms = self.on(to).0.saturating_sub(self.on(from).0);
        Timestamp(at.0.saturating_add(ahead_ms))
    }
}

/// The wall clock, and how far it was ahead of the engine clock.
#[derive(Default)]
pub(crate) struct Clocks {
    /// `None` is the engine clock.
    wall: Option<Timestamp>,
    /// At the last reading; negative if it was behind.
    wall_ahead_ms: i64,
}

impl Clocks {
    /// The wall clock shows this from now on.
    pub(crate) fn set_wall(&mut self, wall: Timestamp) {
        self.wall = Some(wall);
    }

    /// What both clocks show when the engine clock shows `now`; their difference holds until the
    /// next reading.
    pub(crate) fn read(&mut self, now: Timestamp) -> Moment {
        let moment = self.peek(now);
        self.wall_ahead_ms = moment.wall.0.saturating_sub(now.0);
        moment
    }

    /// As [`Clocks::read`], but the difference stays as it was.
    pub(crate) fn peek(&self, now: Timestamp) -> Moment {
        Moment { now, wall: self.wall.unwrap_or(now) }
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
        let mut clocks = Clocks::default();
        assert_eq!(clocks.read(Timestamp(5)), Moment { now: Timestamp(5), wall: Timestamp(5) });
        assert_eq!(clocks.on_engine(JobClock::Wall, Timestamp(9)), Timestamp(9));
    }

    #[test]
    fn a_time_is_converted_by_the_difference_of_the_last_reading() {
        // (engine, wall, a time of the wall clock, the same on the engine clock, the earlier
        // meaning)
        let rows = [(10, 110, 150, 50, 50), (10, 4, 20, 26, 20), (10, 10, 7, 7, 7)];
        for (now, wall, at, on_engine, earliest) in rows {
            let mut clocks = Clocks::default();
            clocks.set_wall(Timestamp(wall));
            let moment = clocks.read(Timestamp(now));
            assert_eq!(clocks.on_engine(JobClock::Wall, Timestamp(at)), Timestamp(on_engine));
            assert_eq!(clocks.earliest_on_engine(Timestamp(at)), Timestamp(earliest));
            let converted = moment.convert(Timestamp(at), JobClock::Wall, JobClock::Engine);
            assert_eq!(converted, Timestamp(on_engine), "both ways of converting agree");
        }
    }

    #[test]
    fn peeking_leaves_the_difference_as_it_was() {
        let mut clocks = Clocks::default();
        clocks.set_wall(Timestamp(100));
        clocks.read(Timestamp(0));
        clocks.set_wall(Timestamp(500));
        assert_eq!(clocks.peek(Timestamp(0)).wall, Timestamp(500));
        assert_eq!(clocks.on_engine(JobClock::Wall, Timestamp(100)), Timestamp(0));
    }
}
