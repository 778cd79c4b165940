//! A delivery in answers, alone and with its attempts.

use base::Timestamp;
use base::id::DELIVERY_ID_PREFIX;
use engine::records::{Attempt, AttemptDetail, AttemptError, AttemptTimings, Delivery, DeliveryStatus};
use engine::{AttemptEnd, AttemptOutcome};
use serde::Serialize;
use utoipa::ToSchema;

use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};
use cause::cause;

mod cause;

/// What every request says that sends a notification.
const AGENT: &str = concat!("fieldpost/", env!("CARGO_PKG_VERSION"));

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

/// A delivery with its attempts, oldest first, and the request as the latest of them made it.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryWithAttempts)]
pub(crate) struct AttemptedShape<'a> {
    #[serde(flatten)]
    delivery: DeliveryShape,
    attempts: Vec<AttemptShape>,
    /// Where the client is told now; null once it is gone.
    #[schema(required)]
    url: Option<&'a str>,
    headers: RequestHeadersShape,
    /// What every attempt sends, byte for byte; null where it is not kept.
    #[schema(required)]
    body: Option<String>,
    /// Why there is no body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    body_gone: Option<&'static str>,
}

/// The headers of the latest attempt, but for its signature; of the first one to come, if none was
/// made.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryHeaders)]
#[serde(rename_all = "kebab-case")]
struct RequestHeadersShape {
    content_type: &'static str,
    user_agent: &'static str,
    #[schema(schema_with = words::delivery_id)]
    webhook_id: String,
    /// The time of the attempt in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    webhook_timestamp: Option<String>,
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
    /// The beginning of the answer's body: 2 KiB, of a success 256 bytes. What is not UTF-8 is
    /// replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    answer: Option<String>,
    /// How long the look-up of the name took.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    dns_ms: Option<u32>,
    /// How long the connection took.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    connect_ms: Option<u32>,
    /// How long TLS took.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    tls_ms: Option<u32>,
    /// How long after the request the first byte of its answer came.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    first_byte_ms: Option<u32>,
    /// Whether it went out on a connection that was there already.
    reused: bool,
    /// Why it came to nothing, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    cause: Option<String>,
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

impl<'a> AttemptedShape<'a> {
    /// A delivery with its attempts, the body that is kept, and where its client is told now.
    pub(crate) fn of(
        delivery: &Delivery,
        attempts: &[Attempt],
        body: Option<&[u8]>,
        url: Option<&'a str>,
    ) -> Self {
        let body = body.map(|body| String::from_utf8_lossy(body).into_owned());
        let seconds = attempts.last().map(|attempt| (attempt.at.0.div_euclid(1_000)).to_string());
        Self {
            delivery: delivery.into(),
            attempts: attempts.iter().map(AttemptShape::from).collect(),
            url,
            headers: RequestHeadersShape {
                content_type: "application/json",
                user_agent: AGENT,
                webhook_id: delivery.id.to_text(DELIVERY_ID_PREFIX),
                webhook_timestamp: seconds,
            },
            body_gone: if body.is_some() { None } else { Some(body_gone(delivery)) },
            body,
        }
    }
}

/// Why there is no body to show.
fn body_gone(delivery: &Delivery) -> &'static str {
    match delivery.progress.status {
        DeliveryStatus::Pending if delivery.progress.attempts == 0 => "it is made at the first attempt",
        DeliveryStatus::Pending => "the delivery ended while it was read; ask again",
        DeliveryStatus::Delivered => "it was delivered; bodies are kept until then",
        DeliveryStatus::Failed | DeliveryStatus::Superseded => "a newer notification took its place",
        DeliveryStatus::Cancelled => "the client was unlinked or deleted",
    }
}

impl From<&AttemptEnd> for AttemptShape {
    fn from(end: &AttemptEnd) -> Self {
        let (status_code, error) = match end.answer {
            AttemptOutcome::Status { code, .. } => (Some(code), None),
            AttemptOutcome::Error(error) => (None, Some(error)),
            AttemptOutcome::Withheld => (None, None),
        };
        let duration_ms = u32::try_from(end.took.as_millis()).unwrap_or(u32::MAX);
        Self::of((end.at, duration_ms), status_code, error, &end.detail)
    }
}

impl AttemptShape {
    fn of(
        (at, duration_ms): (Timestamp, u32),
        status_code: Option<u16>,
        error: Option<AttemptError>,
        detail: &AttemptDetail,
    ) -> Self {
        let AttemptDetail { timings, answer, certificate_bound } = detail;
        let AttemptTimings { dns_ms, connect_ms, tls_ms, first_byte_ms, reused } = *timings;
        Self {
            at: Time(at),
            status_code,
            error: error.map(AttemptError::as_str),
            duration_ms,
            answer: answer.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            dns_ms,
            connect_ms,
            tls_ms,
            first_byte_ms,
            reused,
            cause: cause(at, status_code, error, *certificate_bound),
        }
    }
}

impl From<&Attempt> for AttemptShape {
    fn from(attempt: &Attempt) -> Self {
        let begun = (attempt.at, attempt.duration_ms);
        Self::of(begun, attempt.status_code, attempt.error, &attempt.detail)
    }
}

impl CsvRow for DeliveryShape {
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
