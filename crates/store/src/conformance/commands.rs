//! Commands in the orders in which they are asked for, desired entries, sessions and timelines.

use base::Timestamp;
use records::{
    Command, CommandKey, CommandPhase, CommandState, CommandStatus, DesiredState, DeviceSession, DeviceSlot,
    FinishedCommand, Happening, KeptFrom, Op, OpenCommand, PartitionHead, TimelineEntry, TimelineEntryKey,
};

use super::basics::{all, command, device, id};
use super::retention::throughout;
use super::{Make, PARTITION, Subject, next, put};
use crate::port::{Page, View};

const SLOT: DeviceSlot = DeviceSlot(0);
const OTHER: DeviceSlot = DeviceSlot(300);

/// A command, where it stands, and everything that leads to it.
pub(super) fn given(command: &Command, state: &CommandState) -> Vec<Op> {
    let itself = [
        Op::PutCommand(Box::new(command.clone())),
        Op::PutCommandState(command.id.into(), Box::new(state.clone())),
    ];
    itself.into_iter().chain(placed(command, state)).collect()
}

fn placed(command: &Command, state: &CommandState) -> impl Iterator<Item = Op> {
    let open = OpenCommand::of(command, state).map(|open| Op::PutOpenCommand(Box::new(open)));
    open.into_iter().chain(FinishedCommand::of(command, state).map(Op::PutFinishedCommand))
}

fn moved(command: &Command, from: &CommandState, to: &CommandState) -> Vec<Op> {
    let left = OpenCommand::of(command, from).map(|open| Op::DeleteOpenCommand(Box::new(open)));
    let left = left.into_iter().chain(FinishedCommand::of(command, from).map(Op::DeleteFinishedCommand));
    let state = [Op::PutCommandState(command.id.into(), Box::new(to.clone()))];
    left.chain(state).chain(placed(command, to)).collect()
}

fn with(status: CommandStatus, expires_at: i64) -> CommandState {
    let finished_at = status.has_ended().then_some(Timestamp(expires_at));
    CommandState { status, expires_at: Some(Timestamp(expires_at)), finished_at, ..CommandState::WAITING }
}

fn prior(slot: DeviceSlot, number: u32, priority: i8) -> Command {
    let command = command(slot.0, 1_000 + i64::from(number), number);
    Command { terms: records::CommandTerms { priority, ..command.terms }, ..command }
}

fn numbers(commands: &[OpenCommand]) -> Vec<u32> {
    commands.iter().map(|open| open.key.number).collect()
}

fn view(subject: &dyn Subject) -> Box<dyn View> {
    subject.store().view(PARTITION).expect("opens")
}

fn devices(subject: &mut dyn Subject, head: &mut PartitionHead) {
    head.next_slot = 301;
    let devices = [device("A", SLOT.0, &[]), device("B", OTHER.0, &[])];
    put(subject, next(head, devices.into_iter().map(|device| Op::PutDevice(Box::new(device))).collect()));
}

/// By priority and then by age, by device, by when time does something to them, by key.
pub fn open_commands_are_found_in_each_of_their_orders(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    devices(&mut *subject, &mut head);
    let waiting = |expires_at| with(CommandStatus::Scheduled, expires_at);
    let held = CommandState { is_held: true, ..waiting(500) };
    let commands = [
        (prior(SLOT, 1, -100), waiting(60)),
        (prior(SLOT, 2, 100), waiting(50)),
        (prior(SLOT, 3, 0), waiting(40)),
        (prior(SLOT, 4, 0), waiting(50)),
        (prior(SLOT, 5, 0), with(CommandStatus::Running, 70)),
        (prior(OTHER, 6, 0), with(CommandStatus::Published, 30)),
        (prior(OTHER, 7, 0), held),
    ];
    put(&mut *subject, next(&mut head, commands.iter().flat_map(|(of, state)| given(of, state)).collect()));
    throughout(&mut *subject, |subject, context| {
        let view = view(subject);
        let open = |slot, phase, limit| numbers(&view.open_commands(slot, phase, limit).expect("reads"));
        assert_eq!(open(SLOT, CommandPhase::Waiting, 10), [2, 3, 4, 1], "{context}");
        assert_eq!(open(SLOT, CommandPhase::Waiting, 2), [2, 3], "{context}");
        assert_eq!(open(SLOT, CommandPhase::Unanswered, 10), [5], "{context}");
        assert_eq!(open(OTHER, CommandPhase::Held, 10), [7], "{context}");
        assert_eq!(numbers(&view.unanswered_commands().expect("reads")), [5, 6], "{context}");
        let slots = |phase, after| view.slots_with_commands(phase, after, 10).expect("reads");
        assert_eq!(slots(CommandPhase::Unanswered, None), [SLOT, OTHER], "{context}");
        assert_eq!(slots(CommandPhase::Unanswered, Some(SLOT)), [OTHER], "{context}");
        assert_eq!(slots(CommandPhase::Waiting, None), [SLOT], "{context}");
        assert_eq!(slots(CommandPhase::Held, Some(OTHER)), [], "{context}");
        let due = |until, limit| numbers(&view.commands_due(None, Timestamp(until), limit).expect("reads"));
        assert_eq!(
            (due(50, 10), due(49, 10), due(29, 10)),
            (vec![6, 3, 2, 4], vec![6, 3], vec![]),
            "{context}"
        );
        assert_eq!((due(i64::MAX, 2), due(i64::MAX, 99).len()), (vec![6, 3], 7), "{context}");
        let all = view.commands_due(None, Timestamp::MAX, 99).expect("reads");
        for (at, open) in all.iter().enumerate() {
            let after = open.due.map(|due| (due, open.key));
            let behind = view.commands_due(after, Timestamp::MAX, 99).expect("reads");
            assert_eq!(behind, all[at + 1..], "{context}");
        }
        let with_key =
            |slot, key| numbers(&view.commands_with_key(slot, OpenCommand::key_hash(key)).expect("reads"));
        // what went out does not give way
        assert_eq!(
            (with_key(SLOT, "door"), with_key(OTHER, "door")),
            (vec![1, 2, 3, 4], vec![7]),
            "{context}"
        );
        assert_eq!(with_key(SLOT, "doo"), [], "{context}");
        let has_open = |slot| view.has_open_commands(slot).expect("reads");
        assert!(has_open(SLOT) && has_open(OTHER) && !has_open(DeviceSlot(1)), "{context}");
    });
}

/// A command leaves each order as it moves on, and is read with its state until it is forgotten.
pub fn a_command_is_shown_where_it_stands(make: Make<'_>) {
    for churn in 0..3 {
        let (mut subject, mut head) = (make(), PartitionHead::default());
        devices(&mut *subject, &mut head);
        let command = prior(SLOT, 1, 0);
        let key = CommandKey::from(command.id);
        let states = [
            CommandState { is_held: true, ..with(CommandStatus::Scheduled, 60) },
            with(CommandStatus::Scheduled, 60),
            with(CommandStatus::Published, 60),
            with(CommandStatus::Failed, 30),
            with(CommandStatus::Scheduled, 90),
            with(CommandStatus::Acknowledged, 40),
        ];
        put(&mut *subject, next(&mut head, given(&command, &states[0])));
        for (turn, state) in states.iter().enumerate() {
            if turn > 0 {
                put(&mut *subject, next(&mut head, moved(&command, &states[turn - 1], state)));
            }
            (0..churn).for_each(|turn| subject.churn(turn));
            assert_stands(&*view(&*subject), &command, state, &format!("churn {churn} turn {turn}"));
        }
        let [.., last] = &states;
        let finished = FinishedCommand::of(&command, last).expect("it has ended");
        let ops = vec![Op::DeleteFinishedCommand(finished), Op::DeleteCommand(key, SLOT)];
        put(&mut *subject, next(&mut head, ops));
        throughout(&mut *subject, |subject, context| {
            let view = view(subject);
            assert_eq!(view.command(key).expect("reads"), None, "{context}");
            assert_eq!(view.command_state(key).expect("reads"), None, "{context}");
            assert!(view.commands(Some(SLOT), all(), &|_, _| true).expect("reads").is_empty(), "{context}");
            assert!(view.finished_commands(Timestamp::MAX, 9).expect("reads").is_empty(), "{context}");
        });
    }
}

fn assert_stands(view: &dyn View, command: &Command, state: &CommandState, context: &str) {
    let key = command.id.into();
    assert_eq!(view.command(key).expect("reads").as_ref(), Some(command), "{context}");
    assert_eq!(view.command_state(key).expect("reads").as_ref(), Some(state), "{context}");
    for whose in [None, Some(SLOT)] {
        let commands = view.commands(whose, all(), &|_, _| true).expect("reads");
        assert_eq!(commands, [(command.clone(), state.clone())], "{context}");
        assert!(view.commands(whose, all(), &|_, _| false).expect("reads").is_empty(), "{context}");
    }
    let expect: Vec<_> = OpenCommand::of(command, state).into_iter().collect();
    for phase in CommandPhase::ALL {
        let open = view.open_commands(SLOT, phase, 9).expect("reads");
        let of_phase = expect.iter().filter(|open| open.phase == phase);
        assert!(open.iter().eq(of_phase), "{context} {phase:?}: {open:?}");
    }
    assert_eq!(view.commands_due(None, Timestamp::MAX, 9).expect("reads"), expect, "{context}");
    let finished: Vec<_> = FinishedCommand::of(command, state).into_iter().collect();
    assert_eq!(view.finished_commands(Timestamp::MAX, 9).expect("reads"), finished, "{context}");
    assert!(view.finished_commands(Timestamp(29), 9).expect("reads").is_empty(), "{context}");
}

fn desired_state(slot: DeviceSlot, key: &str, desired: &str) -> DesiredState {
    DesiredState {
        slot,
        key: key.into(),
        desired: Some(desired.into()),
        desired_at: Timestamp(5),
        confirmed: None,
        confirmed_at: None,
        command: None,
    }
}

fn session(slot: DeviceSlot, number: u64) -> DeviceSession {
    DeviceSession { slot, number, since: Timestamp(7), address: Some("10.0.0.1:9".into()) }
}

/// Each under its device, the latest that was put.
pub fn desired_entries_and_sessions_belong_to_their_device(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    devices(&mut *subject, &mut head);
    let put_desired_state =
        |slot, key, desired| Op::PutDesiredState(Box::new(desired_state(slot, key, desired)));
    let put_session = |slot, number| Op::PutDeviceSession(Box::new(session(slot, number)));
    let ops = vec![
        put_desired_state(SLOT, "pin", "1"),
        put_desired_state(SLOT, "pi", "2"),
        put_desired_state(SLOT, "gone", "3"),
        put_desired_state(OTHER, "pin", "4"),
        put_session(SLOT, 1),
        put_session(OTHER, 2),
    ];
    put(&mut *subject, next(&mut head, ops));
    subject.churn(1);
    let ops = vec![
        put_desired_state(SLOT, "pin", "5"),
        Op::DeleteDesiredState(SLOT, "gone".into()),
        put_session(SLOT, 3),
        Op::DeleteDeviceSession(OTHER),
    ];
    put(&mut *subject, next(&mut head, ops));
    throughout(&mut *subject, |subject, context| {
        let view = view(subject);
        let expect = [desired_state(SLOT, "pi", "2"), desired_state(SLOT, "pin", "5")];
        assert_eq!(view.desired_states(SLOT).expect("reads"), expect, "{context}");
        assert_eq!(view.desired_state(SLOT, "pi").expect("reads").as_ref(), expect.first(), "{context}");
        assert_eq!(view.desired_state(SLOT, "gone").expect("reads"), None, "{context}");
        assert_eq!(
            view.desired_states(OTHER).expect("reads"),
            [desired_state(OTHER, "pin", "4")],
            "{context}"
        );
        assert_eq!(view.device_session(SLOT).expect("reads"), Some(session(SLOT, 3)), "{context}");
        assert_eq!(view.device_session(OTHER).expect("reads"), None, "{context}");
    });
}

fn entry(slot: DeviceSlot, at: i64, number: u32) -> TimelineEntry {
    TimelineEntry { slot, at: Timestamp(at), number, what: Happening::Connected { address: None } }
}

/// In order of time and number, from the time on that events are kept from.
pub fn a_timeline_is_that_of_its_device_as_far_as_it_is_kept(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    devices(&mut *subject, &mut head);
    let entries =
        [(SLOT, 10, 1), (OTHER, 11, 2), (SLOT, 20, 3), (SLOT, 20, 4), (OTHER, 30, 5), (SLOT, 30, 6)];
    let ops = entries.map(|(slot, at, number)| Op::PutTimelineEntry(Box::new(entry(slot, at, number))));
    put(&mut *subject, next(&mut head, ops.into()));
    let numbers = |subject: &dyn Subject, slot, page| {
        let entries = view(subject).timeline(slot, page).expect("reads");
        entries.iter().map(|entry| entry.number).collect::<Vec<_>>()
    };
    throughout(&mut *subject, |subject, context| {
        assert_eq!(numbers(subject, SLOT, all()), [1, 3, 4, 6], "{context}");
        let after = Some(TimelineEntryKey { at: Timestamp(20), number: 4 });
        let page = Page { ascending: false, after, ..all() };
        assert_eq!(numbers(subject, SLOT, page), [3, 1], "{context}");
        let page = Page { from: Timestamp(11), to: Timestamp(30), limit: 1, ..all() };
        assert_eq!(numbers(subject, SLOT, page), [3], "{context}");
    });
    head.kept_from = KeptFrom { events: Timestamp(20), ..KeptFrom::EVER };
    put(&mut *subject, next(&mut head, Vec::new()));
    throughout(&mut *subject, |subject, context| {
        assert_eq!(numbers(subject, SLOT, all()), [3, 4, 6], "{context}");
        assert_eq!(numbers(subject, OTHER, all()), [5], "{context}");
    });
}

/// Everything of this file that a device may have, its commands in every phase and ended.
pub(super) fn everything_of(slot: u32) -> Vec<Op> {
    let slot = DeviceSlot(slot);
    let states = CommandStatus::ALL.map(|status| with(status, 60));
    let commands = states.iter().cycle().zip(0..300).flat_map(|(state, n)| {
        let number = slot.0 * 1_000 + n;
        given(&prior(slot, number, (n % 3) as i8), state)
    });
    let entries = (0..300).map(|n| Op::PutTimelineEntry(Box::new(entry(slot, i64::from(n), n))));
    let rest = [
        Op::PutDesiredState(Box::new(desired_state(slot, "pin", "1"))),
        Op::PutDeviceSession(Box::new(session(slot, 1))),
    ];
    commands.chain(entries).chain(rest).collect()
}

/// How much of [`everything_of`] a device shows.
pub(super) fn shown_of(view: &dyn View, slot: u32) -> [usize; 9] {
    let slot = DeviceSlot(slot);
    let page = Page { limit: usize::MAX, ..all() };
    let of = |open: &OpenCommand| open.slot == slot;
    let commands = view.commands(None, page, &|command, _| command.slot == slot).expect("reads");
    let finished = view.finished_commands(Timestamp::MAX, usize::MAX).expect("reads");
    let slots = CommandPhase::ALL.map(|phase| view.slots_with_commands(phase, None, usize::MAX));
    let hash = OpenCommand::key_hash("door");
    [
        view.commands(Some(slot), page, &|_, _| true).expect("reads").len(),
        commands.iter().filter(|(of, _)| view.command(of.id.into()).expect("reads").is_some()).count(),
        view.unanswered_commands().expect("reads").into_iter().filter(of).count(),
        view.commands_due(None, Timestamp::MAX, usize::MAX).expect("reads").into_iter().filter(of).count(),
        finished.iter().filter(|finished| finished.slot == slot).count(),
        slots.into_iter().filter(|slots| slots.as_ref().expect("reads").contains(&slot)).count(),
        view.commands_with_key(slot, hash).expect("reads").len(),
        view.desired_states(slot).expect("reads").len()
            + usize::from(view.device_session(slot).expect("reads").is_some()),
        view.timeline(slot, Page { limit: usize::MAX, ..all() }).expect("reads").len(),
    ]
}

/// What [`shown_of`] says while the device is there: 300 commands, of every eight statuses one that
/// waits, two unanswered, and five ended.
pub(super) const SHOWN: [usize; 9] = [300, 300, 76, 114, 186, 2, 38, 2, 300];

/// A payload of a size that is no longer kept beside others.
pub fn a_large_payload_comes_back_whole(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    devices(&mut *subject, &mut head);
    let payload = (0..256 << 10).map(|byte: u32| byte as u8).collect();
    let command = Command { payload, device: id("A"), ..prior(SLOT, 1, 0) };
    put(&mut *subject, next(&mut head, given(&command, &CommandState::WAITING)));
    throughout(&mut *subject, |subject, context| {
        let found = view(subject).command(command.id.into()).expect("reads");
        assert!(found.as_ref() == Some(&command), "{context}");
    });
}
