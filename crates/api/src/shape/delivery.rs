//! A delivery in answers, alone and with its attempts.

use base::id::DELIVERY_ID_PREFIX;
use engine::records::{Attempt, Delivery};
use serde::Serialize;

use super::text::Time;

/// A delivery. Its id is the `webhook-id`.
#[derive(Serialize)]
pub(crate) struct DeliveryShape {
    id: String,
    client_id: String,
    device_id: String,
    r#type: &'static str,
    status: &'static str,
    attempt_count: u32,
    created_at: Time,
    next_attempt_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resend_of: Option<String>,
}

/// A delivery with its attempts, oldest first.
#[derive(Serialize)]
pub(crate) struct AttemptedShape {
    #[serde(flatten)]
    delivery: DeliveryShape,
    attempts: Vec<AttemptShape>,
}

#[derive(Serialize)]
struct AttemptShape {
    at: Time,
    status_code: Option<u16>,
    error: Option<&'static str>,
    duration_ms: u32,
}

impl From<&Delivery> for DeliveryShape {
    fn from(delivery: &Delivery) -> Self {
        Self {
            id: delivery.id.to_text(DELIVERY_ID_PREFIX),
            client_id: delivery.client_id.to_string(),
            device_id: delivery.device.to_string(),
            r#type: delivery.kind.as_str(),
            status: delivery.progress.status.as_str(),
            attempt_count: delivery.progress.attempts,
            created_at: Time(delivery.id.at),
            next_attempt_at: delivery.progress.next_attempt_at.map(Time),
            resend_of: delivery.resend_of.map(|id| id.to_text(DELIVERY_ID_PREFIX)),
        }
    }
}

impl AttemptedShape {
    /// A delivery with its attempts.
    pub(crate) fn of(delivery: &Delivery, attempts: &[Attempt]) -> Self {
        Self { delivery: delivery.into(), attempts: attempts.iter().map(AttemptShape::from).collect() }
    }
}

impl From<&Attempt> for AttemptShape {
    fn from(attempt: &Attempt) -> Self {
        Self {
            at: Time(attempt.at),
            status_code: attempt.status_code,
            error: attempt.error.map(|error| error.as_str()),
            duration_ms: attempt.duration_ms,
        }
    }
}
