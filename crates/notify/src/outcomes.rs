//! Tells those who gave commands how these ended: as a job of a queue, as a message of a stream, or
//! as a signed post.
//!
//! Each lane with outcomes that are due gets a task. The task leases a few at a time and tells them
//! until the lane is empty. There are few lanes, so that bounds the tasks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::{EntityId, Incarnation, PartitionId, Timestamp, hash};
use engine::outcomes::{OutcomeDue, OutcomeLane, SendResult};
use engine::queues::{IdempotencyKey, JobPayload, NewJob, QueueName};
use engine::records::{Client, OutcomeReceiver};
use engine::streams::{AppendTerms, MessagePayload, NewMessage, OwnedExternalId, StreamName};
use engine::{AttemptOutcome, Engine};
use futures_util::future::join_all;
use tokio::sync::{Semaphore, watch};
use tokio::task::{self, JoinSet};

use crate::body;
use crate::sender::Sender;

/// Outcomes of a lane that are published, or appended, at a time.
const PUBLISHED_MAX: usize = 16;
/// Outcomes of a lane that are posted at a time: one receiver may take as many of each partition.
const POSTED_MAX: u32 = 4;
/// Outcomes that are posted at a time.
const POSTS_MAX: usize = 256;
/// Incarnations of clients count registrations and never come near this bit: it marks receivers of
/// outcomes among what the sender keeps prepared.
const RECEIVER_BIT: u64 = 1 << 63;

type Lane = (PartitionId, OutcomeLane);

struct Outcomes {
    engine: Engine,
    sender: Arc<Sender>,
    posts: Semaphore,
}

/// Tells outcomes until `shutdown` says so or its sender is gone. What is under way then is told
/// again after the next start.
pub(crate) async fn run(engine: Engine, sender: Arc<Sender>, mut shutdown: watch::Receiver<bool>) {
    let outcomes = Arc::new(Outcomes { engine, sender, posts: Semaphore::new(POSTS_MAX) });
    let mut tasks = JoinSet::new();
    let mut busy: HashMap<task::Id, Lane> = HashMap::new();
    // Lanes that were named again while their task was about to end.
    let mut named_again: HashSet<Lane> = HashSet::new();
    loop {
        let named = tokio::select! {
            _ = shutdown.wait_for(|stop| *stop) => return,
            named = outcomes.engine.due_outcomes().take() => named,
            Some(emptied) = tasks.join_next_with_id() => {
                let task = match emptied {
                    Ok((task, ())) => task,
                    Err(error) => {
                        tracing::error!(%error, "a task that tells outcomes failed; its leases run out");
                        error.id()
                    }
                };
                let lane = busy.remove(&task);
                lane.and_then(|lane| named_again.take(&lane)).into_iter().collect()
            }
        };
        for lane in named {
            if busy.values().any(|other| *other == lane) {
                named_again.insert(lane);
            } else {
                busy.insert(tasks.spawn(empty(Arc::clone(&outcomes), lane)).id(), lane);
            }
        }
    }
}

/// Tells what a lane has due.
async fn empty(outcomes: Arc<Outcomes>, lane: Lane) {
    // Without an answer the server is stopping, or the partition names the lane again.
    loop {
        // The places come first: a lease does not wait for one.
        let is_of_urls = lane.1.is_of_urls();
        let places = if is_of_urls { POSTED_MAX } else { 0 };
        let Ok(_places) = outcomes.posts.acquire_many(places).await else { return };
        let max = if is_of_urls { POSTED_MAX as usize } else { PUBLISHED_MAX };
        let Ok(due) = outcomes.engine.lease_outcomes(lane, max).await else { return };
        let is_last = due.len() < max;
        join_all(due.into_iter().map(|due| outcomes.tell(due))).await;
        if is_last {
            break;
        }
    }
}

impl Outcomes {
    async fn tell(&self, due: OutcomeDue) {
        let result = match due.command.notify.as_deref() {
            Some(OutcomeReceiver::Queue { namespace, queue }) => {
                let (to, idempotency) = ((&**namespace, &**queue), due.idempotency_key());
                publish(&self.engine, to, body::outcome(&due), idempotency).await
            }
            Some(OutcomeReceiver::Stream { namespace, stream }) => {
                append(&self.engine, (namespace, stream), body::outcome(&due), due.origin()).await
            }
            Some(OutcomeReceiver::Url { url, secret }) => {
                let mut id = due.command.id;
                // Another outcome of the same command is another message.
                id.tag = due.number() & ((1 << 48) - 1);
                post(&self.sender, (url, secret), id, body::outcome(&due)).await
            }
            None => SendResult::Delivered,
        };
        if self.engine.outcome_told(due.partition, due.reservation, result).await.is_err() {
            tracing::debug!("not accepting; an outcome that was told is told again");
        }
    }
}

/// Has a queue told something: as a job, published once however often this is tried.
pub(crate) async fn publish(
    engine: &Engine,
    (namespace, queue): (&str, &str),
    body: String,
    idempotency: IdempotencyKey,
) -> SendResult {
    let name = QueueName::unchecked(namespace, queue);
    let job = NewJob::new(JobPayload::Json(body.into()));
    match engine.queues().publish(&name, vec![job], Some(idempotency)).await {
        Ok(_) => SendResult::Delivered,
        Err(problem) => {
            tracing::debug!(queue = %queue, code = problem.code, "an outcome found no place in its queue");
            SendResult::Failed(None)
        }
    }
}

/// Has a stream told something: as a durable message, appended once however often this is tried.
pub(crate) async fn append(
    engine: &Engine,
    (namespace, stream): (&str, &str),
    body: String,
    (source, external_id): (Box<str>, OwnedExternalId),
) -> SendResult {
    let name = StreamName::unchecked(namespace, stream);
    let message = NewMessage {
        source: Some(source),
        external_id: Some(external_id),
        ..NewMessage::new(MessagePayload::Json(body.into_bytes().into()))
    };
    let terms = AppendTerms { is_durable: true, ..AppendTerms::default() };
    match engine.streams().append_with(&name, vec![message], terms).await {
        Ok(_) => SendResult::Delivered,
        Err(problem) => {
            tracing::debug!(stream = %name, code = problem.code, "an outcome found no place in its stream");
            SendResult::Failed(None)
        }
    }
}

/// Has a URL told something: as a signed post, whose message has this id.
pub(crate) async fn post(sender: &Sender, to: (&str, &[u8]), id: EntityId, body: String) -> SendResult {
    match answer_of(sender, to, id, body).await {
        AttemptOutcome::Status { code: 200..=299, .. } => SendResult::Delivered,
        AttemptOutcome::Status { retry_after, .. } => SendResult::Failed(retry_after),
        AttemptOutcome::Error(_) | AttemptOutcome::Withheld => SendResult::Failed(None),
    }
}

/// What a URL answers to a signed post.
pub(crate) async fn answer_of(
    sender: &Sender,
    (url, secret): (&str, &[u8]),
    id: EntityId,
    body: String,
) -> AttemptOutcome {
    let marked = hash::derived(hash::derived(0, url.as_bytes()), secret) | RECEIVER_BIT;
    let receiver = Client {
        id: base::ClientId::new("command").expect("letters may be in a client id"),
        incarnation: Incarnation(marked),
        name: String::new(),
        url: url.to_owned(),
        secret: secret.to_vec(),
        previous_secret: None,
        enabled: true,
        notices: false,
        created_at: Timestamp(0),
    };
    sender.attempt(&Arc::new(receiver), id, Arc::from(body.into_bytes())).await.answer
}
