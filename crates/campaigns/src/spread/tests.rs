//! Strata, beside a dealer who gives one device after the other.

use base::Timestamp;
use proptest::prelude::*;
use records::DeviceSlot;

use super::*;

fn place(device: u32) -> DevicePlace {
    DevicePlace { partition: PartitionId((device % 2) as u16), slot: DeviceSlot(device / 2) }
}

fn stratum(devices: impl IntoIterator<Item = u32>, has: u32) -> Stratum {
    Stratum { candidates: device_set::of_places(devices.into_iter().map(place)), has }
}

/// How many of the picked devices are in each of the ranges of 100.
fn numbers(picked: &[DevicePlace], of: usize) -> Vec<usize> {
    let stratum = |place: &DevicePlace| (place.slot.0 * 2 + u32::from(place.partition.0)) as usize / 100;
    (0..of).map(|nth| picked.iter().filter(|place| stratum(place) == nth).count()).collect()
}

#[test]
fn values_get_equal_numbers_as_far_as_there_are_devices() {
    let strata = || vec![stratum(0..50, 0), stratum(100..103, 0), stratum(200..260, 0)];
    let shares = Shares::default();
    for (count, expect) in [(9, [3, 3, 3]), (23, [10, 3, 10]), (200, [50, 3, 60]), (0, [0, 0, 0])] {
        assert_eq!(numbers(&spread(&shares, strata(), count, 1), 3), expect, "{count}");
    }
    let replaced = vec![stratum(0..50, 5), stratum(100..150, 2), stratum(200..250, 0)];
    assert_eq!(numbers(&spread(&shares, replaced, 4, 1), 3), [0, 1, 3], "what the task has counts");
}

#[test]
fn what_is_left_over_goes_to_whom_has_had_least() {
    let mut shares = Shares::default();
    let everybody: Vec<_> = (0..2).chain(100..102).chain(200..202).map(place).collect();
    shares.picked(&everybody, 0, Timestamp(0));
    shares.picked(&[place(0), place(1), place(200), place(201)], 0, Timestamp(1));
    let strata = vec![stratum(0..2, 0), stratum(100..102, 0), stratum(200..202, 0)];
    assert_eq!(numbers(&spread(&shares, strata, 4, 1), 3), [1, 2, 1]);
}

#[test]
fn a_device_of_two_values_is_picked_once() {
    let shares = Shares::default();
    let picked = spread(&shares, vec![stratum(0..4, 0), stratum(2..6, 0)], 6, 1);
    assert_eq!(device_set::len(&device_set::of_places(picked)), 6);
}

#[test]
fn a_panel_stays_as_long_as_it_matches() {
    let before: Vec<_> = [7, 3, 9, 1].map(place).to_vec();
    let matching = device_set::of_places([1, 2, 3, 7].map(place));
    assert_eq!(panel(&before, &matching, 10), [7, 3, 1].map(place));
    assert_eq!(panel(&before, &matching, 2), [7, 3].map(place), "it became smaller");
}

proptest! {
    #[test]
    fn a_dealer_gives_the_same_numbers(
        sizes in proptest::collection::vec((0..90_u32, 0..8_u32), 1..8),
        count in 0..150_u32,
        picks in proptest::collection::vec(0..800_u32, 0..300),
        seed in any::<u64>(),
    ) {
        let mut shares = Shares::default();
        picks.iter().for_each(|device| drop(shares.picked(&[place(*device)], 0, Timestamp(0))));
        let strata: Vec<_> = (0..)
            .zip(&sizes)
            .map(|(nth, (size, has))| stratum(nth * 100..nth * 100 + size, *has))
            .collect();
        let picked = spread(&shares, strata.clone(), count, seed);
        let mut dealt: Vec<u32> = sizes.iter().map(|_| 0).collect();
        for _ in 0..count {
            let has_more = (0..sizes.len()).filter(|at| dealt[*at] < sizes[*at].0);
            let Some(next) = has_more.min_by_key(|at| sizes[*at].1 + dealt[*at]) else { break };
            dealt[next] += 1;
        }
        let numbers = numbers(&picked, sizes.len());
        let levels = |dealt: &mut dyn Iterator<Item = u32>| {
            let mut levels: Vec<_> = dealt.zip(&sizes).map(|(dealt, size)| dealt + size.1).collect();
            levels.sort_unstable();
            levels
        };
        prop_assert_eq!(
            levels(&mut numbers.iter().map(|number| *number as u32)),
            levels(&mut dealt.iter().copied())
        );
        for (at, stratum) in strata.iter().enumerate() {
            let rank = |place: &DevicePlace| shares.share(*place).map(|share| (share.reached, share.turn));
            let mut least: Vec<_> = device_set::places(&stratum.candidates).map(|one| rank(&one)).collect();
            least.sort_unstable();
            least.truncate(numbers[at]);
            let those = picked.iter().filter(|one| device_set::contains(&stratum.candidates, **one));
            let mut those: Vec<_> = those.map(rank).collect();
            those.sort_unstable();
            prop_assert_eq!(those, least, "the least of a value");
        }
    }
}
