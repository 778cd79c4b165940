//! What a store would hold after the writes so far, searched from end to end.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use base::Timestamp;
use commands::CommandStore;
use records::{
    Command, CommandKey, CommandPhase, CommandState, CommandStatus, DeviceSlot, FinishedCommand, Op,
    OpenCommand,
};

/// The tables.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) commands: BTreeMap<CommandKey, Arc<Command>>,
    pub(crate) states: BTreeMap<CommandKey, CommandState>,
    pub(crate) open: BTreeMap<CommandKey, OpenCommand>,
    pub(crate) finished: BTreeSet<FinishedCommand>,
    /// Times of rows that are gone. They may be left behind in memory.
    pub(crate) past_dues: BTreeSet<Timestamp>,
    pub(crate) past_ends: BTreeSet<Timestamp>,
    /// How often something was read, and a state written.
    pub(crate) reads: Cell<usize>,
    pub(crate) state_writes: usize,
    /// There is no room for outcomes.
    pub(crate) is_full: bool,
}

impl Stored {
    /// All commands that wait for an answer, as a partition reads them when it starts.
    pub(crate) fn unanswered(&self) -> Vec<(Arc<Command>, CommandState)> {
        let rows = self.open.values().filter(|row| row.phase == CommandPhase::Unanswered);
        let known = rows.filter(|row| self.commands.contains_key(&row.key));
        known.map(|row| (Arc::clone(&self.commands[&row.key]), self.states[&row.key].clone())).collect()
    }

    /// How many commands have a time that has come.
    pub(crate) fn count_due(&self, now: Timestamp) -> usize {
        self.open.values().filter(|row| row.due.is_some_and(|due| due <= now)).count()
    }

    /// A device is deleted: its commands are gone at once. Of its rows, those that have a time are
    /// left to be found by that.
    pub(crate) fn sweep(&mut self, slot: DeviceSlot) {
        let gone: Vec<_> = self.commands.values().filter(|command| command.slot == slot).cloned().collect();
        for command in gone {
            let key = command.id.into();
            self.commands.remove(&key);
            self.states.remove(&key);
        }
        self.open.retain(|_, row| row.slot != slot || row.due.is_some());
    }

    /// Every command has one row that says where it stands, and that is the right one.
    pub(crate) fn check_places(&self) {
        for (key, command) in &self.commands {
            let state = &self.states[key];
            assert_eq!(self.open.get(key).copied(), OpenCommand::of(command, state), "{state:?}");
            let ends: Vec<_> = self.finished.iter().filter(|row| row.key == *key).map(|row| row.at).collect();
            let is_held_rightly = !state.is_held || state.phase() == Some(CommandPhase::Held);
            assert!(is_held_rightly, "{state:?}");
            assert_eq!(ends, Vec::from_iter(state.finished_at), "{state:?}");
            assert_eq!(state.finished_at.is_some(), state.status.has_ended(), "{state:?}");
        }
        assert!(self.states.keys().eq(self.commands.keys()), "a state has a command");
    }

    fn read<T>(&self, found: T) -> Result<T, Infallible> {
        self.reads.set(self.reads.get() + 1);
        Ok(found)
    }

    fn rows(
        &self,
        is_meant: impl Fn(&OpenCommand) -> bool,
        place: impl Fn(&OpenCommand) -> (Option<Timestamp>, Reverse<i8>, CommandKey),
        limit: usize,
    ) -> Result<Vec<OpenCommand>, Infallible> {
        let mut rows: Vec<_> = self.open.values().filter(|row| is_meant(row)).copied().collect();
        rows.sort_by_key(place);
        rows.truncate(limit);
        self.read(rows)
    }
}

impl CommandStore for Stored {
    type Error = Infallible;

    fn command(&self, key: CommandKey) -> Result<Option<Arc<Command>>, Infallible> {
        self.read(self.commands.get(&key).cloned())
    }

    fn state(&self, key: CommandKey) -> Result<Option<CommandState>, Infallible> {
        self.read(self.states.get(&key).cloned())
    }

    fn first(
        &self,
        slot: DeviceSlot,
        phase: CommandPhase,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, Infallible> {
        let is_meant = |row: &OpenCommand| row.slot == slot && row.phase == phase;
        self.rows(is_meant, |row| (None, Reverse(row.priority), row.key), limit)
    }

    fn with_key(&self, slot: DeviceSlot, key_hash: u64) -> Result<Vec<OpenCommand>, Infallible> {
        // As if all keys had the same hash.
        let is_meant = |row: &OpenCommand| row.slot == slot && row.key_hash.is_some() && key_hash != 0;
        self.rows(is_meant, |row| (None, Reverse(0), row.key), usize::MAX)
    }

    fn due(
        &self,
        after: Option<(Timestamp, CommandKey)>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, Infallible> {
        let is_behind = |place| after.is_none_or(|after| place > after);
        let is_meant =
            |row: &OpenCommand| row.due.is_some_and(|due| due <= until && is_behind((due, row.key)));
        self.rows(is_meant, |row| (row.due, Reverse(0), row.key), limit)
    }

    fn finished(&self, until: Timestamp, limit: usize) -> Result<Vec<FinishedCommand>, Infallible> {
        self.read(self.finished.iter().filter(|row| row.at <= until).take(limit).copied().collect())
    }

    fn has_room_for_outcome(&mut self, of: &Command, _: CommandStatus) -> bool {
        of.notify.is_none() || !self.is_full
    }

    fn has_room_again(&self) -> bool {
        !self.is_full
    }

    fn forget_refused(&mut self) {}

    fn write(&mut self, op: Op) {
        match op {
            Op::PutCommand(command) => {
                let before = self.commands.insert(command.id.into(), Arc::from(command));
                assert!(before.is_none(), "a command is given once");
            }
            Op::DeleteCommand(key, slot) => {
                let command = self.commands.remove(&key).expect("what is deleted was stored");
                assert_eq!(command.slot, slot);
                self.states.remove(&key);
            }
            Op::PutCommandState(key, state) => {
                self.state_writes += 1;
                self.states.insert(key, *state);
            }
            Op::PutOpenCommand(row) => {
                let before = self.open.insert(row.key, *row);
                assert!(before.is_none(), "a command stands in one place");
            }
            Op::DeleteOpenCommand(row) => {
                assert_eq!(self.open.remove(&row.key), Some(*row), "the row that was stored");
                self.past_dues.extend(row.due);
            }
            Op::PutFinishedCommand(row) => assert!(self.finished.insert(row), "a command ends once"),
            Op::DeleteFinishedCommand(row) => {
                assert!(self.finished.remove(&row), "the row that was stored");
                self.past_ends.insert(row.at);
            }
            other => panic!("the rules change nothing but commands: {other:?}"),
        }
    }
}
