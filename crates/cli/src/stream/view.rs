//! Streams, their blocks and their messages as people see them.

use std::collections::BTreeMap;

use base::size;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::job::carried;
use crate::list::TableRow;
use crate::table::{BAD, Cell, FAINT, GOOD, TextTable, facts, grouped, plain};
use crate::when::{to_millisecond, to_second};

/// What came of appending.
#[derive(Deserialize)]
pub(super) struct AppendedView {
    messages: Vec<AppendedLine>,
}

#[derive(Deserialize)]
struct AppendedLine {
    id: Option<String>,
    duplicate: bool,
    #[serde(default)]
    conflict: bool,
}

impl AppendedView {
    pub(super) fn to_text(&self) -> String {
        self.messages.iter().map(AppendedLine::to_text).collect()
    }
}

impl AppendedLine {
    fn to_text(&self) -> String {
        let id = self.id.as_deref().map_or_else(|| "one that is gone".to_owned(), plain);
        match (self.duplicate, self.conflict) {
            (false, _) => format!("appended as {id}\n"),
            (true, false) => format!("a duplicate of {id}, nothing appended\n"),
            (true, true) => format!("a duplicate of {id}, which carries something else; nothing appended\n"),
        }
    }
}

/// How a stream stands.
#[derive(Deserialize)]
pub(super) struct StreamView {
    namespace: String,
    stream: String,
    first_id: String,
    last_id: String,
    messages: u64,
    bytes: u64,
    blocks: u64,
    bytes_in_memory: u64,
    storages: BTreeMap<String, StoredView>,
    settings: SettingsView,
}

#[derive(Deserialize)]
struct StoredView {
    blocks: u64,
    bytes: u64,
}

#[derive(Deserialize)]
struct SettingsView {
    save: String,
    save_interval: String,
    block: BlockSettingsView,
    keep: KeepSettingsView,
    when_full: String,
    unload_after: String,
    #[serde(rename = "move")]
    moves: Vec<MoveView>,
}

#[derive(Deserialize)]
struct MoveView {
    after: String,
    to: String,
}

#[derive(Deserialize)]
struct BlockSettingsView {
    bytes: String,
    age: String,
    messages: u64,
}

#[derive(Deserialize)]
struct KeepSettingsView {
    age: Option<String>,
    bytes: Option<String>,
    until_copied: bool,
}

impl StreamView {
    pub(super) fn facts(&self) -> String {
        let SettingsView { save, save_interval, block, keep, when_full, unload_after, moves } =
            &self.settings;
        let bound = |bound: &Option<String>| bound.as_deref().map_or_else(no_limit, Cell::text);
        let saved = match save.as_str() {
            "wait" | "periodic" => format!("{save}, every {save_interval}"),
            _ => save.clone(),
        };
        let closed = format!("{}, {} or {} messages", block.bytes, block.age, grouped(block.messages));
        let moves: Vec<_> =
            moves.iter().map(|one| format!("after {} to {}", plain(&one.after), plain(&one.to))).collect();
        let moves = if moves.is_empty() { "no".to_owned() } else { moves.join("; ") };
        let stored: Vec<_> = self.storages.iter().map(|(name, stored)| stored.to_text(name)).collect();
        facts(&[
            ("stream", Cell::text(&format!("{}/{}", self.namespace, self.stream))),
            ("messages", Cell::number(self.messages)),
            ("first", Cell::text(&self.first_id)),
            ("last", Cell::text(&self.last_id)),
            ("bytes", Cell::number(self.bytes)),
            ("blocks", Cell::number(self.blocks)),
            ("in memory", Cell::number(self.bytes_in_memory)),
            ("stored", Cell::text(&stored.join("; "))),
            ("save", Cell::text(&saved)),
            ("block closed at", Cell::text(&closed)),
            ("kept for", bound(&keep.age)),
            ("most bytes", bound(&keep.bytes)),
            ("until copied", Cell::text(if keep.until_copied { "yes" } else { "no" })),
            ("when full", Cell::text(when_full)),
            ("unloaded after", Cell::text(unload_after)),
            ("moved", Cell::text(&moves)),
        ])
    }
}

impl StoredView {
    fn to_text(&self, name: &str) -> String {
        format!("{}: {} blocks, {} bytes", plain(name), grouped(self.blocks), grouped(self.bytes))
    }
}

fn no_limit() -> Cell {
    Cell::text("no limit").styled(FAINT)
}

impl TableRow for StreamView {
    const HEADINGS: &'static [&'static str] = &[
        "NAMESPACE",
        "STREAM",
        "FIRST",
        "LAST",
        "MESSAGES",
        "BYTES",
        "BLOCKS",
        "SAVE",
        "KEPT FOR",
        "MOST BYTES",
    ];

    fn cells(&self) -> Vec<Cell> {
        let SettingsView { save, keep, .. } = &self.settings;
        vec![
            Cell::text(&self.namespace),
            Cell::text(&self.stream),
            Cell::text(&self.first_id).aligned_right(),
            Cell::text(&self.last_id).aligned_right(),
            Cell::number(self.messages),
            Cell::number(self.bytes),
            Cell::number(self.blocks),
            Cell::text(save),
            Cell::maybe(keep.age.as_deref()),
            Cell::maybe(keep.bytes.as_deref()),
        ]
    }
}

/// A block of a stream.
#[derive(Deserialize)]
pub(super) struct BlockView {
    first_id: String,
    last_id: String,
    bytes: u64,
    messages: u64,
    storage: Option<String>,
    loaded: bool,
    saved: bool,
    created_at: String,
}

impl TableRow for BlockView {
    const HEADINGS: &'static [&'static str] =
        &["FIRST", "LAST", "MESSAGES", "BYTES", "CREATED", "STORAGE", "IN MEMORY", "SAVED"];

    fn cells(&self) -> Vec<Cell> {
        let saved = Cell::text(if self.saved { "yes" } else { "no" });
        vec![
            Cell::text(&self.first_id).aligned_right(),
            Cell::text(&self.last_id).aligned_right(),
            Cell::number(self.messages),
            Cell::number(self.bytes),
            Cell::text(&to_second(&self.created_at)),
            self.storage.as_deref().map_or_else(|| Cell::text("open").styled(FAINT), Cell::text),
            Cell::text(if self.loaded { "yes" } else { "no" }),
            saved.styled(if self.saved { GOOD } else { BAD }),
        ]
    }
}

/// What the server does with the blocks of a stream by itself.
#[derive(Deserialize)]
pub(super) struct HandlersView {
    items: Vec<HandlerView>,
}

#[derive(Deserialize)]
struct HandlerView {
    handler: String,
    #[serde(default)]
    name: Option<String>,
    state: String,
    last_run_at: Option<String>,
    blocks: u64,
    bytes: u64,
    error: Option<String>,
}

impl HandlersView {
    pub(super) fn to_text(&self, width: Option<usize>) -> String {
        let headings = &["HANDLER", "NAME", "STATE", "LAST RUN", "BLOCKS", "BYTES", "ERROR"];
        let rows: Vec<_> = self.items.iter().map(HandlerView::cells).collect();
        TextTable::new(headings).within(width).lines(&rows)
    }
}

impl HandlerView {
    fn cells(&self) -> Vec<Cell> {
        let error = self.error.as_deref().map(|error| Cell::whole(error).styled(BAD));
        vec![
            Cell::text(&self.handler),
            Cell::maybe(self.name.as_deref()),
            Cell::text(&self.state),
            Cell::maybe(self.last_run_at.as_deref().map(to_second).as_deref()),
            Cell::number(self.blocks),
            Cell::text(&size::format(self.bytes)).aligned_right(),
            error.unwrap_or_else(|| Cell::maybe(None)),
        ]
    }
}

/// A message that was read.
#[derive(Deserialize)]
pub(super) struct MessageView {
    id: String,
    ts: String,
    source: Option<String>,
    external_id: Option<String>,
    segment: Option<String>,
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
}

impl TableRow for MessageView {
    const HEADINGS: &'static [&'static str] = &["ID", "TIME", "SOURCE", "EXTERNAL ID", "SEGMENT", "PAYLOAD"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id).aligned_right(),
            Cell::text(&to_millisecond(&self.ts)),
            Cell::maybe(self.source.as_deref()),
            Cell::maybe(self.external_id.as_deref()),
            Cell::maybe(self.segment.as_deref()),
            Cell::short(&carried(self.payload.as_deref(), self.payload_base64.as_deref())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    const STREAM: &str = r#"{"namespace":"shop","stream":"orders","first_id":"1","last_id":"1200","messages":1200,
        "bytes":64000,"blocks":2,"bytes_in_memory":1000,"storages":{"local":{"blocks":1,"bytes":60000}},
        "settings":{"save":"wait","save_interval":"1s","block":{"bytes":"1MB","age":"1m","messages":10000},
        "keep":{"age":"7d","bytes":null,"until_copied":true},"when_full":"drop_oldest","unload_after":"1m",
        "move":[]}}"#;

    #[test]
    fn a_stream_is_a_row_and_alone_shows_what_is_set() {
        let stream: StreamView = serde_json::from_str(STREAM).expect("a stream");
        assert_eq!(
            unstyled(&TextTable::new(StreamView::HEADINGS).lines(&[stream.cells()])),
            "NAMESPACE  STREAM  FIRST  LAST  MESSAGES   BYTES  BLOCKS  SAVE  KEPT FOR  MOST BYTES\n\
             shop       orders      1  1200     1,200  64,000       2  wait  7d        -\n"
        );
        let facts = unstyled(&stream.facts());
        for line in [
            "stored           local: 1 blocks, 60,000 bytes\n",
            "save             wait, every 1s\n",
            "block closed at  1MB, 1m or 10,000 messages\n",
            "most bytes       no limit\n",
        ] {
            assert!(facts.contains(line), "{facts}");
        }
    }

    #[test]
    fn what_came_of_appending_is_a_sentence() {
        let appended = r#"{"messages":[{"id":"4","duplicate":false},{"id":"3","duplicate":true},
            {"id":null,"duplicate":true},{"id":"3","duplicate":true,"conflict":true}]}"#;
        let appended: AppendedView = serde_json::from_str(appended).expect("an answer");
        assert_eq!(
            appended.to_text(),
            "appended as 4\n\
             a duplicate of 3, nothing appended\n\
             a duplicate of one that is gone, nothing appended\n\
             a duplicate of 3, which carries something else; nothing appended\n"
        );
    }

    #[test]
    fn a_message_is_a_row() {
        let message = r#"{"id":"4","ts":"2026-11-21T01:02:03.456Z","source":"till-4","external_id":"17",
            "segment":null,"payload":{"n":1}}"#;
        let message: MessageView = serde_json::from_str(message).expect("a message");
        assert_eq!(
            unstyled(&TextTable::new(MessageView::HEADINGS).lines(&[message.cells()])),
            "ID  TIME                      SOURCE  EXTERNAL ID  SEGMENT  PAYLOAD\n \
             4  2026-11-21 01:02:03.456Z  till-4  17           -        {\"n\":1}\n"
        );
    }
}
