//! The rate, beside a list of all that waits.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

use PickClass::{Enterprise, Large, Ordinary};

const MINUTE: i64 = 60_000;

fn rate(per_second: u32, now: i64) -> PickRate {
    PickRate::new(NonZeroU32::new(per_second), Timestamp(now))
}

fn task(number: u64) -> Incarnation {
    Incarnation(number)
}

#[test]
fn without_a_rate_all_goes_at_once_in_the_order_of_classes() {
    let mut rate = rate(0, 0);
    rate.add(task(1), Ordinary, Timestamp(0), 2);
    rate.add(task(2), Large, Timestamp(0), 3);
    assert_eq!(rate.next_at(Timestamp(0)), Some(Timestamp(0)));
    assert_eq!(rate.take(100, Timestamp(0)), [(task(2), 3), (task(1), 2)]);
    assert_eq!((rate.next_at(Timestamp(0)), rate.take(100, Timestamp(0))), (None, vec![]));
}

#[test]
fn an_older_minute_of_the_same_class_comes_first() {
    let mut rate = rate(0, 0);
    rate.add(task(5), Large, Timestamp(2 * MINUTE), 1);
    rate.add(task(6), Large, Timestamp(MINUTE + 59_999), 1);
    rate.add(task(4), Large, Timestamp(2 * MINUTE + 1), 1);
    rate.add(task(3), Ordinary, Timestamp(0), 1);
    let taken = rate.take(100, Timestamp(2 * MINUTE));
    assert_eq!(taken, [(task(6), 1), (task(4), 1), (task(5), 1), (task(3), 1)]);
}

#[test]
fn each_class_gets_a_tenth() {
    let mut rate = rate(0, 0);
    for (number, class) in [(1, Large), (2, Enterprise), (3, Ordinary)] {
        rate.add(task(number), class, Timestamp(0), 1_000);
    }
    let taken = rate.take(1_000, Timestamp(0));
    let of = |number| taken.iter().filter(|(of, _)| *of == task(number)).map(|(_, picks)| picks).sum::<u32>();
    assert_eq!((of(1) + of(2) + of(3), of(2).min(of(3)) >= 100, of(1) >= 700), (1_000, true, true));
    assert_eq!(rate.waiting(Large), u64::from(1_000 - of(1)));
    assert_eq!((rate.remove(task(1)), rate.remove(task(1))), (1_000 - of(1), 0));
    assert_eq!(rate.waiting(Large), 0);
}

#[test]
fn picks_are_spread_over_the_second() {
    let mut rate = rate(100, 0);
    rate.add(task(1), Large, Timestamp(0), 1_000);
    assert_eq!(rate.take(1_000, Timestamp(0)), [(task(1), 1)]);
    assert_eq!(rate.next_at(Timestamp(0)), Some(Timestamp(10)));
    assert_eq!(rate.take(1_000, Timestamp(9)), []);
    assert_eq!(rate.take(1_000, Timestamp(30)), [(task(1), 3)]);
    assert_eq!(rate.take(1_000, Timestamp(60_000)), [(task(1), 10)], "a break is not made up for");
}

#[derive(Clone, Debug)]
enum Do {
    Wait(u32),
    Add { number: u64, class: PickClass, age: u32, picks: u32 },
    Remove(u64),
    Take(u32),
}

fn doing() -> impl Strategy<Value = Do> {
    let class = proptest::sample::select(PickClass::ALL.to_vec());
    prop_oneof![
        4 => (0..1_500_u32).prop_map(Do::Wait),
        4 => (0..12_u64, class, 0..200_000_u32, 0..60_u32)
            .prop_map(|(number, class, age, picks)| Do::Add { number, class, age, picks }),
        1 => (0..12_u64).prop_map(Do::Remove),
        6 => (1..40_u32).prop_map(Do::Take),
    ]
}

/// What waits, and all that was taken.
#[derive(Default)]
struct Naive {
    waiting: BTreeMap<u64, (PickClass, i64, u32)>,
    taken_at: Vec<i64>,
    /// Picks of others since a class that waits had one.
    passed_by: [u32; CLASSES],
}

impl Naive {
    fn take(&mut self, taken: Incarnation, now: i64) -> Result<(), TestCaseError> {
        let (class, minute, _) = self.waiting[&taken.0];
        let older = self.waiting.iter().filter(|(_, other)| other.0 == class);
        let first = older.map(|(number, other)| (other.1, *number)).min();
        prop_assert_eq!(first, Some((minute, taken.0)), "the older one of its class is first");
        let was_passed_by = self.passed_by[class as usize];
        let highest = self.waiting.values().map(|(class, ..)| *class).min();
        prop_assert!(highest == Some(class) || was_passed_by == PASSED_BY_MAX || was_passed_by == 9);
        for other in PickClass::ALL {
            let waits = self.waiting.values().any(|(of, ..)| *of == other);
            let passed_by = &mut self.passed_by[other as usize];
            *passed_by = if waits && other != class { *passed_by + 1 } else { 0 };
            prop_assert!(*passed_by <= 9, "{:?} starves", other);
        }
        let left = self.waiting.get_mut(&taken.0).expect("it waits");
        left.2 -= 1;
        if left.2 == 0 {
            self.waiting.remove(&taken.0);
        }
        self.taken_at.push(now);
        Ok(())
    }
}

proptest! {
    #[test]
    fn nobody_starves_and_the_rate_holds(
        per_second in proptest::option::of(1..200_u32),
        doings in proptest::collection::vec(doing(), 1..150),
    ) {
        let mut now = 1_000_000_i64;
        let mut rate = rate(per_second.unwrap_or(0), now);
        let mut naive = Naive::default();
        for doing in doings {
            match doing {
                Do::Wait(ms) => now += i64::from(ms),
                Do::Add { number, class, age, picks } => {
                    let due_at = now - i64::from(age);
                    rate.add(task(number), class, Timestamp(due_at), picks);
                    if picks > 0 {
                        naive.waiting.entry(number).or_insert((class, due_at / MINUTE, 0)).2 += picks;
                    }
                }
                Do::Remove(number) => {
                    let left = naive.waiting.remove(&number).map_or(0, |(_, _, picks)| picks);
                    prop_assert_eq!(rate.remove(task(number)), left);
                    for class in PickClass::ALL {
                        if !naive.waiting.values().any(|(of, ..)| *of == class) {
                            naive.passed_by[class as usize] = 0;
                        }
                    }
                }
                Do::Take(most) => {
                    let next_at = rate.next_at(Timestamp(now));
                    prop_assert_eq!(next_at.is_none(), naive.waiting.is_empty());
                    let mut some = 0;
                    // One by one, to see the order.
                    for _ in 0..most {
                        let taken = rate.take(1, Timestamp(now));
                        let Some((of, 1)) = taken.first().copied() else { break };
                        naive.take(of, now)?;
                        some += 1;
                    }
                    prop_assert_eq!(some > 0, next_at == Some(Timestamp(now)));
                    prop_assert!(per_second.is_some() || some == most || naive.waiting.is_empty());
                }
            }
            for class in PickClass::ALL {
                let waiting = naive.waiting.values().filter(|(of, ..)| *of == class);
                let picks: u64 = waiting.map(|(_, _, picks)| u64::from(*picks)).sum();
                prop_assert_eq!(rate.waiting(class), picks);
            }
        }
        let Some(per_second) = per_second else { return Ok(()) };
        for (at, first) in naive.taken_at.iter().enumerate() {
            for (last, end) in naive.taken_at.iter().enumerate().skip(at) {
                let most = f64::from(per_second) / 1_000.0 * (end - first + 100) as f64 + 1.0;
                prop_assert!((last - at + 1) as f64 <= most);
            }
        }
    }
}

#[test]
fn a_pick_that_is_dropped_takes_nothing_of_the_rate() {
    let mut rate = rate(1, 0);
    let (first, second) = (task(1), task(2));
    rate.add(first, Large, Timestamp(0), 2);
    rate.add(second, Large, Timestamp(0), 1);
    rate.drop_one(first);
    assert_eq!(rate.waiting(Large), 2);
    rate.drop_one(first);
    rate.drop_one(first);
    assert_eq!(rate.waiting(Large), 1);
    assert_eq!(rate.take(10, Timestamp(0)), [(second, 1)]);
}
