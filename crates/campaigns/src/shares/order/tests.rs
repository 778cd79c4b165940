//! Buckets, beside a sorted list.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Do {
    /// A device gets another rank, or its first.
    Put(u32, u32),
    Remove(u32),
    Least(u32, u32),
}

fn doing() -> impl Strategy<Value = Do> {
    prop_oneof![
        6 => (0..300_u32, prop_oneof![0..4_u32, 0..5_000_u32]).prop_map(|(slot, reached)| Do::Put(slot, reached)),
        3 => (0..300_u32).prop_map(Do::Remove),
        1 => (1..6_u32, 0..200_u32).prop_map(|(nth, count)| Do::Least(nth, count)),
    ]
}

fn place(slot: u32) -> DevicePlace {
    DevicePlace { partition: PartitionId((slot % 4) as u16), slot: DeviceSlot(slot / 4) }
}

proptest! {
    #[test]
    fn the_least_are_those_of_a_sorted_list(doings in proptest::collection::vec(doing(), 1..900)) {
        let (mut order, mut ranks) = (RankOrder::default(), ByPlace::default());
        let mut naive: BTreeMap<u32, Rank> = BTreeMap::new();
        for (turn, doing) in doings.into_iter().enumerate() {
            match doing {
                Do::Put(slot, reached) => {
                    let reached = NonZeroU64::new(u64::from(reached) + 1).expect("is above 0");
                    let rank = Rank { reached, turn: LastPick(turn as u64) };
                    if let Some(before) = naive.insert(slot, rank) {
                        order.remove(before, place(slot));
                    }
                    ranks.put(place(slot), rank);
                    order.insert(rank, place(slot), &ranks);
                }
                Do::Remove(slot) => {
                    if let Some(before) = naive.remove(&slot) {
                        ranks.remove(place(slot));
                        order.remove(before, place(slot));
                    }
                }
                Do::Least(nth, count) => {
                    let is_candidate = |slot: &u32| slot.is_multiple_of(nth);
                    let candidates = device_set::of_places((0..300).filter(is_candidate).map(place));
                    let mut expected: Vec<_> = naive
                        .iter()
                        .filter(|(slot, _)| is_candidate(slot))
                        .map(|(slot, rank)| (*rank, place(*slot)))
                        .collect();
                    expected.sort_unstable();
                    expected.truncate(count as usize);
                    prop_assert_eq!(order.least(&candidates, count, &ranks), expected);
                }
            }
            let counts: Vec<_> = order.buckets.values().map(|bucket| bucket.count).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), naive.len());
            prop_assert!(counts.iter().all(|count| *count <= BUCKET_MAX));
            let few = |pair: &[usize]| pair[0] + pair[1] <= MERGED_MAX;
            prop_assert!(!counts.windows(2).any(few), "nearly empty neighbours: {:?}", counts);
        }
        let again = RankOrder::of(naive.iter().map(|(slot, rank)| (*rank, place(*slot))).collect());
        let everybody = device_set::of_places((0..300).map(place));
        prop_assert_eq!(again.least(&everybody, 300, &ranks), order.least(&everybody, 300, &ranks));
    }
}

#[test]
fn a_turn_is_the_time_and_a_number_within_it() {
    let share = |at, turn| PickShare {
        place: place(0),
        reached: 1,
        last_picked_at: Timestamp(at),
        turn,
        expired_in_a_row: 0,
        benched_until: None,
    };
    let first = LastPick::default().next(Timestamp(1_700_000_000_000));
    let second = first.next(Timestamp(1_700_000_000_000));
    let later = second.next(Timestamp(1_700_000_000_001));
    assert_eq!((second.at(), second.within()), (Timestamp(1_700_000_000_000), 1));
    assert_eq!((later.at(), later.within()), (Timestamp(1_700_000_000_001), 0));
    assert_eq!(LastPick::stored(&share(1_700_000_000_000, 1)), second);
    assert!(first < second && second < later && later < later.next(Timestamp(5)));
}
