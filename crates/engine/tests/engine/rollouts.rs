//! Rollouts as the edges hold them: devices that come and answer, restarts, and batches that are
//! lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{DeviceId, EntityId, Lineage, PartitionId, SystemClock, Timestamp, WayIn, hash};
use engine::fleet::Selection;
use engine::presence::{KindSet, Session};
use engine::rollouts::{NewRollout, RolloutStatus};
use engine::{
    Downlink, Engine, NewCommand, NewDevice, PublishedCommand, Report, ReportContent, RolloutCall,
    TrackedRollout,
};
use records::{
    Batch, DisconnectReason, MemberStatus, Op, Rollout, RolloutCommand, RolloutCursor, RolloutEntry,
    RolloutStage, RolloutStanding, RolloutState, RolloutStop, RolloutWait, RolloutWork,
};
use rollouts::MEMBERS_MAX;
use store::{CommitOutcome, MemoryStore, Planned, Store};

use crate::whole::settings;

mod lists;
mod stages;
mod time;

const PARTITIONS: u16 = 4;

/// What went out, in order.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<PublishedCommand>>>);

impl Downlink for Wire {
    fn publish(&self, command: PublishedCommand) {
        self.0.lock().expect("no test panics with it").push(command);
    }
}

struct Fleet {
    store: Arc<MemoryStore>,
    engine: Engine,
    wire: Wire,
}

impl Fleet {
    async fn start(store: &Arc<MemoryStore>) -> Self {
        Self::start_by(store, Arc::new(SystemClock::start(Timestamp(0)))).await
    }

    async fn start_by(store: &Arc<MemoryStore>, clock: Arc<dyn base::Clock>) -> Self {
        let store = Arc::clone(store);
        let engine = Engine::start(settings(), Arc::clone(&store) as Arc<dyn engine::Store>, clock)
            .await
            .expect("loads");
        let wire = Wire::default();
        engine.carry_commands_by(Arc::new(wire.clone()));
        Self { store, engine, wire }
    }

    /// With so many devices, `d000` and on, of which the first come.
    async fn of(devices: usize, present: usize) -> Self {
        let fleet = Self::start(&Arc::new(MemoryStore::new(Lineage(1), PARTITIONS))).await;
        fleet.register(devices, present).await;
        fleet
    }

    async fn register(&self, devices: usize, present: usize) {
        for number in 0..devices {
            let labels = Some(vec![("site".to_owned(), (number % 2).to_string())]);
            let device = NewDevice { id: name(number), labels, ..NewDevice::default() };
            self.engine.create_device(device).await.expect("registered");
        }
        for number in 0..present {
            self.come(number).await;
        }
    }

    async fn come(&self, number: usize) {
        let (presence, session) = (self.engine.presence(), number as u64);
        presence
            .connected(id(number), KindSet::Any, Session { number: session, address: None, label: None })
            .await
            .expect("told");
        presence.reaches(id(number), session, Some(KindSet::Any.into())).await.expect("told");
    }

    async fn leave(&self, number: usize) {
        let reason = DisconnectReason::ConnectionLost;
        self.engine.presence().disconnected(id(number), number as u64, reason).await.expect("told");
    }

    async fn begin(&self, change: impl FnOnce(&mut NewRollout)) -> String {
        let mut new = NewRollout::of(RolloutWork::Command(Box::new(command())), 7);
        new.selection = Some(Selection::default());
        change(&mut new);
        self.engine.rollouts().create(new, None).await.expect("begun").rollout.id.to_string()
    }

    /// Another process, which finds a rollout changed so.
    async fn restart_with(self, id: &str, change: impl FnOnce(&mut Rollout, &mut RolloutState)) -> Self {
        let TrackedRollout { rollout, mut state } = self.rollout(id);
        let mut rollout = Rollout::clone(&rollout);
        change(&mut rollout, &mut state);
        self.engine.stop().await;
        let mut batch = Batch::new(PartitionId::REGISTRY);
        batch.head = self.store.view(PartitionId::REGISTRY).expect("readable").head().clone();
        batch.head.seq += 1;
        batch.ops = vec![Op::PutRollout(Box::new(rollout)), Op::PutRolloutState(Box::new(state))];
        self.store.commit(batch, Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))));
        Self::start(&self.store).await
    }

    fn rollout(&self, id: &str) -> TrackedRollout {
        self.engine.queries().rollout(id).expect("readable").expect("it is there")
    }

    fn count(&self, id: &str, status: MemberStatus) -> u64 {
        self.rollout(id).state.counts.of(status)
    }

    fn published(&self) -> Vec<PublishedCommand> {
        self.wire.0.lock().expect("no test panics with it").clone()
    }

    async fn answer(&self, command: &PublishedCommand, ok: bool) {
        let content = ReportContent::Answer { command: command.id, ok, result: None };
        let report = Report { device: command.device.clone(), kind: None, content, id: None };
        let outcome =
            self.engine.intake(WayIn::Http).submit(vec![report]).await.expect("taken").durable().await;
        assert_eq!(outcome.expect("durable").accepted, 1);
    }

    /// Answers every command that went out and was not answered before; how many.
    async fn answer_all(&self, answered: &mut usize, ok: bool) {
        for command in self.published().split_off(*answered) {
            self.answer(&command, ok).await;
            *answered += 1;
        }
    }

    /// Answers whatever goes out until the rollout stands so.
    async fn answer_until(&self, id: &str, standing: RolloutStanding, ok: bool) {
        let mut answered = 0;
        while self.rollout(id).state.standing != standing {
            self.answer_all(&mut answered, ok).await;
            tokio::task::yield_now().await;
        }
    }
}

fn name(number: usize) -> String {
    format!("d{number:03}")
}

fn id(number: usize) -> DeviceId {
    DeviceId::new(&name(number)).expect("an id")
}

fn command() -> RolloutCommand {
    RolloutCommand {
        payload: Arc::from(&b"{\"do\":1}"[..]),
        ttl_ms: None,
        not_before: None,
        ack_timeout_ms: Some(600_000),
        run_timeout_ms: None,
        attempts_max: None,
        origin: None,
        key: None,
        priority: 0,
        notify: None,
    }
}

/// Changes a rollout to mean devices that may come later.
fn of_nobody_yet(new: &mut NewRollout) {
    new.selection = Some(Selection::parse("site=none").expect("readable"));
    new.include_later = true;
}

async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn devices_that_are_there_go_first_and_others_when_they_come() {
    let fleet = Fleet::of(6, 4).await;
    let rollout = fleet.begin(|_| {}).await;
    assert_eq!(fleet.rollout(&rollout).state.counts.total(), 6);
    until(|| fleet.count(&rollout, MemberStatus::Published) == 4).await;
    assert_eq!(fleet.count(&rollout, MemberStatus::Waiting), 2, "two are away");
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    until(|| fleet.count(&rollout, MemberStatus::Acknowledged) == 4).await;
    assert_eq!(fleet.rollout(&rollout).state.standing, RolloutStanding::Running);
    fleet.come(4).await;
    let polled = fleet.engine.commands().poll(id(5), Duration::from_secs(60)).await.expect("polls");
    let polled = polled.expect("it is given its command");
    fleet.answer(&polled, false).await;
    until(|| fleet.published().iter().any(|command| command.device == id(4))).await;
    let of_4 = fleet.published().into_iter().find(|command| command.device == id(4)).expect("published");
    fleet.answer(&of_4, true).await;
    until(|| fleet.rollout(&rollout).state.standing == RolloutStanding::Done).await;
    assert_eq!(fleet.count(&rollout, MemberStatus::Failed), 1);
    let failed = fleet.engine.queries().rollout_devices(&rollout, Some(MemberStatus::Failed), None, 9);
    let failed: Vec<EntityId> =
        failed.expect("readable").iter().filter_map(|device| device.command).collect();
    assert_eq!(failed, [polled.id]);
}

#[tokio::test]
async fn a_selection_is_taken_at_the_beginning_unless_later_ones_are_included() {
    let fleet = Fleet::of(6, 0).await;
    let site = || Some(Selection::parse("site=1").expect("readable"));
    let fixed = fleet.begin(|new| new.selection = site()).await;
    let open = fleet.begin(|new| (new.selection, new.include_later) = (site(), true)).await;
    let named = fleet
        .begin(|new| {
            new.selection = site();
            new.devices = Some(vec![id(0), id(1), id(3), id(77)]);
        })
        .await;
    let labels = Some(vec![("site".to_owned(), "1".to_owned())]);
    let later = NewDevice { id: "later".to_owned(), labels, ..NewDevice::default() };
    fleet.engine.create_device(later).await.expect("registered");
    until(|| fleet.rollout(&open).state.counts.total() == 4).await;
    assert_eq!(fleet.rollout(&fixed).state.counts.total(), 3);
    assert_eq!(fleet.rollout(&named).state.counts.total(), 2, "those that are named, there, and of the site");
}

#[tokio::test]
async fn a_selection_that_cannot_be_kept_is_refused() {
    let fleet = Fleet::of(0, 0).await;
    let mut new = NewRollout::of(RolloutWork::Command(Box::new(command())), 7);
    let repeated = "a in(b,c),".repeat(1_638);
    new.selection = Some(Selection::parse(repeated.trim_end_matches(',')).expect("just short enough"));
    let begun = fleet.engine.rollouts().create(new, None).await;
    assert_eq!(begun.map(drop).map_err(|problem| problem.code), Err("bad_selector"));
}

#[tokio::test]
async fn a_stored_selector_that_cannot_be_read_means_nobody_and_stops() {
    let fleet = Fleet::of(6, 6).await;
    let rollout = fleet.begin(of_nobody_yet).await;
    let unreadable = |rollout: &mut Rollout, state: &mut RolloutState| {
        rollout.selector = Some("site=1 or".into());
        state.collecting = Some(RolloutCursor::Partition(0, None));
    };
    let fleet = fleet.restart_with(&rollout, unreadable).await;
    until(|| fleet.rollout(&rollout).state.standing == RolloutStanding::Stopped).await;
    fleet.engine.rollouts().call(&rollout, RolloutCall::Resume).await.expect("resumed");
    until(|| fleet.rollout(&rollout).state.standing == RolloutStanding::Stopped).await;
    assert_eq!(fleet.rollout(&rollout).state.counts.total(), 0);
}

#[tokio::test]
async fn a_rollout_stops_before_it_has_too_many_members() {
    let fleet = Fleet::of(6, 0).await;
    let rollout = fleet.begin(of_nobody_yet).await;
    let nearly_full = |rollout: &mut Rollout, state: &mut RolloutState| {
        rollout.selector = None;
        state.collecting = Some(RolloutCursor::Partition(0, None));
        state.counts.0[MemberStatus::Acknowledged as usize] = MEMBERS_MAX - 2;
    };
    let fleet = fleet.restart_with(&rollout, nearly_full).await;
    until(|| fleet.rollout(&rollout).state.standing == RolloutStanding::Stopped).await;
    fleet.engine.rollouts().call(&rollout, RolloutCall::Resume).await.expect("resumed");
    until(|| fleet.rollout(&rollout).state.standing == RolloutStanding::Stopped).await;
    let state = fleet.rollout(&rollout).state;
    assert_eq!((state.counts.total(), state.counts.of(MemberStatus::Waiting)), (MEMBERS_MAX, 2));
    assert!(state.collecting.is_some(), "the others were not passed over");
}

#[tokio::test]
async fn nothing_goes_out_after_a_pause_was_answered() {
    let fleet = Fleet::of(4, 4).await;
    // Each device is busy with another command: what a rollout hands out waits behind it.
    for number in 0..4 {
        let mut busy = NewCommand::new(Arc::from(&b"1"[..]));
        busy.ack_timeout = Some(Duration::from_secs(600));
        fleet.engine.commands().send(id(number), busy).await.expect("sent");
    }
    let rollout = fleet.begin(|_| {}).await;
    until(|| fleet.count(&rollout, MemberStatus::Scheduled) == 4).await;
    fleet.engine.rollouts().call(&rollout, RolloutCall::Pause).await.expect("paused");
    assert_eq!(fleet.count(&rollout, MemberStatus::Waiting), 4, "all were taken back");
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    fleet.leave(0).await;
    fleet.come(0).await;
    assert_eq!(fleet.published().len(), 4, "only what went out before");
    fleet.engine.rollouts().call(&rollout, RolloutCall::Resume).await.expect("resumed");
    until(|| fleet.published().len() == 8).await;
    fleet.answer_all(&mut answered, true).await;
    until(|| fleet.rollout(&rollout).state.standing == RolloutStanding::Done).await;
}

#[tokio::test]
async fn a_pause_takes_back_what_is_just_being_handed_out_however_much_that_is() {
    let fleet = Fleet::of(1_500, 1_500).await;
    for number in 0..1_500 {
        let mut busy = NewCommand::new(Arc::from(&b"1"[..]));
        busy.ack_timeout = Some(Duration::from_secs(600));
        fleet.engine.commands().send(id(number), busy).await.expect("sent");
    }
    let rollout = fleet.begin(|_| {}).await;
    until(|| fleet.count(&rollout, MemberStatus::Scheduled) >= 1_000).await;
    fleet.engine.rollouts().call(&rollout, RolloutCall::Pause).await.expect("paused");
    assert_eq!(fleet.count(&rollout, MemberStatus::Waiting), 1_500, "all were taken back");
}

#[tokio::test]
async fn no_more_are_in_flight_than_may_be_and_failures_stop_it() {
    let fleet = Fleet::of(20, 20).await;
    let stop = RolloutStop { failed_ppm: 500_000, after: 4 };
    let rollout = fleet.begin(|new| (new.in_flight, new.stop) = (Some(3), Some(stop))).await;
    let mut answered = 0;
    while fleet.rollout(&rollout).state.standing == RolloutStanding::Running {
        until(|| fleet.published().len() > answered).await;
        assert!(fleet.published().len() - answered <= 3);
        fleet.answer_all(&mut answered, false).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(fleet.rollout(&rollout).state.standing, RolloutStanding::Stopped);
    assert!(answered < 10, "{answered} of them failed before it stopped");
    fleet.engine.rollouts().call(&rollout, RolloutCall::Resume).await.expect("resumed");
    while fleet.rollout(&rollout).state.standing == RolloutStanding::Running {
        fleet.answer_all(&mut answered, true).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(fleet.rollout(&rollout).state.standing, RolloutStanding::Done);
    assert_eq!(fleet.published().len(), 20, "each device once");
}

#[tokio::test]
async fn a_stage_waits_for_its_approval() {
    let fleet = Fleet::of(20, 20).await;
    let stage = RolloutStage { share_ppm: 100_000, soak_ms: 0, approve: true };
    let rollout = fleet.begin(|new| new.stages = vec![stage]).await;
    until(|| fleet.published().len() == 2).await;
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    until(|| fleet.rollout(&rollout).waits_for() == RolloutWait::Approval).await;
    assert_eq!(fleet.published().len(), 2);
    fleet.engine.rollouts().call(&rollout, RolloutCall::Approve).await.expect("approved");
    until(|| fleet.published().len() == 20).await;
    fleet.answer_until(&rollout, RolloutStanding::Done, true).await;
}

#[tokio::test]
async fn what_was_not_handed_out_is_cancelled() {
    let fleet = Fleet::of(700, 1).await;
    let rollout = fleet.begin(|_| {}).await;
    until(|| fleet.count(&rollout, MemberStatus::Published) == 1).await;
    fleet.engine.rollouts().call(&rollout, RolloutCall::Cancel).await.expect("cancelled");
    until(|| fleet.count(&rollout, MemberStatus::Cancelled) == 699).await;
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    until(|| fleet.count(&rollout, MemberStatus::Acknowledged) == 1).await;
    let again = fleet.engine.rollouts().call(&rollout, RolloutCall::Pause).await;
    assert_eq!(again.map_err(|problem| problem.code), Err("finished"));
}

#[tokio::test]
async fn the_same_request_is_the_same_rollout() {
    let fleet = Fleet::of(2, 0).await;
    let new = |request| {
        let mut new = NewRollout::of(RolloutWork::Command(Box::new(command())), request);
        new.selection = Some(Selection::default());
        new
    };
    let put = async |request| fleet.engine.rollouts().put("r-1", new(request)).await;
    assert!(put(1).await.expect("begun").1);
    assert!(!put(1).await.expect("there").1);
    assert_eq!(put(2).await.map(|_| ()).map_err(|problem| problem.code), Err("exists"));
}

#[tokio::test]
async fn a_process_that_ends_in_the_middle_goes_on_after_the_start() {
    let fleet = Fleet::of(3_000, 0).await;
    let engine = fleet.engine.clone();
    // Not waited for: the process ends while devices are looked for.
    let beginning = tokio::spawn(async move {
        let mut new = NewRollout::of(RolloutWork::Command(Box::new(command())), 1);
        new.selection = Some(Selection::default());
        let _begun = engine.rollouts().put("r-1", new).await;
    });
    until(|| fleet.engine.queries().rollout("r-1").expect("readable").is_some()).await;
    fleet.engine.stop().await;
    beginning.abort();
    let fleet = Fleet::start(&fleet.store).await;
    until(|| fleet.rollout("r-1").state.collecting.is_none()).await;
    assert_eq!(fleet.count("r-1", MemberStatus::Waiting), 3_000);
    for number in 0..20 {
        fleet.come(number).await;
    }
    until(|| fleet.published().len() == 20).await;
    fleet.engine.stop().await;
    let fleet = Fleet::start(&fleet.store).await;
    for number in 10..30 {
        fleet.come(number).await;
    }
    // Those that were asked before are asked again under the same id, the others for the first
    // time.
    until(|| fleet.count("r-1", MemberStatus::Published) == 30).await;
    let mut ids: BTreeMap<DeviceId, EntityId> = BTreeMap::new();
    for command in fleet.published() {
        assert_eq!(*ids.entry(command.device).or_insert(command.id), command.id);
    }
}

#[tokio::test]
async fn batches_that_are_lost_give_nobody_a_command_twice() {
    for planned in [Planned::UnknownLost, Planned::UnknownWritten] {
        let fleet = Fleet::of(40, 40).await;
        let rollout = fleet.begin(|new| new.in_flight = Some(5)).await;
        let mut answered = 0;
        for round in 0.. {
            if fleet.rollout(&rollout).state.standing == RolloutStanding::Done {
                break;
            }
            if round % 7 == 0 && round < 100 {
                fleet.store.plan(PartitionId::REGISTRY, planned);
                fleet.store.plan(hash::device_partition(&id(round % 40), PARTITIONS), planned);
            }
            for command in fleet.published().split_off(answered) {
                let content = ReportContent::Answer { command: command.id, ok: true, result: None };
                let report = Report { device: command.device.clone(), kind: None, content, id: None };
                // Whoever is not told that it is durable says it again.
                loop {
                    let sent = fleet.engine.intake(WayIn::Http).submit(vec![report.clone()]).await;
                    if sent.expect("taken").durable().await.is_ok() {
                        break;
                    }
                }
                answered += 1;
            }
            // The clock has to move: an order whose partition was loaded anew is given again later.
            let moves = fleet.engine.clock().now().after(Duration::from_millis(2));
            fleet.engine.until(moves).await;
        }
        let mut ids: BTreeMap<DeviceId, EntityId> = BTreeMap::new();
        for command in fleet.published() {
            let first = *ids.entry(command.device.clone()).or_insert(command.id);
            assert_eq!(first, command.id, "{planned:?}: {} has one command", command.device.as_str());
        }
        assert_eq!((ids.len(), fleet.count(&rollout, MemberStatus::Acknowledged)), (40, 40), "{planned:?}");
    }
}

#[tokio::test]
async fn entries_are_wished_of_devices_that_are_away_too() {
    let fleet = Fleet::of(5, 2).await;
    let entry =
        |key: &str, value: Option<&str>| RolloutEntry { key: key.into(), value: value.map(Box::from) };
    let work = RolloutWork::Entries(vec![entry("pin", Some("1")), entry("old", None)]);
    let rollout = fleet.begin(|new| new.work = work).await;
    until(|| fleet.count(&rollout, MemberStatus::Waiting) == 0).await;
    assert_eq!(fleet.rollout(&rollout).state.counts.total(), 10, "entries times devices");
    let mut answered = 0;
    while fleet.count(&rollout, MemberStatus::Acknowledged) < 4 {
        fleet.answer_all(&mut answered, true).await;
        tokio::task::yield_now().await;
    }
    let desired_states = fleet.engine.queries().desired_states(&id(0)).expect("readable");
    assert!(
        desired_states
            .iter()
            .any(|desired_state| &*desired_state.key == "pin"
                && desired_state.confirmed.as_deref() == Some("1"))
    );
    let desired_states = fleet.engine.queries().desired_states(&id(4)).expect("readable");
    assert!(
        desired_states.iter().any(
            |desired_state| &*desired_state.key == "pin" && desired_state.desired.as_deref() == Some("1")
        )
    );
    fleet.engine.rollouts().call(&rollout, RolloutCall::Cancel).await.expect("cancelled");
    until(|| fleet.count(&rollout, MemberStatus::Cancelled) == 6).await;
}
