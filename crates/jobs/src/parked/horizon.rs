//! How far an order of jobs is resident.

use std::time::Duration;

use base::Timestamp;
use records::QueueOrder;

/// A parked job is read in this long before its time, at least.
pub(crate) const READ_AHEAD: Duration = Duration::from_secs(1);

/// A place in the order of `visible_at` and publish number: everything up to it, itself included,
/// is resident. In a queue that gives the newest first, everything from it on is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Horizon {
    /// The `visible_at` of the last resident job.
    pub at: Timestamp,
    /// Its publish number.
    pub number: u64,
}

impl Horizon {
    /// Before everything.
    pub const LEAST: Self = Self { at: Timestamp(i64::MIN), number: 0 };
    const GREATEST: Self = Self { at: Timestamp::MAX, number: u64::MAX };

    /// The place just before this one, in the order of time.
    #[must_use]
    pub fn just_before(at: Timestamp, number: u64) -> Self {
        match number.checked_sub(1) {
            Some(number) => Self { at, number },
            None => Self { at: Timestamp(at.0.saturating_sub(1)), number: u64::MAX },
        }
    }

    /// Just before everything: no job is known to be resident.
    pub(crate) fn unknown(order: QueueOrder) -> Self {
        match order {
            QueueOrder::Fifo => Self::LEAST,
            QueueOrder::Lifo => Self::GREATEST,
        }
    }

    pub(crate) fn is_before(self, (at, number): (Timestamp, u64), order: QueueOrder) -> bool {
        let place = Self { at, number };
        match order {
            QueueOrder::Fifo => self < place,
            QueueOrder::Lifo => self > place,
        }
    }

    /// From when on a job behind this may be due within [`READ_AHEAD`], by its clock.
    pub(crate) fn near_from(self) -> Timestamp {
        let first = if self.number == u64::MAX { Timestamp(self.at.0.saturating_add(1)) } else { self.at };
        first.before(READ_AHEAD)
    }

    /// Whether a job behind this may be due within [`READ_AHEAD`], or may have been due before.
    pub(crate) fn is_near(self, time: Timestamp) -> bool {
        self.near_from() <= time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_horizon_is_before_every_job_in_either_order() {
        for order in [QueueOrder::Fifo, QueueOrder::Lifo] {
            for place in [(Timestamp(-5), 0), (Timestamp(0), 7), (Timestamp(1 << 50), 1 << 50)] {
                assert!(Horizon::unknown(order).is_before(place, order));
            }
        }
    }

    #[test]
    fn a_horizon_includes_its_own_place_and_is_just_before_the_next() {
        let horizon = Horizon { at: Timestamp(10), number: 3 };
        for order in [QueueOrder::Fifo, QueueOrder::Lifo] {
            assert!(!horizon.is_before((Timestamp(10), 3), order));
        }
        assert!(horizon.is_before((Timestamp(10), 4), QueueOrder::Fifo));
        assert!(horizon.is_before((Timestamp(10), 2), QueueOrder::Lifo));
        for (at, number) in [(10, 3), (10, 0)] {
            let before = Horizon::just_before(Timestamp(at), number);
            assert!(before.is_before((Timestamp(at), number), QueueOrder::Fifo));
        }
    }

    #[test]
    fn the_time_of_a_horizon_is_near_a_second_before() {
        // (publish number, from when on a job behind it may be due within a second)
        for (number, from) in [(3, 4_000), (u64::MAX, 4_001)] {
            let horizon = Horizon { at: Timestamp(5_000), number };
            assert!(horizon.is_near(Timestamp(from)) && !horizon.is_near(Timestamp(from - 1)));
        }
    }
}
