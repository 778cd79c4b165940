//! A stream in answers: how much is in it and where, its blocks, and what the server does with
//! them by itself.

use std::collections::BTreeMap;

use engine::streams::{BlockStatus, HandlerStatus, StreamStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::stream_settings::StreamSettingsShape;
use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// The storage that is always there.
const LOCAL: &str = "local";

/// A stream and how much is in it.
#[derive(Serialize, ToSchema)]
#[schema(as = Stream)]
pub(crate) struct StreamShape<'a> {
    #[schema(schema_with = words::queue_name)]
    namespace: &'a str,
    #[schema(schema_with = words::queue_name)]
    stream: &'a str,
    /// The oldest message that is kept; the next one where none is.
    #[schema(schema_with = words::message_id)]
    first_id: String,
    /// The newest message; "0" before the first.
    #[schema(schema_with = words::message_id)]
    last_id: String,
    /// Messages that are kept.
    messages: u64,
    /// What they take.
    bytes: u64,
    /// The open one included.
    blocks: u64,
    bytes_in_memory: u64,
    /// Blocks by storage, the open one not among them.
    #[schema(schema_with = words::storages)]
    storages: BTreeMap<&'a str, StoredShape>,
    settings: StreamSettingsShape,
}

/// How much a storage has of a stream.
#[derive(Default, Serialize)]
pub(crate) struct StoredShape {
    blocks: u64,
    bytes: u64,
}

impl<'a> From<&'a StreamStatus> for StreamShape<'a> {
    fn from(stream: &'a StreamStatus) -> Self {
        let mut storages = BTreeMap::from([(LOCAL, StoredShape::default())]);
        for (name, blocks, bytes) in &stream.storages {
            storages.insert(&**name, StoredShape { blocks: *blocks, bytes: *bytes });
        }
        Self {
            namespace: stream.name.namespace(),
            stream: stream.name.stream(),
            first_id: stream.first_id.to_string(),
            last_id: stream.last_id.to_string(),
            messages: stream.messages,
            bytes: stream.bytes,
            blocks: stream.blocks,
            bytes_in_memory: stream.bytes_in_memory,
            storages,
            settings: (&stream.settings).into(),
        }
    }
}

impl CsvRow for StreamShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "namespace",
        "stream",
        "first_id",
        "last_id",
        "messages",
        "bytes",
        "blocks",
        "bytes_in_memory",
        "save",
        "keep_age",
        "keep_bytes",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.namespace).text(self.stream).text(&self.first_id).text(&self.last_id);
        cells.shown(self.messages).shown(self.bytes).shown(self.blocks).shown(self.bytes_in_memory);
        self.settings.write(cells);
    }
}

/// A block of a stream.
#[derive(Serialize, ToSchema)]
#[schema(as = StreamBlock)]
pub(crate) struct BlockShape<'a> {
    #[schema(schema_with = words::message_id)]
    first_id: String,
    #[schema(schema_with = words::message_id)]
    last_id: String,
    bytes: u64,
    messages: u64,
    /// The storage that has it; null while it is open.
    #[schema(required)]
    storage: Option<&'a str>,
    /// Some of it is in memory.
    loaded: bool,
    /// All of it is durable.
    saved: bool,
    /// When its first message was received.
    created_at: Time,
}

impl<'a> From<&'a BlockStatus> for BlockShape<'a> {
    fn from(block: &'a BlockStatus) -> Self {
        Self {
            first_id: block.first_id.to_string(),
            last_id: block.last_id.to_string(),
            bytes: block.bytes,
            messages: block.messages,
            storage: block.storage.as_deref(),
            loaded: block.loaded,
            saved: block.saved,
            created_at: Time(block.created_at),
        }
    }
}

impl CsvRow for BlockShape<'_> {
    const COLUMNS: &'static [&'static str] =
        &["first_id", "last_id", "bytes", "messages", "storage", "loaded", "saved", "created_at"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.first_id).text(&self.last_id).shown(self.bytes).shown(self.messages);
        cells.shown_or_empty(self.storage).shown(self.loaded).shown(self.saved).shown(self.created_at);
    }
}

/// What the server does with the blocks of a stream by itself. Counted since it started.
#[derive(Serialize, ToSchema)]
#[schema(as = StreamHandler)]
pub(crate) struct HandlerShape<'a> {
    #[schema(schema_with = words::handler_kind)]
    handler: &'static str,
    /// Where there are several of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[schema(schema_with = words::handler_state)]
    state: &'static str,
    #[schema(required)]
    last_run_at: Option<Time>,
    blocks: u64,
    bytes: u64,
    /// Why it does not go on.
    #[schema(required)]
    error: Option<&'a str>,
}

impl<'a> From<&'a HandlerStatus> for HandlerShape<'a> {
    fn from(handler: &'a HandlerStatus) -> Self {
        Self {
            handler: handler.handler.as_str(),
            name: handler.name.as_deref(),
            state: handler.state.as_str(),
            last_run_at: handler.last_run_at.map(Time),
            blocks: handler.blocks,
            bytes: handler.bytes,
            error: handler.error.as_deref(),
        }
    }
}

impl CsvRow for HandlerShape<'_> {
    const COLUMNS: &'static [&'static str] =
        &["handler", "name", "state", "last_run_at", "blocks", "bytes", "error"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.handler).shown_or_empty(self.name).text(self.state);
        cells.shown_or_empty(self.last_run_at).shown(self.blocks).shown(self.bytes);
        cells.shown_or_empty(self.error);
    }
}
