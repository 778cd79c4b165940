//! Counts by hour of what happened: the source of statistics and charts. A record holds one UTC
//! day.

use base::{Incarnation, Timestamp};

use crate::CommandStatus;
use crate::weight::weighs;

/// Milliseconds of an hour and of a day.
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Reports accepted, by their `ts` or time of receipt.
    Reports,
    /// Changes.
    Changes,
    /// Losses.
    Losses,
    /// Notifications made.
    Deliveries,
    /// Commands that came to this status; those given count as scheduled, and every publish counts.
    Commands(CommandStatus),
}

/// Whose are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountedOf {
    /// All of the partition's.
    All,
    /// Of the devices linked to a client; of deliveries, those to it.
    Client(Incarnation),
    /// Of the devices with a label: the hash of its key and value.
    Label(u64),
}

/// The name of a day's counts. Its order is the stored one: a day lies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountsKey {
    /// UTC days since 1970.
    pub day: u32,
    /// Whose.
    pub of: CountedOf,
    /// What.
    pub metric: Metric,
}

impl CountsKey {
    /// The UTC day of a time, and its hour within that day. Times before 1970 count as its first
    /// hour.
    #[must_use]
    pub fn day_and_hour(at: Timestamp) -> (u32, usize) {
        let ms = at.0.max(0);
        (u32::try_from(ms / DAY_MS).unwrap_or(u32::MAX), (ms % DAY_MS / HOUR_MS) as usize)
    }

    /// When a UTC day begins.
    #[must_use]
    pub fn start_of(day: u32) -> Timestamp {
        Timestamp(i64::from(day) * DAY_MS)
    }
}

/// A day's counts, by hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HourlyCounts(pub [u32; 24]);

weighs!(HourlyCounts: |_| 0);

impl HourlyCounts {
    /// Counts `more` in an hour of the day; stays at the most there can be.
    pub fn add(&mut self, hour: usize, more: u32) {
        if let Some(count) = self.0.get_mut(hour) {
            *count = count.saturating_add(more);
        }
    }

    /// The count of the whole day.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_one_hour_of_one_day() {
        for (at, expect) in [
            (0, (0, 0)),
            (HOUR_MS - 1, (0, 0)),
            (HOUR_MS, (0, 1)),
            (DAY_MS - 1, (0, 23)),
            (DAY_MS, (1, 0)),
            (-5, (0, 0)),
        ] {
            assert_eq!(CountsKey::day_and_hour(Timestamp(at)), expect, "{at}");
        }
        assert_eq!(CountsKey::start_of(2), Timestamp(2 * DAY_MS));
    }
    #[test]
    fn an_hour_counts_up_to_the_most_there_can_be() {
        let mut counts = HourlyCounts::default();
        for (hour, more) in [(0, 5), (0, u32::MAX), (23, 7), (24, 9)] {
            counts.add(hour, more);
        }
        assert_eq!((counts.0[0], counts.0[23]), (u32::MAX, 7));
        assert_eq!(counts.total(), u64::from(u32::MAX) + 7);
    }
}
