//! The rules, beside a naive model of them.

use base::{Incarnation, Timestamp};
use proptest::prelude::*;
use records::{RolloutStage, RolloutStop, RolloutWork};

use super::*;

use MemberStatus as M;

fn rollout() -> Rollout {
    Rollout::of("r", Incarnation(1), RolloutWork::Entries(Vec::new()))
}

/// A rollout whose devices are known.
fn with_devices(rollout: &Rollout, devices: u64) -> RolloutState {
    let mut state = begin(rollout);
    (0..devices).for_each(|_| added(&mut state));
    collected(rollout, &mut state, Timestamp(0));
    state
}

fn hand_out(rollout: &Rollout, state: &mut RolloutState, now: i64, count: u64) {
    (0..count).for_each(|_| handed_out(rollout, state, Timestamp(now)));
}

fn end(rollout: &Rollout, state: &mut RolloutState, now: i64, to: M, count: u64) {
    (0..count).for_each(|_| moved(rollout, state, Timestamp(now), (M::Scheduled, to), true));
}

/// Whether a stage ends in which somebody waits: only absent devices, or not.
fn idle_end(rollout: &Rollout, state: &RolloutState, is_idle: bool, now: i64) -> StageEnd {
    let backlog = if is_idle { StageBacklog::Absent } else { StageBacklog::Due };
    stage_end(rollout, state, backlog, Timestamp(now))
}

#[test]
fn a_rate_is_spread_evenly_and_a_break_is_not_made_up_for() {
    let rollout = Rollout { rate: Some(60), ..rollout() };
    let mut state = with_devices(&rollout, 100);
    let at = |state: &RolloutState, now| allowance(&rollout, state, Timestamp(now));
    assert_eq!(at(&state, 500_000), HandOutAllowance::Now(1));
    hand_out(&rollout, &mut state, 500_000, 1);
    assert_eq!(at(&state, 500_000), HandOutAllowance::At(Timestamp(501_000)));
    assert_eq!(at(&state, 501_300), HandOutAllowance::Now(1));
    hand_out(&rollout, &mut state, 501_300, 1);
    assert_eq!(at(&state, 501_300), HandOutAllowance::At(Timestamp(502_000)), "being late does not add up");
    assert_eq!(at(&state, 900_000), HandOutAllowance::Now(1));
}

#[test]
fn a_stage_ends_after_its_last_answer_and_an_approval() {
    let stage = RolloutStage { share_ppm: 100_000, soak_ms: 1_000, approve: true };
    let rollout = Rollout { stages: vec![stage], ..rollout() };
    let mut state = with_devices(&rollout, 30);
    let end_at = |state: &RolloutState, is_idle, now| idle_end(&rollout, state, is_idle, now);
    assert_eq!(
        allowance(&rollout, &state, Timestamp(5)),
        HandOutAllowance::None,
        "its devices are not known"
    );
    assert_eq!(stage_devices(&stage, 30), 3);
    state.boundary = Some(77);
    assert!(may_have_turn(&rollout, &state, 77) && !may_have_turn(&rollout, &state, 78));
    assert_eq!(end_at(&state, true, 9_000), StageEnd::Open, "nobody was reached");
    hand_out(&rollout, &mut state, 5, 2);
    assert_eq!(end_at(&state, true, 9_000), StageEnd::Open);
    end(&rollout, &mut state, 100, M::Acknowledged, 1);
    end(&rollout, &mut state, 200, M::Failed, 1);
    assert_eq!(end_at(&state, false, 9_000), StageEnd::Open, "another one can be reached");
    assert_eq!(end_at(&state, true, 1_000), StageEnd::Soaks(Timestamp(1_200)));
    assert_eq!(end_at(&state, true, 1_200), StageEnd::NeedsApproval);
    assert_eq!(approve(&rollout, &mut state), Ok(()));
    assert_eq!(end_at(&state, true, 1_200), StageEnd::Now);
    next_stage(&mut state, Timestamp(1_200));
    assert_eq!(end_at(&state, true, 1_200), StageEnd::None);
    assert_eq!(approve(&rollout, &mut state), Err(CallRefused::NothingToApprove));
    assert!(may_have_turn(&rollout, &state, u64::MAX));
}

#[test]
fn an_early_approval_is_noted_and_makes_a_stage_no_shorter() {
    let stage = |share_ppm| RolloutStage { share_ppm, soak_ms: 1_000, approve: true };
    let rollout = Rollout { stages: vec![stage(100_000), stage(500_000)], ..rollout() };
    let mut state = with_devices(&rollout, 30);
    state.boundary = Some(77);
    let end_at = |state: &RolloutState, is_idle, now| idle_end(&rollout, state, is_idle, now);
    assert_eq!(approve(&rollout, &mut state), Ok(()));
    assert_eq!(end_at(&state, false, 1), StageEnd::Open, "its devices have not had their turns");
    assert_eq!(end_at(&state, true, 9_000), StageEnd::Open, "nobody was reached");
    hand_out(&rollout, &mut state, 5, 2);
    assert_eq!(end_at(&state, true, 9_000), StageEnd::Open);
    end(&rollout, &mut state, 100, M::Acknowledged, 1);
    assert_eq!(end_at(&state, true, 9_000), StageEnd::Open, "one owes an answer");
    end(&rollout, &mut state, 200, M::Acknowledged, 1);
    assert_eq!(approve(&rollout, &mut state), Ok(()), "once more is the same");
    assert_eq!(end_at(&state, true, 1_199), StageEnd::Soaks(Timestamp(1_200)));
    assert_eq!(end_at(&state, true, 1_200), StageEnd::Now);
    next_stage(&mut state, Timestamp(1_200));
    hand_out(&rollout, &mut state, 1_300, 1);
    end(&rollout, &mut state, 1_400, M::Acknowledged, 1);
    assert_eq!(end_at(&state, true, 9_000), StageEnd::NeedsApproval, "it was for the first stage");
}

#[test]
fn a_stage_that_has_nobody_left_soaks_from_its_beginning() {
    let stage = |share_ppm, approve| RolloutStage { share_ppm, soak_ms: 1_000, approve };
    let stages = vec![stage(10_000, false), stage(100_000, true)];
    let rollout = Rollout { stages, created_at: Timestamp(50), ..rollout() };
    let mut state = with_devices(&rollout, 10);
    let end_at = |state: &RolloutState, now| stage_end(&rollout, state, StageBacklog::Empty, Timestamp(now));
    hand_out(&rollout, &mut state, 60, 1);
    assert_eq!(end_at(&state, 9_000), StageEnd::Open, "one is in flight");
    moved(&rollout, &mut state, Timestamp(70), (M::Scheduled, M::Cancelled), false);
    assert_eq!(end_at(&state, 70), StageEnd::Soaks(Timestamp(1_050)));
    assert_eq!(end_at(&state, 1_050), StageEnd::Now);
    next_stage(&mut state, Timestamp(1_050));
    assert_eq!(end_at(&state, 1_060), StageEnd::Soaks(Timestamp(2_050)), "it has no device of its own");
    assert_eq!(end_at(&state, 2_050), StageEnd::NeedsApproval);
    assert_eq!(approve(&rollout, &mut state), Ok(()));
    assert_eq!(end_at(&state, 2_050), StageEnd::Now);
}

#[test]
fn a_stage_has_one_device_at_least() {
    for (share_ppm, devices, expect) in
        [(10_000, 20, 1), (10_000, 100, 1), (10_000, 101, 2), (500_000, 3, 2), (1_000_000, 7, 7), (1, 0, 1)]
    {
        let stage = RolloutStage { share_ppm, soak_ms: 0, approve: false };
        assert_eq!(stage_devices(&stage, devices), expect, "{share_ppm} of {devices}");
    }
}

#[test]
fn too_many_failures_stop_it_and_absent_devices_are_none() {
    let stop = RolloutStop { failed_ppm: 100_000, after: 10 };
    let rollout = Rollout { stop: Some(stop), ..rollout() };
    let mut state = with_devices(&rollout, 100);
    hand_out(&rollout, &mut state, 1, 30);
    end(&rollout, &mut state, 2, M::Failed, 9);
    assert_eq!(state.standing, RolloutStanding::Running, "too few to judge");
    end(&rollout, &mut state, 3, M::Acknowledged, 1);
    assert_eq!(state.standing, RolloutStanding::Stopped);
    assert_eq!(allowance(&rollout, &state, Timestamp(4)), HandOutAllowance::None);
    assert!(takes_back(&state));
    assert_eq!(resume(&rollout, &mut state, Timestamp(4)), Ok(()));
    end(&rollout, &mut state, 5, M::Acknowledged, 9);
    end(&rollout, &mut state, 5, M::Failed, 1);
    assert_eq!(state.standing, RolloutStanding::Running, "a tenth is not more than a tenth");
    for _ in 0..5 {
        moved(&rollout, &mut state, Timestamp(6), (M::Scheduled, M::Expired), false);
    }
    assert_eq!(state.standing, RolloutStanding::Running, "what never went out is no failure");
}

#[test]
fn it_is_done_when_every_device_has_ended() {
    let rollout = rollout();
    let mut state = with_devices(&rollout, 2);
    hand_out(&rollout, &mut state, 1, 2);
    end(&rollout, &mut state, 2, M::Acknowledged, 1);
    assert_eq!(state.standing, RolloutStanding::Running);
    end(&rollout, &mut state, 3, M::Failed, 1);
    assert_eq!((state.standing, state.ended_at), (RolloutStanding::Done, Some(Timestamp(3))));
    assert_eq!(pause(&mut state), Err(CallRefused::HasEnded(RolloutStanding::Done)));
    moved(&rollout, &mut state, Timestamp(4), (M::Failed, M::Scheduled), true);
    assert_eq!(state.standing, RolloutStanding::Running, "somebody tries one anew");
    let later = Rollout { include_later: true, ..rollout };
    assert_eq!(with_devices(&later, 0).standing, RolloutStanding::Running);
}

#[derive(Clone, Debug)]
enum Do {
    Wait(u16),
    HandOut,
    Publish(usize),
    End(usize, bool),
    TakeBack(usize),
    Pause,
    Resume,
}

fn what_happens() -> impl Strategy<Value = Do> {
    prop_oneof![
        3 => (0..3_000_u16).prop_map(Do::Wait),
        6 => Just(Do::HandOut),
        4 => any::<usize>().prop_map(Do::Publish),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(of, ok)| Do::End(of, ok)),
        1 => any::<usize>().prop_map(Do::TakeBack),
        1 => Just(Do::Pause),
        1 => Just(Do::Resume),
    ]
}

/// The same rollout, told from all that ever happened to each device.
struct Naive {
    statuses: Vec<M>,
    handed_at: Vec<i64>,
    ended: Vec<bool>,
    is_paused: bool,
    is_stopped: bool,
}

impl Naive {
    fn pick(&self, of: usize, wanted: M) -> Option<usize> {
        let those: Vec<usize> = (0..self.statuses.len()).filter(|at| self.statuses[*at] == wanted).collect();
        (!those.is_empty()).then(|| those[of % those.len()])
    }

    fn count(&self, status: M) -> usize {
        self.statuses.iter().filter(|one| **one == status).count()
    }

    fn judge(&mut self, stop: RolloutStop) {
        let failed = self.ended.iter().filter(|ok| !**ok).count() as f64;
        let all = self.ended.len();
        let runs = !self.is_paused && !self.is_stopped;
        let share = f64::from(stop.failed_ppm) / 1e6;
        self.is_stopped |= runs && all >= stop.after as usize && failed / all as f64 > share + 1e-12;
    }

    /// Both do the same thing at that time.
    fn both(&mut self, doing: &Do, rollout: &Rollout, state: &mut RolloutState, now: i64) {
        let at = Timestamp(now);
        match *doing {
            Do::Wait(_) => {}
            Do::HandOut => {
                let HandOutAllowance::Now(most) = allowance(rollout, state, at) else { return };
                assert!(most > 0 && !self.is_paused && !self.is_stopped);
                let first = self.pick(0, M::Waiting).expect("one waits");
                handed_out(rollout, state, at);
                self.statuses[first] = M::Scheduled;
                self.handed_at.push(now);
            }
            Do::Publish(of) => {
                let Some(one) = self.pick(of, M::Scheduled) else { return };
                moved(rollout, state, at, (M::Scheduled, M::Published), true);
                self.statuses[one] = M::Published;
            }
            Do::End(of, ok) => {
                let Some(one) = self.pick(of, M::Published) else { return };
                let to = if ok { M::Acknowledged } else { M::Failed };
                moved(rollout, state, at, (M::Published, to), true);
                self.statuses[one] = to;
                self.ended.push(ok);
                self.judge(rollout.stop.expect("there is a rule"));
            }
            Do::TakeBack(of) => {
                let Some(one) = self.pick(of, M::Scheduled) else { return };
                self.statuses[one] = taken_back(rollout, state, at);
            }
            Do::Pause => {
                pause(state).expect("it goes on");
                self.is_paused |= !self.is_stopped;
            }
            Do::Resume => {
                resume(rollout, state, at).expect("it goes on");
                if self.is_stopped {
                    self.ended.clear();
                }
                (self.is_paused, self.is_stopped) = (false, false);
            }
        }
    }

    fn agrees(&self, rollout: &Rollout, state: &RolloutState) {
        let expect = match (self.is_paused, self.is_stopped) {
            (_, true) => RolloutStanding::Stopped,
            (true, false) => RolloutStanding::Paused,
            (false, false) => RolloutStanding::Running,
        };
        assert_eq!(state.standing, expect);
        for status in M::ALL {
            assert_eq!(state.counts.of(status), self.count(status) as u64, "{status:?}");
        }
        let open = self.count(M::Scheduled) + self.count(M::Published);
        assert!(rollout.in_flight.is_none_or(|max| open <= max as usize));
    }

    /// Of any stretch of time: as many as its minutes allow, and what a second makes up for.
    fn kept_to(&self, rate: u32) {
        let most = |ms: i64| f64::from(rate) / 60_000.0 * (ms + 1_000) as f64 + 2.0;
        for (at, first) in self.handed_at.iter().enumerate() {
            for (last, end) in self.handed_at.iter().enumerate().skip(at) {
                assert!((last - at + 1) as f64 <= most(end - first));
            }
        }
    }
}

proptest! {
    #[test]
    fn the_rules_do_what_a_naive_model_does(
        rate in proptest::option::of(1..5_000_u32),
        in_flight in proptest::option::of(1..5_u32),
        (failed_ppm, after) in (0..1_000_000_u32, 1..6_u32),
        doings in proptest::collection::vec(what_happens(), 1..120),
    ) {
        let stop = RolloutStop { failed_ppm, after };
        let rollout = Rollout { rate, in_flight, stop: Some(stop), include_later: true, ..rollout() };
        let mut state = with_devices(&rollout, 20);
        let mut naive = Naive {
            statuses: vec![M::Waiting; 20],
            handed_at: Vec::new(),
            ended: Vec::new(),
            is_paused: false,
            is_stopped: false,
        };
        let mut now = 10_000_000_i64;
        for doing in doings {
            if let Do::Wait(ms) = doing {
                now += i64::from(ms);
            }
            naive.both(&doing, &rollout, &mut state, now);
            naive.agrees(&rollout, &state);
        }
        rate.iter().for_each(|rate| naive.kept_to(*rate));
    }
}
