//! Messages of streams: as they are appended, and as they are read.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::id::text_id;
use crate::job::{Payload, PayloadFields, present};
use crate::path::Path;
use crate::publish::PayloadField;
use crate::span::{JsonTime, Milliseconds, moment};

text_id! {
    /// A message's id: a decimal from "1" on, rising in the order of appending.
    MessageId
}

impl MessageId {
    /// The place before the first message.
    #[must_use]
    pub fn start() -> Self {
        Self::new("0")
    }
}

/// A message to be appended.
#[derive(Clone, Debug, Serialize)]
pub struct OutgoingMessage {
    #[serde(flatten)]
    carried: PayloadField,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<JsonTime>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
}

impl OutgoingMessage {
    /// A message that carries a value.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(Self::carrying(PayloadField::json(value)?))
    }

    /// A message that carries bytes.
    #[must_use]
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self::carrying(PayloadField::bytes(bytes))
    }

    fn carrying(carried: PayloadField) -> Self {
        Self { carried, source: None, external_id: None, segment: None, ts: None, headers: BTreeMap::new() }
    }

    /// Where it comes from and its id there: appended again it is a duplicate. The decimal of a
    /// number is the number; numbers that ascend cost the server least.
    #[must_use]
    pub fn once(self, source: impl Into<String>, external_id: impl fmt::Display) -> Self {
        Self { source: Some(source.into()), external_id: Some(external_id.to_string()), ..self }
    }

    /// By which it can be read apart.
    #[must_use]
    pub fn segment(self, segment: impl Into<String>) -> Self {
        Self { segment: Some(segment.into()), ..self }
    }

    /// Its own time; without it the time of receipt.
    #[must_use]
    pub fn ts(self, ts: SystemTime) -> Self {
        Self { ts: Some(JsonTime(ts)), ..self }
    }

    /// A text that travels with it.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Whether appending it again appends nothing.
    pub(crate) fn is_once(&self) -> bool {
        self.source.is_some()
    }
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct AppendResult {
    /// Its id; of a duplicate that of the first one, `None` if that is gone.
    pub id: Option<MessageId>,
    /// There was one of its source and external id: nothing was appended.
    pub duplicate: bool,
    /// That one is kept, and carries something else.
    #[serde(default)]
    pub conflict: bool,
}

/// What is read of a stream: from its start on, all segments, up to 100 messages, at once, unless
/// it is said otherwise.
#[derive(Clone, Debug, Default)]
pub struct StreamReading {
    after: Option<MessageId>,
    from: Option<SystemTime>,
    segments: Vec<String>,
    limit: Option<usize>,
    wait: Duration,
}

impl StreamReading {
    /// What comes behind this message.
    #[must_use]
    pub fn after(id: &MessageId) -> Self {
        Self { after: Some(id.clone()), ..Self::default() }
    }

    /// Nothing that was received earlier.
    #[must_use]
    pub fn from(self, moment: SystemTime) -> Self {
        Self { from: Some(moment), ..self }
    }

    /// Of this segment too; without any, of all.
    #[must_use]
    pub fn segment(mut self, segment: impl Into<String>) -> Self {
        self.segments.push(segment.into());
        self
    }

    /// At most so many messages, up to 1,000.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Wait so long for the first one, up to a minute.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// How long the server may take its time.
    pub(crate) fn waits(&self) -> Duration {
        self.wait
    }

    /// The path with what it asks for.
    pub(crate) fn of(&self, path: Path) -> Result<Path, Error> {
        let from = self.from.map(|from| serde_json::to_value(JsonTime(from))).transpose()?;
        let parameters = [
            ("after", self.after.as_ref().map(ToString::to_string)),
            ("from", from.and_then(|from| from.as_str().map(str::to_owned))),
            ("segment", (!self.segments.is_empty()).then(|| self.segments.join(","))),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("wait", (!self.wait.is_zero()).then(|| Milliseconds(self.wait).to_string())),
        ];
        let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Ok(given.fold(path, |path, (name, value)| path.with(name, &value)))
    }
}

/// Messages of a stream, oldest first.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct ReceivedPage {
    /// The messages.
    pub items: Vec<ReceivedMessage>,
    /// Where to read on: past what was left out too.
    pub next_after: MessageId,
    /// Messages behind the place that was asked for, gone already.
    pub skipped: u64,
}

/// A message of a stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// Its id.
    pub id: MessageId,
    /// Its own time; that of receipt if it was given none.
    pub ts: SystemTime,
    /// Where it comes from.
    pub source: Option<String>,
    /// Its id there.
    pub external_id: Option<String>,
    /// By which it can be read apart.
    pub segment: Option<String>,
    /// Texts that travel with it.
    pub headers: BTreeMap<String, String>,
    /// What it carries.
    pub payload: Payload,
}

impl<'de> Deserialize<'de> for ReceivedMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct MessageWire {
            id: MessageId,
            #[serde(with = "moment")]
            ts: SystemTime,
            source: Option<String>,
            external_id: Option<String>,
            segment: Option<String>,
            #[serde(default)]
            headers: BTreeMap<String, String>,
            #[serde(default, deserialize_with = "present")]
            payload: Option<Box<RawValue>>,
            #[serde(default)]
            payload_base64: Option<String>,
        }
        let MessageWire { id, ts, source, external_id, segment, headers, payload, payload_base64 } =
            MessageWire::deserialize(deserializer)?;
        let payload = PayloadFields { payload, payload_base64 }.payload()?;
        Ok(Self { id, ts, source, external_id, segment, headers, payload })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_message_says_only_what_was_said_of_it() {
        let seven = OutgoingMessage::json(&7).expect("a number");
        for (message, expect) in [
            (seven.clone(), r#"{"payload":7}"#),
            (OutgoingMessage::bytes([0, 255]), r#"{"payload_base64":"AP8="}"#),
            (seven.clone().once("till-4", 17), r#"{"payload":7,"source":"till-4","external_id":"17"}"#),
            (
                seven.segment("eu").ts(UNIX_EPOCH).header("k", "v"),
                r#"{"payload":7,"segment":"eu","ts":"1970-01-01T00:00:00.000Z","headers":{"k":"v"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&message).expect("JSON"), expect);
        }
    }

    #[test]
    fn a_reading_asks_for_what_was_said() {
        let all = StreamReading::after(&MessageId::new("17"))
            .from(UNIX_EPOCH)
            .segment("a")
            .segment("b")
            .limit(5)
            .wait(Duration::from_secs(30));
        for (reading, expect) in [
            (StreamReading::default(), "/v1/x"),
            (all, "/v1/x?after=17&from=1970-01-01T00%3A00%3A00.000Z&segment=a%2Cb&limit=5&wait=30000ms"),
        ] {
            assert_eq!(reading.of(Path::of(&["x"])).expect("a path").as_str(), expect);
        }
    }

    #[test]
    fn a_message_is_read_as_the_server_writes_it() {
        let text = r#"{"items":[{"id":"4","ts":"2026-11-21T01:02:03.456Z","source":null,"external_id":null,
            "segment":null,"payload":null},{"id":"5","ts":"2026-11-21T01:02:03.456Z","source":"a",
            "external_id":"9","segment":"s","payload_base64":"AP8=","headers":{"k":"v"}}],
            "next_after":"5","skipped":3}"#;
        let page: ReceivedPage = serde_json::from_str(text).expect("a page");
        assert_eq!((page.next_after.as_str(), page.skipped), ("5", 3));
        assert_eq!(page.items[0].payload.as_bytes(), b"null");
        assert_eq!(page.items[1].payload.as_bytes(), [0, 255]);
        assert_eq!(page.items[1].headers["k"], "v");
    }
}
