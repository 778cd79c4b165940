//! A stream: an append-only sequence of messages that lies in blocks.
//!
//! Messages that are durable but not in a stored block yet are chunks. A block that is stored is a
//! file elsewhere, and only its row is here. How messages lie in a chunk is known to the crate
//! `streams`; to everybody else they are bytes. Times of receipt never fall within a stream.

use std::sync::Arc;

use base::{Incarnation, Lineage, Timestamp};

use crate::weight::{RECORD_BYTES, weighs};

/// A stream. There from its first message or setting on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What its rows are kept under; a stream that is deleted and comes again has another.
    pub incarnation: Incarnation,
    /// The namespace it is in.
    pub namespace: Box<str>,
    /// Its name there.
    pub name: Box<str>,
    /// It was deleted: what it held is being swept, and its name may be another stream's.
    pub deleted: bool,
    /// What its users set.
    pub settings: StreamSettings,
    /// When it was made.
    pub created_at: Timestamp,
    /// What its messages without a source were called by, in the order of their ids.
    pub origins: Vec<StreamOrigin>,
}

weighs!(Stream: |stream| RECORD_BYTES + stream.text_bytes());

/// What messages that a stream was given without a source are called by: this source, with their
/// own ids. It holds from an id up to that of the next origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOrigin {
    /// The source.
    pub source: Box<str>,
    /// The first id.
    pub from: u64,
}

/// The storage that every server has: the data directory.
pub const LOCAL_STORAGE: &str = "local";

/// What users set of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// When messages become durable, and when their callers are answered.
    pub save: SaveMode,
    /// Longest time from an append to its save in the modes that save now and then, in
    /// milliseconds.
    pub save_interval_ms: u64,
    /// When the open block is closed.
    pub block: BlockBounds,
    /// How long messages are kept.
    pub keep: KeepBounds,
    /// What becomes of an append when there is no room.
    pub when_full: WhenFull,
    /// How long a stream that nobody uses stays in memory, in milliseconds.
    pub unload_after_ms: u64,
    /// Where blocks of some age go, the youngest first.
    pub moves: Vec<StreamMove>,
}

/// Where the blocks of a stream go at some age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMove {
    /// Milliseconds since the last message of a block was received.
    pub after_ms: u64,
    /// The name of the storage.
    pub to: Box<str>,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            save: SaveMode::default(),
            save_interval_ms: 1_000,
            block: BlockBounds::default(),
            keep: KeepBounds::default(),
            when_full: WhenFull::default(),
            unload_after_ms: 60_000,
            moves: Vec::new(),
        }
    }
}

/// When messages become durable, and when their callers are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaveMode {
    /// At once; the answer comes when they are.
    #[default]
    Sync,
    /// Once in the interval; the answer comes when they are.
    Wait,
    /// Once in the interval; the answer comes at once.
    Periodic,
    /// When their block is closed; the answer comes at once.
    Memory,
}

base::names! {
    /// Every mode, in the order of their stored numbers.
    pub SaveMode: Sync = "sync", Wait = "wait", Periodic = "periodic", Memory = "memory"
}

/// When the open block is closed: by whichever bound it reaches first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBounds {
    /// Bytes of its encoded messages.
    pub bytes: u64,
    /// Milliseconds since its first message was received.
    pub age_ms: u64,
    /// Messages.
    pub messages: u32,
}

impl Default for BlockBounds {
    fn default() -> Self {
        Self { bytes: 1_000_000, age_ms: 60_000, messages: 10_000 }
    }
}

/// How long messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepBounds {
    /// Milliseconds since a message was received; `None` for ever.
    pub age_ms: Option<u64>,
    /// Bytes of all encoded messages; `None` without a bound.
    pub bytes: Option<u64>,
    /// Whether what a copy has not taken yet outlives its age.
    pub until_copied: bool,
}

impl Default for KeepBounds {
    fn default() -> Self {
        const WEEK_MS: u64 = 7 * 86_400_000;
        Self { age_ms: Some(WEEK_MS), bytes: None, until_copied: true }
    }
}

/// What becomes of an append when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest messages go.
    #[default]
    DropOldest,
    /// It is refused.
    Reject,
}

base::names! {
    /// Every choice, in the order of their stored numbers.
    pub WhenFull: DropOldest = "drop_oldest", Reject = "reject"
}

/// How far a stream has come. It speaks of durable messages only, but for `reserved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamTail {
    /// The stream.
    pub stream: Incarnation,
    /// Ids below it may have been given to a caller, durable or not.
    pub reserved: u64,
    /// The id of the next message, from 1 on. Never above `reserved`.
    pub next: u64,
    /// The id of the oldest message that is kept; `next` without one.
    pub first: u64,
    /// When the latest message was received: no later one is received before it.
    pub last_at: Timestamp,
    /// Messages that are kept.
    pub messages: u64,
    /// Bytes of these, encoded.
    pub bytes: u64,
    /// Stored blocks.
    pub blocks: u32,
    /// Messages in these.
    pub block_messages: u64,
    /// Bytes of these messages, encoded.
    pub block_bytes: u64,
    /// Bytes of their files.
    pub stored_bytes: u64,
    /// Messages that are gone, for whatever reason.
    pub dropped: u64,
    /// When time next does something to the stream, whether it is in memory or not; it may be
    /// early. [`Timestamp::MAX`] if it does nothing.
    pub due: Timestamp,
    /// Of the stored blocks those that are in other storages than the local one, by name.
    pub elsewhere: Vec<StoredElsewhere>,
    /// For each move of the settings: blocks that begin before this message have gone as far, or
    /// further. Moves behind the last one here have not begun.
    pub moved: Vec<u64>,
}

weighs!(StreamTail: |tail| tail.text_bytes());

impl StreamTail {
    /// That of a stream without a message yet.
    #[must_use]
    pub fn begin(stream: Incarnation) -> Self {
        Self {
            stream,
            reserved: 1,
            next: 1,
            first: 1,
            last_at: Timestamp::default(),
            messages: 0,
            bytes: 0,
            blocks: 0,
            block_messages: 0,
            block_bytes: 0,
            stored_bytes: 0,
            dropped: 0,
            due: Timestamp::MAX,
            elsewhere: Vec::new(),
            moved: Vec::new(),
        }
    }
}

/// Blocks of a stream in a storage that is not the local one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredElsewhere {
    /// The name of the storage.
    pub storage: Box<str>,
    /// How many.
    pub blocks: u32,
    /// Bytes of their files.
    pub bytes: u64,
}

/// When time does something to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamDue {
    /// When.
    pub at: Timestamp,
    /// The stream.
    pub stream: Incarnation,
}

weighs!(StreamDue: |_| 0);

/// Durable messages of a block that is not stored yet. Their ids are consecutive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamChunk {
    /// The stream.
    pub stream: Incarnation,
    /// The first message's id.
    pub first: u64,
    /// How many there are.
    pub messages: u32,
    /// When the first was received.
    pub at: Timestamp,
    /// The messages, one behind the other.
    pub bytes: Arc<[u8]>,
}

weighs!(StreamChunk: |chunk| chunk.bytes.len());

/// A block that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBlock {
    /// The stream.
    pub stream: Incarnation,
    /// The first message's id.
    pub first: u64,
    /// The last message's id.
    pub last: u64,
    /// How many there are; fewer than ids where a crash left some out.
    pub messages: u32,
    /// Bytes of the encoded messages.
    pub bytes: u64,
    /// Bytes of the file.
    pub stored_bytes: u64,
    /// The CRC-32C of the file.
    pub checksum: u32,
    /// The storage it lies in.
    pub storage: Box<str>,
    /// The data directory that brought it there: its files are apart from those of others that
    /// share the storage. 0 in the local one.
    pub brought_by: Lineage,
    /// When the first message was received.
    pub created_at: Timestamp,
    /// When the last message was received.
    pub last_at: Timestamp,
    /// Segments of its messages, in order; empty if any may be there.
    pub segments: Vec<Box<str>>,
    /// There are too many segments to name them.
    pub any_segment: bool,
}

weighs!(StreamBlock: |block| RECORD_BYTES + block.text_bytes());

/// Numbers that a source gave to messages of a stream, without a gap. Kept for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalInterval {
    /// The stream.
    pub stream: Incarnation,
    /// Whose numbers.
    pub source: Box<str>,
    /// The lowest.
    pub from: u64,
    /// The highest.
    pub to: u64,
}

weighs!(ExternalInterval: |_| RECORD_BYTES);

/// Numbers of a source in a stored block: where to look for the message of one. Kept while the
/// block is. The block may hold only some of the numbers between both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalSpan {
    /// The stream.
    pub stream: Incarnation,
    /// Whose numbers.
    pub source: Box<str>,
    /// The lowest in the block.
    pub from: u64,
    /// The highest in the block.
    pub to: u64,
    /// The id of the block's first message.
    pub block: u64,
}

weighs!(ExternalSpan: |_| RECORD_BYTES);

/// A text that a source gave to a message. Kept while the message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalText {
    /// The stream.
    pub stream: Incarnation,
    /// Whose text.
    pub source: Box<str>,
    /// The text.
    pub text: Box<str>,
    /// The message's id.
    pub id: u64,
}

weighs!(ExternalText: |_| RECORD_BYTES);

impl Stream {
    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let moves = self.settings.moves.iter().map(|one| one.to.len() + 10);
        let origins = self.origins.iter().map(|origin| origin.source.len() + 12);
        self.namespace.len() + self.name.len() + moves.chain(origins).sum::<usize>()
    }
}

impl StreamTail {
    /// Bytes of its lists.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let elsewhere = self.elsewhere.iter().map(|one| one.storage.len() + 20);
        elsewhere.sum::<usize>() + 10 * self.moved.len()
    }
}

impl StreamBlock {
    /// The name of its file in its storage.
    #[must_use]
    pub fn file_name(&self) -> String {
        let name = format!("{:016x}-{:016x}.block", self.stream.0, self.first);
        match self.is_local() {
            true => name,
            false => format!("{}/{name}", block_folder(self.brought_by)),
        }
    }

    /// Whether it is in the data directory.
    #[must_use]
    pub fn is_local(&self) -> bool {
        *self.storage == *LOCAL_STORAGE
    }

    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.storage.len() + self.segments.iter().map(|segment| segment.len() + 2).sum::<usize>()
    }
}

/// The folder of a storage in which a data directory has its blocks: a storage may be shared.
#[must_use]
pub fn block_folder(of: Lineage) -> String {
    format!("{:016x}", of.0)
}
