//! Commands in the orders in which they go out, run out and are forgotten; desired entries,
//! sessions and timelines.
//!
//! Nothing is shown of a device from the moment of its deletion. A command's state alone does not
//! say whose it is: it may be shown until the device is swept.

use std::ops::Bound;

use base::Timestamp;
use records::{
    Command, CommandKey, CommandPhase, CommandState, DesiredState, DeviceSession, DeviceSlot,
    FinishedCommand, OpenCommand, TimelineEntry, TimelineEntryKey,
};

use super::feeds::{Deleted, TableRange};
use super::index_of;
use crate::codec::key::{self, FeedEntryKey, TableKey};
use crate::key_range::KeyRange;
use crate::port::{Page, StoreError, View};
use crate::table::Table;

impl dyn View + '_ {
    /// A command as it was given.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn command(&self, key: CommandKey) -> Result<Option<Command>, StoreError> {
        let command: Option<Command> = self.record(&key::feed_entry(key))?;
        let deleted = command.as_ref().map_or(Ok(false), |command| self.is_deleted(command.slot))?;
        Ok(command.filter(|_| !deleted))
    }

    /// How far a command has come.
    pub fn command_state(&self, key: CommandKey) -> Result<Option<CommandState>, StoreError> {
        self.record(&key::feed_entry(key))
    }

    /// Commands and how far they have come, ordered by [`CommandKey`]; `keep` drops items before
    /// they count towards the limit.
    pub fn commands(
        &self,
        device: Option<DeviceSlot>,
        page: Page<CommandKey>,
        keep: &dyn Fn(&Command, &CommandState) -> bool,
    ) -> Result<Vec<(Command, CommandState)>, StoreError> {
        let mut deleted = Deleted::of(self)?;
        if device.map_or(Ok(false), |slot| deleted.has(slot))? {
            return Ok(Vec::new());
        }
        let feed = match device {
            Some(slot) => TableRange::of(Table::CommandsByDevice, &key::slot(slot), page),
            None => TableRange::of(Table::Commands, &[], page),
        };
        let mut commands = Vec::new();
        for found in feed.records::<Command>(self)? {
            if commands.len() >= page.limit {
                break;
            }
            let command = found?;
            let state = self.command_state(command.id.into())?.unwrap_or(CommandState::WAITING);
            if !deleted.has(command.slot)? && keep(&command, &state) {
                commands.push((command, state));
            }
        }
        Ok(commands)
    }

    /// A device's open commands in a phase: by priority, the highest first, then by key.
    pub fn open_commands(
        &self,
        slot: DeviceSlot,
        phase: CommandPhase,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, StoreError> {
        if self.is_deleted(slot)? {
            return Ok(Vec::new());
        }
        self.records(KeyRange::of(&key::open_commands(phase, slot)), true)?.take(limit).collect()
    }

    /// Whether anything is left to do of a device's commands.
    pub fn has_open_commands(&self, slot: DeviceSlot) -> Result<bool, StoreError> {
        for phase in CommandPhase::ALL {
            if !self.open_commands(slot, phase, 1)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Every command that waits for an answer: by device, each by priority, then by key.
    pub fn unanswered_commands(&self) -> Result<Vec<OpenCommand>, StoreError> {
        let mut deleted = Deleted::of(self)?;
        let mut commands = Vec::new();
        for open in self.records(KeyRange::of(&key::open_phase(CommandPhase::Unanswered)), true)? {
            let open: OpenCommand = open?;
            if !deleted.has(open.slot)? {
                commands.push(open);
            }
        }
        Ok(commands)
    }

    /// The devices with commands in a phase, in order of slot. Looks at one command of each.
    pub fn slots_with_commands(
        &self,
        phase: CommandPhase,
        after: Option<DeviceSlot>,
        limit: usize,
    ) -> Result<Vec<DeviceSlot>, StoreError> {
        let mut deleted = Deleted::of(self)?;
        let (mut slots, mut last) = (Vec::new(), after);
        while slots.len() < limit {
            let Some(slot) = self.next_with_commands(phase, last)? else { break };
            last = Some(slot);
            if !deleted.has(slot)? {
                slots.push(slot);
            }
        }
        Ok(slots)
    }

    fn next_with_commands(
        &self,
        phase: CommandPhase,
        after: Option<DeviceSlot>,
    ) -> Result<Option<DeviceSlot>, StoreError> {
        let last = after.map(|slot| key::behind_open_commands(phase, slot));
        let range = KeyRange::of(&key::open_phase(phase)).after(last);
        let next = self.rows(Table::OpenCommands, range, true)?.next().transpose()?;
        let slot = |(key, _): (TableKey, Vec<u8>)| {
            let slot = key::slot_of_open_command(&key);
            slot.map_err(|error| self.unreadable(Table::OpenCommands, &key, &error))
        };
        next.map(slot).transpose()
    }

    /// A device's commands that a newer one with a key of this hash may replace, by key.
    pub fn commands_with_key(&self, slot: DeviceSlot, hash: u64) -> Result<Vec<OpenCommand>, StoreError> {
        if self.is_deleted(slot)? {
            return Ok(Vec::new());
        }
        let index = index_of::<OpenCommand>(Table::CommandsByKey);
        let rows = self.rows(index.table, KeyRange::of(&key::command_key(slot, hash)), true)?;
        rows.map(|row| row.and_then(|(key, value)| self.surely_named(index, &key, &value))).collect()
    }

    /// The open commands that are due behind `after` and at `until` or before, by when they are,
    /// then by key.
    pub fn commands_due(
        &self,
        after: Option<(Timestamp, CommandKey)>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, StoreError> {
        let index = index_of::<OpenCommand>(Table::CommandsByDue);
        let last = after.map(|(due, key)| FeedEntryKey::from(key).below(&key::time(due)));
        let rows = self.rows(index.table, up_to(until).after(last), true)?;
        let named = |(key, value): (TableKey, Vec<u8>)| self.surely_named(index, &key, &value);
        self.of_devices(rows.map(|row| row.and_then(named)), limit, |open: &OpenCommand| open.slot)
    }

    /// The commands that had ended at `until`, by when they did, then by key.
    pub fn finished_commands(
        &self,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<FinishedCommand>, StoreError> {
        let records = self.records(up_to(until), true)?;
        self.of_devices(records, limit, |finished: &FinishedCommand| finished.slot)
    }

    /// The first records whose devices were not deleted.
    fn of_devices<T>(
        &self,
        records: impl Iterator<Item = Result<T, StoreError>>,
        limit: usize,
        slot: impl Fn(&T) -> DeviceSlot,
    ) -> Result<Vec<T>, StoreError> {
        let mut deleted = Deleted::of(self)?;
        let mut found = Vec::new();
        for record in records {
            if found.len() >= limit {
                break;
            }
            let record = record?;
            if !deleted.has(slot(&record))? {
                found.push(record);
            }
        }
        Ok(found)
    }

    /// A desired entry of a device.
    pub fn desired_state(&self, slot: DeviceSlot, of: &str) -> Result<Option<DesiredState>, StoreError> {
        if self.is_deleted(slot)? { Ok(None) } else { self.record(&key::desired_state(slot, of)) }
    }

    /// A device's desired entries, in order of key.
    pub fn desired_states(&self, slot: DeviceSlot) -> Result<Vec<DesiredState>, StoreError> {
        if self.is_deleted(slot)? {
            return Ok(Vec::new());
        }
        self.records(KeyRange::of(&key::slot(slot)), true)?.collect()
    }

    /// A device's session that is open in the books.
    pub fn device_session(&self, slot: DeviceSlot) -> Result<Option<DeviceSession>, StoreError> {
        if self.is_deleted(slot)? { Ok(None) } else { self.record(&key::slot(slot)) }
    }

    /// What happened to a device besides its events, ordered by [`TimelineEntryKey`].
    pub fn timeline(
        &self,
        slot: DeviceSlot,
        page: Page<TimelineEntryKey>,
    ) -> Result<Vec<TimelineEntry>, StoreError> {
        if self.is_deleted(slot)? {
            return Ok(Vec::new());
        }
        let page = page.kept_from(self.head().kept_from.events);
        TableRange::of(Table::Timeline, &key::slot(slot), page).records(self)?.take(page.limit).collect()
    }
}

/// The rows whose keys begin with a time up to this one.
fn up_to(until: Timestamp) -> KeyRange {
    KeyRange { low: Bound::Unbounded, high: Bound::Included(FeedEntryKey::LAST.below(&key::time(until))) }
}
