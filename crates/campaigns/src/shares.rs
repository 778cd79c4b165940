//! Shares: what each device has had of all picks, and which devices have had least.
//!
//! A device that is picked has reached `max(V, reached) + 1`, where `V` is what the
//! [virtual clock](crate::VirtualClock) reads. A device that was never picked has reached 0. Picked
//! are those that have reached least. Among those that have reached the same, the one that was
//! picked longer ago goes first. So two devices that are always in the same selections take turns:
//! their picks never differ by more than one. `docs/fairness.md` has the proof.
//!
//! In memory a device takes 16 bytes, and about 3 more in bitmaps. A device that was never picked
//! takes none.

mod newcomers;
mod order;

use std::num::NonZeroU64;

use base::{PartitionId, Timestamp};
use records::{DevicePlace, PickShare};
use roaring::RoaringBitmap;

use crate::by_place::ByPlace;
use crate::clock::PICK;
use crate::device_set::{self, DeviceSet};
use crate::mute::{Mute, MuteDevices};
use order::{LastPick, Rank, RankOrder};

/// The shares of all devices that were ever picked.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    ranks: ByPlace<Rank>,
    /// Which devices have a share.
    known: DeviceSet,
    order: RankOrder,
    mute: MuteDevices,
    /// The latest turn that a device had.
    last_turn: LastPick,
}

impl Shares {
    /// The shares as they were stored, in any order.
    #[must_use]
    pub fn load(stored: impl IntoIterator<Item = PickShare>) -> Self {
        let mut shares = Self::default();
        let mut ranked = Vec::new();
        for share in stored {
            let rank = Rank { reached: at_least_one(share.reached), turn: LastPick::stored(&share) };
            let PickShare { place, expired_in_a_row, benched_until, .. } = share;
            shares.last_turn = shares.last_turn.max(rank.turn);
            shares.ranks.put(place, rank);
            shares.mute.put(place, Mute { expired_in_a_row, benched_until });
            device_set::insert(&mut shares.known, place);
            ranked.push((rank, place));
        }
        shares.order = RankOrder::of(ranked);
        shares
    }

    /// The share of a device, as it is to be stored; `None` if it was never picked.
    #[must_use]
    pub fn share(&self, place: DevicePlace) -> Option<PickShare> {
        let rank = self.ranks.get(place)?;
        let mute = self.mute.of(place);
        Some(PickShare {
            place,
            reached: rank.reached.get(),
            last_picked_at: rank.turn.at(),
            turn: rank.turn.within(),
            expired_in_a_row: mute.expired_in_a_row,
            benched_until: mute.benched_until,
        })
    }

    /// The devices that have a share.
    #[must_use]
    pub fn known(&self) -> &[(PartitionId, RoaringBitmap)] {
        &self.known
    }

    /// How many devices have a share.
    #[must_use]
    pub fn len(&self) -> u64 {
        device_set::len(&self.known)
    }

    /// Whether no device was ever picked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The `count` devices among `candidates` that have had least, in the order of what they have
    /// had; all of them if there are fewer. Among devices that were never picked, `seed` chooses:
    /// with another seed for each task, none of them is preferred.
    #[must_use]
    pub fn least(
        &self,
        candidates: &[(PartitionId, RoaringBitmap)],
        count: u32,
        seed: u64,
    ) -> Vec<DevicePlace> {
        let mut picked = newcomers::choose(candidates, &self.known, count, seed);
        let rest = count - picked.len() as u32;
        picked.extend(self.order.least(candidates, rest, &self.ranks).into_iter().map(|(_, place)| place));
        picked
    }

    /// Where a device stands in the order of what devices have had; who was never picked is first.
    pub(crate) fn rank(&self, place: DevicePlace) -> Option<impl Ord + use<>> {
        self.ranks.get(place).copied()
    }

    /// These devices are picked now, each of them once, while the virtual clock `reads` so much.
    /// Their new shares, to be stored with the picks.
    pub fn picked(&mut self, devices: &[DevicePlace], reads: u64, now: Timestamp) -> Vec<PickShare> {
        let mut turns: Vec<_> =
            devices.iter().map(|place| (self.ranks.get(*place).copied(), *place)).collect();
        // Devices that are picked together keep their order.
        turns.sort_unstable();
        for (before, place) in &turns {
            self.advance(*before, *place, reads, now);
        }
        turns.iter().filter_map(|(_, place)| self.share(*place)).collect()
    }

    /// The device is gone; its slot is never used again. Whether it had a share.
    pub fn forget(&mut self, place: DevicePlace) -> bool {
        let Some(rank) = self.ranks.remove(place) else { return false };
        self.order.remove(rank, place);
        self.mute.free(place);
        device_set::remove(&mut self.known, place)
    }

    /// A pick of the device expired. Its new share; `None` if it is gone.
    pub fn expired(&mut self, place: DevicePlace, now: Timestamp) -> Option<PickShare> {
        self.ranks.get(place)?;
        self.mute.expired(place, now);
        self.share(place)
    }

    /// The device answered, or has a new session. Its new share, if this changes it.
    pub fn free(&mut self, place: DevicePlace) -> Option<PickShare> {
        if self.mute.free(place) { self.share(place) } else { None }
    }

    /// The devices that are mute.
    #[must_use]
    pub fn mute(&self) -> &MuteDevices {
        &self.mute
    }

    /// Ends at most `limit` benches whose time is over, and says whose. Need not be stored.
    pub fn end_benches(&mut self, now: Timestamp, limit: usize) -> Vec<DevicePlace> {
        self.mute.end_due(now, limit)
    }

    fn advance(&mut self, before: Option<Rank>, place: DevicePlace, reads: u64, now: Timestamp) {
        let reached = before.map_or(0, |rank| rank.reached.get()).max(reads);
        self.last_turn = self.last_turn.next(now);
        let rank = Rank { reached: at_least_one(reached.saturating_add(PICK)), turn: self.last_turn };
        match before {
            Some(before) => self.order.remove(before, place),
            None => _ = device_set::insert(&mut self.known, place),
        }
        self.ranks.put(place, rank);
        self.order.insert(rank, place, &self.ranks);
    }
}

fn at_least_one(reached: u64) -> NonZeroU64 {
    NonZeroU64::new(reached).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests;
