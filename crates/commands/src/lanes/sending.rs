//! A command is given, or tried anew by hand: it waits for its turn, unless it is its turn.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use records::{Command, CommandKey, CommandState, CommandStatus, Op, OpenCommand};

use crate::outcome::{How, Refused};
use crate::place::CommandPlace;
use crate::step::{LaneStep, MOVES_MAX};
use crate::store::CommandStore;
use crate::unanswered::has_expired;

impl<S: CommandStore> LaneStep<'_, S> {
    pub(crate) fn send(&mut self, command: Arc<Command>) -> Result<(), S::Error> {
        self.supersede(&command)?;
        let not_before = command.terms.not_before.filter(|at| *at > self.now);
        let expires_at = end_of(&command, not_before.unwrap_or(self.now));
        let state = CommandState { is_held: not_before.is_some(), expires_at, ..CommandState::WAITING };
        self.store.write(Op::PutCommand(Box::new(Command::clone(&command))));
        self.schedule(CommandPlace::Nowhere, command, state)
    }

    pub(crate) fn retry(&mut self, key: CommandKey) -> Result<Result<(), Refused>, S::Error> {
        let Some((command, state)) = self.read(key)? else { return Ok(Err(Refused::Unknown)) };
        let is_retryable =
            matches!(state.status, CommandStatus::Failed | CommandStatus::Expired | CommandStatus::Cancelled);
        if !is_retryable {
            return Ok(Err(Refused::Stands(state.status)));
        }
        let before = CommandPlace::of(&command, &state);
        // The device may answer to what went out before.
        let (expires_at, published_at) = (end_of(&command, self.now), state.published_at);
        let state = CommandState { expires_at, published_at, ..CommandState::WAITING };
        self.schedule(before, command, state).map(Ok)
    }

    /// Puts a command into its device's line. When it goes out at once, only that is written.
    fn schedule(
        &mut self,
        before: CommandPlace,
        command: Arc<Command>,
        state: CommandState,
    ) -> Result<(), S::Error> {
        self.tell(&command, &state, How::Scheduled);
        let slot = command.slot;
        let waits = state.is_held || has_expired(&state, self.now);
        if let Some(pace) = self.lanes.goes_at_once(slot, self.now).filter(|_| !waits) {
            self.publish(before, command, state, pace.gap);
            return Ok(());
        }
        self.write(before, &command, &state);
        if !state.is_held {
            self.lanes.set_waiting(slot, true);
        }
        self.move_on(slot, MOVES_MAX).map(drop)
    }

    /// Waiting commands of the device with the same key give way to a new one.
    fn supersede(&mut self, new: &Command) -> Result<(), S::Error> {
        let Some(key) = new.key.as_deref() else { return Ok(()) };
        for row in self.store.with_key(new.slot, OpenCommand::key_hash(key))? {
            let Some((command, state)) = self.read_row(&row)? else { continue };
            if command.key.as_deref() == Some(key) {
                self.end(&command, state, CommandStatus::Superseded)?;
            }
        }
        Ok(())
    }
}

/// When a command ends that may go out from this time on.
fn end_of(command: &Command, from: Timestamp) -> Option<Timestamp> {
    command.terms.ttl_ms.map(|ttl_ms| from.after(Duration::from_millis(ttl_ms)))
}
