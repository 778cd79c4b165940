//! The wheel, beside an hour that is lived through.

use base::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::slots::SlotPlan;

use CampaignPace::{Every, Over};

const NOON: i64 = 472_222 * 3_600_000;

/// How many devices the campaigns pick in each minute of an hour.
fn lived(campaigns: &[(CampaignPace, u32, u64)]) -> [u64; MINUTES] {
    let mut minutes = [0; MINUTES];
    for (pace, count, phase_ms) in campaigns.iter().copied() {
        let plan = SlotPlan { pace, count, phase_ms, from: None, until: None };
        let first = plan.newest_due(Timestamp(NOON - 1)).expect("is after the epoch") + 1;
        let slots = (first..).map(|number| plan.slot(number));
        for slot in slots.take_while(|slot| slot.due_at.0 < NOON + 3_600_000) {
            minutes[(slot.due_at.0 - NOON) as usize / 60_000] += u64::from(slot.wanted);
        }
    }
    minutes
}

/// The fullest minute in which the campaign has a slot, before it comes.
fn fullest(minutes: &[u64; MINUTES], pace: CampaignPace, count: u32, phase_ms: u64) -> u64 {
    let own = lived(&[(pace, count, phase_ms)]);
    (0..MINUTES).filter(|minute| own[*minute] > 0).map(|minute| minutes[minute]).max().unwrap_or(0)
}

#[test]
fn campaigns_of_an_hour_lie_an_equal_way_apart() {
    let (mut wheel, mut campaigns) = (PhaseWheel::default(), Vec::new());
    for _ in 0..150 {
        let phase_ms = wheel.choose(Every(3_600_000), 10);
        wheel.add(Every(3_600_000), 10, phase_ms);
        campaigns.push((Every(3_600_000), 10, phase_ms));
    }
    let minutes = lived(&campaigns);
    assert!(minutes.iter().all(|minute| (20..=30).contains(minute)), "{minutes:?}");
}

#[test]
fn ten_thousand_campaigns_level_the_minutes() {
    let (mut wheel, mut campaigns) = (PhaseWheel::default(), Vec::new());
    for nth in 0..10_000_u32 {
        let minutes = [5, 10, 15, 20, 30, 60][nth as usize % 6];
        let (pace, count) = match nth % 4 {
            0 => (Over(3_600_000), nth % 50 + 1),
            _ => (Every(minutes * 60_000), nth % 200 + 1),
        };
        let phase_ms = wheel.choose(pace, count);
        assert!(phase_ms < crate::slots::period_ms(pace));
        wheel.add(pace, count, phase_ms);
        campaigns.push((pace, count, phase_ms));
    }
    let minutes = lived(&campaigns);
    assert_eq!(minutes, wheel.minutes);
    let (least, most) = (minutes.iter().min(), minutes.iter().max());
    assert!(most <= least.map(|least| least + 400).as_ref(), "{least:?} to {most:?}");
    let mut seconds: Vec<_> = wheel.seconds.to_vec();
    seconds.sort_unstable();
    assert!(seconds[0] > 0, "seconds are used too");
    for (pace, count, phase_ms) in campaigns {
        wheel.remove(pace, count, phase_ms);
    }
    assert_eq!(wheel.seconds.iter().sum::<u64>() + wheel.minutes.iter().sum::<u64>(), 0);
}

#[test]
fn slots_that_drift_over_the_hour_have_no_phase() {
    for (pace, count) in [(Every(1_001), 5), (Over(61_111), 300), (Over(61_111), 5)] {
        let mut wheel = PhaseWheel::default();
        wheel.add(pace, count, 0);
        assert_eq!((wheel.choose(pace, count), wheel.minutes), (0, [0; MINUTES]), "{pace:?}");
    }
}

fn campaign() -> impl Strategy<Value = (CampaignPace, u32)> {
    let every = (proptest::sample::select(vec![1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60]), 1..100_u32)
        .prop_map(|(minutes, count)| (Every(minutes * 60_000), count));
    let seconds = (proptest::sample::select(vec![1, 5, 15, 90]), 1..100_u32)
        .prop_map(|(seconds, count)| (Every(seconds * 1_000), count));
    let over = (proptest::sample::select(vec![1, 5, 10, 60]), prop_oneof![1..60_u32, Just(60), Just(600)])
        .prop_map(|(minutes, count)| (Over(minutes * 60_000), count));
    prop_oneof![every, seconds, over]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_emptiest_minutes_are_chosen(
        others in proptest::collection::vec((campaign(), 0..3_600_000_u64), 0..20),
        (pace, count) in campaign(),
    ) {
        let mut wheel = PhaseWheel::default();
        let others: Vec<_> = others.into_iter().map(|((pace, count), phase)| (pace, count, phase)).collect();
        others.iter().for_each(|(pace, count, phase_ms)| wheel.add(*pace, *count, *phase_ms));
        let minutes = lived(&others);
        prop_assert_eq!(minutes, wheel.minutes);
        let chosen = wheel.choose(pace, count);
        let best = (0..60).map(|minute| fullest(&minutes, pace, count, minute * 60_000)).min();
        prop_assert!(Some(fullest(&minutes, pace, count, chosen)) <= best);
        prop_assert_eq!(chosen, wheel.choose(pace, count));
    }
}
