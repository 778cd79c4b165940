//! Limits in the lives of a process, against a sliding count of all that was let through.
//!
//! One limit is asked in several ways, by callers that looked at the clock before others did. The
//! engine clock runs faster and slower after a wall clock that is set. What was let through is gone
//! with the process, and the clock of the next one may start behind it.

use std::time::Duration;

use base::Timestamp;
use coordination::{CoordinationName, LimitDecision, LimitKind, LimitRequest, LimitTable};
use proptest::prelude::*;

/// The engine clock is faster or slower than time by at most one part in so many.
const SLEW_PARTS: i64 = 10;
/// What was recorded of the engine clock is older than a process's end by so much, in milliseconds.
const RECORDED_BEFORE: i64 = 700;

#[derive(Clone, Debug)]
enum LimitEvent {
    /// Somebody who looked at the clock `ago` milliseconds before asks in one of the ways.
    Ask {
        way: usize,
        cost: u64,
        ago: i64,
    },
    Pass(i64),
    SetWall(i64),
    /// The process dies, and another starts so many milliseconds later.
    Kill(i64),
}

fn events() -> impl Strategy<Value = LimitEvent> {
    prop_oneof![
        24 => (0_usize..3, 1_u64..6, 0_i64..4)
            .prop_map(|(way, cost, ago)| LimitEvent::Ask { way, cost, ago }),
        10 => (0_i64..120).prop_map(LimitEvent::Pass),
        2 => (0_i64..9_000).prop_map(LimitEvent::Pass),
        2 => (-5_000_i64..5_000).prop_map(LimitEvent::SetWall),
        1 => (0_i64..500).prop_map(LimitEvent::Kill),
    ]
}

/// Ways of asking: each with a limit, a span and a kind.
fn ways() -> impl Strategy<Value = Vec<LimitRequest>> {
    let kind = prop_oneof![2 => Just(LimitKind::Smooth), 1 => Just(LimitKind::Window)];
    let way = (1_u64..30, 1_u64..2_000, kind).prop_map(|(limit, per_ms, kind)| LimitRequest {
        limit,
        per: Duration::from_millis(per_ms),
        cost: 1,
        kind,
    });
    proptest::collection::vec(way, 1..=3)
}

/// Both clocks of a machine.
struct LimitClocks {
    engine: i64,
    wall: i64,
}

impl LimitClocks {
    fn pass(&mut self, ms: i64) {
        let ahead = self.wall - self.engine;
        self.wall += ms;
        self.engine += ms + ahead.clamp(-ms / SLEW_PARTS, ms / SLEW_PARTS);
    }

    /// A process is gone, and another starts `ms` later.
    fn restart_after(&mut self, ms: i64) {
        self.wall += ms;
        self.engine = self.wall.max(self.engine - RECORDED_BEFORE);
    }
}

/// A way of asking that the process knows.
#[derive(Clone, Copy)]
struct KnownWay {
    /// The first that counts for it, of all that was let through.
    from: usize,
    asked_at: Timestamp,
}

/// What callers saw of one life of a process.
struct LimitLife {
    ways: Vec<LimitRequest>,
    known: Vec<Option<KnownWay>>,
    let_through: Vec<(Timestamp, u64)>,
    /// Who looked at the clock before others did is answered when they were.
    asked_at: Timestamp,
}

impl LimitLife {
    fn new(ways: &[LimitRequest]) -> Self {
        let known = vec![None; ways.len()];
        Self { ways: ways.to_vec(), known, let_through: Vec::new(), asked_at: Timestamp(i64::MIN) }
    }

    /// Once nothing counts for any way of asking, the limit may be forgotten with all of them.
    fn forget_unused(&mut self, now: Timestamp) {
        let latest = self.let_through.last().map_or(Timestamp(i64::MIN), |(at, _)| *at);
        let counts = |(known, way): (&Option<KnownWay>, &LimitRequest)| {
            known.is_some_and(|known| counts_until(way, known.asked_at.max(latest)) > now)
        };
        if !self.known.iter().zip(&self.ways).any(counts) {
            self.known.fill(None);
        }
    }

    /// What the rule of a way of asking counts now.
    fn used(&self, asked: &LimitRequest, from: usize, now: Timestamp) -> u64 {
        let counted = self.let_through[from..].iter().filter(|(at, _)| counts_until(asked, *at) > now);
        counted.map(|(_, cost)| cost).sum()
    }

    /// Holds an answer against all that was let through before.
    fn check(
        &mut self,
        way: usize,
        asked: &LimitRequest,
        looked_at: Timestamp,
        answer: &LimitDecision,
    ) -> Result<(), TestCaseError> {
        let now = looked_at.max(self.asked_at);
        self.asked_at = now;
        self.forget_unused(now);
        let from = self.known[way].map_or(self.let_through.len(), |known| known.from);
        self.known[way] = Some(KnownWay { from, asked_at: now });
        let is_quiet = self.is_quiet(now);
        prop_assert!(answer.allowed || !is_quiet, "nothing counts any more for {asked:?}: {answer:?}");
        if answer.allowed {
            self.let_through.push((now, asked.cost));
        }
        let used = self.used(asked, from, now);
        let is_within = !answer.allowed || used <= asked.limit;
        prop_assert!(is_within, "{used} at {now:?}, by the rule {asked:?}: {:?}", self.let_through);
        prop_assert!(answer.remaining <= asked.limit.saturating_sub(used), "{used}: {answer:?}");
        prop_assert_eq!(answer.allowed, answer.retry_after_ms == 0);
        Ok(())
    }

    /// Whether nothing can count any more. A way that is new begins with what another one counts,
    /// as if it came now: that may take a span for each way.
    fn is_quiet(&self, now: Timestamp) -> bool {
        let longest = self.ways.iter().map(|way| way.per).max().unwrap_or_default();
        let spans = longest * (1 + self.ways.len() as u32);
        self.let_through.iter().all(|(at, _)| at.after(spans) <= now)
    }
}

/// Until when something that came at `at` counts.
fn counts_until(asked: &LimitRequest, at: Timestamp) -> Timestamp {
    let per_ms = asked.per.as_millis() as i64;
    match asked.kind {
        LimitKind::Smooth => at.after(asked.per),
        LimitKind::Window => Timestamp(at.0.div_euclid(per_ms).saturating_add(1).saturating_mul(per_ms)),
    }
}

proptest! {
    #[test]
    fn no_way_of_asking_lets_more_through_than_its_rule_says(
        ways in ways(),
        events in proptest::collection::vec(events(), 1..400),
    ) {
        let name = CoordinationName::unchecked("a", "x");
        let mut clocks = LimitClocks { engine: 1_000_000, wall: 1_000_000 };
        let (mut table, mut life) = (LimitTable::new(16), LimitLife::new(&ways));
        for event in events {
            match event {
                LimitEvent::Ask { way, cost, ago } => {
                    let way = way % ways.len();
                    let asked = LimitRequest { cost: cost.min(ways[way].limit), ..ways[way] };
                    let looked_at = Timestamp(clocks.engine - ago);
                    let answer = table.ask(&name, &asked, looked_at).expect("room");
                    life.check(way, &asked, looked_at, &answer)?;
                }
                LimitEvent::Pass(ms) => clocks.pass(ms),
                LimitEvent::SetWall(ms) => clocks.wall += ms,
                LimitEvent::Kill(ms) => {
                    clocks.restart_after(ms);
                    (table, life) = (LimitTable::new(16), LimitLife::new(&ways));
                }
            }
        }
    }
}

#[test]
fn what_is_let_through_against_a_rule_is_found() {
    let asked = all_in(LimitKind::Smooth, 60);
    let allowed = LimitDecision { allowed: true, remaining: 0, retry_after_ms: 0 };
    let refused = LimitDecision { allowed: false, retry_after_ms: 1, ..allowed };
    for (after_ms, answer, is_right) in [
        (59_999, &allowed, false),
        (60_000, &allowed, true),
        (59_999, &refused, true),
        (120_000, &refused, false),
    ] {
        let mut life = LimitLife::new(&[asked]);
        life.check(0, &asked, Timestamp(0), &allowed).expect("nothing came before");
        let checked = life.check(0, &asked, Timestamp(after_ms), answer);
        assert_eq!(checked.is_ok(), is_right, "{answer:?} after {after_ms} ms: {checked:?}");
    }
}

/// All of a limit, in a span of so many seconds.
fn all_in(kind: LimitKind, secs: u64) -> LimitRequest {
    LimitRequest { limit: 5, per: Duration::from_secs(secs), cost: 5, kind }
}

#[test]
fn what_a_long_span_counts_is_kept_while_others_ask_with_a_shorter_one() {
    // Where a minute begins.
    const BEGIN: i64 = 6_000_000;
    for (kind, free_after_ms) in [(LimitKind::Smooth, 59_600), (LimitKind::Window, 57_000)] {
        let (table, name) = (LimitTable::new(16), CoordinationName::unchecked("a", "x"));
        let ask = |secs, at| table.ask(&name, &all_in(kind, secs), Timestamp(BEGIN + at)).expect("room");
        assert!(ask(60, 0).allowed, "{kind:?}");
        // A window that is new does not know when in the longer one something came.
        let _either = ask(1, 1_500);
        assert!(ask(1, 2_600).allowed, "{kind:?}: for the short span nothing counts any more");
        let refused = ask(60, 3_000);
        assert_eq!((refused.allowed, refused.retry_after_ms), (false, free_after_ms), "{kind:?}");
        assert!(ask(60, 3_000 + free_after_ms as i64).allowed, "{kind:?}");
    }
}

#[test]
fn a_long_span_counts_what_others_were_let_through_since_it_was_asked() {
    let (table, name) = (LimitTable::new(16), CoordinationName::unchecked("a", "x"));
    let ask = |asked: &LimitRequest, at| table.ask(&name, asked, Timestamp(at)).expect("room").allowed;
    let long = LimitRequest { limit: 7, cost: 1, ..all_in(LimitKind::Smooth, 60) };
    assert!(ask(&long, 0));
    assert!(ask(&all_in(LimitKind::Window, 1), 1_000));
    assert_eq!([70, 71].map(|at| ask(&long, at * 100)), [true, false], "six counted before");
    assert!(ask(&all_in(LimitKind::Smooth, 1), 66_500), "in its second nothing came before");
    assert!(!ask(&LimitRequest { cost: 3, ..long }, 68_500), "five of seven came two seconds before");
}
