//! One POST: read, checked, recorded, answered.

use std::collections::hash_map::DefaultHasher;
use std::future::pending;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::header::LOCATION;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use standardwebhooks::Webhook;
use tokio::sync::watch;

use serde_json::Value;

use super::ledger::{Arrival, PickMessage, WebhookReply};
use super::notification::Notification;
use super::{Behaviour, ReceiverError, ReceiverState};

/// A notification is far smaller: a value is at most 4 KiB.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The body of a test notification says so; it is about no device.
const TEST_MARK: &[u8] = b"\"client.test\"";

/// The types of messages about picks and tasks.
const PICK_TYPES: [&str; 2] = ["campaign.result", "task.done"];

/// Checks signatures as soon as it knows the secret.
#[derive(Default)]
pub(super) struct SignatureVerifier {
    webhook: RwLock<Option<Webhook>>,
}

impl SignatureVerifier {
    pub(super) fn trust(&self, secret: &str) -> Result<(), ReceiverError> {
        if !secret.starts_with("whsec_") {
            return Err(ReceiverError::Secret("it does not begin with whsec_".to_owned()));
        }
        let webhook = Webhook::new(secret).map_err(|error| ReceiverError::Secret(error.to_string()))?;
        *self.webhook.write().unwrap_or_else(PoisonError::into_inner) = Some(webhook);
        Ok(())
    }

    fn check(&self, body: &[u8], headers: &HeaderMap) -> Result<(), String> {
        let webhook = self.webhook.read().unwrap_or_else(PoisonError::into_inner);
        webhook
            .as_ref()
            .map_or(Ok(()), |webhook| webhook.verify(body, headers))
            .map_err(|error| error.to_string())
    }
}

impl std::fmt::Debug for SignatureVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignatureVerifier")
    }
}

/// Answers as the behaviour in force demands; a hanging answer ends, with its connection, when that
/// changes.
pub(super) async fn answer(
    request: Request<Incoming>,
    mut behaviour: watch::Receiver<Behaviour>,
    shared: Arc<ReceiverState>,
) -> Result<Response<Empty<Bytes>>, Hung> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        shared.ledger().malformed("the body is cut off or too long");
        return Ok(plain(StatusCode::BAD_REQUEST));
    };
    let in_force = behaviour.borrow_and_update().clone();
    let reply = record(&shared, &head, &body.to_bytes(), &in_force);
    shared.recorded.notify_waiters();
    match (reply, in_force) {
        (WebhookReply::None, _) => {
            match behaviour.changed().await {
                Ok(()) => Err(Hung),
                // The receiver is going away and cuts its connections.
                Err(_) => pending().await,
            }
        }
        (WebhookReply::Status(status), Behaviour::Redirecting(place)) => {
            let mut response = plain(StatusCode::from_u16(status).unwrap_or(StatusCode::FOUND));
            if let Ok(place) = place.parse() {
                response.headers_mut().insert(LOCATION, place);
            }
            Ok(response)
        }
        (WebhookReply::Status(status), _) => {
            Ok(plain(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)))
        }
    }
}

/// The request was never answered.
#[derive(Debug, thiserror::Error)]
#[error("left hanging")]
pub(super) struct Hung;

fn record(
    shared: &ReceiverState,
    head: &hyper::http::request::Parts,
    body: &[u8],
    in_force: &Behaviour,
) -> WebhookReply {
    let at = Instant::now();
    if head.method != Method::POST {
        shared.ledger().malformed(&format!("a {} instead of a POST", head.method));
        return WebhookReply::Status(StatusCode::METHOD_NOT_ALLOWED.as_u16());
    }
    if let Err(reason) = shared.verifier.check(body, &head.headers) {
        shared.ledger().forged(&reason);
        return WebhookReply::Status(StatusCode::UNAUTHORIZED.as_u16());
    }
    let reply = reply(in_force);
    let Some(webhook_id) = head.headers.get("webhook-id").and_then(|id| id.to_str().ok()) else {
        shared.ledger().malformed("there is no webhook-id");
        return WebhookReply::Status(StatusCode::BAD_REQUEST.as_u16());
    };
    match Notification::read(body) {
        Ok(notification) => {
            let body_hash = hash(body);
            let webhook_id = webhook_id.into();
            shared.ledger().record(Arrival { webhook_id, notification, at, attempt: 1, body_hash, reply });
            reply
        }
        Err(_) if body.windows(TEST_MARK.len()).any(|part| part == TEST_MARK) => {
            shared.ledger().tested();
            reply
        }
        Err(error) => match pick_message(body) {
            Some(body) => {
                shared.ledger().record_pick(PickMessage { webhook_id: webhook_id.into(), body, reply });
                reply
            }
            None => {
                shared.ledger().malformed(&error.to_string());
                WebhookReply::Status(StatusCode::BAD_REQUEST.as_u16())
            }
        },
    }
}

fn pick_message(body: &[u8]) -> Option<Value> {
    let body: Value = serde_json::from_slice(body).ok()?;
    PICK_TYPES.iter().any(|name| body["type"] == *name).then_some(body)
}

const fn reply(in_force: &Behaviour) -> WebhookReply {
    match in_force {
        Behaviour::Up => WebhookReply::Status(200),
        Behaviour::Failing(status) => WebhookReply::Status(*status),
        Behaviour::Gone => WebhookReply::Status(410),
        Behaviour::Redirecting(_) => WebhookReply::Status(302),
        // A request that was already being read when the gate closed is cut with its connection.
        Behaviour::Hanging | Behaviour::Down => WebhookReply::None,
    }
}

fn hash(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

fn plain(status: StatusCode) -> Response<Empty<Bytes>> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    response
}
