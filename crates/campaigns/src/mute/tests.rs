//! Benches, beside a list of what expired.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn place(device: u32) -> DevicePlace {
    DevicePlace { partition: PartitionId((device % 2) as u16), slot: DeviceSlot(device) }
}

fn set(devices: impl IntoIterator<Item = u32>) -> DeviceSet {
    device_set::of_places(devices.into_iter().map(place))
}

/// A device whose latest picks expired at that time.
fn expired(mute: &mut MuteDevices, device: u32, times: u32, at: i64) -> Mute {
    (0..times).map(|_| mute.expired(place(device), Timestamp(at))).last().unwrap_or_default()
}

#[test]
fn a_bench_doubles_from_a_minute_to_an_hour() {
    let mut mute = MuteDevices::default();
    let minutes: Vec<_> =
        (1..=12).map(|_| expired(&mut mute, 1, 1, 0).benched_until.map(|until| until.0 / 60_000)).collect();
    let expect = [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60].map(|minutes| (minutes > 0).then_some(minutes));
    assert_eq!(minutes, expect);
    assert!(mute.free(place(1)) && !mute.free(place(1)));
    assert_eq!(expired(&mut mute, 1, 2, 0).benched_until, None, "an answer counts from the beginning");
}

#[test]
fn a_bench_ends_and_what_expired_still_counts() {
    let mut mute = MuteDevices::default();
    expired(&mut mute, 1, 3, 0);
    expired(&mut mute, 2, 3, 10);
    let all = set(0..100);
    assert_eq!(mute.aside(&all, Timestamp(59_999)), set([1, 2]));
    assert_eq!(mute.aside(&all, Timestamp(60_000)), set([2]), "also before its end is noted");
    assert_eq!(mute.next_end(), Some(Timestamp(60_000)));
    assert_eq!(mute.end_due(Timestamp(60_010), 1), [place(1)]);
    assert_eq!(mute.end_due(Timestamp(60_010), 10), [place(2)]);
    assert_eq!((mute.next_end(), mute.aside(&all, Timestamp(0))), (None, DeviceSet::new()));
    assert_eq!(expired(&mut mute, 1, 1, 60_010).benched_until, Some(Timestamp(180_010)));
}

#[test]
fn at_most_a_fifth_of_a_selection_is_set_aside() {
    let mut mute = MuteDevices::default();
    for device in 0..10 {
        expired(&mut mute, device, if device < 2 { 5 } else { 3 }, i64::from(device));
    }
    let aside = |devices: u32| mute.aside(&set(0..devices), Timestamp(20));
    assert_eq!(aside(4), set([]), "a fifth of 4, rounded down");
    assert_eq!(aside(9), set([1]), "of those with most expired picks, the last to come back");
    assert_eq!(aside(14), set([0, 1]));
    assert_eq!(aside(15), set([0, 1, 9]), "then those of the latest bench");
    assert_eq!(aside(100), set(0..10));
    assert_eq!(mute.aside(&set(10..1_000), Timestamp(20)), set([]), "another selection");
}

#[derive(Clone, Debug)]
enum Do {
    Wait(u32),
    Expire(u32),
    Free(u32),
    End,
    Load,
}

fn doing() -> impl Strategy<Value = Do> {
    prop_oneof![
        3 => (0..400_000_u32).prop_map(Do::Wait),
        12 => (0..12_u32).prop_map(Do::Expire),
        2 => (0..12_u32).prop_map(Do::Free),
        2 => Just(Do::End),
        1 => Just(Do::Load),
    ]
}

proptest! {
    #[test]
    fn who_is_set_aside_follows_from_what_expired(
        doings in proptest::collection::vec(doing(), 1..120),
        devices in 1..40_u32,
    ) {
        let mut mute = MuteDevices::default();
        let mut naive: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        let mut now = 0;
        for doing in doings {
            match doing {
                Do::Wait(ms) => now += i64::from(ms),
                Do::Expire(device) => {
                    mute.expired(place(device), Timestamp(now));
                    naive.entry(device).or_default().push(now);
                }
                Do::Free(device) => {
                    prop_assert_eq!(mute.free(place(device)), naive.remove(&device).is_some());
                }
                Do::End => drop(mute.end_due(Timestamp(now), 3)),
                Do::Load => {
                    let mut again = MuteDevices::default();
                    (0..12).for_each(|device| again.put(place(device), mute.of(place(device))));
                    mute = again;
                }
            }
            let mut benched: Vec<(u32, i64, DevicePlace)> = Vec::new();
            for (device, times) in naive.iter().filter(|(device, _)| **device < devices) {
                let minutes = [1, 2, 4, 8, 16, 32, 60];
                let at = times.len().checked_sub(3).map(|further| minutes[further.min(6)] * 60_000);
                let until = at.zip(times.last()).map(|(span, last)| last + span);
                if let Some(until) = until.filter(|until| *until > now) {
                    benched.push((times.len() as u32, until, place(*device)));
                }
            }
            benched.sort_unstable_by(|one, other| other.cmp(one));
            benched.truncate((devices / 5) as usize);
            let expected = device_set::of_places(benched.into_iter().map(|(_, _, place)| place));
            prop_assert_eq!(mute.aside(&set(0..devices), Timestamp(now)), expected);
        }
    }
}
