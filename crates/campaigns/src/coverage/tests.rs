//! Coverage, beside the definition of each figure.

use proptest::prelude::*;

use super::*;
use crate::device_set;

fn place(device: u32) -> DevicePlace {
    DevicePlace { partition: PartitionId((device % 2) as u16), slot: DeviceSlot(device) }
}

fn coverage(picks: &[u32], eligible: impl IntoIterator<Item = u32>) -> CoverageStats {
    let mut count = CoverageCount::default();
    for (device, picks) in (0..).zip(picks) {
        (0..*picks).for_each(|_| count.add(place(device)));
    }
    count.of(&device_set::of_places(eligible.into_iter().map(place)))
}

#[test]
fn figures_say_how_even_picks_are() {
    let even = coverage(&[2, 2, 2, 2], 0..4);
    assert_eq!((even.eligible, even.picked, even.never_picked, even.gini), (4, 8, 0, 0.0));
    let uneven = coverage(&[0, 0, 0, 8], 0..4);
    assert_eq!((uneven.min, uneven.max, uneven.mean, uneven.gini), (0, 8, 2.0, 0.75));
    assert_eq!(uneven.never_picked, 3);
    let others = coverage(&[5, 1, 1], 1..5);
    assert_eq!((others.eligible, others.picked, others.max), (4, 2, 1), "who is not eligible does not count");
    assert_eq!(coverage(&[1], []), CoverageStats::default());
    assert_eq!(coverage(&[0, 0], 0..2).gini, 0.0);
}

proptest! {
    #[test]
    fn figures_are_those_of_their_definitions(
        picks in proptest::collection::vec(0..30_u32, 1..60),
    ) {
        let devices = picks.len() as f64;
        let found = coverage(&picks, 0..picks.len() as u32);
        let sum: u32 = picks.iter().sum();
        prop_assert_eq!((found.eligible, found.picked), (picks.len() as u64, u64::from(sum)));
        prop_assert_eq!((Some(&found.min), Some(&found.max)), (picks.iter().min(), picks.iter().max()));
        prop_assert!((found.mean - f64::from(sum) / devices).abs() < 1e-9);
        let pairs = picks.iter().flat_map(|one| picks.iter().map(|other| f64::from(one.abs_diff(*other))));
        let gini = if sum == 0 { 0.0 } else { pairs.sum::<f64>() / (2.0 * devices * f64::from(sum)) };
        prop_assert!((found.gini - gini).abs() < 1e-9, "{} {}", found.gini, gini);
    }
}
