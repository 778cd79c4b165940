//! Quotas: picks that a token may ask for in an hour, and that a device may have in an hour.
//!
//! A token's hours begin at full hours: who has used an hour up may go on with the next. A device's
//! hour slides, minute by minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::{PartitionId, Timestamp};
use records::{DevicePlace, TokenPicks};
use roaring::RoaringBitmap;

use crate::by_place::ByPlace;
use crate::device_set::{self, DeviceSet};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// Minutes of an hour.
const MINUTES: u64 = 60;

/// The picks of tokens in the present hour. It has one entry for each token that had some in it.
/// Whoever stores picks stores [`TokenQuotas::stored`] in the same batch: an hour outlives the
/// process.
#[derive(Clone, Debug, Default)]
pub struct TokenQuotas {
    hour: u64,
    picks: BTreeMap<Box<str>, u64>,
}

impl TokenQuotas {
    /// The picks of an hour as they were stored.
    #[must_use]
    pub fn load(hour: u64, stored: Vec<TokenPicks>) -> Self {
        Self { hour, picks: stored.into_iter().map(|of| (of.token, of.picks)).collect() }
    }

    /// The hour, and the picks of each token in it.
    #[must_use]
    pub fn stored(&self) -> (u64, Vec<TokenPicks>) {
        let picks =
            self.picks.iter().map(|(token, picks)| TokenPicks { token: token.clone(), picks: *picks });
        (self.hour, picks.collect())
    }

    /// How many picks the token may still ask for in this hour.
    #[must_use]
    pub fn left(&self, token: &str, per_hour: u64, now: Timestamp) -> u64 {
        let is_this_hour = hour_of(now) <= self.hour;
        let used = if is_this_hour { self.picks.get(token).copied().unwrap_or(0) } else { 0 };
        per_hour.saturating_sub(used)
    }

    /// So many devices were picked for the token, replacements included.
    pub fn count(&mut self, token: &str, picks: u32, at: Timestamp) {
        let hour = hour_of(at);
        if hour > self.hour {
            self.hour = hour;
            self.picks.clear();
        }
        if hour == self.hour {
            let used = self.picks.entry(token.into()).or_default();
            *used = used.saturating_add(u64::from(picks));
        }
    }

    /// How long the present hour lasts.
    #[must_use]
    pub fn next_hour_in(now: Timestamp) -> Duration {
        Duration::from_millis(HOUR_MS - now.0.rem_euclid(HOUR_MS as i64).cast_unsigned())
    }
}

/// Which devices have had as many picks in an hour as they may. In memory a pick of the hour takes
/// 2 bytes or less, and a device that had one another 8.
#[derive(Clone, Debug)]
pub struct DeviceQuota {
    per_hour: u32,
    /// The minutes of the last hour that have picks, oldest first.
    minutes: VecDeque<Minute>,
    /// Picks of the last hour.
    counts: ByPlace<u32>,
    used_up: DeviceSet,
}

/// The picks of a minute.
#[derive(Clone, Debug)]
struct Minute {
    number: u64,
    /// The first set has who was picked, the second who was picked twice, and so on.
    picks: Vec<DeviceSet>,
}

impl DeviceQuota {
    /// A device may have so many picks in an hour, at least 1.
    #[must_use]
    pub fn new(per_hour: u32) -> Self {
        Self {
            per_hour: per_hour.max(1),
            minutes: VecDeque::new(),
            counts: ByPlace::default(),
            used_up: DeviceSet::new(),
        }
    }

    /// The device is picked. After a start, picks of the last hour are counted again, oldest first.
    pub fn count(&mut self, place: DevicePlace, at: Timestamp) {
        self.forget_before(at);
        let number = self.minutes.back().map_or(0, |last| last.number).max(minute_of(at));
        if self.minutes.back().is_none_or(|last| last.number < number) {
            self.minutes.push_back(Minute { number, picks: Vec::new() });
        }
        let Some(minute) = self.minutes.back_mut() else { return };
        if !minute.picks.iter_mut().any(|times| device_set::insert(times, place)) {
            minute.picks.push(device_set::of_places([place]));
        }
        let count = self.counts.get(place).map_or(1, |count| count.saturating_add(1));
        self.counts.put(place, count);
        if count >= self.per_hour {
            device_set::insert(&mut self.used_up, place);
        }
    }

    /// The devices that may not be picked now.
    pub fn used_up(&mut self, now: Timestamp) -> &[(PartitionId, RoaringBitmap)] {
        self.forget_before(now);
        &self.used_up
    }

    /// Drops the minutes that are an hour old.
    fn forget_before(&mut self, now: Timestamp) {
        let now = minute_of(now);
        while let Some(minute) = self.minutes.pop_front_if(|first| first.number + MINUTES <= now) {
            for place in minute.picks.iter().flat_map(|times| device_set::places(times)) {
                let Some(count) = self.counts.get(place).map(|count| count.saturating_sub(1)) else {
                    continue;
                };
                if count < self.per_hour {
                    device_set::remove(&mut self.used_up, place);
                }
                if count == 0 {
                    self.counts.remove(place)
                } else {
                    self.counts.put(place, count)
                };
            }
        }
    }
}

fn minute_of(at: Timestamp) -> u64 {
    at.0.max(0).cast_unsigned() / MINUTE_MS
}

fn hour_of(at: Timestamp) -> u64 {
    at.0.max(0).cast_unsigned() / HOUR_MS
}

#[cfg(test)]
mod tests;
