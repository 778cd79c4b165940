//! Equal numbers of devices for each value of a label, as far as there are devices; and panels.
//!
//! Within a value those are picked that have had least. What is left over, fewer devices than there
//! are values, goes to the values whose next device has had least.

use base::{PartitionId, hash};
use records::DevicePlace;
use roaring::RoaringBitmap;

use crate::device_set::{self, DeviceSet};
use crate::shares::Shares;

/// The devices of a value. Devices without the label are those of one more value.
#[derive(Clone, Debug, Default)]
pub struct Stratum {
    /// Devices that may be picked.
    pub candidates: DeviceSet,
    /// How many of its devices the task has already.
    pub has: u32,
}

/// Picks `count` devices, or all if there are fewer. A device of two values counts for the first.
/// `seed` chooses among devices that were never picked.
#[must_use]
pub fn spread(shares: &Shares, strata: Vec<Stratum>, count: u32, seed: u64) -> Vec<DevicePlace> {
    let strata = disjoint(strata);
    let sizes: Vec<_> = strata.iter().map(|one| (one.has, device_set::len(&one.candidates))).collect();
    let level = level(&sizes, count);
    let (mut picked, mut next) = (Vec::new(), Vec::new());
    for (at, stratum) in strata.iter().enumerate() {
        let seed = hash::derived(seed, &(at as u64).to_be_bytes());
        let share = up_to(sizes[at], level) as u32;
        let has_next = up_to(sizes[at], level + 1) as u32 - share;
        if share + has_next == 0 {
            continue;
        }
        let mut devices = shares.least(&stratum.candidates, share + has_next, seed);
        if has_next > 0 {
            next.extend(devices.pop().map(|place| (shares.rank(place), seed, place)));
        }
        picked.append(&mut devices);
    }
    next.sort_unstable();
    let rest = count as usize - picked.len();
    picked.extend(next.into_iter().take(rest).map(|(_, _, place)| place));
    picked
}

/// The devices of a panel that stay: those that still match, at most `count`, in their order. One
/// that is benched is not gone: `matching` has it.
#[must_use]
pub fn panel(
    before: &[DevicePlace],
    matching: &[(PartitionId, RoaringBitmap)],
    count: u32,
) -> Vec<DevicePlace> {
    let stays = before.iter().copied().filter(|place| device_set::contains(matching, *place));
    stays.take(count as usize).collect()
}

/// The highest level to which all values can be filled with `count` devices.
fn level(sizes: &[(u32, u64)], count: u32) -> u64 {
    let needs = |level: u64| sizes.iter().map(|size| up_to(*size, level)).sum::<u64>();
    // Above the highest of all devices, a higher level needs no more.
    let (mut fits, mut highest) = (0, sizes.iter().map(|(has, of)| u64::from(*has) + of).max().unwrap_or(0));
    while fits < highest {
        let middle = (fits + highest).div_ceil(2);
        if needs(middle) <= u64::from(count) { fits = middle } else { highest = middle - 1 }
    }
    fits
}

/// How many more devices a value gets up to that level.
fn up_to((has, candidates): (u32, u64), level: u64) -> u64 {
    level.saturating_sub(u64::from(has)).min(candidates)
}

fn disjoint(mut strata: Vec<Stratum>) -> Vec<Stratum> {
    let mut before = DeviceSet::new();
    for stratum in &mut strata {
        device_set::subtract(&mut stratum.candidates, &before);
        device_set::unite(&mut before, stratum.candidates.clone());
    }
    strata
}

#[cfg(test)]
mod tests;
