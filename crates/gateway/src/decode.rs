//! From the bytes of a message to a [`Report`]. Pure: no socket, no clock, the same for every way
//! in.
//!
//! A message that can be attributed to a device becomes a [`Report`] even when it is refused,
//! because it is a sign of life. One that cannot is a [`Problem`]. Whether the device exists, is of
//! the claimed kind and may have the value is the engine's affair.

use base::{DeviceId, DeviceIdForm, Kind, Problem, Timestamp};
use engine::{Report, ReportContent};
use net::canonical::not_json;

use self::envelope::ReportMessage;
use self::topic::Topic;

pub use self::answer::UNKNOWN_COMMAND;
pub use net::canonical;

mod answer;
mod compact;
mod envelope;
pub mod kinds;
mod topic;

#[cfg(test)]
mod tests;

/// The code of a publish to a topic that is none of ours; MQTT 5 has its own reason code for it.
pub const UNKNOWN_TOPIC: &str = "unknown_topic";

/// The code of a report whose device's id cannot be read.
pub const INVALID_ID: &str = "invalid_id";

/// The topic of reports that name their device in the payload.
pub const SENSORS: &str = "sensors";

/// What decoding depends on besides the bytes.
#[derive(Clone, Copy, Debug)]
pub struct DecodeRules {
    /// The ids that devices may be registered with now. Those of devices that are registered may
    /// have another form, which the engine knows; here it is only told what would be right.
    pub device_ids: DeviceIdForm,
    /// The wall clock: a report's `ts` may be little ahead of it.
    pub wall: Timestamp,
}

impl DecodeRules {
    /// The rules of an engine at this moment.
    #[must_use]
    pub fn of(engine: &engine::Engine) -> Self {
        Self { device_ids: engine.settings().device_ids, wall: engine.clock().wall() }
    }

    fn device_id(self, field: &str, text: &str) -> Result<DeviceId, Problem> {
        DeviceId::new(text).ok_or_else(|| {
            let (max, chars) = (self.device_ids.chars_max, self.device_ids.alphabet.as_words());
            let detail = format!(
                "{field} must be 1 to {max} {chars} (devices.id_max_len, devices.id_chars), not {}",
                quoted(text)
            );
            Problem::not_allowed(INVALID_ID, detail)
        })
    }
}

/// Decodes `{"device_id" or "sensor_id", "data", "kind"?, "ts"?, "id"?}`. That is one object over
/// HTTP, one line of NDJSON, the payload of topic `sensors`, or a message over AMQP. `id` is what
/// came beside it: an MQTT 5 user property, or AMQP's `message_id`.
///
/// # Errors
/// When it cannot be said which device it is from.
pub fn object(bytes: &[u8], id: Option<&str>, rules: DecodeRules) -> Result<Report, Problem> {
    let fields = envelope::EnvelopeFields::read(text_of(bytes)?)?;
    let device = fields.device(rules)?;
    let (kind, message) = match fields.kind() {
        Ok(kind) => (kind, fields.message(id, rules)),
        Err(wrong) => (None, Err(wrong)),
    };
    Ok(report(device, kind, message))
}

/// Whether a whole JSON object is there and something follows it, as where several reports are sent
/// as one.
pub(crate) fn is_followed(bytes: &[u8]) -> bool {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<serde::de::IgnoredAny>();
    let is_object = bytes.trim_ascii_start().starts_with(b"{") && matches!(values.next(), Some(Ok(_)));
    is_object && !bytes[values.byte_offset()..].trim_ascii().is_empty()
}

/// Decodes a publish: the topic says who it is from, the payload is an envelope or the value
/// itself. `id` is the MQTT 5 user property of that name.
///
/// # Errors
/// When it cannot be said which device it is from: an unknown topic, or an id that no device can
/// have.
pub fn publish(topic: &str, payload: &[u8], id: Option<&str>, rules: DecodeRules) -> Result<Report, Problem> {
    publish_as(topic::parse(topic), topic, (payload, id, rules), answer::answer)
}

/// Decodes a publish to a topic of this meaning, whose answers are read so.
fn publish_as(
    meaning: Topic<'_>,
    topic: &str,
    (payload, id, rules): (&[u8], Option<&str>, DecodeRules),
    answer: impl FnOnce(&str) -> Result<ReportContent, Problem>,
) -> Result<Report, Problem> {
    let (kind, device, message) = match meaning {
        Topic::Sensors => return object(payload, id, rules),
        Topic::State { kind, device } => {
            (kind, rules.device_id("the id in the topic", device)?, state(payload, id, rules))
        }
        Topic::Heartbeat { kind, device } => {
            let alive = ReportMessage { content: ReportContent::Alive, id: None };
            (kind, rules.device_id("the id in the topic", device)?, Ok(alive))
        }
        Topic::Ack { kind, device } => {
            (kind, rules.device_id("the id in the topic", device)?, of_command(payload, answer))
        }
        Topic::Confirmed { kind, device } => {
            (kind, rules.device_id("the id in the topic", device)?, of_command(payload, answer::confirmed))
        }
        Topic::Unknown => return Err(unknown_topic(topic)),
    };
    let Some(known) = Kind::new(kind) else {
        return Ok(report(device, None, Err(envelope::no_such_kind("the topic", &quoted(kind)))));
    };
    Ok(report(device, Some(known), message))
}

/// Decodes a device's answer to a command, or its progress: the payload of
/// `dev/{kind}/{id}/ack`, and the body of `POST /v1/devices/{id}/ack`.
///
/// # Errors
/// Why it is refused: [`UNKNOWN_COMMAND`], `missing_field`, `invalid_ok`, `value_too_large`,
/// `value_too_deep`, `value_not_allowed`, `not_an_object`, `unreadable`. It is a sign of life all
/// the same.
pub fn answer(payload: &[u8]) -> Result<ReportContent, Problem> {
    answer::answer(text_of(payload)?)
}

/// What a device says of its commands has no id of its own: the command's is enough.
fn of_command(
    payload: &[u8],
    read: impl FnOnce(&str) -> Result<ReportContent, Problem>,
) -> Result<ReportMessage, Problem> {
    Ok(ReportMessage { content: read(text_of(payload)?)?, id: None })
}

/// A JSON object that has `data` is an envelope; any other JSON is the value itself.
fn state(payload: &[u8], id: Option<&str>, rules: DecodeRules) -> Result<ReportMessage, Problem> {
    let text = text_of(payload)?;
    if envelope::is_object(text) {
        let fields = envelope::EnvelopeFields::read(text)?;
        if fields.has_data() {
            return fields.message(id, rules);
        }
    }
    let id = id.map(envelope::report_id).transpose()?;
    Ok(ReportMessage { content: ReportContent::Value { value: canonical::value(text)?, ts: None }, id })
}

fn report(device: DeviceId, kind: Option<Kind>, message: Result<ReportMessage, Problem>) -> Report {
    let refused = |problem| ReportMessage { content: ReportContent::Refused(Box::new(problem)), id: None };
    let ReportMessage { content, id } = message.unwrap_or_else(refused);
    Report { device, kind, content, id }
}

fn unknown_topic(topic: &str) -> Problem {
    let detail = format!(
        "topics are sensors and dev/{{kind}}/{{id}}/ with state, heartbeat, ack or confirmed, not {}",
        quoted(topic)
    );
    Problem::not_allowed(UNKNOWN_TOPIC, detail)
}

fn text_of(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes)
        .map_err(|bad| Problem::unreadable(format!("not UTF-8 at byte {}", bad.valid_up_to())))
}

/// Longest piece of a sender's text that a detail repeats, in characters.
const QUOTED_CHARS_MAX: usize = 80;

pub(crate) fn quoted(text: &str) -> String {
    let (beginning, dots) = cut(text);
    format!("{beginning:?}{dots}")
}

/// As much of a sender's JSON as a detail repeats: a number has no quotes there.
fn unquoted(json: &str) -> String {
    let (beginning, dots) = cut(json);
    let mut shown = String::with_capacity(beginning.len() + dots.len());
    for char in beginning.chars() {
        match char {
            '"' | '\'' | '\\' => shown.push(char),
            _ if char.is_control() => shown.push(' '),
            // What turns the direction of a text, or is not seen, is shown as its number.
            _ => shown.extend(char.escape_debug()),
        }
    }
    shown + dots
}

/// The beginning, and what stands for the rest.
fn cut(text: &str) -> (&str, &'static str) {
    let beginning = beginning(text);
    (beginning, if beginning.len() < text.len() { "..." } else { "" })
}

/// As much of a sender's text as is repeated, raw: for fields of the log, which escapes them.
pub(crate) fn beginning(text: &str) -> &str {
    text.char_indices().nth(QUOTED_CHARS_MAX).map_or(text, |(end, _)| &text[..end])
}
