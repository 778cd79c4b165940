//! What is asked of copies, and what is shown of them.

use ::streams::SubscriptionStart;
pub use ::streams::{CopiedSpan, PeerIdentity};
use base::{Problem, Timestamp};
use records::{CopyBegin, CopyDirection, StreamCopy};

use super::StreamName;

/// A copy to be made, or the terms that one is to have.
#[derive(Clone, Debug)]
pub struct NewCopy {
    /// Its name: as for a stream.
    pub name: Box<str>,
    /// Where messages go.
    pub direction: CopyDirection,
    /// The node at the other end, or `self`.
    pub node: Box<str>,
    /// The stream at the other end.
    pub other: StreamName,
    /// Only messages of these segments; all if there are none.
    pub segments: Vec<Box<str>>,
    /// Where it begins. `None`: one that is there stays where it is, a new one begins at the start.
    pub from: Option<CopyFrom>,
    /// Thousandths of its rate for new messages while it is far behind.
    pub live_permille: u32,
    /// Bytes in a second at most.
    pub rate: Option<u64>,
    /// It is of kind `reports`.
    pub reports: Option<ReportsTerms>,
}

/// What a copy of kind `reports` brings to the other node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportsTerms {
    /// Reports of the devices that this selection means; of all if there is none.
    pub selector: Option<Box<str>>,
}

/// Where a copy begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFrom {
    /// In the stream that it belongs to.
    Here(SubscriptionStart),
    /// Behind a message of the stream at the other end.
    BehindThere(u64),
    /// Where the stream at the other end is asked for it.
    AskedThere(CopyBegin),
}

/// A change of a copy by whoever runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyMove {
    /// Messages are durable at the other end.
    Step(CopiedSpan),
    /// Messages behind this one go by the live lane.
    BeginLive {
        /// The newest message.
        newest: u64,
        /// The stream whose message it is.
        source: PeerIdentity,
    },
    /// It begins behind this message of the stream at the other end.
    BeginAt {
        /// The message.
        id: u64,
        /// Who answered.
        peer: PeerIdentity,
    },
    /// The stream at the other end is not there any more, or is another one that is not known yet.
    PeerGone {
        /// What it was called.
        known: Box<str>,
    },
}

/// A copy, by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyKey {
    /// The stream.
    pub stream: StreamName,
    /// The copy.
    pub copy: Box<str>,
}

/// A copy that runs, as it is since its latest change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyTarget {
    /// Which.
    pub key: CopyKey,
    /// Another one after each change that was not made by whoever runs it.
    pub generation: u64,
}

/// How a copy goes, as whoever runs it notes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyStatus {
    /// Tries that failed, one after the other.
    pub failures: u32,
    /// Why the latest one failed.
    pub error: Option<Box<str>>,
    /// When the latest one ended.
    pub at: Timestamp,
    /// The newest durable message of the stream at the other end, where that is read.
    pub newest_there: Option<u64>,
    /// When the first of its messages that are not copied was received.
    pub oldest_there: Option<Timestamp>,
}

/// How a copy stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// As it is stored.
    pub row: StreamCopy,
    /// In a word.
    pub state: CopyState,
    /// Messages that are not copied; with segments those of others count too.
    pub lag: u64,
    /// When the oldest of these was received.
    pub oldest_uncopied_at: Option<Timestamp>,
    /// Why the latest try failed.
    pub error: Option<Box<str>>,
    /// When something was last tried; `None` before the first time since the server started.
    pub last_run_at: Option<Timestamp>,
}

/// How a copy stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// Everything is copied.
    Idle,
    /// Messages go.
    Running,
    /// It tries again after a failure.
    Waiting,
    /// It rests until it is resumed.
    Paused,
    /// The stream at the other end was made anew: it has begun again.
    SourceReset,
}

base::names! {
    /// Every state.
    pub CopyState: Idle = "idle", Running = "running", Waiting = "waiting", Paused = "paused",
        SourceReset = "source_reset"
}

/// On which nodes a message is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptStatus {
    /// The message.
    pub id: u64,
    /// What the nodes call themselves; this one first.
    pub durable_on: Vec<Box<str>>,
}

/// Which message a receipt is asked of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptOf {
    /// The one with this id.
    Id(u64),
    /// The one that a source calls so.
    Origin(Box<str>, super::OwnedExternalId),
}

/// A copy means another stream than the one that has that name.
pub(crate) fn other_stream(stream: &StreamName) -> Problem {
    let detail = format!(
        "stream {stream} is not the one that was answered before: it was deleted or made anew; send \
         everything from the start again, without saying which stream is expected"
    );
    Problem::conflict("other_stream", detail)
}

/// There is no such copy.
pub(crate) fn unknown_copy(stream: &StreamName, name: &str) -> Problem {
    Problem::unknown("unknown_copy", format!("stream {stream} has no copy {name:?}"))
}
