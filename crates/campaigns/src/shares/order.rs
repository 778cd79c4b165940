//! The order of devices that were picked: by what they have reached, then by their turn.
//!
//! Neighbours in the order lie together in buckets, as bitmaps. A search for the least of a
//! selection intersects it with one bucket after the other. It ranks the devices of the last of
//! them only. A bucket that is full is split in the middle; neighbours that are nearly empty become
//! one.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Bound::{Excluded, Unbounded};

use base::{PartitionId, Timestamp};
use records::{DevicePlace, DeviceSlot, PickShare};
use roaring::RoaringBitmap;

use crate::by_place::ByPlace;
use crate::device_set::{self, DeviceSet};

/// Devices of a bucket. Tests have small ones, and many of them.
const BUCKET_MAX: usize = if cfg!(test) { 16 } else { 4_096 };
/// Neighbours that have no more devices than this together become one bucket.
const MERGED_MAX: usize = BUCKET_MAX / 4;
/// Of a selection with at most so many devices each one is looked at. That costs less than to
/// intersect it with every bucket of a large fleet.
const LOOKED_AT_MAX: u64 = if cfg!(test) { 24 } else { 32_768 };

/// Where a device stands: whoever has the lower rank is picked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) reached: NonZeroU64,
    pub(super) turn: LastPick,
}

impl Rank {
    const FIRST: Self = Self { reached: NonZeroU64::MIN, turn: LastPick(0) };
}

/// When a device was picked last, and which pick of that millisecond it was. No two devices have
/// the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LastPick(u64);

impl LastPick {
    /// Bits of the place within a millisecond; the others hold milliseconds up to the year 2527.
    const WITHIN_BITS: u32 = 20;
    const WITHIN_MAX: u32 = (1 << Self::WITHIN_BITS) - 1;

    pub(super) fn stored(share: &PickShare) -> Self {
        Self(Self::begin_of(share.last_picked_at).0 | u64::from(share.turn.min(Self::WITHIN_MAX)))
    }

    /// The turn behind this one, of a pick that is made now.
    pub(super) fn next(self, now: Timestamp) -> Self {
        Self(self.0.saturating_add(1)).max(Self::begin_of(now))
    }

    pub(super) fn at(self) -> Timestamp {
        Timestamp((self.0 >> Self::WITHIN_BITS).cast_signed())
    }

    pub(super) fn within(self) -> u32 {
        self.0 as u32 & Self::WITHIN_MAX
    }

    fn begin_of(at: Timestamp) -> Self {
        let ms = at.0.max(0).cast_unsigned().min(u64::MAX >> Self::WITHIN_BITS);
        Self(ms << Self::WITHIN_BITS)
    }
}

/// Devices in their order. Who calls has their ranks.
#[derive(Clone, Debug, Default)]
pub(super) struct RankOrder {
    /// By the lowest rank that may be in the bucket; the ranks of the next one are higher.
    buckets: BTreeMap<Rank, RankBucket>,
}

#[derive(Clone, Debug, Default)]
struct RankBucket {
    devices: DeviceSet,
    count: usize,
}

impl RankOrder {
    /// The order of these devices.
    pub(super) fn of(mut ranked: Vec<(Rank, DevicePlace)>) -> Self {
        ranked.sort_unstable();
        let mut order = Self::default();
        for devices in ranked.chunks(BUCKET_MAX / 2) {
            let lowest = if order.buckets.is_empty() { Rank::FIRST } else { devices[0].0 };
            order.buckets.insert(lowest, RankBucket::of(devices));
        }
        order
    }

    /// Puts a device into its place. `ranks` has it already.
    pub(super) fn insert(&mut self, rank: Rank, place: DevicePlace, ranks: &ByPlace<Rank>) {
        let lowest = self.lowest(rank).unwrap_or(Rank::FIRST);
        let bucket = self.buckets.entry(lowest).or_default();
        bucket.count += usize::from(device_set::insert(&mut bucket.devices, place));
        if bucket.count > BUCKET_MAX {
            let mut ranked = ranked(&bucket.devices, ranks);
            let middle = ranked.len() / 2;
            ranked.select_nth_unstable(middle);
            *bucket = RankBucket::of(&ranked[..middle]);
            self.buckets.insert(ranked[middle].0, RankBucket::of(&ranked[middle..]));
        }
    }

    /// Takes a device out, which has this rank.
    pub(super) fn remove(&mut self, rank: Rank, place: DevicePlace) {
        let Some(lowest) = self.lowest(rank) else { return };
        let Some(bucket) = self.buckets.get_mut(&lowest) else { return };
        bucket.count -= usize::from(device_set::remove(&mut bucket.devices, place));
        if bucket.count > MERGED_MAX {
            return;
        }
        if let Some((next, _)) = self.buckets.range((Excluded(lowest), Unbounded)).next() {
            self.merge(lowest, *next);
        }
        if let Some((before, _)) = self.buckets.range(..lowest).next_back() {
            self.merge(*before, lowest);
        }
    }

    /// The `count` devices of the lowest rank among the candidates, in order; fewer if there are.
    pub(super) fn least(
        &self,
        candidates: &[(PartitionId, RoaringBitmap)],
        count: u32,
        ranks: &ByPlace<Rank>,
    ) -> Vec<(Rank, DevicePlace)> {
        let count = count as usize;
        if device_set::len(candidates) <= LOOKED_AT_MAX {
            return lowest(ranked(candidates, ranks), count);
        }
        let mut found = Vec::new();
        for bucket in self.buckets.values() {
            if found.len() == count {
                break;
            }
            let devices = device_set::intersection(&bucket.devices, candidates);
            found.extend(lowest(ranked(&devices, ranks), count - found.len()));
        }
        found
    }

    /// The lowest rank of the bucket in which a device of this rank is.
    fn lowest(&self, rank: Rank) -> Option<Rank> {
        self.buckets.range(..=rank).next_back().map(|(lowest, _)| *lowest)
    }

    /// Makes two neighbours one if they are nearly empty.
    fn merge(&mut self, lowest: Rank, next: Rank) {
        let count = |of: &Rank| self.buckets.get(of).map_or(BUCKET_MAX, |bucket| bucket.count);
        if count(&lowest) + count(&next) > MERGED_MAX {
            return;
        }
        let (Some(from), Some(into)) = (self.buckets.remove(&next), self.buckets.get_mut(&lowest)) else {
            return;
        };
        into.count += from.count;
        device_set::unite(&mut into.devices, from.devices);
    }
}

impl RankBucket {
    fn of(devices: &[(Rank, DevicePlace)]) -> Self {
        let places = devices.iter().map(|(_, place)| *place);
        Self { devices: device_set::of_places(places), count: devices.len() }
    }
}

/// Those of the devices that have a rank, with it.
fn ranked(devices: &[(PartitionId, RoaringBitmap)], ranks: &ByPlace<Rank>) -> Vec<(Rank, DevicePlace)> {
    let mut ranked = Vec::new();
    for (partition, slots) in devices {
        let Some(ranks) = ranks.partition(*partition) else { continue };
        ranked.extend(slots.iter().filter_map(|slot| {
            let place = DevicePlace { partition: *partition, slot: DeviceSlot(slot) };
            Some((*ranks.get(place.slot)?, place))
        }));
    }
    ranked
}

/// The `count` lowest, in order.
fn lowest(mut ranked: Vec<(Rank, DevicePlace)>, count: usize) -> Vec<(Rank, DevicePlace)> {
    if ranked.len() > count {
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    ranked.sort_unstable();
    ranked
}

#[cfg(test)]
mod tests;
