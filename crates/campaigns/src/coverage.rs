//! Coverage: how evenly the picks of a period lie on the devices that are eligible now.

use std::collections::BTreeMap;

use base::PartitionId;
use records::{DevicePlace, DeviceSlot};
use roaring::RoaringBitmap;

use crate::by_place::ByPlace;

/// The picks of a period, for each device that had one.
#[derive(Clone, Debug, Default)]
pub struct CoverageCount {
    picks: ByPlace<u32>,
}

/// How evenly picks lie on devices. Without devices, all figures are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoverageStats {
    /// Devices that match and are connected.
    pub eligible: u64,
    /// Their picks.
    pub picked: u64,
    /// Those of them without a pick.
    pub never_picked: u64,
    /// The fewest picks of one of them.
    pub min: u32,
    /// The most picks of one of them.
    pub max: u32,
    /// Picks of a device, on average.
    pub mean: f64,
    /// The Gini coefficient over all of them: 0 if each has had as many, near 1 if one has had all.
    pub gini: f64,
}

impl CoverageCount {
    /// A device was picked in the period.
    pub fn add(&mut self, place: DevicePlace) {
        let picks = self.picks.get(place).map_or(1, |picks| picks.saturating_add(1));
        self.picks.put(place, picks);
    }

    /// The coverage of these devices: of all that are eligible, or of those of one value.
    #[must_use]
    pub fn of(&self, eligible: &[(PartitionId, RoaringBitmap)]) -> CoverageStats {
        // How many devices have had so many picks.
        let mut devices: BTreeMap<u32, u64> = BTreeMap::new();
        for (partition, slots) in eligible {
            let picks = self.picks.partition(*partition);
            for slot in slots {
                let picks = picks.and_then(|picks| picks.get(DeviceSlot(slot))).copied().unwrap_or(0);
                *devices.entry(picks).or_default() += 1;
            }
        }
        stats(&devices)
    }
}

fn stats(devices: &BTreeMap<u32, u64>) -> CoverageStats {
    let eligible: u64 = devices.values().sum();
    let picked: u64 = devices.iter().map(|(picks, of)| u64::from(*picks) * of).sum();
    let (Some((min, _)), Some((max, _))) = (devices.first_key_value(), devices.last_key_value()) else {
        return CoverageStats::default();
    };
    CoverageStats {
        eligible,
        picked,
        never_picked: devices.get(&0).copied().unwrap_or(0),
        min: *min,
        max: *max,
        mean: picked as f64 / eligible as f64,
        gini: gini(devices, eligible, picked),
    }
}

/// The differences between all pairs of devices, over twice the number of devices times all picks.
fn gini(devices: &BTreeMap<u32, u64>, eligible: u64, picked: u64) -> f64 {
    if picked == 0 {
        return 0.0;
    }
    // Each pair is counted once, at the device that has had more, and doubled below.
    let (mut fewer, mut their_picks, mut differences) = (0_u128, 0_u128, 0_u128);
    for (picks, of) in devices {
        let (picks, of) = (u128::from(*picks), u128::from(*of));
        differences += of * (fewer * picks - their_picks);
        fewer += of;
        their_picks += of * picks;
    }
    differences as f64 / (u128::from(eligible) * u128::from(picked)) as f64
}

#[cfg(test)]
mod tests;
