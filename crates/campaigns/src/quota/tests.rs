//! Quotas, beside lists of picks.

use proptest::prelude::*;
use records::DeviceSlot;

use super::*;

const NOON: i64 = 472_222 * 3_600_000;

fn place(device: u32) -> DevicePlace {
    DevicePlace { partition: PartitionId((device % 2) as u16), slot: DeviceSlot(device) }
}

#[test]
fn a_token_has_its_picks_for_each_full_hour() {
    let mut quotas = TokenQuotas::default();
    let half_past = Timestamp(NOON + 1_800_000);
    quotas.count("alerts", 60, half_past);
    quotas.count("alerts", 30, half_past);
    quotas.count("others", 500, half_past);
    assert_eq!(quotas.left("alerts", 100, half_past), 10);
    assert_eq!(quotas.left("others", 100, half_past), 0);
    assert_eq!(quotas.left("new", 100, half_past), 100);
    assert_eq!(TokenQuotas::next_hour_in(half_past), Duration::from_secs(1_800));
    let next = Timestamp(NOON + 3_600_000);
    assert_eq!(quotas.left("alerts", 100, next), 100);
    assert_eq!(TokenQuotas::next_hour_in(next), Duration::from_secs(3_600));
    quotas.count("alerts", 1, next);
    quotas.count("alerts", 50, half_past);
    assert_eq!(quotas.left("alerts", 100, next), 99, "an hour that is over does not count");
    let (hour, stored) = quotas.stored();
    assert_eq!(stored.len(), 1, "others had none in this hour");
    assert_eq!(TokenQuotas::load(hour, stored).left("alerts", 100, next), 99, "also after a start");
    assert_eq!(quotas.picks.len(), 1, "nor is it kept");
}

proptest! {
    #[test]
    fn devices_that_had_their_picks_are_known(
        per_hour in 1..6_u32,
        picks in proptest::collection::vec(
            (prop_oneof![4 => 0..1_000_u32, 2 => 0..600_000_u32, 1 => 0..5_000_000_u32], 0..20_u32),
            1..300,
        ),
    ) {
        let mut quota = DeviceQuota::new(per_hour);
        let (mut now, mut naive) = (NOON, Vec::new());
        for (wait, device) in picks {
            now += i64::from(wait);
            quota.count(place(device), Timestamp(now));
            naive.push((now / 60_000, device));
            naive.retain(|(minute, _)| minute + 60 > now / 60_000);
            let had = |device: u32| naive.iter().filter(|(_, of)| *of == device).count();
            let used_up = (0..20).filter(|device| had(*device) >= per_hour as usize).map(place);
            prop_assert_eq!(quota.used_up(Timestamp(now)), device_set::of_places(used_up));
            let has_count = |device: &u32| quota.counts.get(place(*device)).is_some();
            let counted: Vec<_> = (0..20).filter(has_count).collect();
            prop_assert!(counted.iter().all(|device| had(*device) > 0), "nothing else is kept");
        }
        prop_assert_eq!(quota.used_up(Timestamp(now + 3_600_000)), []);
        prop_assert!(quota.minutes.is_empty());
    }
}
