//! One attempt at a notification: signed, posted, and its answer judged no further than it has to
//! be.
//!
//! Redirects are not followed: they are an answer like any other. Whether an answer is a success,
//! and what comes next, is the engine's rule. Here an attempt has a status or an error, a beginning
//! and a duration.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::id::DELIVERY_ID_PREFIX;
use base::{Clock, EntityId, Timestamp};
use engine::records::{ANSWER_BYTES_MAX, AttemptDetail, AttemptError, AttemptTimings, Client};
use engine::{AttemptEnd, AttemptOutcome};

use crate::connection::{AnswerStart, Broken, ReceiverConnection, ResponseHead};
use crate::connector::{ConnectError, Connector, millis};
use crate::metrics::WebhookMetrics;
use crate::pool::Pool;
use crate::prepared::{PreparedClient, PreparedClients};
use crate::retry_after::retry_after;

#[cfg(test)]
mod tests;

/// How long the rest of an answer may take; after that its connection is closed.
const REST_OF_ANSWER: Duration = Duration::from_secs(1);
/// What is kept of the answer of a receiver that took a notification: a receipt, not a page. It is
/// written once for each of them, and kept as long as they are.
const ANSWER_OF_DELIVERED_BYTES_MAX: usize = 256;
/// What a head takes besides its opening and its signatures.
const HEAD_BYTES_MORE: usize = 192;

/// Makes attempts. One is shared by all.
pub(crate) struct Sender {
    clock: Arc<dyn Clock>,
    timeout: Duration,
    connector: Connector,
    idle: Pool<Box<ReceiverConnection>>,
    clients: PreparedClients,
    metrics: WebhookMetrics,
}

impl Sender {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        timeout: Duration,
        connector: Connector,
        idle_max: usize,
        metrics: WebhookMetrics,
    ) -> Self {
        let idle = Pool::new(idle_max);
        Self { clock, timeout, connector, idle, clients: PreparedClients::default(), metrics }
    }

    /// Makes one attempt. `client` is the client as it is at this moment.
    pub(crate) async fn attempt(
        &self,
        client: &Arc<Client>,
        delivery: EntityId,
        body: Arc<[u8]>,
    ) -> AttemptEnd {
        let (at, began) = (self.clock.now(), Instant::now());
        let mut detail = AttemptDetail::default();
        let answering = self.answer(client, delivery, body, &mut detail);
        let (answer, open) = match tokio::time::timeout(self.timeout, answering).await {
            Ok(Ok((answer, open))) => (answer, Some(open)),
            Ok(Err(error)) => (AttemptOutcome::Error(error), None),
            Err(_) => (AttemptOutcome::Error(AttemptError::TimedOut), None),
        };
        let took = began.elapsed();
        self.metrics.attempt(answer, took);
        if let Some(open) = open {
            detail.answer = self.finish(open).await;
        }
        AttemptEnd { at, took, answer, detail }
    }

    /// Closes connections and drops what it knows of clients that it has not used for a while.
    pub(crate) fn sweep(&self) {
        self.idle.sweep(Instant::now());
        self.clients.sweep();
        self.metrics.idle_connections.set(self.idle.len() as i64);
    }

    /// The answer is its head. What follows decides only whether the connection can be kept.
    async fn answer(
        &self,
        client: &Arc<Client>,
        delivery: EntityId,
        body: Arc<[u8]>,
        detail: &mut AttemptDetail,
    ) -> Result<(AttemptOutcome, Open), AttemptError> {
        let id = &client.id;
        let Ok(client) = self.clients.get(client) else {
            tracing::error!(client = %id, "the client's URL cannot be posted to");
            return Err(AttemptError::ConnectFailed);
        };
        let head = head(&client, delivery, &body, &*self.clock);
        let posted = self.post(&client, &head, &body, &mut detail.timings).await;
        let (connection, response) = posted.map_err(|error| {
            let origin = &client.target.origin;
            tracing::debug!(client = %id, %origin, error = chain(&error), "attempt failed");
            detail.certificate_bound = error.certificate_bound();
            AttemptError::from(error)
        })?;
        let asked = response.retry_after.as_deref();
        let retry_after = asked.and_then(|text| retry_after(text, self.clock.wall()));
        let answer = AttemptOutcome::Status { code: response.status, retry_after };
        Ok((answer, Open { client, connection, response }))
    }

    /// Posts on a kept connection, or on a new one. Kept ones that turn out to be closed before
    /// anything was sent do not count.
    async fn post(
        &self,
        client: &PreparedClient,
        head: &str,
        body: &[u8],
        timings: &mut AttemptTimings,
    ) -> Result<(Box<ReceiverConnection>, ResponseHead), SendError> {
        while let Some(mut connection) = self.idle.take(&client.target.origin, Instant::now()) {
            if connection.is_usable().await {
                timings.reused = true;
                let response = connection.post(head.as_bytes(), body).await?;
                timings.first_byte_ms = connection.first_byte().map(millis);
                return Ok((connection, response));
            }
        }
        // Rare, and far larger than the rest of an attempt: kept apart, so that a waiting attempt
        // stays small.
        let connecting = self.connector.connect(&client.target.origin, timings);
        let mut connection = Box::new(Box::pin(connecting).await?);
        let response = connection.post(head.as_bytes(), body).await?;
        timings.first_byte_ms = connection.first_byte().map(millis);
        Ok((connection, response))
    }

    /// Waits a little for the rest of the answer, and keeps the connection if it is good for
    /// another. Gives the beginning of the answer.
    async fn finish(&self, open: Open) -> Option<Box<[u8]>> {
        let Open { client, mut connection, response } = open;
        let is_delivered = matches!(response.status, 200..=299);
        let max = if is_delivered { ANSWER_OF_DELIVERED_BYTES_MAX } else { ANSWER_BYTES_MAX };
        let mut start = AnswerStart::of(max, !is_delivered);
        let finishing = connection.finish(&response, &mut start);
        let is_finished = tokio::time::timeout(REST_OF_ANSWER, finishing).await;
        if matches!(is_finished, Ok(Ok(()))) && connection.is_usable().await {
            self.idle.keep(&client.target.origin, connection, Instant::now(), response.keeps);
        }
        start.into_bytes()
    }
}

/// A connection on which an answer has begun.
struct Open {
    client: Arc<PreparedClient>,
    connection: Box<ReceiverConnection>,
    response: ResponseHead,
}

/// The head of a request, as HTTP/1.1 has it.
fn head(client: &PreparedClient, delivery: EntityId, body: &[u8], clock: &dyn Clock) -> String {
    let (id, seconds) = (delivery.to_text(DELIVERY_ID_PREFIX), (clock.wall().0 / 1_000).to_string());
    let signature = client.sign(clock.now(), &id, &seconds, body);
    let length = body.len().to_string();
    let opening = &client.opening;
    let fields = [
        ["webhook-id: ", &id],
        ["\r\nwebhook-timestamp: ", &seconds],
        ["\r\nwebhook-signature: ", &signature],
        ["\r\ncontent-length: ", &length],
    ];
    let mut head = String::with_capacity(opening.len() + signature.len() + HEAD_BYTES_MORE);
    head.push_str(opening);
    fields.as_flattened().iter().for_each(|part| head.push_str(part));
    head.push_str("\r\n\r\n");
    head
}

/// Why an attempt had no answer, for the log.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the connection broke")]
    Broken(#[from] Broken),
}

impl SendError {
    fn certificate_bound(&self) -> Option<Timestamp> {
        match self {
            Self::Connect(error) => error.certificate_bound(),
            Self::Broken(_) => None,
        }
    }
}

impl From<SendError> for AttemptError {
    fn from(error: SendError) -> Self {
        match &error {
            SendError::Connect(error) => error.into(),
            SendError::Broken(_) => Self::ConnectionBroken,
        }
    }
}

/// An error and everything behind it in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
