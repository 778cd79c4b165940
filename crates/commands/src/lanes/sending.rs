//! A command is given, or tried anew by hand: it waits for its turn, unless it is its turn.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use records::{Command, CommandKey, CommandState, CommandStatus, Op, OpenCommand};

use crate::outcome::{CommandRefusal, How};
use crate::place::CommandPlace;
use crate::step::{LaneStep, MOVES_MAX, Tracked};
use crate::store::CommandStore;
use crate::unanswered::has_expired;

impl<S: CommandStore> LaneStep<'_, S> {
    pub(crate) fn send(&mut self, command: Arc<Command>) -> Result<(), S::Error> {
        self.supersede(&command)?;
        let state = scheduled(&command, self.now);
        self.store.write(Op::PutCommand(Box::new(Command::clone(&command))));
        self.schedule(CommandPlace::Nowhere, command, state)
    }

    pub(crate) fn retry(&mut self, key: CommandKey) -> Result<Result<(), CommandRefusal>, S::Error> {
        let Some((command, state)) = self.read(key)? else { return Ok(Err(CommandRefusal::Unknown)) };
        let is_retryable =
            matches!(state.status, CommandStatus::Failed | CommandStatus::Expired | CommandStatus::Cancelled);
        if !is_retryable {
            return Ok(Err(CommandRefusal::Stands(state.status)));
        }
        if self.has_newer(&command)? {
            return Ok(Err(CommandRefusal::GivesWay));
        }
        self.supersede(&command)?;
        let before = CommandPlace::of(&command, &state);
        // The device may answer to what went out before.
        let state = CommandState { published_at: state.published_at, ..scheduled(&command, self.now) };
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
        self.resume_if_room(slot);
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

    /// Waiting commands of the device with the same key give way to one that is given or retried.
    fn supersede(&mut self, new: &Command) -> Result<(), S::Error> {
        for (command, state) in self.rivals(new)? {
            self.end(&command, state, CommandStatus::Superseded)?;
        }
        Ok(())
    }

    /// Whether a command with the same key waits that was given later.
    fn has_newer(&mut self, old: &Command) -> Result<bool, S::Error> {
        let is_newer = |one: &Command| CommandKey::from(one.id) > CommandKey::from(old.id);
        Ok(self.rivals(old)?.iter().any(|(command, _)| is_newer(command)))
    }

    /// Waiting commands of the device with the key of this one.
    fn rivals(&mut self, of: &Command) -> Result<Vec<Tracked>, S::Error> {
        let Some(key) = of.key.as_deref() else { return Ok(Vec::new()) };
        let mut rivals = Vec::new();
        for row in self.store.with_key(of.slot, OpenCommand::key_hash(key))? {
            let found = self.read_row(&row)?;
            rivals.extend(found.filter(|(command, _)| command.key.as_deref() == Some(key)));
        }
        Ok(rivals)
    }
}

/// How far a command has come that is given or retried now. Its `ttl` counts from when it may go
/// out.
fn scheduled(command: &Command, now: Timestamp) -> CommandState {
    let not_before = command.terms.not_before.filter(|at| *at > now);
    let ttl = command.terms.ttl_ms.map(Duration::from_millis);
    let expires_at = ttl.map(|ttl| not_before.unwrap_or(now).after(ttl));
    CommandState { is_held: not_before.is_some(), expires_at, ..CommandState::WAITING }
}
