//! What loading found to be written: the first batches hold it, and nothing else before it is all
//! written.

use std::collections::VecDeque;

use super::step_context::StepContext;

/// Changes that a load has left to the first steps of its machine, in order.
#[derive(Debug)]
pub(crate) struct LoadedChanges<T>(VecDeque<T>);

impl<T> LoadedChanges<T> {
    /// Nothing was found.
    pub(crate) fn nothing() -> Self {
        Self(VecDeque::new())
    }

    /// These were found.
    pub(crate) fn of(changes: Vec<T>) -> Self {
        Self(changes.into())
    }

    pub(crate) fn push(&mut self, change: T) {
        self.0.push_back(change);
    }

    /// Whether all is written, or on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next change, if there is one and the step has room.
    pub(crate) fn take_next<E, O>(&mut self, step: &mut StepContext<'_, E, O>) -> Option<T> {
        if self.0.is_empty() || !step.has_room() {
            return None;
        }
        self.0.pop_front()
    }
}
