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

#[cfg(test)]
pub(crate) mod tests {
    use base::{DeviceId, EntityId};
    use records::{CommandCause, CommandTerms, DeviceSlot};

    use super::*;

    /// A command of device 1 that went out at 100 for the `tries`th time, of three. The device has
    /// 10 for its answer, and 50 while it is at work.
    pub(crate) fn sample(number: u32, priority: i8, tries: u32) -> Unanswered {
        let terms = CommandTerms {
            priority,
            not_before: None,
            ttl_ms: None,
            ack_timeout_ms: 10,
            run_timeout_ms: 50,
            attempts_max: 3,
        };
        let command = Command {
            id: EntityId { routing: 0, at: Timestamp(1), number, tag: 0 },
            slot: DeviceSlot(1),
            device: DeviceId::new("0xA").expect("an id"),
            payload: Arc::from(&b"1"[..]),
            origin: None,
            key: None,
            terms,
            cause: CommandCause::Call,
            notify: None,
        };
        let (status, published_at) = (CommandStatus::Published, Some(Timestamp(100)));
        let state = CommandState { status, tries, published_at, ..CommandState::WAITING };
        Unanswered::new(Arc::new(command), state)
    }

    #[test]
    fn a_device_at_work_has_the_time_that_it_was_given_for_that() {
        let mut unanswered = sample(1, 0, 1);
        assert_eq!(unanswered.deadline(), Timestamp(110));
        unanswered.state.status = CommandStatus::Running;
        unanswered.state.progress_at = Some(Timestamp(105));
        assert_eq!(unanswered.deadline(), Timestamp(155));
    }

    #[test]
    fn the_last_try_fails_and_the_others_are_followed_by_another() {
        for (tries, fails_at, repeats_at) in
            [(1, None, Some(110)), (2, None, Some(110)), (3, Some(110), None)]
        {
            let unanswered = sample(1, 0, tries);
            assert_eq!(unanswered.fails_at(), fails_at.map(Timestamp), "{tries}");
            assert_eq!(unanswered.repeats_at(), repeats_at.map(Timestamp), "{tries}");
        }
    }

    #[test]
    fn a_device_that_comes_back_is_asked_at_once_unless_it_is_at_work() {
        let (mut published, mut running, mut last) = (sample(1, 0, 1), sample(2, 0, 1), sample(3, 0, 3));
        running.state.status = CommandStatus::Running;
        running.state.progress_at = Some(Timestamp(105));
        for unanswered in [&mut published, &mut running, &mut last] {
            unanswered.came_back();
        }
        assert!(published.repeats_at().is_some_and(|at| at < Timestamp(0)));
        assert_eq!(running.repeats_at(), Some(Timestamp(155)));
        assert_eq!(last.repeats_at(), None);
    }
}
