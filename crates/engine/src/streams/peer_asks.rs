//! Questions to other nodes that a call waits for: how far a stream there has come. Whoever runs
//! copies speaks with nodes, and answers; where nobody does, no call waits.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::locks::locked;
use tokio::sync::{Notify, oneshot};

use super::StreamName;

/// Questions that wait at a time; a call that finds more goes on without an answer.
const WAITING_MAX: usize = 64;
/// How long a call waits: a node that is there answers sooner.
const ANSWERED_WITHIN: Duration = Duration::from_secs(4);

/// How far a stream of another node has come.
#[derive(Debug)]
pub struct PeerAsk {
    /// The node.
    pub node: Box<str>,
    /// The stream there.
    pub stream: StreamName,
    /// Its newest message; 0 where there is none. Dropped where the node does not say.
    pub newest: oneshot::Sender<u64>,
}

/// Questions that are not taken up yet.
#[derive(Debug, Default)]
pub(crate) struct PeerAsks {
    is_attended: AtomicBool,
    waiting: Mutex<VecDeque<PeerAsk>>,
    asked: Notify,
}

impl PeerAsks {
    /// The newest message of a stream of another node; `None` where the node does not say.
    pub(super) async fn newest(&self, node: &str, stream: &StreamName) -> Option<u64> {
        if !self.is_attended.load(Ordering::Relaxed) {
            return None;
        }
        let (newest, answer) = oneshot::channel();
        {
            let mut waiting = locked(&self.waiting);
            if waiting.len() >= WAITING_MAX {
                return None;
            }
            waiting.push_back(PeerAsk { node: node.into(), stream: stream.clone(), newest });
        }
        self.asked.notify_one();
        tokio::time::timeout(ANSWERED_WITHIN, answer).await.ok()?.ok()
    }

    /// The next question, for whoever answers them all.
    pub(super) async fn next(&self) -> PeerAsk {
        self.is_attended.store(true, Ordering::Relaxed);
        loop {
            let next = locked(&self.waiting).pop_front();
            match next {
                Some(ask) => return ask,
                None => self.asked.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_question_is_answered_or_given_up() {
        let (asks, stream) = (PeerAsks::default(), StreamName::new("shop", "orders").expect("a name"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("starts");
        runtime.block_on(async {
            assert_eq!(asks.newest("dc1", &stream).await, None, "nobody answers");
            assert!(asks.next().now_or_never().is_none());
            let answering = async {
                let ask = asks.next().await;
                assert_eq!((&*ask.node, &ask.stream), ("dc1", &stream));
                ask.newest.send(7).expect("it waits");
                drop(asks.next().await);
            };
            let asking = async { (asks.newest("dc1", &stream).await, asks.newest("dc1", &stream).await) };
            let (answered, ()) = futures_util::future::join(asking, answering).await;
            assert_eq!(answered, (Some(7), None), "the second one was dropped");
        });
    }
}
