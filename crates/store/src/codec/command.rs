//! Stored forms of commands, of where they stand, and of what leads to them.

use std::borrow::Cow;

use records::{
    Command, CommandCause, CommandKey, CommandPhase, CommandState, CommandStatus, CommandTerms, DeviceSlot,
    FinishedCommand, LateAnswer, OpenCommand, OutcomeReceiver, PickCause, RolloutCause,
};

use super::field::{Field, choices, fields, stored, variants};
use super::key::{self, FeedEntryKey, TableKey};
use super::{ByteReader, CodecError, Stored};
use crate::record::{Index, Placed, feed_index, record, rows_of};
use crate::table::Table;

stored!(
    Command, "a command", version 1:
    id, slot, device, payload, origin, key, terms, cause, notify
);

stored!(
    CommandState, "how far a command has come", version 1:
    status, is_held, expires_at, tries, published_at, finished_at, progress, progress_at, result, late
);

stored!(
    LateAnswer, "a late answer", version 1:
    ok, at, result
);

stored!(
    OpenCommand, "an open command", version 1:
    key, slot, phase, priority, due, key_hash
);

stored!(
    FinishedCommand, "a finished command", version 1:
    at, key, slot
);

stored!(
    PickCause, "a pick of a device", version 1:
    task, number, picked_at, slot
);

fields! {
    CommandKey: at, number;
    RolloutCause: rollout, entry, turn;
    CommandTerms: priority, not_before, ttl_ms, ack_timeout_ms, run_timeout_ms, attempts_max;
}

choices! {
    CommandStatus, "a command's status": Scheduled = 0, Published = 1, Running = 2, Acknowledged = 3,
        Failed = 4, Expired = 5, Superseded = 6, Cancelled = 7;
    CommandPhase, "what a command waits for": Unanswered = 0, Waiting = 1, Held = 2;
}

variants! {
    CommandCause, "what made a command":
        Call {} = 0, DesiredState { key: key, value: value } = 1, Rollout { 0: turn } = 2,
        RolloutEntry { key: key, value: value, turn: turn } = 3, Pick { 0: turn } = 4;
    OutcomeReceiver, "who is told of an outcome":
        Queue { namespace: namespace, queue: queue } = 0, Url { url: url, secret: secret } = 1,
        Stream { namespace: namespace, stream: stream } = 2;
}

/// Version 1: which it is, and its fields in order.
impl Stored for OutcomeReceiver {
    const VERSION: u8 = 1;
    const NAME: &'static str = "who is told of an outcome";

    fn put(&self, out: &mut Vec<u8>) {
        self.put_field(out);
    }

    fn get(reader: &mut ByteReader<'_>, _version: u8) -> Result<Self, CodecError> {
        Field::get_field(reader)
    }
}

/// Where all rows of a command in this state are.
pub(crate) fn rows_of_command(command: &Command, state: &CommandState) -> Vec<(Table, TableKey)> {
    let mut rows = rows_of::<Command>(&command.place());
    rows.extend(rows_of::<CommandState>(&command.id.into()));
    rows.extend(OpenCommand::of(command, state).iter().flat_map(rows_of::<OpenCommand>));
    rows.extend(FinishedCommand::of(command, state).iter().flat_map(rows_of::<FinishedCommand>));
    rows
}

record!(
    Command: Commands by (CommandKey, DeviceSlot),
    key: |(command, _)| key::feed_entry(*command),
    place: |command| Cow::Owned((command.id.into(), command.slot)),
    indexes: [feed_index!(CommandsByDevice: |(command, slot)| key::slot(*slot), *command)],
);

record!(
    CommandState: CommandStates by CommandKey,
    key: |command| key::feed_entry(*command),
);

record!(
    /// A row of an index holds the begin of the key that it leads to, and ends with the rest.
    OpenCommand: OpenCommands by OpenCommand,
    key: |open| key::open_command(open),
    place: |open| Cow::Borrowed(open),
    indexes: [
        Index {
            table: Table::CommandsByDue,
            rows: |open, row| {
                let key = |due| FeedEntryKey::from(open.key).below(&key::time(due));
                open.due.iter().for_each(|due| row(key(*due), &key::open_lane(open)));
            },
            names: |row, lane| key::open_command_from(row, lane),
        },
        Index {
            table: Table::CommandsByKey,
            rows: |open, row| {
                let key = |hash| FeedEntryKey::from(open.key).below(&key::command_key(open.slot, hash));
                open.key_hash.iter().for_each(|hash| row(key(*hash), &key::open_lane(open)));
            },
            names: |row, lane| key::open_command_from(row, lane),
        },
    ],
);

record!(
    FinishedCommand: FinishedCommands by FinishedCommand,
    key: |finished| FeedEntryKey::from(finished.key).below(&key::time(finished.at)),
    place: |finished| Cow::Borrowed(finished),
);
