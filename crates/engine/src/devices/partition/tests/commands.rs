//! Commands as callers, devices and readers see them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{DeviceId, EntityId, Problem, Timestamp};
use records::{CommandStatus, DesiredState, DisconnectReason, Happening, Op, OutcomeReceiver};
use store::Page;

use super::rig::Rig;
use crate::commands::{Downlink, NewCommand, PublishedCommand, TrackedCommand};
use crate::devices::input::{CommandInput, DeviceInput};
use crate::devices::intake::ReportContent;
use crate::devices::sessions::PresenceChange;
use crate::kernel::reply::Reply;
use crate::outcomes::{OutcomeDue, SendResult};
use crate::presence::{KindSet, LoginDevices, Reach, Session};
use crate::version::OnlyIf;

mod again;
mod given_up;
mod pace;
mod picks;
mod polls;
mod reach;
mod taken_back;

const ACK_TIMEOUT: Duration = Duration::from_secs(5);
const DEVICE: &str = "0xA";

/// What went out.
#[derive(Default)]
struct Carried(Mutex<Vec<EntityId>>);

impl Downlink for Carried {
    fn publish(&self, command: PublishedCommand) {
        self.0.lock().expect("no panic").push(command.id);
    }
}

struct Bench {
    rig: Rig,
    carried: Arc<Carried>,
}

fn device() -> DeviceId {
    DeviceId::new(DEVICE).expect("an id")
}

fn plain() -> NewCommand {
    NewCommand::new(Arc::from(*b"{}"))
}

fn session(number: u64) -> Session {
    Session { number, address: Some("127.0.0.1:5".into()), label: None }
}

fn answer(command: EntityId, ok: bool) -> ReportContent {
    ReportContent::Answer { command, ok, result: Some("7".into()) }
}

impl Bench {
    fn new() -> Self {
        let rig = Rig::linked();
        let carried = Arc::new(Carried::default());
        let downlink: Arc<dyn Downlink> = Arc::clone(&carried) as _;
        rig.context.devices.carry_commands_by(downlink);
        Self { rig, carried }
    }

    fn send(&mut self, command: NewCommand) -> EntityId {
        self.try_send(command).expect("taken").command.id
    }

    fn try_send(&mut self, command: NewCommand) -> Result<TrackedCommand, Problem> {
        let command = Box::new(command);
        let sent = self.rig.ask(|reply| CommandInput::Send { device: device(), command, reply }.into());
        sent.map(|sent| *sent)
    }

    fn presence(&mut self, change: PresenceChange) {
        self.rig.ask(|reply| CommandInput::Presence { change, reply }.into());
    }

    fn connect(&mut self, number: u64) {
        let now = self.rig.now();
        self.presence(PresenceChange::Connected(device(), KindSet::Any, session(number), now));
        self.presence(PresenceChange::Reaches(device(), number, Some(KindSet::Any.into())));
    }

    fn disconnect(&mut self, number: u64) {
        self.presence(PresenceChange::Disconnected(device(), number, DisconnectReason::ConnectionLost));
    }

    fn carried(&self) -> Vec<EntityId> {
        std::mem::take(&mut self.carried.0.lock().expect("no panic"))
    }

    fn status(&self, id: EntityId) -> (CommandStatus, u32) {
        let state = self.rig.view().command_state(id.into()).expect("readable").expect("there");
        (state.status, state.tries)
    }

    fn cancel(&mut self, id: EntityId) -> Result<(), Problem> {
        self.rig.ask(|reply| CommandInput::Cancel { id, reply }.into())
    }

    fn desired_state(&mut self, value: Option<&str>) -> DesiredState {
        let (key, value) = ("card-1".into(), value.map(Box::from));
        *self
            .rig
            .ask(|reply| CommandInput::SetDesired { device: device(), key, value, reply }.into())
            .expect("taken")
    }

    fn desired_states(&self) -> Vec<(Option<String>, Option<String>, bool)> {
        let slot = self.rig.view().device(&device()).expect("readable").expect("there").slot;
        let text = |text: Option<Box<str>>| text.map(String::from);
        let desired_states = self.rig.view().desired_states(slot).expect("readable");
        desired_states
            .into_iter()
            .map(|desired_state| {
                (text(desired_state.desired), text(desired_state.confirmed), desired_state.command.is_some())
            })
            .collect()
    }

    /// The timeline, oldest first.
    fn timeline(&self) -> Vec<String> {
        let slot = self.rig.view().device(&device()).expect("readable").expect("there").slot;
        let page =
            Page { from: Timestamp(0), to: Timestamp::MAX, ascending: true, after: None, limit: 1_000 };
        let entries = self.rig.view().timeline(slot, page).expect("readable");
        let word = |what: Happening| match what {
            Happening::Connected { .. } => "connected".to_owned(),
            Happening::Disconnected { reason, .. } => reason.as_str().to_owned(),
            Happening::Command { status, tries, .. } => format!("{} {tries}", status.as_str()),
            Happening::Link { linked, .. } => format!("linked {linked}"),
            Happening::Delivery(_, status) => format!("delivery {}", status.as_str()),
            Happening::DeliveryAttempt(..) => "attempt".to_owned(),
        };
        entries.into_iter().map(|entry| word(entry.what)).collect()
    }

    fn outcomes(&mut self) -> Vec<OutcomeDue> {
        self.rig.step(Vec::new());
        let mut due = Vec::new();
        for (_, lane) in self.rig.context.devices.outcomes.take_now() {
            due.extend(self.rig.ask(|reply| CommandInput::LeaseOutcomes { lane, max: 20, reply }.into()));
        }
        due
    }
}

#[test]
fn a_command_waits_for_its_device_and_goes_out_when_it_comes() {
    let mut bench = Bench::new();
    let (first, second) = (bench.send(plain()), bench.send(plain()));
    bench.rig.pass(Duration::from_secs(3_600));
    assert!(bench.carried().is_empty());
    bench.connect(1);
    assert_eq!(bench.carried(), [first]);
    assert_eq!(bench.status(first), (CommandStatus::Published, 1));
    assert_eq!(bench.status(second), (CommandStatus::Scheduled, 0));
    bench.rig.say(DEVICE, answer(first, true));
    assert_eq!(bench.status(first), (CommandStatus::Acknowledged, 1));
    assert_eq!(bench.carried(), [second]);
}

#[test]
fn without_an_answer_it_goes_out_again_and_the_next_one_goes_when_it_has_failed() {
    let mut bench = Bench::new();
    bench.connect(1);
    let first = bench.send(NewCommand { attempts_max: Some(2), ..plain() });
    let second = bench.send(plain());
    bench.rig.pass(ACK_TIMEOUT);
    assert_eq!(bench.carried(), [first, first]);
    bench.rig.pass(ACK_TIMEOUT);
    assert_eq!(bench.status(first), (CommandStatus::Failed, 2));
    assert_eq!(bench.carried(), [second]);
}

#[test]
fn what_was_under_way_when_the_process_died_goes_out_again_under_the_same_id() {
    let mut bench = Bench::new();
    bench.connect(1);
    let id = bench.send(plain());
    bench.rig.restart();
    bench.carried();
    assert_eq!(bench.status(id), (CommandStatus::Published, 1));
    bench.connect(2);
    assert_eq!(bench.carried(), [id]);
    bench.rig.say(DEVICE, answer(id, false));
    assert_eq!(bench.status(id), (CommandStatus::Failed, 2));
    let expect = ["linked true", "connected", "scheduled 0", "published 1"];
    let after = ["server_stopped", "connected", "published 2", "failed 2"];
    assert_eq!(bench.timeline(), [expect, after].concat());
}

#[test]
fn an_answer_is_its_devices_own_and_late_ones_are_kept() {
    let mut bench = Bench::new();
    bench.connect(1);
    bench.rig.create("0xB").expect("registered");
    let id = bench.send(NewCommand { ttl: Some(Duration::from_secs(2)), ..plain() });
    assert_eq!(bench.rig.rejected("0xB", None, answer(id, true)), Some("unknown_command"));
    assert_eq!(bench.status(id), (CommandStatus::Published, 1));
    bench.rig.pass(Duration::from_secs(2));
    assert_eq!(bench.status(id), (CommandStatus::Expired, 1));
    assert_eq!(bench.rig.rejected(DEVICE, None, answer(id, true)), None);
    let state = bench.rig.view().command_state(id.into()).expect("readable").expect("there");
    assert_eq!(state.status, CommandStatus::Expired);
    assert!(state.late.is_some_and(|late| late.ok && late.result.as_deref() == Some("7")));
}

#[test]
fn a_subscription_for_devices_of_another_kind_does_not_reach() {
    let mut bench = Bench::new();
    let id = bench.send(plain());
    let face = base::Kind::new("face").expect("a kind");
    bench.presence(PresenceChange::Reaches(device(), 1, Some(KindSet::Only(face).into())));
    assert!(bench.carried().is_empty());
    bench.presence(PresenceChange::Reaches(device(), 1, Some(KindSet::Only(base::Kind::lock()).into())));
    assert_eq!(bench.carried(), [id]);
}

#[test]
fn a_wildcard_reaches_devices_whose_commands_wait() {
    let mut bench = Bench::new();
    let id = bench.send(plain());
    let of_kind = |kind: &str| KindSet::among(base::Kind::new(kind));
    let reach = |kind: &str, login| Reach { kind: of_kind(kind), login };
    let other =
        Arc::from([reach("face", LoginDevices::All), reach("lock", LoginDevices::Prefix("1".into()))]);
    bench.presence(PresenceChange::ReachesWidely(1, other));
    assert!(bench.carried().is_empty());
    bench.presence(PresenceChange::ReachesWidely(
        1,
        Arc::from([reach("lock", LoginDevices::Prefix("0x".into()))]),
    ));
    bench.rig.step(Vec::new());
    assert_eq!(bench.carried(), [id]);
    bench.rig.say(DEVICE, answer(id, true));
    let next = bench.send(plain());
    assert_eq!(bench.carried(), [next]);
    bench.presence(PresenceChange::ReachesWidely(1, Arc::from([])));
    bench.rig.pass(ACK_TIMEOUT);
    assert!(bench.carried().is_empty(), "nobody is there to be asked again");
}

#[test]
fn a_wish_is_confirmed_by_the_answer_and_cleared_by_a_newer_change_at_the_device() {
    let mut bench = Bench::new();
    bench.connect(1);
    let wished = |text: &str| Some(text.to_owned());
    bench.desired_state(Some("1"));
    let first = bench.carried()[0];
    bench.desired_state(Some("2"));
    bench.desired_state(Some("3"));
    assert_eq!(bench.desired_states(), [(wished("3"), None, true)]);
    bench.rig.say(DEVICE, answer(first, true));
    assert_eq!(bench.desired_states(), [(wished("3"), wished("1"), true)]);
    let third = bench.carried();
    assert_eq!(third.len(), 1, "the one between was superseded");
    bench.rig.say(DEVICE, answer(third[0], true));
    assert_eq!(bench.desired_states(), [(wished("3"), wished("3"), false)]);

    bench.disconnect(1);
    bench.desired_state(Some("4"));
    bench.rig.say(DEVICE, ReportContent::Confirmed { key: "card-1".into(), value: Some("9".into()) });
    assert_eq!(bench.desired_states(), [(None, wished("9"), false)]);
    bench.connect(2);
    assert!(bench.carried().is_empty(), "the device was changed later than the wish");
    bench.desired_state(None);
    let gone = bench.carried();
    bench.rig.say(DEVICE, answer(gone[0], true));
    assert!(bench.desired_states().is_empty());
}

#[test]
fn a_command_whose_time_comes_goes_out_though_only_a_wildcard_reaches_its_device() {
    let mut bench = Bench::new();
    let everybody = Reach::from(KindSet::Any);
    bench.presence(PresenceChange::ReachesWidely(1, Arc::from([everybody])));
    let not_before = Some(bench.rig.now().after(Duration::from_secs(60)));
    let id = bench.send(NewCommand { not_before, ..plain() });
    bench.rig.pass(Duration::from_secs(59));
    assert!(bench.carried().is_empty());
    bench.rig.pass(Duration::from_secs(1));
    assert_eq!(bench.carried(), [id]);
}

#[test]
fn a_device_that_comes_gets_what_went_to_another_session_before() {
    let mut bench = Bench::new();
    let everybody = Reach::from(KindSet::Any);
    bench.presence(PresenceChange::ReachesWidely(1, Arc::from([everybody])));
    let id = bench.send(NewCommand { ack_timeout: Some(Duration::from_secs(3_600)), ..plain() });
    assert_eq!(bench.carried(), [id]);
    bench.connect(2);
    assert_eq!(bench.carried(), [id]);
}

#[test]
fn wildcards_that_end_together_leave_no_lane_open() {
    let mut bench = Bench::new();
    let everybody = || Arc::from([Reach::from(KindSet::Any)]);
    bench.presence(PresenceChange::ReachesWidely(1, everybody()));
    bench.presence(PresenceChange::ReachesWidely(2, everybody()));
    let id = bench.send(plain());
    let (mut ends, mut told) = (Vec::new(), Vec::new());
    for session in [1, 2] {
        let (reply, answer) = crate::kernel::reply::Reply::new();
        let change = PresenceChange::ReachesWidely(session, Arc::from([]));
        ends.push(CommandInput::Presence { change, reply }.into());
        told.push(answer);
    }
    bench.rig.step(ends);
    bench.carried();
    bench.rig.pass(10 * ACK_TIMEOUT);
    assert!(bench.carried().is_empty());
    assert_eq!(bench.status(id), (CommandStatus::Published, 1));
}

#[test]
fn a_device_may_confirm_before_it_answers() {
    let mut bench = Bench::new();
    bench.connect(1);
    bench.desired_state(Some("7"));
    let id = bench.carried()[0];
    bench.rig.say(DEVICE, ReportContent::Confirmed { key: "card-1".into(), value: Some("7".into()) });
    assert_eq!(bench.status(id), (CommandStatus::Published, 1));
    bench.rig.say(DEVICE, answer(id, true));
    assert_eq!(bench.status(id), (CommandStatus::Acknowledged, 1));
    assert_eq!(bench.desired_states(), [(Some("7".to_owned()), Some("7".to_owned()), false)]);
}

#[test]
fn a_change_at_the_device_calls_off_all_commands_of_its_entry() {
    let mut bench = Bench::new();
    bench.connect(1);
    bench.desired_state(Some("3"));
    let third = bench.carried()[0];
    bench.desired_state(Some("4"));
    bench.rig.say(DEVICE, ReportContent::Confirmed { key: "card-1".into(), value: Some("5".into()) });
    assert_eq!(bench.status(third).0, CommandStatus::Cancelled);
    bench.rig.pass(ACK_TIMEOUT);
    assert!(bench.carried().is_empty());
    bench.rig.say(DEVICE, answer(third, true));
    assert_eq!(bench.desired_states(), [(None, Some("5".to_owned()), false)]);
}

#[test]
fn a_device_has_so_many_entries_and_no_more_whoever_makes_them() {
    let mut bench = Bench::new();
    let most = base::limits::DESIRED_STATES_PER_DEVICE_MAX;
    let confirmed =
        |entry: usize| ReportContent::Confirmed { key: format!("{entry}").into(), value: Some("1".into()) };
    for entry in 0..most {
        assert_eq!(bench.rig.rejected(DEVICE, None, confirmed(entry)), None);
    }
    assert_eq!(bench.rig.rejected(DEVICE, None, confirmed(most)), Some("too_many_entries"));
    assert_eq!(bench.rig.rejected(DEVICE, None, confirmed(0)), None, "one that is there");
    let desired_state = |key: &str, reply| {
        CommandInput::SetDesired { device: device(), key: key.into(), value: None, reply }.into()
    };
    assert_eq!(
        bench.rig.ask(|reply| desired_state("another", reply)).map_err(|problem| problem.code),
        Err("too_many_entries")
    );
    assert!(bench.rig.ask(|reply| desired_state("0", reply)).is_ok());
}

#[test]
fn an_outcome_is_told_until_it_got_through_and_a_late_answer_once_more() {
    let mut bench = Bench::new();
    bench.connect(1);
    let notify = Some(OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() });
    let id = bench.send(NewCommand { notify, ttl: Some(Duration::from_secs(1)), ..plain() });
    assert!(bench.outcomes().is_empty());
    bench.rig.pass(Duration::from_secs(1));
    let due = bench.outcomes();
    assert_eq!(due.iter().map(|due| (due.command.id, due.is_late)).collect::<Vec<_>>(), [(id, false)]);
    let told = |bench: &mut Bench, due: &OutcomeDue, result| {
        let reservation = due.reservation;
        bench.rig.ask(|reply| CommandInput::OutcomeTold { reservation, result, reply }.into());
    };
    told(&mut bench, &due[0], SendResult::Failed(None));
    assert!(bench.outcomes().is_empty(), "not at once");
    bench.rig.pass(Duration::from_secs(60));
    let again = bench.outcomes();
    assert_eq!(again[0].idempotency_key(), due[0].idempotency_key());
    told(&mut bench, &again[0], SendResult::Delivered);
    bench.rig.say(DEVICE, answer(id, true));
    let late = bench.outcomes();
    assert!(late[0].is_late && late[0].idempotency_key() != due[0].idempotency_key());
    told(&mut bench, &late[0], SendResult::Delivered);
    bench.rig.restart();
    assert!(bench.outcomes().is_empty());
}

#[test]
fn another_answer_after_the_end_is_told_once_and_the_same_one_is_none() {
    for ok in [true, false] {
        let mut bench = Bench::new();
        bench.connect(1);
        let notify = Some(OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() });
        let id = bench.send(NewCommand { notify, ..plain() });
        let told = |bench: &mut Bench| {
            let due = bench.outcomes();
            for OutcomeDue { reservation, .. } in &due {
                let (reservation, result) = (*reservation, SendResult::Delivered);
                bench.rig.ask(|reply| CommandInput::OutcomeTold { reservation, result, reply }.into());
            }
            due.iter().map(|due| due.is_late).collect::<Vec<_>>()
        };
        bench.rig.say(DEVICE, answer(id, ok));
        let ended = bench.status(id);
        assert_eq!(told(&mut bench), [false]);
        bench.rig.say(DEVICE, answer(id, ok));
        assert!(told(&mut bench).is_empty(), "the same again");
        for _ in 0..2 {
            bench.rig.say(DEVICE, answer(id, !ok));
        }
        assert_eq!(told(&mut bench), [true]);
        assert_eq!(bench.status(id), ended);
        let state = bench.rig.view().command_state(id.into()).expect("readable").expect("there");
        assert_eq!(state.late.map(|late| late.ok), Some(!ok));
    }
}

#[test]
fn whoever_waits_for_the_end_of_a_command_is_told() {
    let mut bench = Bench::new();
    bench.connect(1);
    let id = bench.send(plain());
    let (reply, mut ended) = crate::kernel::reply::Reply::new();
    bench.rig.step(vec![CommandInput::Await { id, reply }.into()]);
    assert!(ended.try_recv().is_err());
    bench.rig.say(DEVICE, answer(id, true));
    let ended = ended.try_recv().expect("told").expect("known");
    assert_eq!((ended.command.id, ended.state.status), (id, CommandStatus::Acknowledged));
}

#[test]
fn the_commands_of_a_deleted_device_go_with_it() {
    let mut bench = Bench::new();
    bench.connect(1);
    let id = bench.send(plain());
    bench.rig.delete(DEVICE).expect("deleted");
    assert_eq!(bench.cancel(id).map_err(|problem| problem.code), Err("unknown_command"));
    bench.rig.pass(10 * ACK_TIMEOUT);
    bench.rig.create(DEVICE).expect("registered");
    bench.carried();
    let next = bench.send(plain());
    assert_eq!(bench.carried(), [next], "its session lives on");
}

/// Its deletion is in the same batch, so the store does not hide its commands yet.
#[test]
fn nothing_more_is_written_of_the_commands_of_a_device_that_is_gone() {
    let mut bench = Bench::new();
    let id = bench.send(plain());
    let ((deleted, _), (cancelled, mut refused)) = (Reply::new(), Reply::new());
    let ops = bench.rig.step(vec![
        DeviceInput::DeleteDevice { id: device(), only_if: OnlyIf::default(), reply: deleted },
        CommandInput::Cancel { id, reply: cancelled }.into(),
    ]);
    assert!(matches!(ops.last(), Some(Op::DeleteDevice(..))), "{ops:?}");
    let refused = refused.try_recv().expect("answered").expect_err("it went with its device");
    assert_eq!(refused.status, 404);
}
