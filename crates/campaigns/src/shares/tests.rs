//! Shares, beside a model that knows every pick there ever was.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use records::DeviceSlot;

use super::*;
use crate::VirtualClock;

const BEGIN: Timestamp = Timestamp(1_700_000_000_000);

fn place(device: u32) -> DevicePlace {
    DevicePlace { partition: PartitionId((device % 3) as u16), slot: DeviceSlot(device / 3) }
}

fn set(devices: impl IntoIterator<Item = u32>) -> DeviceSet {
    device_set::of_places(devices.into_iter().map(place))
}

#[test]
fn a_pick_counts_from_the_clock_or_from_what_was_reached() {
    let mut shares = Shares::default();
    let rows = shares.picked(&[place(4)], 7 * PICK, BEGIN);
    assert_eq!(rows, [shares.share(place(4)).expect("was picked")]);
    assert_eq!((rows[0].reached, rows[0].last_picked_at), (8 * PICK, BEGIN));
    assert_eq!(shares.picked(&[place(4)], 7 * PICK, BEGIN)[0].reached, 9 * PICK);
    assert_eq!(shares.picked(&[place(4)], 20 * PICK, BEGIN)[0].reached, 21 * PICK);
    assert_eq!((shares.len(), shares.share(place(5))), (1, None));
}

#[test]
fn two_devices_do_not_drift_apart_by_a_tie() {
    // Both reach the same though one of them had a pick more: the clock overtook both.
    let mut shares = Shares::default();
    shares.picked(&[place(1)], 0, BEGIN);
    shares.picked(&[place(2)], 5 * PICK, BEGIN);
    shares.picked(&[place(1)], 5 * PICK, BEGIN);
    assert_eq!(shares.least(&set([1, 2]), 1, 0), [place(2)]);
    shares.picked(&[place(1), place(2)], 9 * PICK, BEGIN);
    assert_eq!(shares.least(&set([1, 2]), 1, 0), [place(2)], "together, in whatever order");
}

#[test]
fn a_device_that_is_gone_is_forgotten() {
    let mut shares = Shares::default();
    shares.picked(&[place(1), place(2)], 0, BEGIN);
    (0..3).for_each(|_| assert!(shares.expired(place(1), BEGIN).is_some()));
    assert!(shares.forget(place(1)) && !shares.forget(place(1)));
    assert_eq!((shares.share(place(1)), shares.expired(place(1), BEGIN)), (None, None));
    assert_eq!((shares.len(), shares.mute().next_end()), (1, None));
    assert_eq!(shares.least(&set([2]), 5, 0), [place(2)]);
}

/// What happens between two picks of a group of devices that are always in the same selections.
#[derive(Clone, Debug)]
struct Step {
    wait_ms: u32,
    connected: Option<u32>,
    /// A task picks so many of the group and of others with these numbers, or of the others alone.
    count: u32,
    others: u32,
    has_group: bool,
    goes: Option<u32>,
    starts_anew: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![Just(0), 1..2_000_u32, 0..600_000_u32, 0..8_000_000_u32];
    let happens = (proptest::option::of(0..100_000_u32), proptest::option::of(0..OTHERS));
    (wait, happens, 1..12_u32, 0..4_u32, any::<bool>(), proptest::bool::weighted(0.05)).prop_map(
        |(wait_ms, (connected, goes), count, others, has_group, starts_anew)| Step {
            wait_ms,
            connected,
            count,
            others,
            has_group,
            goes,
            starts_anew,
        },
    )
}

/// Other devices, which come and go; the group has numbers behind them.
const OTHERS: u32 = 40;

/// Every pick, as a list would tell it.
#[derive(Default)]
struct Naive {
    reached: BTreeMap<DevicePlace, (u64, u64)>,
    picks: BTreeMap<DevicePlace, u32>,
    turn: u64,
}

impl Naive {
    /// The ranks of the candidates, lowest first; of newcomers 0.
    fn ranks(&self, candidates: &[u32]) -> Vec<(u64, u64)> {
        let of = |device: &u32| self.reached.get(&place(*device)).copied().unwrap_or_default();
        let mut ranks: Vec<_> = candidates.iter().map(of).collect();
        ranks.sort_unstable();
        ranks
    }

    fn picked(&mut self, devices: &[DevicePlace], reads: u64) {
        for device in devices {
            let reached = self.reached.entry(*device).or_default();
            self.turn += 1;
            *reached = (reached.0.max(reads) + PICK, self.turn);
            *self.picks.entry(*device).or_default() += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn devices_of_the_same_selections_are_never_more_than_one_pick_apart(
        members in 2..30_u32,
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut now = BEGIN;
        let (mut clock, mut shares) = (VirtualClock::new(None, now), Shares::default());
        let (mut naive, mut generation) = (Naive::default(), vec![0; OTHERS as usize]);
        let mut stored_clock = None;
        let group: Vec<u32> = (0..members).map(|member| 1_000_000 + member).collect();
        for (seed, step) in steps.iter().enumerate() {
            now = now.after(Duration::from_millis(u64::from(step.wait_ms)));
            if let Some(connected) = step.connected {
                clock.compute(u64::from(connected), now);
            }
            if let Some(gone) = step.goes {
                // A slot is never used again: whoever comes in its place has another one.
                shares.forget(place(gone + generation[gone as usize] * OTHERS));
                naive.reached.remove(&place(gone + generation[gone as usize] * OTHERS));
                generation[gone as usize] += 1;
            }
            if step.starts_anew {
                let stored = naive.reached.keys().filter_map(|place| shares.share(*place));
                shares = Shares::load(stored.collect::<Vec<_>>());
                clock = VirtualClock::new(stored_clock.clone(), now);
            }
            let present = (0..OTHERS).filter(|other| other % 4 < step.others);
            let mut candidates: Vec<_> =
                present.map(|other| other + generation[other as usize] * OTHERS).collect();
            if step.has_group {
                candidates.extend(&group);
            }
            let picked = shares.least(&set(candidates.iter().copied()), step.count, seed as u64);
            let mut expected = naive.ranks(&candidates);
            expected.truncate(step.count as usize);
            let of = |place: &DevicePlace| naive.reached.get(place).copied().unwrap_or_default();
            prop_assert_eq!(picked.iter().map(of).collect::<Vec<_>>(), expected, "the least are picked");
            prop_assert_eq!(device_set::len(&device_set::of_places(picked.clone())), picked.len() as u64);
            let reads = clock.reads(now);
            clock.task_began(now);
            clock.picked(picked.len() as u32, now);
            let rows = shares.picked(&picked, reads, now);
            naive.picked(&picked, reads);
            // The clock's record goes into the batch of the picks.
            stored_clock = clock.take_change().or(stored_clock);
            prop_assert!(rows.iter().all(|row| naive.reached[&row.place].0 == row.reached));
            let picks = group.iter().map(|member| naive.picks.get(&place(*member)).copied().unwrap_or(0));
            let (fewest, most) = (picks.clone().min(), picks.max());
            prop_assert!(most <= fewest.map(|fewest| fewest + 1), "{:?} to {:?} picks", fewest, most);
        }
    }
}
