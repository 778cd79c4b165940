//! Answers of a machine: who waits for one, and how an input is refused.

use base::Problem;
use store::StoreError;
use tokio::sync::oneshot;

/// An answer, and who waits for it.
#[derive(Debug)]
pub struct Reply<T> {
    to: oneshot::Sender<T>,
}

impl<T> Reply<T> {
    /// A reply, and where its answer arrives: an error there says that the outcome is unknown.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<T>) {
        let (to, from) = oneshot::channel();
        (Self { to }, from)
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.to.is_closed()
    }

    pub(crate) fn send(self, answer: T) {
        // Nobody waits any more: the caller has gone, and what was done stays done.
        let _gone = self.to.send(answer);
    }
}

/// The answer to a call.
pub(crate) type Answered<T> = Result<T, Problem>;

/// Why an input came to nothing: refused with an answer, or the store cannot be read and the
/// machine must be dropped.
pub(crate) enum InputFailure {
    Refused(Problem),
    Broken(StoreError),
}

impl From<Problem> for InputFailure {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl From<StoreError> for InputFailure {
    fn from(error: StoreError) -> Self {
        Self::Broken(error)
    }
}

/// A refusal is an answer; only a broken store is an error.
pub(crate) fn answered<T>(result: Result<T, InputFailure>) -> Result<Answered<T>, StoreError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(InputFailure::Refused(problem)) => Ok(Err(problem)),
        Err(InputFailure::Broken(error)) => Err(error),
    }
}
