//! Batches that wait for the committer, in the order in which they were given.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::locks::locked;
use crate::change::PreparedBatch;
use crate::port::CommitDone;

/// One batch.
pub(super) struct WaitingBatch {
    /// The place of its partition.
    pub(super) index: usize,
    pub(super) prepared: PreparedBatch,
    pub(super) frame: Vec<u8>,
    pub(super) done: CommitDone,
}

#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    /// A batch came, the log has room again, or the inbox was closed.
    changed: Condvar,
}

#[derive(Default)]
struct InboxState {
    waiting: Vec<WaitingBatch>,
    is_closed: bool,
    /// Something other than a batch happened.
    is_nudged: bool,
}

/// Why the committer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// There may be something to do.
    Work,
    /// Nothing happened for as long as was asked.
    Quiet,
    /// Nothing waits and nothing will come.
    Closed,
}

impl Inbox {
    /// Adds a batch; gives its callback back when the inbox is closed.
    pub(super) fn push(&self, batch: WaitingBatch) -> Result<(), CommitDone> {
        let mut state = locked(&self.state);
        if state.is_closed {
            return Err(batch.done);
        }
        state.waiting.push(batch);
        self.changed.notify_one();
        Ok(())
    }

    /// Takes all that wait.
    pub(super) fn take(&self) -> Vec<WaitingBatch> {
        std::mem::take(&mut locked(&self.state).waiting)
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.state).waiting.is_empty()
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        locked(&self.state).is_closed = true;
        self.changed.notify_one();
    }

    /// Wakes the committer.
    pub(super) fn nudge(&self) {
        locked(&self.state).is_nudged = true;
        self.changed.notify_one();
    }

    /// Waits until a batch waits, or for `quiet` if it is given.
    pub(super) fn wait(&self, quiet: Option<Duration>) -> Woken {
        let nothing = |state: &mut InboxState| state.waiting.is_empty() && !state.is_closed;
        let state = locked(&self.state);
        let (state, timed_out) = self.wait_while(state, quiet, nothing);
        match (state.waiting.is_empty(), state.is_closed) {
            (false, _) => Woken::Work,
            (true, true) => Woken::Closed,
            (true, false) if timed_out => Woken::Quiet,
            (true, false) => Woken::Work,
        }
    }

    /// Waits until [`Inbox::nudge`], or for `timeout` if it is given.
    pub(super) fn wait_for_nudge(&self, timeout: Option<Duration>) {
        let (mut state, _) = self.wait_while(locked(&self.state), timeout, |state| !state.is_nudged);
        state.is_nudged = false;
    }

    /// Waits until [`Inbox::nudge`] or [`Inbox::close`], or for `timeout`; whether the inbox is
    /// open.
    pub(super) fn pause(&self, timeout: Duration) -> bool {
        let nothing = |state: &mut InboxState| !state.is_nudged && !state.is_closed;
        let (mut state, _) = self.wait_while(locked(&self.state), Some(timeout), nothing);
        state.is_nudged = false;
        !state.is_closed
    }

    fn wait_while<'a>(
        &self,
        state: std::sync::MutexGuard<'a, InboxState>,
        timeout: Option<Duration>,
        condition: impl FnMut(&mut InboxState) -> bool,
    ) -> (std::sync::MutexGuard<'a, InboxState>, bool) {
        const INVARIANT: &str = "no thread of the store panics while it holds a lock";
        match timeout {
            None => (self.changed.wait_while(state, condition).expect(INVARIANT), false),
            Some(timeout) => {
                let waited = self.changed.wait_timeout_while(state, timeout, condition).expect(INVARIANT);
                (waited.0, waited.1.timed_out())
            }
        }
    }
}
