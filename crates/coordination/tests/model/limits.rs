//! Limits against a plain list of everything that was let through.

use std::time::Duration;

use base::Timestamp;
use coordination::{CoordinationName, LimitKind, LimitRequest, LimitTable, TooManyLimits};
use proptest::prelude::*;

fn name(name: &str) -> CoordinationName {
    CoordinationName::unchecked("a", name)
}

proptest! {
    #[test]
    fn a_smooth_limit_never_lets_more_through_in_any_span(
        limit in 1_u64..40,
        per in 1_u64..2_000,
        asked in proptest::collection::vec((0_u64..200, 1_u64..5), 1..300),
    ) {
        let table = LimitTable::new(16);
        let (mut now, mut let_through) = (Timestamp(1_000_000), Vec::new());
        for (later, cost) in asked {
            now = now.after(Duration::from_millis(later));
            let cost = cost.min(limit);
            let asks = LimitRequest { limit, per: Duration::from_millis(per), cost, kind: LimitKind::Smooth };
            let answer = table.ask(&name("x"), &asks, now).expect("room");
            let quiet = let_through.last().is_none_or(|(at, _)| now.since(*at) >= asks.per);
            prop_assert!(answer.allowed || !quiet, "after a quiet span everything may come");
            if answer.allowed {
                let_through.push((now, cost));
            }
            let in_span = let_through.iter().filter(|(at, _)| now.since(*at) < asks.per);
            let used: u64 = in_span.map(|(_, cost)| cost).sum();
            prop_assert!(used <= limit, "{used} of {limit} in {per} ms");
            prop_assert!(answer.remaining <= limit - used);
            prop_assert_eq!(answer.allowed, answer.retry_after_ms == 0);
            if !answer.allowed {
                let then = now.after(Duration::from_millis(answer.retry_after_ms));
                let later = LimitTable::new(16);
                for (at, cost) in &let_through {
                    let again = LimitRequest { cost: *cost, ..asks };
                    later.ask(&name("x"), &again, *at).expect("room");
                }
                prop_assert!(later.ask(&name("x"), &asks, then).expect("room").allowed);
            }
        }
    }

    #[test]
    fn a_window_counts_in_spans_of_the_clock(
        limit in 1_u64..20,
        per in 1_i64..500,
        asked in proptest::collection::vec((0_u64..100, 1_u64..5), 1..200),
    ) {
        let table = LimitTable::new(16);
        let (mut now, mut let_through) = (Timestamp(1_000_003), Vec::new());
        for (later, cost) in asked {
            now = now.after(Duration::from_millis(later));
            let cost = cost.min(limit);
            let span = Duration::from_millis(per as u64);
            let asks = LimitRequest { limit, per: span, cost, kind: LimitKind::Window };
            let answer = table.ask(&name("x"), &asks, now).expect("room");
            let same = |at: &Timestamp| at.0.div_euclid(per) == now.0.div_euclid(per);
            let before: u64 = let_through.iter().filter(|(at, _)| same(at)).map(|(_, cost)| cost).sum();
            prop_assert_eq!(answer.allowed, before + cost <= limit);
            if answer.allowed {
                let_through.push((now, cost));
            } else {
                prop_assert_eq!(answer.retry_after_ms as i64, per - now.0.rem_euclid(per));
            }
        }
    }
}

#[test]
fn more_than_can_be_counted_is_over_every_limit() {
    let per = Duration::from_secs(60);
    let border = Timestamp(60_000 * 100);
    for kind in LimitKind::ALL {
        for (first, second) in [(u64::MAX, u64::MAX), (u64::MAX, 1), (1, u64::MAX)] {
            let table = LimitTable::new(16);
            let ask = |cost, at| {
                let asks = LimitRequest { limit: u64::MAX, per, cost, kind };
                table.ask(&name("x"), &asks, at).expect("room")
            };
            let answer = ask(first, border);
            assert!(answer.allowed && answer.remaining == u64::MAX - first, "{kind:?} {first}: {answer:?}");
            let refused = ask(second, border);
            assert!(!refused.allowed, "{kind:?} {first} {second}: {refused:?}");
            assert_eq!((refused.remaining, refused.retry_after_ms), (u64::MAX - first, 60_000));
            let then = border.after(Duration::from_millis(refused.retry_after_ms));
            assert!(ask(second, then).allowed, "{kind:?} {first} {second}");
        }
    }
}

#[test]
fn unused_limits_make_room_for_others() {
    let table = LimitTable::new(1);
    let asks = LimitRequest { limit: 1, per: Duration::from_secs(1), cost: 1, kind: LimitKind::Smooth };
    let mut full = false;
    for number in 0..1_000 {
        full |= table.ask(&name(&number.to_string()), &asks, Timestamp(0)) == Err(TooManyLimits);
    }
    assert!(full && table.len() <= 16, "{}", table.len());
    for number in 1_000..1_100 {
        let then = Timestamp(10_000 + 2_000 * number);
        table.ask(&name(&number.to_string()), &asks, then).expect("what nobody uses goes");
    }
}

#[test]
fn a_caller_that_looked_at_the_clock_before_others_counts_in_their_window() {
    let table = LimitTable::new(16);
    let per = Duration::from_secs(60);
    let asks = LimitRequest { limit: 2, per, cost: 1, kind: LimitKind::Window };
    let border = Timestamp(60_000 * 100);
    let ask = |at| table.ask(&name("x"), &asks, at).expect("room").allowed;
    let answers = [border, Timestamp(border.0 - 1), border, border].map(ask);
    assert_eq!(answers, [true, true, false, false]);
}

#[test]
fn while_two_versions_of_a_program_ask_neither_begins_at_nothing() {
    let asks = |kind, secs, limit| LimitRequest { limit, per: Duration::from_secs(secs), cost: 1, kind };
    for (one, other) in [
        (asks(LimitKind::Window, 60, 4), asks(LimitKind::Window, 120, 4)),
        (asks(LimitKind::Window, 60, 4), asks(LimitKind::Smooth, 60, 4)),
        (asks(LimitKind::Smooth, 60, 4), asks(LimitKind::Window, 60, 4)),
    ] {
        let table = LimitTable::new(16);
        let ask = |asked: &LimitRequest| table.ask(&name("x"), asked, Timestamp(60_000 * 100));
        let in_turn = [&one, &other].into_iter().cycle().take(20);
        let allowed = in_turn.filter(|asked| ask(asked).expect("room").allowed).count();
        assert_eq!(allowed, 4, "{one:?} {other:?}");
    }
}
