//! One attempt at a notification: signed, posted, and its answer judged no further than it has to be.
//!
//! Redirects are not followed: they are an answer like any other. Whether an answer is a success, and what comes next, is the
//! engine's rule; here an attempt has a status or an error, a beginning and a duration.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::id::DELIVERY_ID_PREFIX;
use base::{Clock, EntityId};
use bytes::Bytes;
use engine::records::{AttemptError, Client};
use engine::{Answer, AttemptEnd};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Response};

use crate::connection::{Connection, Post};
use crate::connector::{ConnectError, Connector};
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::prepared::{Prepared, PreparedClients};
use crate::retry_after::retry_after;

#[cfg(test)]
mod tests;

/// How long the rest of an answer may take; after that its connection is closed.
const REST_OF_ANSWER: Duration = Duration::from_secs(1);
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("fieldpost/", env!("CARGO_PKG_VERSION")));

/// Makes attempts. One is shared by all.
pub(crate) struct Sender {
    clock: Arc<dyn Clock>,
    timeout: Duration,
    connector: Connector,
    idle: Pool<Box<Connection>>,
    clients: PreparedClients,
    metrics: Metrics,
}

impl Sender {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        timeout: Duration,
        connector: Connector,
        idle_max: usize,
        metrics: Metrics,
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
        let (answer, open) =
            match tokio::time::timeout(self.timeout, self.answer(client, delivery, body)).await {
                Ok(Ok((answer, open))) => (answer, Some(open)),
                Ok(Err(error)) => (Answer::Error(error), None),
                Err(_) => (Answer::Error(AttemptError::TimedOut), None),
            };
        let took = began.elapsed();
        self.metrics.attempt(answer, took);
        if let Some(open) = open {
            self.finish(open).await;
        }
        AttemptEnd { at, took, answer }
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
    ) -> Result<(Answer, Open), AttemptError> {
        let Ok(client) = self.clients.get(client) else {
            tracing::error!(client = %client.id, "the client's URL cannot be posted to");
            return Err(AttemptError::ConnectFailed);
        };
        let request = request(&client, delivery, body, &*self.clock);
        let (connection, response) = self.post(&client, request).await.map_err(|error| {
            tracing::debug!(origin = %client.target.origin, error = chain(&error), "attempt failed");
            AttemptError::from(error)
        })?;
        let status = response.status();
        let retry_after = retry_after(status, response.headers(), self.clock.wall());
        let answer = Answer::Status { code: status.as_u16(), retry_after };
        Ok((answer, Open { client, connection, response }))
    }

    /// Posts on a kept connection, or on a new one. Kept ones that turn out to be closed before anything was sent do not count.
    async fn post(
        &self,
        client: &Prepared,
        mut request: Post,
    ) -> Result<(Box<Connection>, Response<Incoming>), SendError> {
        while let Some(mut connection) = self.idle.take(&client.target.origin, Instant::now()) {
            if !connection.is_usable().await {
                continue;
            }
            match connection.post(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failed.into_error().into()),
                },
            }
        }
        // Rare, and far larger than the rest of an attempt: kept apart, so that a waiting attempt stays small.
        let mut connection = Box::new(Box::pin(self.connector.connect(&client.target.origin)).await?);
        let response = connection.post(request).await.map_err(|failed| failed.into_error())?;
        Ok((connection, response))
    }

    /// Waits a little for the rest of the answer, and keeps the connection if it is good for another.
    async fn finish(&self, open: Open) {
        let Open { client, mut connection, response } = open;
        let receiver_keeps = keep_alive(response.headers());
        let rest = connection.discard(response.into_body());
        let is_complete = matches!(tokio::time::timeout(REST_OF_ANSWER, rest).await, Ok(Ok(true)));
        if is_complete && connection.is_usable().await {
            self.idle.keep(&client.target.origin, connection, Instant::now(), receiver_keeps);
        }
    }
}

/// A connection on which an answer has begun.
struct Open {
    client: Arc<Prepared>,
    connection: Box<Connection>,
    response: Response<Incoming>,
}

fn request(client: &Prepared, delivery: EntityId, body: Arc<[u8]>, clock: &dyn Clock) -> Post {
    let (id, seconds) = (delivery.to_text(DELIVERY_ID_PREFIX), (clock.wall().0 / 1_000).to_string());
    let signature = client.sign(clock.now(), &id, &seconds, &body);
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(HOST, client.target.host.clone());
    headers.insert(USER_AGENT, AGENT);
    headers.insert(CONTENT_TYPE, JSON);
    for (name, text) in [(WEBHOOK_ID, id), (WEBHOOK_TIMESTAMP, seconds), (WEBHOOK_SIGNATURE, signature)] {
        headers.insert(name, HeaderValue::try_from(text).expect("ids, numbers and base64 are visible ASCII"));
    }
    let mut request = Post::new(Full::new(Bytes::from_owner(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = client.target.path.clone();
    *request.headers_mut() = headers;
    request
}

/// How long the receiver says that it keeps an idle connection: `Keep-Alive: timeout=5`.
fn keep_alive(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(KEEP_ALIVE)?.to_str().ok()?;
    let timeout = text.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    timeout.trim().parse().ok().map(Duration::from_secs)
}

/// Why an attempt had no answer, for the log.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the connection broke")]
    Broken(#[from] hyper::Error),
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
