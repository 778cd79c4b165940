//! A producer that appends to some of several nodes, and chooses others when some fail.
//!
//! Whatever it appends has a source and an external id. So a message that reaches a node twice, or
//! comes to it as another node's copy as well, is there once.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, SetupError};
use crate::message::{AppendResult, OutgoingMessage};
use crate::message_stream::MessageStream;

/// How long the chosen nodes may take before others are asked too, unless it is said otherwise.
const SLOW_AFTER: Duration = Duration::from_secs(2);
/// For how long a node that failed is chosen last; doubled with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Appends to some of several nodes. Share it by reference.
#[derive(Debug)]
pub struct StreamProducer {
    nodes: Vec<ProducerNode>,
    wanted: usize,
    slow_after: Duration,
    /// Of messages that come without one: chance, made with the producer.
    source: String,
    next: AtomicU64,
}

#[derive(Debug)]
struct ProducerNode {
    stream: MessageStream,
    health: Mutex<NodeHealth>,
}

/// How a node has done lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NodeHealth {
    failed_in_a_row: u32,
    /// Until then it is chosen last.
    paused_until: Option<Instant>,
}

/// A node that has what was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAppend {
    /// Its place among the producer's streams.
    pub node: usize,
    /// What became of each message there.
    pub messages: Vec<AppendResult>,
}

/// Too few nodes took it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProducerError {
    /// Nodes that were wanted.
    pub wanted: usize,
    /// Nodes that have it.
    pub appended: Vec<NodeAppend>,
    /// What went wrong, by the place of the node.
    pub errors: Vec<(usize, Error)>,
    /// The messages, all with an external id: appended again they are there once.
    pub messages: Vec<OutgoingMessage>,
}

impl fmt::Display for ProducerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} nodes have it", self.appended.len(), self.wanted)?;
        self.errors.iter().try_for_each(|(node, error)| write!(f, "; node {node}: {error}"))
    }
}

impl std::error::Error for ProducerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.errors.last().map(|(_, error)| error as _)
    }
}

impl NodeHealth {
    fn failed(&mut self, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failed_in_a_row.min(6)).min(LONGEST_PAUSE);
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        self.paused_until = Some(now + pause);
    }
}

/// Nodes in the order in which they are asked: as they were given, but behind them those that are
/// paused, the first to return first.
fn choice(health: &[NodeHealth], now: Instant) -> Vec<usize> {
    let mut order: Vec<usize> = (0..health.len()).collect();
    // The sort is stable.
    order.sort_by_key(|node| health[*node].paused_until.filter(|until| *until > now));
    order
}

/// Whether every node would say the same: the messages are at fault, and not the node.
fn is_of_the_messages(error: &Error) -> bool {
    matches!(error, Error::Unwritable(_)) || matches!(error.status(), Some(400 | 413 | 422))
}

impl StreamProducer {
    /// Of the same stream on several nodes, the preferred ones first; each append goes to `wanted`
    /// of them.
    ///
    /// # Errors
    /// When `wanted` is 0 or more than there are nodes, or the system has no chance to give.
    pub fn new(streams: impl IntoIterator<Item = MessageStream>, wanted: usize) -> Result<Self, SetupError> {
        let health = || Mutex::new(NodeHealth::default());
        let nodes: Vec<_> =
            streams.into_iter().map(|stream| ProducerNode { stream, health: health() }).collect();
        if wanted == 0 || wanted > nodes.len() {
            return Err(SetupError::Nodes { wanted, nodes: nodes.len() });
        }
        let chance = || getrandom::u64().map_err(|_| SetupError::Chance);
        let source = format!("producer-{:016x}{:016x}", chance()?, chance()?);
        Ok(Self { nodes, wanted, slow_after: SLOW_AFTER, source, next: AtomicU64::new(1) })
    }

    /// How long the chosen nodes may take before others are asked too: 2 seconds unless it is said
    /// here. A node that is that slow may have the message as well in the end.
    #[must_use]
    pub fn slow_after(self, slow_after: Duration) -> Self {
        Self { slow_after, ..self }
    }

    /// Appends a message; see [`StreamProducer::append_many`].
    ///
    /// # Errors
    /// See [`StreamProducer::append_many`].
    pub async fn append(&self, message: &OutgoingMessage) -> Result<Vec<NodeAppend>, ProducerError> {
        self.append_many(std::slice::from_ref(message)).await
    }

    /// Appends up to 1,000 messages, on each node all or none. Returns once as many nodes as are
    /// wanted have answered. How durable the messages are there is up to the stream's save mode. A
    /// node that fails is asked once, and chosen last for a while.
    ///
    /// A message without [`OutgoingMessage::once`] gets a source of this producer and a number.
    ///
    /// # Errors
    /// When too few nodes took it, or one refused what every node would refuse.
    pub async fn append_many(&self, messages: &[OutgoingMessage]) -> Result<Vec<NodeAppend>, ProducerError> {
        let messages: Arc<[_]> = messages.iter().map(|message| self.stamped(message)).collect();
        let health: Vec<_> = self.nodes.iter().map(|node| *node.health()).collect();
        let mut others = choice(&health, Instant::now()).into_iter();
        let (mut appended, mut errors, mut asked) = (Vec::new(), Vec::new(), JoinSet::new());
        let mut asked_at = vec![None; self.nodes.len()];
        let mut slow_at = Instant::now() + self.slow_after;
        let mut ask = |asked: &mut JoinSet<_>, node: usize| {
            let (stream, messages) = (self.nodes[node].stream.clone(), Arc::clone(&messages));
            asked.spawn(async move { (node, stream.append_once(&messages).await) });
            asked_at[node] = Some(Instant::now());
        };
        others.by_ref().take(self.wanted).for_each(|node| ask(&mut asked, node));
        while appended.len() < self.wanted {
            let answer = tokio::select! {
                answer = asked.join_next() => answer,
                () = sleep_until(slow_at), if others.len() > 0 => {
                    slow_at = Instant::now() + self.slow_after;
                    let missing = self.wanted - appended.len();
                    others.by_ref().take(missing).for_each(|node| ask(&mut asked, node));
                    continue;
                }
            };
            match answer {
                Some(Ok((node, Ok(results)))) => {
                    *self.nodes[node].health() = NodeHealth::default();
                    appended.push(NodeAppend { node, messages: results });
                }
                Some(Ok((node, Err(error)))) => {
                    let is_hopeless = is_of_the_messages(&error);
                    errors.push((node, error));
                    if is_hopeless {
                        break;
                    }
                    self.nodes[node].health().failed(Instant::now());
                    others.by_ref().take(1).for_each(|node| ask(&mut asked, node));
                }
                // Nobody ends these tasks but the end of the runtime.
                Some(Err(_ended)) => {}
                None => break,
            }
        }
        // What they have not answered yet is given up.
        self.pause_slow(&asked_at, &appended);
        if appended.len() == self.wanted {
            return Ok(appended);
        }
        Err(ProducerError { wanted: self.wanted, appended, errors, messages: messages.to_vec() })
    }

    /// Pauses nodes that were too slow to be among those that have it.
    fn pause_slow(&self, asked_at: &[Option<Instant>], appended: &[NodeAppend]) {
        let now = Instant::now();
        for (node, at) in asked_at.iter().enumerate() {
            let is_slow = at.is_some_and(|at| at + self.slow_after <= now);
            if is_slow && !appended.iter().any(|appended| appended.node == node) {
                self.nodes[node].health().failed(now);
            }
        }
    }

    fn stamped(&self, message: &OutgoingMessage) -> OutgoingMessage {
        if message.is_once() {
            return message.clone();
        }
        message.clone().once(&self.source, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

impl ProducerNode {
    fn health(&self) -> std::sync::MutexGuard<'_, NodeHealth> {
        // Whoever held it has only set it.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_failed_are_chosen_last_and_return() {
        let now = Instant::now();
        let mut health = [NodeHealth::default(); 4];
        assert_eq!(choice(&health, now), [0, 1, 2, 3]);
        health[0].failed(now);
        health[0].failed(now);
        health[2].failed(now);
        assert_eq!(choice(&health, now), [1, 3, 2, 0]);
        assert_eq!(choice(&health, now + FIRST_PAUSE), [1, 2, 3, 0]);
        assert_eq!(choice(&health, now + 2 * FIRST_PAUSE), [0, 1, 2, 3]);
        (0..100).for_each(|_| health[1].failed(now));
        assert_eq!(health[1].paused_until, Some(now + LONGEST_PAUSE));
    }
}
