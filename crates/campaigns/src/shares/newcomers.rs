//! Devices that were never picked: which of them are picked first.

use base::{PartitionId, hash};
use records::{DevicePlace, DeviceSlot};
use roaring::RoaringBitmap;

use crate::device_set::{self, DeviceSet};

/// From so many on, a bitmap is walked once; fewer are looked up one by one.
const LOOKED_UP_MAX: usize = if cfg!(test) { 4 } else { 1_024 };

/// At most `count` of the candidates that are not among the `known`. They lie as evenly among the
/// others as `seed` has it, wherever in the order of slots these are.
pub(super) fn choose(
    candidates: &[(PartitionId, RoaringBitmap)],
    known: &[(PartitionId, RoaringBitmap)],
    count: u32,
    seed: u64,
) -> Vec<DevicePlace> {
    let is_new = |(partition, slots): &(PartitionId, RoaringBitmap)| {
        device_set::slots_of(known, *partition).is_none_or(|known| slots.difference_len(known) > 0)
    };
    let mut newcomers: DeviceSet = candidates.iter().filter(|one| is_new(one)).cloned().collect();
    device_set::subtract(&mut newcomers, known);
    let all = device_set::len(&newcomers);
    if all <= u64::from(count) {
        return device_set::places(&newcomers).collect();
    }
    let mut numbers = numbers(all, count, seed).into_iter().peekable();
    let (mut chosen, mut before) = (Vec::new(), 0);
    for (partition, slots) in &newcomers {
        let behind = before + slots.len();
        let mut within = Vec::new();
        while let Some(number) = numbers.next_if(|number| *number < behind) {
            within.push((number - before) as u32);
        }
        let places = nth(slots, &within).map(|slot| DevicePlace { partition: *partition, slot });
        chosen.extend(places);
        before = behind;
    }
    chosen
}

/// The slots with these numbers in the order of the bitmap. Numbers ascend.
fn nth<'a>(slots: &'a RoaringBitmap, numbers: &'a [u32]) -> Box<dyn Iterator<Item = DeviceSlot> + 'a> {
    if numbers.len() <= LOOKED_UP_MAX {
        return Box::new(numbers.iter().filter_map(|number| slots.select(*number)).map(DeviceSlot));
    }
    let mut wanted = numbers.iter().peekable();
    let is_wanted = move |number: u32| wanted.next_if(|wanted| **wanted == number).is_some();
    Box::new((0..).zip(slots).filter_map({
        let mut is_wanted = is_wanted;
        move |(number, slot)| is_wanted(number).then_some(DeviceSlot(slot))
    }))
}

/// `count` different numbers below `all`, ascending: steps of a width that shares no factor with
/// `all`, from a beginning that is as good as drawn.
fn numbers(all: u64, count: u32, seed: u64) -> Vec<u64> {
    let (begin, width) = (hash::derived(seed, b"begin") % all, hash::derived(seed, b"width") % all);
    let width = (0..all).map(|more| (width + more) % all).find(|width| factor(*width, all) == 1).unwrap_or(1);
    let nth = |step: u64| (u128::from(begin) + u128::from(step) * u128::from(width)) % u128::from(all);
    let mut numbers: Vec<_> = (0..u64::from(count)).map(|step| nth(step) as u64).collect();
    numbers.sort_unstable();
    numbers
}

/// The greatest factor that both have.
fn factor(mut one: u64, mut other: u64) -> u64 {
    while one != 0 {
        (one, other) = (other % one, one);
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(slots: impl IntoIterator<Item = u32>) -> DeviceSet {
        let of = |slot| DevicePlace { partition: PartitionId((slot % 3) as u16), slot: DeviceSlot(slot) };
        device_set::of_places(slots.into_iter().map(of))
    }

    #[test]
    fn newcomers_are_chosen_once_each_and_wherever_they_lie() {
        let (candidates, known) = (set(0..100), set((0..100).step_by(2)));
        let mut chosen_at_all = DeviceSet::new();
        for seed in 0..200 {
            for count in [1, 3, 20, 49] {
                let chosen = choose(&candidates, &known, count, seed);
                let those = device_set::of_places(chosen.iter().copied());
                assert_eq!((chosen.len() as u32, device_set::len(&those)), (count, u64::from(count)));
                assert_eq!(device_set::intersection(&those, &known), [], "has a share");
                assert_eq!(device_set::intersection(&those, &candidates), those);
                assert_eq!(chosen, choose(&candidates, &known, count, seed), "the seed decides");
                if count == 1 {
                    device_set::unite(&mut chosen_at_all, those);
                }
            }
        }
        assert!(device_set::len(&chosen_at_all) > 45, "{chosen_at_all:?}");
        assert_eq!(choose(&candidates, &known, 51, 1).len(), 50, "all that there are");
    }

    #[test]
    fn no_newcomer_is_preferred() {
        let candidates = set(0..50);
        let mut times = [0_u32; 50];
        for seed in 0..10_000 {
            choose(&candidates, &[], 5, seed).iter().for_each(|place| times[place.slot.0 as usize] += 1);
        }
        assert!(times.iter().all(|times| (850..1_150).contains(times)), "{times:?}");
    }
}
