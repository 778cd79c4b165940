//! Mute devices: who does not answer again and again is benched, that is, set aside for a while.
//!
//! A device whose last 3 picks expired is benched for a minute. Each further pick that expires
//! doubles this, up to an hour. Any answer and any new session frees it. Of a selection at most a
//! fifth is set aside, rounded down. Those with most expired picks in a row stay aside, and among
//! these those whose bench ends last.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{PartitionId, Timestamp};
use records::{DevicePlace, DeviceSlot};
use roaring::RoaringBitmap;

use crate::by_place::ByPlace;
use crate::device_set::{self, DeviceSet};

/// Picks in a row that expire before a device is benched.
pub const EXPIRED_MAX: u32 = 3;
/// How long a device is benched first.
pub const BENCHED_FIRST: Duration = Duration::from_secs(60);
/// How long it is benched at most.
pub const BENCHED_MAX: Duration = Duration::from_secs(3_600);
/// Of a selection, one in so many devices may be set aside.
const ASIDE_ONE_IN: u64 = 5;

/// Devices whose latest picks expired.
#[derive(Clone, Debug, Default)]
pub struct MuteDevices {
    devices: ByPlace<Mute>,
    benched: DeviceSet,
    /// When benches end.
    ends: BTreeSet<(Timestamp, DevicePlace)>,
}

/// What is known of a device whose latest pick expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mute {
    /// Its latest picks that expired, one after the other.
    pub expired_in_a_row: u32,
    /// Until when it is benched.
    pub benched_until: Option<Timestamp>,
}

impl MuteDevices {
    /// What is known of a device; nothing expired of others.
    #[must_use]
    pub fn of(&self, place: DevicePlace) -> Mute {
        self.devices.get(place).copied().unwrap_or_default()
    }

    /// Knows a device as it was stored.
    pub fn put(&mut self, place: DevicePlace, mute: Mute) {
        self.free(place);
        if mute == Mute::default() {
            return;
        }
        self.devices.put(place, mute);
        if let Some(until) = mute.benched_until {
            device_set::insert(&mut self.benched, place);
            self.ends.insert((until, place));
        }
    }

    /// A pick of the device expired. What is known of it from now on.
    pub fn expired(&mut self, place: DevicePlace, now: Timestamp) -> Mute {
        let expired_in_a_row = self.of(place).expired_in_a_row.saturating_add(1);
        let mute =
            Mute { expired_in_a_row, benched_until: bench(expired_in_a_row).map(|span| now.after(span)) };
        self.put(place, mute);
        mute
    }

    /// The device answered, has a new session or is gone. Whether anything was known of it.
    pub fn free(&mut self, place: DevicePlace) -> bool {
        let Some(mute) = self.devices.remove(place) else { return false };
        self.unbench(place, mute);
        true
    }

    /// The devices that are benched, also where the end of a bench is not noted yet.
    #[must_use]
    pub fn benched(&self) -> &[(PartitionId, RoaringBitmap)] {
        &self.benched
    }

    /// When the next bench ends.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// Ends at most `limit` benches whose time is over, and says whose. What expired still counts.
    pub fn end_due(&mut self, now: Timestamp, limit: usize) -> Vec<DevicePlace> {
        let due: Vec<_> = self.ended(now).take(limit).collect();
        for place in &due {
            let mute = self.of(*place);
            self.unbench(*place, mute);
            self.devices.put(*place, Mute { benched_until: None, ..mute });
        }
        due
    }

    /// The devices of a selection that are not to be picked now: a fifth of it at most.
    #[must_use]
    pub fn aside(&self, selection: &[(PartitionId, RoaringBitmap)], now: Timestamp) -> DeviceSet {
        let room = device_set::len(selection) / ASIDE_ONE_IN;
        if self.ends.is_empty() || room == 0 {
            return DeviceSet::new();
        }
        let mut benched = device_set::intersection(selection, &self.benched);
        device_set::subtract(&mut benched, &device_set::of_places(self.ended(now)));
        if device_set::len(&benched) > room { self.most_mute(&benched, room as usize) } else { benched }
    }

    /// Benches that are over and are not known to be.
    fn ended(&self, now: Timestamp) -> impl Iterator<Item = DevicePlace> {
        self.ends.iter().take_while(move |(until, _)| *until <= now).map(|(_, place)| *place)
    }

    /// The `count` of these devices that were mute most: fewer than there are.
    fn most_mute(&self, benched: &[(PartitionId, RoaringBitmap)], count: usize) -> DeviceSet {
        let mut ranked = Vec::new();
        for (partition, slots) in benched {
            let Some(devices) = self.devices.partition(*partition) else { continue };
            ranked.extend(slots.iter().filter_map(|slot| {
                let mute = devices.get(DeviceSlot(slot))?;
                let place = DevicePlace { partition: *partition, slot: DeviceSlot(slot) };
                Some((mute.expired_in_a_row, mute.benched_until, place))
            }));
        }
        ranked.select_nth_unstable_by(count, |one, other| other.cmp(one));
        device_set::of_places(ranked[..count].iter().map(|(_, _, place)| *place))
    }

    fn unbench(&mut self, place: DevicePlace, mute: Mute) {
        let Some(until) = mute.benched_until else { return };
        self.ends.remove(&(until, place));
        device_set::remove(&mut self.benched, place);
    }
}

/// How long a device is benched after so many expired picks in a row.
fn bench(expired_in_a_row: u32) -> Option<Duration> {
    let further = expired_in_a_row.checked_sub(EXPIRED_MAX)?;
    let doubled = 1_u32.checked_shl(further).unwrap_or(u32::MAX);
    Some(BENCHED_FIRST.saturating_mul(doubled).min(BENCHED_MAX))
}

#[cfg(test)]
mod tests;
