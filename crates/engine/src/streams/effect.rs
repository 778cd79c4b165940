//! What the outside sees of a step of a partition of streams.

use std::sync::Arc;

use ::streams::CopyProgress;
use base::{Incarnation, PartitionId, Timestamp};
use records::{ReportsCopy, StreamChunk};

use super::StreamName;
use super::block_worker::BlockWork;
use super::input::{AppendOutcome, PutSubscriptionOutcome};
use super::stream_metrics::StreamsCounted;
use crate::kernel::reply::{Answered, Reply};

/// What the outside may see once it is durable.
#[derive(Debug)]
pub enum StreamsEffect {
    /// Messages were appended, or that was refused.
    Appended(Reply<Answered<Vec<AppendOutcome>>>, Answered<Vec<AppendOutcome>>),
    /// Something was done, or refused.
    Done(Reply<Answered<()>>, Answered<()>),
    /// A subscription was put, or that was refused.
    SubscriptionPut(Reply<Answered<PutSubscriptionOutcome>>, Answered<PutSubscriptionOutcome>),
    /// A subscription that is or was pushed was changed.
    Pushed(PartitionId, PushChange),
    /// A copy was put, or that was refused: whether it is new.
    CopyPut(Reply<Answered<bool>>, Answered<bool>),
    /// A copy was to move on.
    CopyMoved(Reply<Answered<CopyProgress>>, Answered<CopyProgress>),
    /// A copy is another one than before.
    Copy(PartitionId, CopyChange),
    /// Readers see this of the end of a stream from now on.
    Tail(PartitionId, StreamName, TailChange),
    /// Something is to be done with files of blocks.
    Block(BlockWork),
    /// A block went to a storage: so many bytes; or it could not.
    BlockMoved(Box<str>, Option<u64>),
    /// What the step did.
    Counted(PartitionId, StreamsCounted),
}

/// A subscription that is or was pushed was changed, by anything but its own posts.
#[derive(Clone, Debug)]
pub struct PushChange {
    /// The stream.
    pub stream: StreamName,
    /// Its name.
    pub subscription: Box<str>,
    /// Whether it is pushed from now on.
    pub is_pushed: bool,
}

/// A copy is another one than before.
#[derive(Clone, Debug)]
pub struct CopyChange {
    /// The stream.
    pub stream: StreamName,
    /// Its name.
    pub copy: Box<str>,
    /// What became of it.
    pub kind: CopyChangeKind,
}

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyChangeKind {
    /// It was made or changed, by anybody but who runs it.
    Put {
        /// Whether it runs from now on.
        runs: bool,
        /// What it gathers, if it is of kind `reports`.
        reports: Option<Box<ReportsCopy>>,
    },
    /// Who runs it moved it on.
    Moved,
    /// It is gone.
    Gone,
}

/// How the end of a stream changes for its readers.
#[derive(Debug)]
pub enum TailChange {
    /// It is in memory from now on. Whatever it has before `next` is durable.
    Opened {
        /// Which stream of that name.
        stream: Incarnation,
        /// Behind the last message.
        next: u64,
    },
    /// There are more messages.
    Grew(Arc<StreamChunk>),
    /// All messages before this id are durable.
    Saved(u64),
    /// Its external ids have so many bytes of memory.
    Ids(usize),
    /// A block is in a file from now on: its messages may leave memory.
    Stored {
        /// Its last message.
        last: u64,
        /// Bytes of its messages.
        bytes: u64,
    },
    /// A block is being brought to this storage.
    MoveBegan(Box<str>),
    /// A handler did something.
    Handled(HandledBlocks),
    /// The stream is in memory no more, or is gone.
    Closed,
}

/// Which handler of a stream did something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandledBy {
    /// The one that has blocks leave memory, and stores them before.
    Unload,
    /// The one that deletes.
    Delete,
    /// The one that brings blocks to this storage.
    Move(Box<str>),
}

/// What a handler did.
#[derive(Clone, Debug)]
pub struct HandledBlocks {
    /// Which one.
    pub by: HandledBy,
    /// When.
    pub at: Timestamp,
    /// Blocks.
    pub blocks: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// Why it failed, if it did.
    pub error: Option<Box<str>>,
}
