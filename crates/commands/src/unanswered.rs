//! A command that went out and has not been answered: how long the device has, and what follows.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use records::{Command, CommandKey, CommandState, CommandStatus, DeviceSlot, OutcomeReceiver};

use crate::step::Tracked;

/// Memory for one unanswered command. One that takes more is read from the store when it moves on.
/// A payload may have 256 KiB, and there are as many unanswered commands as devices.
pub(crate) const REMEMBERED_EACH_BYTES_MAX: usize = 2 << 10;

/// A command that its device has not answered: when it moves on. The command itself is remembered
/// only while there is memory for it.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    key: CommandKey,
    pub(crate) slot: DeviceSlot,
    priority: i8,
    is_at_work: bool,
    is_on_last_try: bool,
    /// It was to end, and there was no room for its outcome: it does nothing by itself.
    pub(crate) is_put_off: bool,
    /// The device came back after the command went out: it need not wait for its deadline.
    repeats_at_once: bool,
    /// When it went out last.
    pub(crate) published_at: Option<Timestamp>,
    deadline: Timestamp,
    remembered: Option<Tracked>,
}

impl Unanswered {
    pub(crate) fn new(command: Arc<Command>, state: CommandState) -> Self {
        let mut unanswered = Self {
            key: command.id.into(),
            slot: command.slot,
            priority: command.terms.priority,
            is_at_work: state.status == CommandStatus::Running,
            is_on_last_try: is_on_last_try(&command, &state),
            is_put_off: false,
            repeats_at_once: false,
            published_at: state.published_at,
            deadline: deadline(&command, &state),
            remembered: Some((command, state)),
        };
        unanswered.remember_within(REMEMBERED_EACH_BYTES_MAX);
        unanswered
    }

    pub(crate) fn key(&self) -> CommandKey {
        self.key
    }

    /// By priority, the highest first, then by age.
    pub(crate) fn rank(&self) -> (Reverse<i8>, CommandKey) {
        (Reverse(self.priority), self.key)
    }

    /// Whether it goes out no more: at its deadline it fails.
    pub(crate) fn is_on_last_try(&self) -> bool {
        self.is_on_last_try
    }

    /// When it fails for want of an answer; `None` while it has tries left.
    pub(crate) fn fails_at(&self) -> Option<Timestamp> {
        (self.is_on_last_try && !self.is_put_off).then_some(self.deadline)
    }

    /// When it goes out again in an open lane, if the gap allows; `None` on its last try.
    pub(crate) fn repeats_at(&self) -> Option<Timestamp> {
        let at = if self.repeats_at_once { Timestamp(i64::MIN) } else { self.deadline };
        (!self.is_on_last_try && !self.is_put_off).then_some(at)
    }

    /// The device is reachable again. One that said that it is at work is not asked again.
    pub(crate) fn came_back(&mut self) {
        self.repeats_at_once = !self.is_at_work;
    }

    /// The command, unless it has to be read from the store.
    pub(crate) fn remembered(self) -> Option<Tracked> {
        self.remembered
    }

    /// What remembering the command takes beside the lane itself.
    pub(crate) fn remembered_bytes(&self) -> usize {
        self.remembered.as_ref().map_or(0, bytes)
    }

    /// Keeps the command in memory only if it takes no more than this.
    pub(crate) fn remember_within(&mut self, bytes_max: usize) {
        if self.remembered_bytes() > bytes_max {
            self.remembered = None;
        }
    }
}

/// What a command takes on the heap.
fn bytes((command, state): &Tracked) -> usize {
    let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
    let desired =
        command.cause.desired_state().map_or(0, |(key, value)| key.len() + value.map_or(0, str::len));
    let notify = command.notify.as_deref().map_or(0, |receiver| match receiver {
        OutcomeReceiver::Queue { namespace, queue } => namespace.len() + queue.len(),
        OutcomeReceiver::Url { url, secret } => url.len() + secret.len(),
        OutcomeReceiver::Stream { namespace, stream } => namespace.len() + stream.len(),
    });
    let texts = text(&command.origin) + text(&command.key) + desired + notify + state.text_bytes();
    size_of::<Command>() + command.payload.len() + texts
}

/// Until then the device has time for an answer, or for more progress.
pub(crate) fn deadline(command: &Command, state: &CommandState) -> Timestamp {
    let (since, span_ms) = match state.status {
        CommandStatus::Running => (state.progress_at, command.terms.run_timeout_ms),
        _ => (state.published_at, command.terms.ack_timeout_ms),
    };
    since.unwrap_or_default().after(Duration::from_millis(span_ms))
}

/// Whether a command that went out does so no more.
pub(crate) fn is_on_last_try(command: &Command, state: &CommandState) -> bool {
    state.tries >= command.terms.attempts_max
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

    /// [`tracked`], unanswered.
    pub(crate) fn sample(number: u32, priority: i8, tries: u32) -> Unanswered {
        let (command, state) = tracked(number, priority, tries);
        Unanswered::new(command, state)
    }

    /// A command of device 1 that went out at 100 for the `tries`th time, of three. The device has
    /// 10 for its answer, and 50 while it is at work.
    pub(crate) fn tracked(number: u32, priority: i8, tries: u32) -> Tracked {
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
        (Arc::new(command), state)
    }

    /// The same while its device is at work, since 105.
    fn running(number: u32) -> Unanswered {
        let (command, state) = tracked(number, 0, 1);
        let (status, progress_at) = (CommandStatus::Running, Some(Timestamp(105)));
        Unanswered::new(command, CommandState { status, progress_at, ..state })
    }

    #[test]
    fn a_large_command_is_not_remembered() {
        for (bytes, expect) in [(1, true), (REMEMBERED_EACH_BYTES_MAX / 2, true), (256 << 10, false)] {
            let (command, state) = tracked(1, 0, 1);
            let payload = Arc::from(vec![b'1'; bytes]);
            let command = Arc::new(Command { payload, ..Command::clone(&command) });
            let mut unanswered = Unanswered::new(command, state);
            assert_eq!(unanswered.remembered_bytes() > 0, expect, "{bytes}");
            assert_eq!(unanswered.repeats_at(), Some(Timestamp(110)), "it moves on all the same");
            unanswered.remember_within(bytes);
            assert_eq!(unanswered.remembered(), None, "there is no room for the rest of it");
        }
    }

    #[test]
    fn a_device_at_work_has_the_time_that_it_was_given_for_that() {
        assert_eq!(sample(1, 0, 1).repeats_at(), Some(Timestamp(110)));
        assert_eq!(running(1).repeats_at(), Some(Timestamp(155)));
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
        let (mut published, mut running, mut last) = (sample(1, 0, 1), running(2), sample(3, 0, 3));
        for unanswered in [&mut published, &mut running, &mut last] {
            unanswered.came_back();
        }
        assert!(published.repeats_at().is_some_and(|at| at < Timestamp(0)));
        assert_eq!(running.repeats_at(), Some(Timestamp(155)));
        assert_eq!(last.repeats_at(), None);
    }
}
