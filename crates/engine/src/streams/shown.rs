//! What is asked of streams, and what is shown of them.

use base::Timestamp;
use records::StreamSettings;

use super::{OwnedMessage, StreamName};

/// What is read of a stream.
#[derive(Clone, Debug)]
pub struct StreamRead {
    /// Messages behind this id; 0 is from the start on.
    pub after: u64,
    /// Not those that were received earlier.
    pub from: Option<Timestamp>,
    /// Those of these segments alone; all if there are none.
    pub segments: Vec<Box<str>>,
    /// Most messages: 1 to [`base::limits::PAGE_ITEMS_MAX`].
    pub limit: usize,
    /// Most bytes of payloads and other texts together; one message is always given.
    pub bytes_max: usize,
}

/// Messages of a stream, oldest first.
#[derive(Clone, Debug, Default)]
pub struct StreamPage {
    /// The messages.
    pub items: Vec<OwnedMessage>,
    /// Where to read on: behind all that was looked at.
    pub next_after: u64,
    /// Ids behind `after` whose messages are gone already.
    pub skipped: u64,
    /// There was nothing more to look at: wait with [`super::StreamCalls::appended`] for more.
    pub is_end: bool,
}

/// Which streams are listed, in order of namespace and name.
#[derive(Clone, Debug, Default)]
pub struct StreamList {
    /// Those of this namespace alone.
    pub namespace: Option<Box<str>>,
    /// Those behind this one.
    pub after: Option<StreamName>,
    /// Most streams.
    pub limit: usize,
}

/// A stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamStatus {
    /// Its name.
    pub name: StreamName,
    /// The id of the oldest message that is kept; of the next one where none is.
    pub first_id: u64,
    /// The id of the newest message; 0 before the first.
    pub last_id: u64,
    /// Messages that are kept.
    pub messages: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Blocks, the open one included.
    pub blocks: u64,
    /// Bytes of it that are in memory.
    pub bytes_in_memory: u64,
    /// Its blocks by storage: name, blocks, bytes as they are stored. Not the open one.
    pub storages: Vec<(Box<str>, u64, u64)>,
    /// Its settings.
    pub settings: StreamSettings,
}

/// A block of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockStatus {
    /// The id of its first message.
    pub first_id: u64,
    /// The id of its last message.
    pub last_id: u64,
    /// Bytes of its messages.
    pub bytes: u64,
    /// How many messages it has.
    pub messages: u64,
    /// The storage that has it; `None` while it is open.
    pub storage: Option<Box<str>>,
    /// Whether some of it is in memory.
    pub loaded: bool,
    /// Whether all of it is durable.
    pub saved: bool,
    /// When its first message was received.
    pub created_at: Timestamp,
}

/// What the server does with the blocks of a stream by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerKind {
    /// Takes them out of memory.
    Unload,
    /// Brings them to another storage.
    Move,
    /// Deletes the old ones.
    Delete,
    /// Copies messages to or from another stream; it goes through messages, not through blocks.
    Copy,
}

base::names! {
    /// Every kind.
    pub HandlerKind: Unload = "unload", Move = "move", Delete = "delete", Copy = "copy"
}

/// How a handler stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerState {
    /// There is nothing for it.
    Idle,
    /// It is at work.
    Running,
    /// It waits for a time, or to try again.
    Waiting,
    /// It was told to do nothing.
    Paused,
}

base::names! {
    /// Every state.
    pub HandlerState: Idle = "idle", Running = "running", Waiting = "waiting", Paused = "paused"
}

/// A handler of a stream. What it did is counted since the start of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerStatus {
    /// What it does.
    pub handler: HandlerKind,
    /// Which of its kind.
    pub name: Option<Box<str>>,
    /// How it stands.
    pub state: HandlerState,
    /// When it last did something.
    pub last_run_at: Option<Timestamp>,
    /// Blocks that it went through.
    pub blocks: u64,
    /// Bytes that it went through.
    pub bytes: u64,
    /// Why it does not go on.
    pub error: Option<Box<str>>,
}
