//! What goes into a partition of streams.

use std::sync::{Arc, OnceLock};

use ::streams::{CopyProgress, FreeSpace};
use base::Incarnation;
use records::{StreamCopy, StreamSettings};

use super::append_run::PlaceInRun;
use super::block_moving::MovedBlock;
use super::block_worker::StoredBlock;
use super::copy::{CopyMove, NewCopy};
use super::{NewMessage, NewSubscription, OwnedExternalId, StreamName};
use crate::kernel::idempotency::IdempotencyKey;
use crate::kernel::reply::{Answered, Reply};

/// An input of a partition of streams.
#[derive(Debug)]
pub enum StreamsInput {
    /// Messages are appended.
    Append(Box<AppendCall>),
    /// A stream has other settings from now on.
    PutSettings {
        /// The stream; made if it is not there.
        stream: StreamName,
        /// All of its settings.
        settings: Box<StreamSettings>,
        /// Whether it was done.
        reply: Reply<Answered<()>>,
    },
    /// A stream goes.
    Delete {
        /// The stream.
        stream: StreamName,
        /// Whether it was done.
        reply: Reply<Answered<()>>,
    },
    /// The disk with the data has more or less free space than before.
    Disk {
        /// What it has.
        room: FreeSpace,
    },
    /// A subscription is made, or has other terms.
    PutSubscription(Box<PutSubscriptionCall>),
    /// A subscription goes.
    DeleteSubscription {
        /// The stream.
        stream: StreamName,
        /// Its name.
        subscription: Box<str>,
        /// Whether it was done.
        reply: Reply<Answered<()>>,
    },
    /// A subscription moves on, or back.
    Commit(Box<CommitCall>),
    /// A copy is made, or has other terms.
    PutCopy(Box<PutCopyCall>),
    /// A copy rests, or goes on.
    PauseCopy {
        /// The stream.
        stream: StreamName,
        /// Its name.
        copy: Box<str>,
        /// Whether it rests.
        paused: bool,
        /// Whether it was done.
        reply: Reply<Answered<()>>,
    },
    /// A copy goes.
    DeleteCopy {
        /// The stream.
        stream: StreamName,
        /// Its name.
        copy: Box<str>,
        /// Whether it was done.
        reply: Reply<Answered<()>>,
    },
    /// Whoever runs a copy has come further.
    MoveCopy(Box<MoveCopyCall>),
    /// A block was stored, or could not be.
    Stored(Box<StoredBlock>),
    /// A block was brought to another storage, or could not be.
    Moved(Box<MovedBlock>),
}

/// Messages to append.
#[derive(Debug)]
pub struct AppendCall {
    /// The stream; made if it is not there.
    pub stream: StreamName,
    /// The messages, in order.
    pub messages: Vec<NewMessage>,
    /// Behind which other appends it comes.
    pub run: Option<PlaceInRun>,
    /// The id that the newest message must have.
    pub expect_last_id: Option<u64>,
    /// It is answered when all of it is durable, and is saved at once, whatever the save mode.
    pub is_durable: bool,
    /// Reports that this node gathered: a stream that is gone is not made again for them.
    pub is_gathered: bool,
    /// Gets the stream that takes the messages, for callers that want to know which it was. Where
    /// it has one already, no other one takes them: 409 `other_stream`.
    pub taken_by: Option<Arc<OnceLock<Incarnation>>>,
    /// Of a request that may come again: a repeat appends nothing. That holds as long as the stream
    /// is the same one and the messages of the first were not lost.
    pub idempotency: Option<IdempotencyKey>,
    /// What became of each message.
    pub reply: Reply<Answered<Vec<AppendOutcome>>>,
}

impl AppendCall {
    /// Messages for whichever stream has the name, saved as its mode says.
    #[must_use]
    pub fn new(
        stream: StreamName,
        messages: Vec<NewMessage>,
        reply: Reply<Answered<Vec<AppendOutcome>>>,
    ) -> Self {
        Self {
            stream,
            messages,
            run: None,
            expect_last_id: None,
            is_durable: false,
            is_gathered: false,
            taken_by: None,
            idempotency: None,
            reply,
        }
    }
}

/// A copy to be made.
#[derive(Debug)]
pub struct PutCopyCall {
    /// The stream; made if it is not there.
    pub stream: StreamName,
    /// The copy.
    pub copy: NewCopy,
    /// Whether it is new.
    pub reply: Reply<Answered<bool>>,
}

/// How far a copy has come.
#[derive(Debug)]
pub struct MoveCopyCall {
    /// The stream.
    pub stream: StreamName,
    /// The copy.
    pub copy: Box<str>,
    /// The copy as whoever runs it has read it: another one is not moved.
    pub row: Box<StreamCopy>,
    /// What is another way from now on.
    pub change: CopyMove,
    /// What that did to it.
    pub reply: Reply<Answered<CopyProgress>>,
}

/// A subscription to be made.
#[derive(Debug)]
pub struct PutSubscriptionCall {
    /// The stream; made if it is not there.
    pub stream: StreamName,
    /// The subscription.
    pub subscription: NewSubscription,
    /// What became of it.
    pub reply: Reply<Answered<PutSubscriptionOutcome>>,
}

/// What became of a subscription that was put.
#[derive(Clone, PartialEq, Eq)]
pub struct PutSubscriptionOutcome {
    /// There was none of that name.
    pub is_new: bool,
    /// The secret that was made for its push.
    pub made_secret: Option<Box<[u8]>>,
}

impl std::fmt::Debug for PutSubscriptionOutcome {
    /// Without the secret: it is never to reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PutSubscriptionOutcome(is_new: {})", self.is_new)
    }
}

/// How far a reader has come.
#[derive(Debug)]
pub struct CommitCall {
    /// The stream.
    pub stream: StreamName,
    /// The subscription.
    pub subscription: Box<str>,
    /// Everything up to this message is read.
    pub id: u64,
    /// Whether it may be before the position.
    pub rewinds: bool,
    /// Of a push: only while this is the position.
    pub pushed_from: Option<u64>,
    /// Whether it was done.
    pub reply: Reply<Answered<()>>,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It has this id.
    Appended(u64),
    /// One with its external id was there before. Which one is found by whoever reads.
    Duplicate(Box<NewMessage>),
}

/// Bytes that one message counts for beside its own, in a step.
const MESSAGE_BYTES: usize = 64;
/// Bytes of a chunk that a message takes beside all that it carries.
const FLAGS_BYTES: usize = 4;

impl NewMessage {
    /// About how many bytes it takes when it is written.
    pub(crate) fn weight(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
        MESSAGE_BYTES + self.payload.as_bytes().len() + headers
    }

    /// About how many bytes of a chunk it takes.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        let texts = [&self.source, &self.segment].into_iter().flatten().map(|text| text.len() + 1);
        let external_id = match &self.external_id {
            Some(OwnedExternalId::Text(text)) => text.len() + 1,
            Some(OwnedExternalId::Number(_)) => 5,
            None => 0,
        };
        (self.weight() - MESSAGE_BYTES + texts.sum::<usize>() + external_id + FLAGS_BYTES) as u64
    }
}

impl StreamsInput {
    /// How much work it is, in reports.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Append(call) => call.messages.len().max(1),
            _ => 10,
        }
    }
}
