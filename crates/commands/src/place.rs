//! Where the store has a command besides its own rows, and the times that such rows bring.

use base::Timestamp;
use records::{Command, CommandKey, CommandState, FinishedCommand, OpenCommand};

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
        let open = OpenCommand::of(command, state).map(Self::Open);
        let finished = || FinishedCommand::of(command, state).map(Self::Finished);
        open.or_else(finished).unwrap_or(Self::Nowhere)
    }
}

/// Before these times no row of the store has to be looked at. A row that is gone since may leave a
/// time behind, which then brings one look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoredTimes {
    /// The first `due` of an open command, those aside that were put off.
    pub(crate) due: Option<Timestamp>,
    /// The last command that was put off; so were all before it. Their time is over, and there was
    /// no room for their outcomes.
    pub(crate) put_off: Option<(Timestamp, CommandKey)>,
    /// When the first finished command ended.
    pub(crate) finished: Option<Timestamp>,
}

impl StoredTimes {
    /// A command has this place from now on.
    pub(crate) fn note(&mut self, place: CommandPlace) {
        let earlier = |known: Option<Timestamp>, at| known.into_iter().chain(at).min();
        match place {
            CommandPlace::Nowhere => {}
            CommandPlace::Open(open) => {
                self.due = earlier(self.due, open.due);
                // One that comes before those that were put off would not be found behind them.
                let place = open.due.map(|due| (due, open.key));
                self.put_off = self.put_off.filter(|last| place.is_none_or(|place| place > *last));
            }
            CommandPlace::Finished(finished) => self.finished = earlier(self.finished, Some(finished.at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unanswered::tests::tracked;

    #[test]
    fn the_first_times_are_kept() {
        let (mut times, (command, mut state)) = (StoredTimes::default(), tracked(1, 0, 1));
        for (expires_at, due) in
            [(None, None), (Some(50), Some(50)), (Some(70), Some(50)), (Some(20), Some(20))]
        {
            state.expires_at = expires_at.map(Timestamp);
            times.note(CommandPlace::of(&command, &state));
            assert_eq!((times.due, times.finished), (due.map(Timestamp), None));
        }
        state.status = records::CommandStatus::Expired;
        state.finished_at = Some(Timestamp(21));
        times.note(CommandPlace::of(&command, &state));
        assert_eq!((times.due, times.finished), (Some(Timestamp(20)), Some(Timestamp(21))));
    }
}
