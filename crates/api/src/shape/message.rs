//! Messages of streams in answers: what became of those that were to be appended, and those that
//! were read.

use base::Problem;
use base::limits::REJECTIONS_LISTED_MAX;
use engine::streams::{AppendedMessage, OwnedMessage};
use serde::ser::{Serialize, Serializer};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, Type};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};

use super::import::RejectedShape;
use super::payload::PayloadShape;
use super::text::Time;
use crate::openapi::{RejectedLineShape, words};

/// What came of appending.
#[derive(serde::Serialize, ToSchema)]
#[schema(as = AppendedMessages)]
pub(crate) struct AppendedShape {
    /// In the order of the request.
    #[schema(max_items = 1000)]
    messages: Vec<AppendedMessageShape>,
}

/// A message that was appended, or the one that was there already.
#[derive(serde::Serialize, ToSchema)]
#[schema(as = AppendedMessage)]
pub(crate) struct AppendedMessageShape {
    /// Of a duplicate the id of the first one, null if that is gone.
    #[schema(schema_with = message_id_or_null, required)]
    id: Option<String>,
    /// Nothing was appended: there was one of this source and external id.
    duplicate: bool,
    /// The first one is kept, and carries something else.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    conflict: bool,
}

fn message_id_or_null() -> Schema {
    words::or_null(words::message_id())
}

impl From<&[AppendedMessage]> for AppendedShape {
    fn from(messages: &[AppendedMessage]) -> Self {
        let message = |message: &AppendedMessage| AppendedMessageShape {
            id: message.id.map(|id| id.to_string()),
            duplicate: message.duplicate,
            conflict: message.conflict,
        };
        Self { messages: messages.iter().map(message).collect() }
    }
}

/// What became of lines. Rejections are listed in order of their lines, the first thousand only.
#[derive(Debug, Default, serde::Serialize, ToSchema)]
#[schema(as = AppendedLines)]
pub(crate) struct AppendedLinesShape {
    appended: u64,
    /// Those whose source and external id were there before.
    duplicates: u64,
    rejected_count: u64,
    #[schema(max_items = 1000, value_type = Vec<RejectedLineShape>)]
    rejected: Vec<RejectedShape>,
    /// The id of the last message that was appended; null if none was.
    #[schema(schema_with = message_id_or_null, required)]
    last_id: Option<String>,
}

impl AppendedLinesShape {
    /// Counts a line, and lists it if it was refused.
    pub(crate) fn add(&mut self, line: u64, outcome: Result<AppendedMessage, Problem>) {
        match outcome {
            Ok(AppendedMessage { duplicate: true, .. }) => self.duplicates += 1,
            Ok(AppendedMessage { id, .. }) => {
                self.appended += 1;
                self.last_id = id.map(|id| id.to_string());
            }
            Err(problem) => {
                self.rejected_count += 1;
                if self.rejected.len() < REJECTIONS_LISTED_MAX {
                    self.rejected.push(RejectedShape::of(line, problem));
                }
            }
        }
    }
}

/// What became of the lines so far. Of lines that were not all taken, the refusal tells it of those
/// before the first that was not.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct LinesBeforeShape {
    /// The last of them; 0 before the first.
    last_line: u64,
    #[serde(flatten)]
    lines: AppendedLinesShape,
}

impl LinesBeforeShape {
    /// Counts the next line: see [`AppendedLinesShape::add`].
    pub(crate) fn add(&mut self, line: u64, outcome: Result<AppendedMessage, Problem>) {
        self.last_line = line;
        self.lines.add(line, outcome);
    }

    /// The answer where these are all.
    pub(crate) fn into_lines(self) -> AppendedLinesShape {
        self.lines
    }
}

/// The schema of what a refusal of lines says beside what every problem does. That of a body which
/// is no lines says nothing of it.
pub(crate) fn lines_before_schema() -> Schema {
    let count = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0_usize));
    let about = "the last line that was appended, a duplicate or rejected, 0 for none; the rest is of the lines up to it";
    let rejected: RefOr<Schema> = Ref::from_schema_name(RejectedLineShape::name()).into();
    ObjectBuilder::new()
        .property("last_line", count().description(Some(about)))
        .property("appended", count())
        .property("duplicates", count())
        .property("rejected_count", count())
        .property("rejected", ArrayBuilder::new().items(rejected).max_items(Some(REJECTIONS_LISTED_MAX)))
        .property("last_id", message_id_or_null())
        .into()
}

/// Messages, oldest first; [`page_json`](super::page_json) writes them.
#[derive(ToSchema)]
#[schema(as = MessagePage)]
#[expect(dead_code, reason = "it is what the document says of a page")]
pub(crate) struct MessagePageShape<'a> {
    #[schema(max_items = 1000)]
    items: Vec<MessageShape<'a>>,
    /// Where to read on: it moves on past what was left out.
    #[schema(schema_with = words::message_id)]
    next_after: String,
    /// Messages behind `after` that are gone already.
    skipped: u64,
}

/// A message of a stream.
#[derive(serde::Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageShape<'a> {
    #[schema(schema_with = words::message_id)]
    id: String,
    /// Its own time; that of receipt if it was given none.
    ts: Time,
    /// Where it comes from.
    #[schema(schema_with = label_or_null, required)]
    source: Option<&'a str>,
    /// Its id there, a number too.
    #[schema(required)]
    external_id: Option<String>,
    /// By which it can be read apart.
    #[schema(schema_with = label_or_null, required)]
    segment: Option<&'a str>,
    #[serde(flatten)]
    payload: PayloadShape<'a>,
    #[serde(skip_serializing_if = "HeadersShape::is_empty")]
    #[schema(schema_with = words::message_headers, required = false)]
    headers: HeadersShape<'a>,
}

fn label_or_null() -> Schema {
    words::or_null(words::stream_label())
}

impl<'a> From<&'a OwnedMessage> for MessageShape<'a> {
    fn from(message: &'a OwnedMessage) -> Self {
        Self {
            id: message.id.to_string(),
            ts: Time(message.ts),
            source: message.source.as_deref(),
            external_id: message.external_id.as_ref().map(ToString::to_string),
            segment: message.segment.as_deref(),
            payload: PayloadShape::of(message.is_json, &message.payload),
            headers: HeadersShape(&message.headers),
        }
    }
}

/// Texts by name.
pub(crate) struct HeadersShape<'a>(pub(super) &'a [(Box<str>, Box<str>)]);

impl HeadersShape<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for HeadersShape<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (&**name, &**value)))
    }
}
