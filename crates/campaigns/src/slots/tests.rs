//! Slots, beside a list of all slots there are.

use proptest::prelude::*;

use super::*;

const HOUR: i64 = 3_600_000;
/// A full hour.
const NOON: i64 = 472_222 * HOUR;

fn plan(pace: CampaignPace, count: u32) -> SlotPlan {
    SlotPlan { pace, count, phase_ms: 0, from: None, until: None }
}

#[test]
fn slots_lie_on_the_clock() {
    let every = plan(CampaignPace::Every(300_000), 7);
    let next = every.next(every.newest_due(Timestamp(NOON + 1))).expect("there is always another");
    assert_eq!((next.due_at, next.wanted), (Timestamp(NOON + 300_000), 7));
    assert_eq!(every.newest_due(next.due_at), Some(next.number));
    assert_eq!(every.newest_due(Timestamp(next.due_at.0 - 1)), Some(next.number - 1));
    let shifted = SlotPlan { phase_ms: 12_000, ..every };
    assert_eq!(shifted.slot(next.number).due_at, Timestamp(NOON + 312_000));
    assert_eq!(every.newest_due(Timestamp(-1)), None);
}

#[test]
fn a_total_is_spread_over_the_slots_of_its_period() {
    let over = plan(CampaignPace::Over(3_600_000), 90);
    let first = over.newest_due(Timestamp(NOON)).expect("is after the epoch");
    let slots: Vec<_> = (first..first + 4).map(|number| over.slot(number)).collect();
    assert_eq!(slots.iter().map(|slot| slot.wanted).collect::<Vec<_>>(), [1, 2, 1, 2]);
    assert_eq!(
        slots.iter().map(|slot| slot.due_at.0 - NOON).collect::<Vec<_>>(),
        [0, 60_000, 120_000, 180_000]
    );
    let one = plan(CampaignPace::Over(3_600_000), 1);
    let next = one.next(Some(first)).expect("there is always another");
    assert_eq!(next.due_at, Timestamp(NOON + 59 * 60_000), "slots that want none are passed over");
}

#[test]
fn who_drops_out_is_replaced_for_the_length_of_a_slot() {
    let secs = Duration::from_secs;
    for (pace, answer_timeout, expect) in [
        (CampaignPace::Every(5_000), secs(1), secs(5)),
        (CampaignPace::Every(5_000), secs(10), secs(10)),
        (CampaignPace::Every(300_000), secs(10), secs(60)),
        (CampaignPace::Over(7_200_000), secs(90), secs(90)),
        (CampaignPace::Over(60_000), secs(1), secs(1)),
    ] {
        assert_eq!(plan(pace, 5).replaced_for(answer_timeout), expect, "{pace:?}");
    }
}

#[test]
fn a_slot_begins_on_time_or_is_missed() {
    let plan = plan(CampaignPace::Every(300_000), 7);
    let passed = plan.newest_due(Timestamp(NOON));
    let step = |missed, ms| plan.step(passed, missed, Timestamp(NOON + ms));
    let slot = |nth: u64| plan.slot(passed.expect("is after the epoch") + nth);
    assert_eq!(step(MissedSlots::Skip, 299_999), SlotStep::Wait(slot(1)));
    assert_eq!(step(MissedSlots::Skip, 300_000), SlotStep::Begin(slot(1)));
    assert_eq!(step(MissedSlots::Skip, 359_999), SlotStep::Begin(slot(1)));
    assert_eq!(step(MissedSlots::Skip, 360_000), SlotStep::Skip(slot(1)));
    assert_eq!(step(MissedSlots::CatchUp, 599_999), SlotStep::Begin(slot(1)));
    assert_eq!(step(MissedSlots::CatchUp, 600_000), SlotStep::Skip(slot(1)), "only the newest");
    let ended = SlotPlan { until: Some(Timestamp(NOON + 600_000)), ..plan };
    assert_eq!(ended.step(Some(slot(1).number), MissedSlots::Skip, Timestamp(NOON)), SlotStep::Over);
    let missed = ended.step(passed, MissedSlots::CatchUp, Timestamp(NOON + HOUR));
    assert_eq!(missed, SlotStep::Begin(slot(1)), "the newest that there was");
}

#[test]
fn of_a_long_outage_the_newest_slots_are_told_of() {
    let plan = plan(CampaignPace::Every(1_000), 1);
    let begin = plan.newest_due(Timestamp(NOON)).expect("is after the epoch");
    let (mut passed, mut skipped) = (begin, 0);
    let now = Timestamp(NOON + 24 * HOUR);
    while let SlotStep::Skip(slot) = plan.step(Some(passed), MissedSlots::Skip, now) {
        (passed, skipped) = (slot.number, skipped + 1);
    }
    assert_eq!(skipped, SKIPPED_MAX);
    assert_eq!(plan.step(Some(passed), MissedSlots::Skip, now), SlotStep::Begin(plan.slot(begin + 86_400)));
}

fn pace() -> impl Strategy<Value = CampaignPace> {
    prop_oneof![
        (1_000..400_000_u64).prop_map(CampaignPace::Every),
        (60_000..9_000_000_u64).prop_map(CampaignPace::Over),
    ]
}

proptest! {
    #[test]
    fn the_sum_of_every_period_is_exact(
        count in prop_oneof![0..200_u32, 0..=u32::MAX],
        over in 60_000..40_000_000_000_u64,
        period in 0..50_000_u64,
        phase_ms in 0..100_000_u64,
    ) {
        let plan = SlotPlan { phase_ms, ..plan(CampaignPace::Over(over), count) };
        let slots: Vec<_> = (period * 60..=(period + 1) * 60).map(|number| plan.slot(number)).collect();
        let sum: u64 = slots[..60].iter().map(|slot| u64::from(slot.wanted)).sum();
        prop_assert_eq!(sum, u64::from(count));
        let even = count / 60;
        prop_assert!(slots.iter().all(|slot| slot.wanted == even || slot.wanted == even + 1));
        prop_assert_eq!((slots[60].due_at.0 - slots[0].due_at.0).cast_unsigned(), over);
        prop_assert_eq!((slots[0].due_at.0.cast_unsigned() - phase_ms) % over, 0, "on the clock");
        let length = plan.length().as_millis() as i64;
        let lengths = slots.windows(2).map(|pair| pair[1].due_at.0 - pair[0].due_at.0);
        prop_assert!(lengths.clone().all(|of| of == length || of == length + 1), "equal slots");
    }

    #[test]
    fn every_slot_begins_once_or_is_skipped(
        pace in pace(),
        (count, phase_ms) in (1..200_u32, 0..60_000_u64),
        begin in 0..HOUR,
        (from, until) in (proptest::option::of(0..20 * HOUR), proptest::option::of(0..40 * HOUR)),
        catches_up in any::<bool>(),
        looks in proptest::collection::vec(prop_oneof![4 => 0..30_000_i64, 1 => 0..HOUR], 1..60),
    ) {
        let at = |ms: Option<i64>| ms.map(|ms| Timestamp(NOON + ms));
        let plan = SlotPlan { pace, count, phase_ms, from: at(from), until: at(until) };
        let missed = if catches_up { MissedSlots::CatchUp } else { MissedSlots::Skip };
        let mut now = Timestamp(NOON + begin);
        let mut passed = plan.newest_due(now);
        let first = passed.map_or(0, |number| number + 1);
        let mut done = Vec::new();
        for wait in looks {
            let last_look = now;
            now = Timestamp(now.0 + wait);
            loop {
                match plan.step(passed, missed, now) {
                    SlotStep::Begin(slot) => {
                        let late = now.0 - slot.due_at.0;
                        let is_on_time = late < 60_000.min(plan.length().as_millis() as i64);
                        prop_assert!(late >= 0 && (is_on_time || catches_up));
                        done.push(slot);
                        passed = Some(slot.number);
                    }
                    SlotStep::Skip(slot) => {
                        prop_assert!(slot.due_at > last_look && slot.due_at <= now);
                        done.push(slot);
                        passed = Some(slot.number);
                    }
                    SlotStep::Wait(slot) => {
                        prop_assert!(slot.due_at > now);
                        break;
                    }
                    SlotStep::Over => break,
                }
            }
        }
        let is_within = |slot: &Slot| {
            slot.due_at <= now
                && plan.from.is_none_or(|from| slot.due_at >= from)
                && plan.until.is_none_or(|until| slot.due_at < until)
                && slot.wanted > 0
        };
        let all = (first..).map(|number| plan.slot(number)).take_while(|slot| slot.due_at <= now);
        let all: Vec<_> = all.collect();
        if all.len() <= SKIPPED_MAX as usize {
            prop_assert_eq!(done, all.into_iter().filter(is_within).collect::<Vec<_>>());
        }
    }
}
