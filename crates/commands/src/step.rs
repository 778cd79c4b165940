//! A call to the rules: the time, the lanes, the store, and what the caller is told.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use records::{Command, CommandKey, CommandState, Op, OpenCommand};

use crate::outcome::{How, Moved};
use crate::place::{CommandPlace, StoredTimes};
use crate::store::CommandStore;
use crate::table::LaneTable;
use crate::unanswered::Unanswered;

/// Most commands that a call moves, but for [`crate::CommandLanes::advance`]. What is left is due.
pub(crate) const MOVES_MAX: usize = 1_000;
/// Payload bytes after which a lane lets nothing more out in a call. What is left is due.
pub(crate) const MOVED_BYTES_MAX: usize = 1 << 20;

/// A command, and how far it has come.
pub(crate) type Tracked = (Arc<Command>, CommandState);

/// What a call works with. The rules are its methods, in `lanes/`.
pub(crate) struct LaneStep<'a, S> {
    pub(crate) now: Timestamp,
    pub(crate) keep: Duration,
    pub(crate) lanes: &'a mut LaneTable,
    pub(crate) times: &'a mut StoredTimes,
    pub(crate) store: &'a mut S,
    pub(crate) moved: &'a mut Vec<Moved>,
}

impl<S: CommandStore> LaneStep<'_, S> {
    /// The time that is noted for what comes of a command now. The stamp in its id may be some
    /// milliseconds ahead of the clock, and nothing comes of it before it was given.
    pub(crate) fn time_for(&self, command: &Command) -> Timestamp {
        self.now.max(command.id.at)
    }

    /// A command by its key.
    pub(crate) fn read(&self, key: CommandKey) -> Result<Option<Tracked>, S::Error> {
        let Some(command) = self.store.command(key)? else { return Ok(None) };
        Ok(self.store.state(key)?.map(|state| (command, state)))
    }

    /// A command that was unanswered, from memory if it is remembered.
    pub(crate) fn known(&self, unanswered: Unanswered) -> Result<Option<Tracked>, S::Error> {
        let key = unanswered.key();
        match unanswered.remembered() {
            Some(known) => Ok(Some(known)),
            None => self.read(key),
        }
    }

    /// The command of a row. A row without one goes.
    pub(crate) fn read_row(&mut self, row: &OpenCommand) -> Result<Option<Tracked>, S::Error> {
        let found = self.read(row.key)?;
        if found.is_none() {
            self.leave(CommandPlace::Open(*row));
        }
        Ok(found)
    }

    /// Writes how far a command has come, whose place was `before`.
    pub(crate) fn write(&mut self, before: CommandPlace, command: &Command, state: &CommandState) {
        let place = CommandPlace::of(command, state);
        if place != before {
            self.leave(before);
            self.enter(place);
        }
        self.store.write(Op::PutCommandState(command.id.into(), Box::new(state.clone())));
    }

    /// Tells the caller what became of a command.
    pub(crate) fn tell(&mut self, command: &Arc<Command>, state: &CommandState, how: How) {
        self.moved.push(Moved { command: Arc::clone(command), state: state.clone(), how });
    }

    fn leave(&mut self, place: CommandPlace) {
        match place {
            CommandPlace::Nowhere => {}
            CommandPlace::Open(open) => self.store.write(Op::DeleteOpenCommand(Box::new(open))),
            CommandPlace::Finished(finished) => self.store.write(Op::DeleteFinishedCommand(finished)),
        }
    }

    fn enter(&mut self, place: CommandPlace) {
        self.times.note(place);
        match place {
            CommandPlace::Nowhere => {}
            CommandPlace::Open(open) => self.store.write(Op::PutOpenCommand(Box::new(open))),
            CommandPlace::Finished(finished) => self.store.write(Op::PutFinishedCommand(finished)),
        }
    }
}
