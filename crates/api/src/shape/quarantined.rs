//! A refused report in answers.

use base::id::QUARANTINE_ID_PREFIX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::records::Quarantined;
use serde::Serialize;
use utoipa::ToSchema;

use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// A report that was refused, as it was received.
#[derive(Serialize, ToSchema)]
#[schema(as = Quarantined)]
pub(crate) struct QuarantinedShape<'a> {
    #[schema(schema_with = words::quarantined_id)]
    id: String,
    at: Time,
    #[schema(schema_with = words::way_in)]
    source: &'static str,
    /// The MQTT topic.
    #[schema(required)]
    topic: Option<&'a str>,
    /// Where that can be said.
    #[schema(required)]
    device_id: Option<&'a str>,
    code: &'a str,
    detail: &'a str,
    /// More was received than is kept.
    cut: bool,
    /// As received, where that is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    /// As received, where that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl<'a> From<&'a Quarantined> for QuarantinedShape<'a> {
    fn from(report: &'a Quarantined) -> Self {
        let payload = std::str::from_utf8(&report.payload).ok();
        Self {
            id: report.id.to_text(QUARANTINE_ID_PREFIX),
            at: Time(report.id.at),
            source: report.way.as_str(),
            topic: report.topic.as_deref(),
            device_id: report.device.as_ref().map(base::DeviceId::as_str),
            code: &report.code,
            detail: &report.detail,
            cut: report.cut,
            payload,
            payload_base64: payload.is_none().then(|| STANDARD.encode(&report.payload)),
        }
    }
}

impl CsvRow for QuarantinedShape<'_> {
    const COLUMNS: &'static [&'static str] =
        &["id", "at", "source", "topic", "device_id", "code", "detail", "cut", "payload", "payload_base64"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id).shown(self.at).text(self.source).text(self.topic.unwrap_or_default());
        cells.text(self.device_id.unwrap_or_default()).text(self.code).text(self.detail).shown(self.cut);
        cells.text(self.payload.unwrap_or_default()).text(self.payload_base64.as_deref().unwrap_or_default());
    }
}
