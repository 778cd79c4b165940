//! Commands, desired entries, sessions and timelines: what must be told of them.

use base::EntityId;
use records::{
    Command, CommandKey, CommandState, CommandStatus, DesiredState, DeviceSession, FinishedCommand,
    Happening, OpenCommand, TimelineEntry,
};

use super::*;
use crate::conformance::command;
use crate::record::Record;

/// A command that waits, and one that has ended.
fn waiting() -> (Command, CommandState) {
    (command(SLOT.0, 1_000, 3), CommandState { expires_at: Some(Timestamp(61_000)), ..CommandState::WAITING })
}

fn ended() -> (Command, CommandState) {
    let (status, finished_at) = (CommandStatus::Acknowledged, Some(Timestamp(1_500)));
    let state = CommandState { status, finished_at, tries: 1, ..CommandState::WAITING };
    (command(SLOT.0, 1_001, 4), state)
}

fn open() -> OpenCommand {
    let (command, state) = waiting();
    OpenCommand::of(&command, &state).expect("it has not ended")
}

fn finished() -> FinishedCommand {
    let (command, state) = ended();
    FinishedCommand::of(&command, &state).expect("it has ended")
}

fn put_command((command, state): (Command, CommandState)) -> [Op; 2] {
    let key = CommandKey::from(command.id);
    [Op::PutCommand(Box::new(command)), Op::PutCommandState(key, Box::new(state))]
}

fn desired_state() -> DesiredState {
    DesiredState {
        slot: SLOT,
        key: "pin".into(),
        desired: Some("1".into()),
        desired_at: Timestamp(5),
        confirmed: None,
        confirmed_at: None,
        command: Some(CommandKey::from(waiting().0.id)),
    }
}

pub(super) fn everything() -> Vec<Op> {
    let session =
        DeviceSession { slot: SLOT, number: 1, since: Timestamp(4), address: Some("[::1]:5".into()) };
    let what = Happening::Connected { address: session.address.clone() };
    let entry = TimelineEntry { slot: SLOT, at: session.since, number: 0, what };
    let rest = [
        Op::PutOpenCommand(Box::new(open())),
        Op::PutFinishedCommand(finished()),
        Op::PutDesiredState(Box::new(desired_state())),
        Op::PutDeviceSession(Box::new(session)),
        Op::PutTimelineEntry(Box::new(entry)),
    ];
    put_command(waiting()).into_iter().chain(put_command(ended())).chain(rest).collect()
}

fn assert_told(change_tables: impl FnOnce(&TablesTransaction<'_>) -> Result<(), StoreError>, expect: &str) {
    let directory = directory();
    change(directory.path(), change_tables);
    let (found, _) = check(directory.path());
    assert!(found.iter().any(|text| text.contains(expect)), "{expect}: {found:?}");
}

#[test]
fn a_row_of_a_command_that_is_missing_is_told_by_the_others() {
    let feed_entry = |id: EntityId| key::feed_entry(CommandKey::from(id));
    let (waiting, ended) = (feed_entry(waiting().0.id), feed_entry(ended().0.id));
    for (table, key, expect) in [
        (Table::Commands, &waiting, "its command is missing"),
        (Table::CommandStates, &waiting, "its row in command_states is missing"),
        (Table::OpenCommands, &OpenCommand::key(&open()), "its row in open_commands is missing"),
        (Table::Commands, &ended, "its command is missing"),
        (
            Table::FinishedCommands,
            &FinishedCommand::key(&finished()),
            "its row in finished_commands is missing",
        ),
    ] {
        assert_told(|writer| writer.table(table)?.remove(PARTITION, key), expect);
    }
    for table in [Table::CommandsByDevice, Table::CommandsByDue, Table::CommandsByKey] {
        let first = |writer: &TablesTransaction<'_>| {
            let mut rows = writer.table(table)?;
            let first = rows.first(PARTITION, &KeyRange::all(), 1, |_, _| Ok(true))?;
            rows.remove(PARTITION, &first[0].0)
        };
        assert_told(first, &format!("its row in {} is missing", table.name()));
    }
}

#[test]
fn a_state_that_stands_elsewhere_is_told() {
    let state = CommandState { status: CommandStatus::Published, tries: 1, ..waiting().1 };
    let key = key::feed_entry(CommandKey::from(waiting().0.id));
    let row = crate::codec::Stored::to_row(&state);
    assert_told(
        |writer| writer.table(Table::CommandStates)?.put(PARTITION, &key, &row),
        "its command stands at",
    );
    let row = crate::codec::Stored::to_row(&CommandState { status: CommandStatus::Failed, ..state });
    assert_told(|writer| writer.table(Table::CommandStates)?.put(PARTITION, &key, &row), "does not say when");
}

#[test]
fn what_no_device_has_is_told() {
    let nobody = DeviceSlot(1_000);
    let desired_state = DesiredState { slot: nobody, ..desired_state() };
    let row = crate::codec::Stored::to_row(&desired_state);
    let key = key::desired_state(nobody, &desired_state.key);
    assert_told(|writer| writer.table(Table::Wishes)?.put(PARTITION, &key, &row), "no device has slot 1000");
}
