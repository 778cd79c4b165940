//! The history of readings over days: every page is that of a plain list.

use base::random::Random;
use base::{Timestamp, Value, WayIn};
use records::{DeviceSlot, Op, PartitionHead, Reading, Sign, SignReading};

use super::{Make, PARTITION, Subject, next, put};
use crate::port::{Page, ReadingKey};

const DAY_MS: i64 = 86_400_000;
const START: i64 = 20_000 * DAY_MS;
const DAYS: i64 = 6;
/// Far enough apart that they do not share all that neighbours may share.
const SLOTS: [u32; 5] = [0, 1, 200, 255, 700];

/// What each device should have, in the order of its feed.
type Lists = [Vec<Reading>; SLOTS.len()];

/// Some readings of each device, late ones among them.
fn some(head: &PartitionHead, random: &mut Random, lists: &mut Lists) -> Vec<Op> {
    let mut ops = Vec::new();
    for (slot, list) in SLOTS.into_iter().zip(lists) {
        for _ in 0..random.below(12) {
            let late = if random.below(8) == 0 { 3 * DAY_MS } else { 60_000 };
            let ts = Timestamp(head.now.0 - random.below(late as u64) as i64);
            let value = match random.below(3) {
                0 => Value::from_canonical(["true", "\"open\"", "{\"a\":[1,2]}"][random.below(3) as usize]),
                _ => Value::Number(random.below(2) as f64),
            };
            let (number, changed) = (list.len() as u32 + 1, random.below(2) == 0);
            let reading = Some(SignReading { ts: Some(ts), value: value.clone(), changed });
            let (slot, way) = (DeviceSlot(slot), WayIn::Amqp);
            ops.push(Op::Sign(Sign { slot, way, readings: number, newest_ts: None, reading }));
            list.push(Reading { number, ts, value, changed });
        }
        list.sort_by_key(|reading| (reading.ts, reading.number));
    }
    ops
}

fn key(reading: &Reading) -> ReadingKey {
    ReadingKey { ts: reading.ts, number: reading.number }
}

/// What the page should hold.
fn expected(list: &[Reading], page: Page<ReadingKey>) -> Vec<Reading> {
    let in_times = list.iter().filter(|reading| page.from <= reading.ts && reading.ts < page.to).cloned();
    let is_behind = |reading: &Reading| match page.after {
        Some(after) if page.ascending => key(reading) > after,
        Some(after) => key(reading) < after,
        None => true,
    };
    if page.ascending {
        in_times.filter(is_behind).take(page.limit).collect()
    } else {
        in_times.rev().filter(is_behind).take(page.limit).collect()
    }
}

fn look(subject: &dyn Subject, random: &mut Random, lists: &Lists, context: &str) {
    let view = subject.store().view(PARTITION).expect("opens");
    let some_time =
        |random: &mut Random| Timestamp(START + random.below(((DAYS + 1) * DAY_MS) as u64) as i64);
    for (slot, list) in SLOTS.into_iter().zip(lists) {
        for _ in 0..4 {
            let has_bounds = random.below(2) == 0;
            let from = if has_bounds { some_time(random) } else { Timestamp(i64::MIN) };
            let to = if has_bounds { some_time(random) } else { Timestamp::MAX };
            let after = list.get(random.below(80) as usize).map(key);
            let limit = [1, 7, 40, 1_000][random.below(4) as usize];
            let page = Page { from, to, ascending: random.below(2) == 0, after, limit };
            let found = view.readings(DeviceSlot(slot), page).expect("reads");
            assert_eq!(found, expected(list, page), "{context} slot {slot} {page:?}");
            let mut times = Vec::new();
            view.reading_times(DeviceSlot(slot), from, to, &mut |ts| times.push(ts)).expect("reads");
            times.sort_unstable();
            let of_times = list.iter().map(|reading| reading.ts).filter(|ts| from <= *ts && *ts < to);
            assert!(times.into_iter().eq(of_times), "{context} slot {slot} {from:?} {to:?}");
        }
    }
}

/// Whatever the store does with what it has, for days and over restarts.
pub fn readings_of_many_days_are_those_of_a_plain_list(make: Make<'_>) {
    for seed in 0..3 {
        let (mut subject, mut random) = (make(), Random::new(seed));
        let mut lists = Lists::default();
        let mut head = PartitionHead { next_slot: 701, ..PartitionHead::default() };
        for quarter in 0..DAYS * 4 {
            head.now = Timestamp(START + quarter * DAY_MS / 4);
            let ops = some(&head, &mut random, &mut lists);
            put(&mut *subject, next(&mut head, ops));
            match random.below(8) {
                0 => subject.restart(),
                turn => subject.churn(turn / 2),
            }
            look(&*subject, &mut random, &lists, &format!("seed {seed} quarter {quarter}"));
        }
        (1..10).for_each(|turn| subject.churn(turn));
        look(&*subject, &mut random, &lists, &format!("seed {seed} at the end"));
    }
}
