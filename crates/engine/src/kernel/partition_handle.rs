//! The handle of a partition: inputs go in through it, and it shows since when the partition is
//! writing.

use std::sync::Arc;

use base::Problem;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::feed_clock::WritingSince;
use super::reply::Reply;

/// The server does not accept anything now: it is stopping, or its store has failed. Nothing is
/// known of what was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server is not accepting now")]
pub struct NotAccepting;

impl From<NotAccepting> for Problem {
    fn from(not: NotAccepting) -> Self {
        Self::unavailable(not.to_string())
    }
}

/// The way to a running partition.
#[derive(Debug)]
pub(crate) struct PartitionHandle<I> {
    pub(crate) inbox: mpsc::Sender<I>,
    pub(crate) writing_since: Arc<WritingSince>,
}

impl<I> PartitionHandle<I> {
    /// Inputs that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.max_capacity() - self.inbox.capacity()
    }

    /// Sends an input, as soon as there is room for it.
    pub(crate) fn send(&self, input: I) -> impl Future<Output = Result<(), NotAccepting>> {
        // Nobody is overtaken: a place that is free is that of who waits longest. What waits is in
        // a box, so that who waits for an answer afterwards takes no room for what was asked.
        let sent = match self.inbox.try_send(input) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(input)) => Ok(Some(Box::pin(self.inbox.send(input)))),
            Err(TrySendError::Closed(_)) => Err(NotAccepting),
        };
        async move {
            match sent? {
                None => Ok(()),
                Some(sending) => sending.await.map_err(|_| NotAccepting),
            }
        }
    }

    /// Sends the input that `make` makes around a reply, and waits for the answer.
    pub(crate) async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> I) -> Result<T, NotAccepting> {
        let (reply, answer): (_, oneshot::Receiver<T>) = Reply::new();
        self.send(make(reply)).await?;
        answer.await.map_err(|_| NotAccepting)
    }
}
