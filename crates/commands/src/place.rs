//! Where the store has a command besides its own rows, and the times that such rows bring.

use base::Timestamp;
use records::{Command, CommandState, FinishedCommand, OpenCommand};

/// The row of a command that says what it waits for, or since when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandPlace {
    /// It is new.
    Nowhere,
    /// It has not ended.
    Open(OpenCommand),
    /// It has ended.
    Finished(FinishedCommand),
}

impl CommandPlace {
    /// The place of a command in this state.
    pub(crate) fn of(command: &Command, state: &CommandState) -> Self {
        if let Some(open) = OpenCommand::of(command, state) {
            return Self::Open(open);
        }
        let finished = |at| FinishedCommand { at, key: command.id.into(), slot: command.slot };
        state.finished_at.map_or(Self::Nowhere, |at| Self::Finished(finished(at)))
    }
}

/// Before these times no row of the store has to be looked at. A row that is gone since may leave a
/// time behind, which then brings one look.
#[derive(Debug, Default)]
pub(crate) struct StoredTimes {
    /// The first `due` of an open command.
    pub(crate) due: Option<Timestamp>,
    /// When the first finished command ended.
    pub(crate) finished: Option<Timestamp>,
}

impl StoredTimes {
    /// A command has this place from now on.
    pub(crate) fn note(&mut self, place: CommandPlace) {
        let earlier = |known: Option<Timestamp>, at| known.into_iter().chain(at).min();
        match place {
            CommandPlace::Nowhere => {}
            CommandPlace::Open(open) => self.due = earlier(self.due, open.due),
            CommandPlace::Finished(finished) => self.finished = earlier(self.finished, Some(finished.at)),
        }
    }
}
