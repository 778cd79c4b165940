//! A delivery in answers, alone and with its attempts.

use base::id::DELIVERY_ID_PREFIX;
use engine::records::{Attempt, Delivery};
use engine::{Answer, AttemptEnd};
use serde::Serialize;
use utoipa::ToSchema;

use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, Row};

/// A delivery. Its id is the `webhook-id`.
#[derive(Serialize, ToSchema)]
#[schema(as = Delivery)]
pub(crate) struct DeliveryShape {
    #[schema(schema_with = words::delivery_id)]
    id: String,
    #[schema(schema_with = words::client_id)]
    client_id: String,
    #[schema(schema_with = words::device_id)]
    device_id: String,
    #[schema(schema_with = words::event_kind)]
    r#type: &'static str,
    #[schema(schema_with = words::delivery_status)]
    status: &'static str,
    attempt_count: u32,
    created_at: Time,
    #[schema(required)]
    next_attempt_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::delivery_id, required = false)]
    resend_of: Option<String>,
}

/// A delivery with its attempts, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryWithAttempts)]
pub(crate) struct AttemptedShape {
    #[serde(flatten)]
    delivery: DeliveryShape,
    attempts: Vec<AttemptShape>,
}

/// One time that a notification was sent, or tried to be.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptShape {
    at: Time,
    #[schema(required)]
    status_code: Option<u16>,
    #[schema(schema_with = words::attempt_error, required)]
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

impl From<&AttemptEnd> for AttemptShape {
    fn from(end: &AttemptEnd) -> Self {
        let (status_code, error) = match end.answer {
            Answer::Status { code, .. } => (Some(code), None),
            Answer::Error(error) => (None, Some(error.as_str())),
            Answer::Withheld => (None, None),
        };
        let duration_ms = u32::try_from(end.took.as_millis()).unwrap_or(u32::MAX);
        Self { at: Time(end.at), status_code, error, duration_ms }
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

impl Row for DeliveryShape {
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "client_id",
        "device_id",
        "type",
        "status",
        "attempt_count",
        "created_at",
        "next_attempt_at",
        "resend_of",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id).text(&self.client_id).text(&self.device_id).text(self.r#type).text(self.status);
        cells.shown(self.attempt_count).shown(self.created_at).shown_or_empty(self.next_attempt_at);
        cells.shown_or_empty(self.resend_of.as_ref());
    }
}
