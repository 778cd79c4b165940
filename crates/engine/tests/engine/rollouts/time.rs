//! Rollouts over days: windows that shut in the middle, and how long a rollout is kept.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use base::Clock;
use engine::{DevicePatch, OnlyIf, Patch};
use records::RolloutWindow;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A clock that goes on by itself, and leaps when the test says so.
struct Leaping {
    began: Instant,
    ahead_ms: AtomicI64,
}

impl Leaping {
    fn at(time: &str) -> Arc<Self> {
        let at = Timestamp::parse(time).expect("a time");
        Arc::new(Self { began: Instant::now(), ahead_ms: AtomicI64::new(at.0) })
    }

    fn leap(&self, span: Duration, fleet: &Fleet) {
        self.ahead_ms.fetch_add(span.as_millis() as i64, Ordering::SeqCst);
        fleet.engine.clocks_stepped();
    }
}

impl Clock for Leaping {
    fn now(&self) -> Timestamp {
        Timestamp(self.ahead_ms.load(Ordering::SeqCst)).after(self.began.elapsed())
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

async fn fleet_by(clock: &Arc<Leaping>, devices: usize) -> Fleet {
    let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
    let fleet = Fleet::start_by(&store, Arc::clone(clock) as Arc<dyn Clock>).await;
    fleet.register(devices, devices).await;
    fleet
}

#[tokio::test]
async fn a_window_that_shuts_takes_back_what_did_not_go_out_and_opens_again() {
    let clock = Leaping::at("2026-03-01T02:30:00Z");
    let fleet = fleet_by(&clock, 6).await;
    // Four devices are busy with another command: what the rollout hands out waits behind it.
    for number in 0..4 {
        let mut busy = NewCommand::new(Arc::from(&b"1"[..]));
        busy.ack_timeout = Some(30 * DAY);
        fleet.engine.commands().send(id(number), busy).await.expect("sent");
    }
    let window = RolloutWindow { cron: "0 2 * * *".into(), for_ms: HOUR.as_millis() as u64, tz: None };
    let rollout = fleet
        .begin(|new| {
            let RolloutWork::Command(command) = &mut new.work else { return };
            command.ack_timeout_ms = Some(30 * DAY.as_millis() as u64);
            new.window = Some(window);
        })
        .await;
    let stand = |status| fleet.count(&rollout, status);
    until(|| stand(MemberStatus::Scheduled) == 4 && stand(MemberStatus::Published) == 2).await;
    clock.leap(HOUR, &fleet);
    until(|| stand(MemberStatus::Waiting) == 4).await;
    assert_eq!(stand(MemberStatus::Published), 2, "what went out is with its device");
    until(|| fleet.rollout(&rollout).waits_for() == RolloutWait::Window).await;
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    until(|| stand(MemberStatus::Acknowledged) == 2).await;
    fleet.leave(0).await;
    fleet.come(0).await;
    assert_eq!(fleet.published().len(), 6, "nothing goes out while the window is shut");
    clock.leap(DAY - HOUR, &fleet);
    until(|| fleet.published().len() == 10).await;
    fleet.answer_all(&mut answered, true).await;
    until(|| fleet.rollout(&rollout).state.standing == RolloutStanding::Done).await;
}

#[tokio::test]
async fn a_stage_soaks_and_then_waits_for_its_approval() {
    let clock = Leaping::at("2026-03-01T02:30:00Z");
    let fleet = fleet_by(&clock, 20).await;
    let stage = RolloutStage { share_ppm: 100_000, soak_ms: HOUR.as_millis() as u64, approve: true };
    let rollout = fleet.begin(|new| new.stages = vec![stage]).await;
    until(|| fleet.published().len() == 2).await;
    assert_eq!(fleet.rollout(&rollout).waits_for(), RolloutWait::Nothing);
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    until(|| fleet.rollout(&rollout).waits_for() == RolloutWait::Soak).await;
    clock.leap(HOUR, &fleet);
    until(|| fleet.rollout(&rollout).waits_for() == RolloutWait::Approval).await;
    assert_eq!(fleet.rollout(&rollout).status(), RolloutStatus::Waiting);
    fleet.engine.rollouts().call(&rollout, RolloutCall::Pause).await.expect("paused");
    assert_eq!(fleet.rollout(&rollout).waits_for(), RolloutWait::Nothing, "it does not go on");
}

#[tokio::test]
async fn an_early_approval_is_noted_over_a_restart_and_the_stage_soaks_all_the_same() {
    let clock = Leaping::at("2026-03-01T02:30:00Z");
    let fleet = fleet_by(&clock, 20).await;
    let stage = RolloutStage { share_ppm: 100_000, soak_ms: HOUR.as_millis() as u64, approve: true };
    let rollout = fleet.begin(|new| new.stages = vec![stage]).await;
    fleet.engine.rollouts().call(&rollout, RolloutCall::Approve).await.expect("noted");
    until(|| fleet.published().len() == 2).await;
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    until(|| fleet.rollout(&rollout).waits_for() == RolloutWait::Soak).await;
    assert_eq!((fleet.rollout(&rollout).state.stage, fleet.published().len()), (0, 2));
    fleet.engine.stop().await;
    let fleet = Fleet::start_by(&fleet.store, Arc::clone(&clock) as Arc<dyn Clock>).await;
    for number in 0..20 {
        fleet.come(number).await;
    }
    assert_eq!(fleet.rollout(&rollout).state.stage, 0);
    assert!(fleet.published().is_empty(), "it soaks");
    clock.leap(HOUR, &fleet);
    until(|| fleet.published().len() == 18).await;
    fleet.answer_until(&rollout, RolloutStanding::Done, true).await;
}

#[tokio::test]
async fn a_stage_that_adds_no_device_soaks_and_waits_for_its_approval() {
    let clock = Leaping::at("2026-03-01T02:30:00Z");
    let fleet = fleet_by(&clock, 10).await;
    let stage = |share_ppm, approve| RolloutStage { share_ppm, soak_ms: HOUR.as_millis() as u64, approve };
    let stages = vec![stage(10_000, false), stage(100_000, true)];
    let rollout = fleet.begin(|new| new.stages = stages).await;
    until(|| fleet.published().len() == 1).await;
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    let stands = |stage, waits_for| {
        let tracked = fleet.rollout(&rollout);
        (tracked.state.stage, tracked.waits_for()) == (stage, waits_for)
    };
    until(|| stands(0, RolloutWait::Soak)).await;
    clock.leap(HOUR, &fleet);
    until(|| stands(1, RolloutWait::Soak)).await;
    clock.leap(HOUR, &fleet);
    until(|| stands(1, RolloutWait::Approval)).await;
    assert_eq!(fleet.published().len(), 1);
    fleet.engine.rollouts().call(&rollout, RolloutCall::Approve).await.expect("approved");
    until(|| fleet.published().len() == 10).await;
    fleet.answer_until(&rollout, RolloutStanding::Done, true).await;
}

#[tokio::test]
async fn a_stage_whose_devices_are_absent_goes_on_once_they_expire() {
    let clock = Leaping::at("2026-03-01T02:30:00Z");
    let fleet = fleet_by(&clock, 0).await;
    fleet.register(10, 0).await;
    let stage = RolloutStage { share_ppm: 100_000, soak_ms: 0, approve: false };
    let rollout = fleet
        .begin(|new| {
            let RolloutWork::Command(command) = &mut new.work else { return };
            command.ttl_ms = Some(HOUR.as_millis() as u64);
            new.stages = vec![stage];
        })
        .await;
    let devices = fleet.engine.queries().rollout_devices(&rollout, None, None, 1).expect("readable");
    let first = &devices[0].place.device;
    for number in (0..10).filter(|number| id(*number) != *first) {
        fleet.come(number).await;
    }
    until(|| fleet.rollout(&rollout).state.passed_at.is_some()).await;
    assert_eq!(fleet.published().len(), 0, "the stage waits for its device");
    clock.leap(HOUR, &fleet);
    until(|| fleet.published().len() == 9).await;
    assert_eq!(fleet.count(&rollout, MemberStatus::Expired), 1);
    fleet.answer_until(&rollout, RolloutStanding::Done, true).await;
}

#[tokio::test]
async fn a_device_that_moves_to_another_time_zone_has_its_window_there() {
    let clock = Leaping::at("2026-03-01T02:30:00Z");
    let fleet = fleet_by(&clock, 1).await;
    let move_to = async |tz: Option<&str>| {
        let labels = Patch::Set(vec![("tz".to_owned(), tz.map(str::to_owned))]);
        let patch = DevicePatch { labels, ..DevicePatch::default() };
        fleet.engine.patch_device(id(0), patch, OnlyIf::default()).await.expect("changed");
    };
    move_to(Some("Asia/Tokyo")).await;
    let window = RolloutWindow { cron: "0 2 * * *".into(), for_ms: HOUR.as_millis() as u64, tz: None };
    let rollout = fleet.begin(|new| new.window = Some(window)).await;
    until(|| fleet.rollout(&rollout).waits_for() == RolloutWait::Window).await;
    assert_eq!(fleet.published().len(), 0);
    move_to(None).await;
    until(|| fleet.published().len() == 1).await;
}

#[tokio::test]
async fn a_window_that_shuts_after_a_restart_or_before_it_takes_back_what_did_not_go_out() {
    for is_down in [false, true] {
        let clock = Leaping::at("2026-03-01T02:30:00Z");
        let fleet = fleet_by(&clock, 4).await;
        for number in 0..4 {
            let mut busy = NewCommand::new(Arc::from(&b"1"[..]));
            busy.ack_timeout = Some(30 * DAY);
            fleet.engine.commands().send(id(number), busy).await.expect("sent");
        }
        let window = RolloutWindow { cron: "0 2 * * *".into(), for_ms: HOUR.as_millis() as u64, tz: None };
        let rollout = fleet.begin(|new| new.window = Some(window)).await;
        until(|| fleet.count(&rollout, MemberStatus::Scheduled) == 4).await;
        fleet.engine.stop().await;
        if is_down {
            clock.leap(HOUR, &fleet);
        }
        let fleet = Fleet::start_by(&fleet.store, Arc::clone(&clock) as Arc<dyn Clock>).await;
        if !is_down {
            clock.leap(HOUR, &fleet);
        }
        until(|| fleet.count(&rollout, MemberStatus::Waiting) == 4).await;
    }
}

#[tokio::test]
async fn a_rollout_that_has_ended_is_kept_as_long_as_commands_are() {
    let clock = Leaping::at("2026-03-01T02:30:00Z");
    let fleet = fleet_by(&clock, 3).await;
    let rollout = fleet.begin(|_| {}).await;
    fleet.answer_until(&rollout, RolloutStanding::Done, true).await;
    let open = fleet.begin(|new| new.include_later = true).await;
    let keep = fleet.engine.settings().commands.keep;
    clock.leap(keep - HOUR, &fleet);
    let probe = NewDevice { id: "probe".to_owned(), ..NewDevice::default() };
    fleet.engine.create_device(probe).await.expect("registered");
    until(|| fleet.rollout(&open).state.counts.total() == 4).await;
    assert_eq!(fleet.rollout(&rollout).state.counts.total(), 3, "it is shown still");
    clock.leap(2 * HOUR, &fleet);
    until(|| fleet.engine.queries().rollout(&rollout).expect("readable").is_none()).await;
    let devices = fleet.engine.queries().rollout_devices(&rollout, None, None, 9);
    assert_eq!(devices.map_err(|problem| problem.code), Err("unknown_rollout"), "with its devices");
    assert_eq!(fleet.rollout(&open).state.counts.total(), 4, "one that goes on is kept");
}
