//! What commands, desired entries, sessions and timelines say of each other and of their devices.
//!
//! Where a command stands follows from it and its state: it is open in one place, or has ended and
//! waits to be forgotten.

use records::{
    Command, CommandKey, CommandState, DesiredState, DeviceSession, DeviceSlot, FinishedCommand, OpenCommand,
    TimelineEntry,
};

use super::rows::{CheckedPartition, RowCheck, Wrong};
use crate::codec::key::{self, TableKey};
use crate::record::Record;
use crate::table::Table;

impl RowCheck<'_, '_> {
    pub(super) fn commands(&mut self, within: &CheckedPartition) {
        let partition = within.partition;
        self.indexed(partition, |check, command: &Command| {
            check.belongs(&command.device, partition)?;
            check.is_of_device(within, command.slot)?;
            check.needs(Table::CommandStates, partition, &key::feed_entry(CommandKey::from(command.id)))
        });
        self.records(Table::CommandStates, partition, |check, key, state: CommandState| {
            let command: Option<Command> = check.record(partition, key)?;
            let (table, place) = place_of(&command.ok_or("its command is missing")?, &state)?;
            check.needs(table, partition, &place)
        });
        self.indexed(partition, |check, open: &OpenCommand| {
            let (command, state) = check.command(within, open.key)?;
            match OpenCommand::of(&command, &state) {
                Some(place) if place == *open => Ok(()),
                place => Err(format!("its command stands at {place:?}")),
            }
        });
        self.indexed(partition, |check, finished: &FinishedCommand| {
            let (command, state) = check.command(within, finished.key)?;
            match FinishedCommand::of(&command, &state) {
                Some(place) if place == *finished => Ok(()),
                place => Err(format!("its command stands at {place:?}")),
            }
        });
    }

    /// Desired entries, sessions and timelines.
    pub(super) fn beside_commands(&mut self, within: &CheckedPartition) {
        self.indexed(within.partition, |check, desired_state: &DesiredState| {
            check.is_of_device(within, desired_state.slot)
        });
        self.indexed(within.partition, |check, session: &DeviceSession| {
            check.is_of_device(within, session.slot)
        });
        // what was on its way when a device was deleted may still end
        self.indexed(within.partition, |_, entry: &TimelineEntry| within.was_given(entry.slot));
    }

    fn command(
        &self,
        within: &CheckedPartition,
        command: CommandKey,
    ) -> Result<(Command, CommandState), Wrong> {
        let key = key::feed_entry(command);
        let state = self.record(within.partition, &key)?.ok_or("the state of its command is missing")?;
        let command = self.record(within.partition, &key)?.ok_or("its command is missing")?;
        Ok((command, state))
    }

    /// Whether a device has this slot, or had it and is not swept yet.
    fn is_of_device(&self, within: &CheckedPartition, slot: DeviceSlot) -> Result<(), Wrong> {
        within.is_there(slot).or_else(|wrong| {
            let mark = self.get(Table::Deleted, within.partition, &key::slot(slot))?;
            mark.map(drop).ok_or(wrong)
        })
    }
}

/// The row that a command in this state has besides its own.
fn place_of(command: &Command, state: &CommandState) -> Result<(Table, TableKey), Wrong> {
    let open = OpenCommand::of(command, state).map(|open| (Table::OpenCommands, OpenCommand::key(&open)));
    let finished = || {
        let finished = FinishedCommand::of(command, state)?;
        Some((Table::FinishedCommands, FinishedCommand::key(&finished)))
    };
    open.or_else(finished).ok_or_else(|| "it has ended, and does not say when".to_owned())
}
