//! The fields around a value: `device_id` or `sensor_id`, `kind`, `data`, `ts`, `id`. Other fields
//! are ignored.
//!
//! Fields stay text until they are needed, so that each has its own refusal and the common report
//! is read without an allocation.

use std::borrow::Cow;

use base::limits::{REPORT_ID_CHARS_MAX, REPORT_TS_AHEAD_MS_MAX};
use base::{DeviceId, Kind, Problem, Timestamp};
use engine::ReportContent;
use engine::intake::ReportId;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{DecodeRules, canonical, not_json, quoted, unquoted};

/// The fields of an envelope, each as its JSON text. A field that is there twice makes the whole
/// unreadable.
#[derive(Deserialize)]
pub(super) struct EnvelopeFields<'a> {
    /// The whole message.
    #[serde(skip)]
    text: &'a str,
    #[serde(borrow, default, deserialize_with = "there")]
    device_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    sensor_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

/// A field that is `null` is there; without this serde would take it for missing.
pub(super) fn there<'de, D: Deserializer<'de>>(field: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(field).map(Some)
}

/// Whether the text, if it is JSON at all, is an object.
pub(super) fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{')
}

impl<'a> EnvelopeFields<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, Problem> {
        Ok(Self { text, ..object_of("a report", text)? })
    }

    pub(super) fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Who it is from.
    pub(super) fn device(&self, rules: DecodeRules) -> Result<DeviceId, Problem> {
        match (self.device_id, self.sensor_id) {
            (Some(raw), None) => device_id("device_id", raw, rules),
            (None, Some(raw)) => device_id("sensor_id", raw, rules),
            (Some(raw), Some(other)) => {
                let device = device_id("device_id", raw, rules)?;
                if device == device_id("sensor_id", other, rules)? {
                    return Ok(device);
                }
                Err(Problem::not_allowed(
                    super::INVALID_ID,
                    "device_id and sensor_id differ; give one of them",
                ))
            }
            (None, None) => Err(missing("device_id")),
        }
    }

    /// Of what kind the device is, if the report says so.
    pub(super) fn kind(&self) -> Result<Option<Kind>, Problem> {
        let Some(raw) = self.kind else { return Ok(None) };
        let kind = string_of(raw).and_then(|text| Kind::new(&text));
        kind.map(Some).ok_or_else(|| no_such_kind("the report", &shown(raw)))
    }

    /// What it says. `outer` is an id that came beside the payload; it goes before the one within.
    pub(super) fn message(&self, outer: Option<&str>, rules: DecodeRules) -> Result<ReportMessage, Problem> {
        let data = self.data.ok_or_else(|| missing("data"))?;
        let value = canonical::value_in(self.text, data.get())?;
        let ts = self.ts.map(|raw| device_time(raw, rules.wall)).transpose()?;
        let inner =
            self.id.map(|raw| string_of(raw).ok_or_else(|| bad_report_id(&shown(raw)))).transpose()?;
        let inner = inner.map(|id| report_id(&id)).transpose()?;
        let outer = outer.map(report_id).transpose()?;
        Ok(ReportMessage { content: ReportContent::Value { value, ts }, id: outer.or(inner) })
    }
}

/// The fields of an object; `what` it is.
pub(super) fn object_of<'a, T: Deserialize<'a>>(what: &str, text: &'a str) -> Result<T, Problem> {
    // serde would also take an array for the fields in their order.
    if !is_object(text) && serde_json::from_str::<&RawValue>(text).is_ok() {
        let detail = format!("{what} is a JSON object, not another value");
        return Err(Problem::not_allowed("not_an_object", detail));
    }
    serde_json::from_str(text).map_err(|error| not_json(&error, text))
}

/// What a report says, and its sender's id of it.
pub(super) struct ReportMessage {
    pub(super) content: ReportContent,
    pub(super) id: Option<ReportId>,
}

/// The refusal of a kind that no device can be of.
pub(super) fn no_such_kind(who: &str, shown_kind: &str) -> Problem {
    Problem::not_allowed("wrong_kind", format!("{who} names the kind {shown_kind}, which no device has"))
}

pub(super) fn missing(field: &str) -> Problem {
    Problem::not_allowed("missing_field", format!("{field} is missing"))
}

fn device_id(field: &str, raw: &RawValue, rules: DecodeRules) -> Result<DeviceId, Problem> {
    let Some(text) = string_of(raw) else {
        let detail = format!("{field} must be a string, not {}", shown(raw));
        return Err(Problem::not_allowed(super::INVALID_ID, detail));
    };
    rules.device_id(field, &text)
}

fn device_time(raw: &RawValue, wall: Timestamp) -> Result<Timestamp, Problem> {
    let parsed = string_of(raw).and_then(|text| Timestamp::parse_of_device(&text).ok());
    let ts = parsed.ok_or_else(|| {
        let detail =
            format!("ts must be an RFC 3339 time such as \"2026-11-21T01:02:03.456Z\", not {}", shown(raw));
        Problem::not_allowed("invalid_ts", detail)
    })?;
    if ts.0.saturating_sub(wall.0) > REPORT_TS_AHEAD_MS_MAX {
        let detail = format!("ts {ts} is over 5 minutes ahead of the server's time {wall}");
        return Err(Problem::not_allowed("ts_ahead", detail));
    }
    Ok(ts)
}

/// A report's `id`, from JSON, the MQTT 5 user property or AMQP's `message_id`.
pub(super) fn report_id(id: &str) -> Result<ReportId, Problem> {
    // A character takes at least one byte, so most ids need no counting.
    let fits =
        !id.is_empty() && (id.len() <= REPORT_ID_CHARS_MAX || id.chars().count() <= REPORT_ID_CHARS_MAX);
    if fits { Ok(ReportId::of(id)) } else { Err(bad_report_id(&quoted(id))) }
}

fn bad_report_id(shown: &str) -> Problem {
    let detail = format!("id must be a string of 1 to {REPORT_ID_CHARS_MAX} characters, not {shown}");
    Problem::not_allowed("invalid_report_id", detail)
}

/// A value as a detail repeats it: a string as it says, another one as it is written.
pub(super) fn shown(raw: &RawValue) -> String {
    string_of(raw).map_or_else(|| unquoted(raw.get()), |text| quoted(&text))
}

/// The text of a JSON string; `None` if it is another value.
pub(super) fn string_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}
