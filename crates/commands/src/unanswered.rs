//! A command that went out and has not been answered: how long the device has, and what follows.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use records::{Command, CommandKey, CommandState, CommandStatus};

/// A command that its device has not answered.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    pub(crate) command: Arc<Command>,
    pub(crate) state: CommandState,
    /// The device came back after the command went out: it need not wait for its deadline.
    repeats_at_once: bool,
}

impl Unanswered {
    pub(crate) fn new(command: Arc<Command>, state: CommandState) -> Self {
        Self { command, state, repeats_at_once: false }
    }

    pub(crate) fn key(&self) -> CommandKey {
        self.command.id.into()
    }

    /// By priority, the highest first, then by age.
    pub(crate) fn rank(&self) -> (Reverse<i8>, CommandKey) {
        (Reverse(self.command.terms.priority), self.key())
    }

    /// Until then the device has time for an answer, or for more progress.
    pub(crate) fn deadline(&self) -> Timestamp {
        let terms = &self.command.terms;
        let (since, span_ms) = match self.state.status {
            CommandStatus::Running => (self.state.progress_at, terms.run_timeout_ms),
            _ => (self.state.published_at, terms.ack_timeout_ms),
        };
        since.unwrap_or_default().after(Duration::from_millis(span_ms))
    }

    /// Whether it goes out no more: at its deadline it fails.
    pub(crate) fn is_on_last_try(&self) -> bool {
        self.state.tries >= self.command.terms.attempts_max
    }

    /// When it fails for want of an answer; `None` while it has tries left.
    pub(crate) fn fails_at(&self) -> Option<Timestamp> {
        self.is_on_last_try().then(|| self.deadline())
    }

    /// When it goes out again in an open lane, if the gap allows; `None` on its last try.
    pub(crate) fn repeats_at(&self) -> Option<Timestamp> {
        let at = if self.repeats_at_once { Timestamp(i64::MIN) } else { self.deadline() };
        (!self.is_on_last_try()).then_some(at)
    }

    /// The device is reachable again. One that said that it is at work is not asked again.
    pub(crate) fn came_back(&mut self) {
        self.repeats_at_once = self.state.status == CommandStatus::Published;
    }
}

/// Whether a command's time is over.
pub(crate) fn has_expired(state: &CommandState, now: Timestamp) -> bool {
    state.expires_at.is_some_and(|at| at <= now)
}
