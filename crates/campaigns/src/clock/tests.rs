//! The clock, beside one that is computed from all minutes that ever were.

use proptest::prelude::*;

use super::*;

fn at(ms: i64) -> Timestamp {
    Timestamp(1_700_000_000_000 + ms)
}

fn began(now: Timestamp) -> VirtualClock {
    VirtualClock::new(None, now)
}

#[test]
fn before_the_first_pick_it_advances_by_a_pick_in_a_minute() {
    let mut clock = began(at(0));
    clock.compute(50_000, at(0));
    assert_eq!(clock.reads(at(0)), 0);
    assert_eq!(clock.reads(at(60_000)), PICK);
    assert_eq!(clock.reads(at(30_000)), PICK / 2);
    let fairness = FairnessStats { connected: 50_000, avg_picked: 0.0, avg_tasks: 0.0, punishment: 1.0 };
    assert_eq!(clock.fairness(50_000, at(0)), fairness);
}

#[test]
fn punishment_follows_from_the_last_hour() {
    let mut clock = began(at(0));
    for minute in 0..60 {
        for _ in 0..2 {
            clock.task_began(at(minute * 60_000));
            clock.picked(100, at(minute * 60_000));
        }
    }
    let now = at(59 * 60_000);
    clock.compute(10_000, now);
    let fairness = FairnessStats { connected: 10_000, avg_picked: 100.0, avg_tasks: 2.0, punishment: 50.0 };
    assert_eq!(clock.fairness(10_000, now), fairness);
    assert_eq!(clock.reads(now.after(COMPUTED_EVERY * 50)) - clock.reads(now), PICK);
    clock.compute(10, now);
    assert_eq!(clock.punishment_in_force_milli(), 1_000, "never below 1");
    let later = now.after(Duration::from_secs(3_600));
    clock.compute(10_000, later);
    assert_eq!(clock.punishment_in_force_milli(), 1_000, "the hour has no pick");
}

#[test]
fn a_weight_drops_with_picks_and_recovers_up_to_one() {
    let mut clock = began(at(0));
    clock.task_began(at(0));
    clock.picked(60, at(0));
    clock.compute(40, at(0));
    assert_eq!(clock.punishment_in_force_milli(), 40_000);
    let reached = clock.reads(at(0)) + PICK;
    assert!((clock.weight(reached, at(0)) - 0.96).abs() < 1e-12);
    assert!((clock.weight(reached, at(10 * 60_000)) - 0.97).abs() < 1e-12, "0.001 a minute");
    assert_eq!(clock.weight(reached, at(40 * 60_000)), 1.0);
    assert_eq!(clock.weight(0, at(0)), 1.0);
}

#[test]
fn it_is_stored_when_it_has_changed() {
    let mut clock = began(at(0));
    assert!(clock.take_change().is_none(), "nothing was picked");
    clock.compute(5, at(1));
    assert!(clock.take_change().is_none(), "punishment is the same");
    clock.picked(1, at(2));
    let stored = clock.take_change().expect("a pick counts");
    clock.compute(5, at(3));
    let stored = clock.take_change().unwrap_or(stored);
    let again = VirtualClock::new(Some(stored), at(100_000));
    assert_eq!(again.reads(at(100_000)), clock.reads(at(100_000)));
    assert_eq!((again.due_at(at(100_000)), clock.due_at(at(4))), (at(100_000), at(60_003)));
}

#[derive(Clone, Debug)]
struct Step {
    wait_ms: u32,
    picks: u32,
    connected: u32,
    computes: bool,
    starts_anew: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let waits = prop_oneof![Just(0), 1..100_u32, 0..200_000_u32, 0..4_000_000_u32];
    (waits, 0..300_u32, 0..3_000_000_u32, any::<bool>(), proptest::bool::weighted(0.1)).prop_map(
        |(wait_ms, picks, connected, computes, starts_anew)| Step {
            wait_ms,
            picks,
            connected,
            computes,
            starts_anew,
        },
    )
}

proptest! {
    #[test]
    fn it_advances_at_its_pace_without_a_jump(steps in proptest::collection::vec(step(), 1..60)) {
        let mut now = at(0);
        let mut clock = began(now);
        let mut picks: Vec<(Timestamp, u32)> = Vec::new();
        let (mut exact, mut punishment, mut sets) = (0.0, 1.0, 0.0);
        for step in steps {
            now = now.after(Duration::from_millis(u64::from(step.wait_ms)));
            exact += f64::from(step.wait_ms) / 60_000.0 / punishment;
            if step.starts_anew {
                let stored = clock.record.clone();
                clock = VirtualClock::new(Some(stored), now);
            }
            let before = clock.reads(now);
            clock.task_began(now);
            clock.picked(step.picks, now);
            picks.push((now, step.picks));
            if step.computes {
                clock.compute(u64::from(step.connected), now);
                let hour: u64 = picks
                    .iter()
                    .filter(|(at, _)| minute_of(*at) + 60 > minute_of(now))
                    .map(|(_, picks)| u64::from(*picks))
                    .sum();
                let share = f64::from(step.connected) / (hour as f64 / 60.0);
                punishment = if hour == 0 { 1.0 } else { share.max(1.0) };
                let milli = clock.punishment_in_force_milli() as f64;
                prop_assert!((milli - punishment * 1_000.0).abs() <= 1.0);
                punishment = milli / 1_000.0;
                sets += 1.0;
            }
            prop_assert_eq!(clock.reads(now), before, "no jump");
            let error = exact * PICK as f64 - before as f64;
            prop_assert!((-1e-3..=1.001 + sets * 16.7).contains(&error), "{error}");
            prop_assert!(clock.record.minutes.len() <= 60);
        }
    }
}
