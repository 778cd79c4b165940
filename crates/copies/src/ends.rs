//! The ports of a copy: its two ends, and the home of its row.

use std::time::Duration;

use base::{Problem, Timestamp};
use bytes::Bytes;
use engine::records::StreamCopy;
use engine::streams::{CopyMove, CopyProgress, CopyStatus, OriginPage, PeerIdentity, StreamRead};

/// A stream at one end of a copy.
///
/// Requests may be lost, may come late or twice; an answer says what is true.
pub trait StreamEnd: Send + Sync {
    /// Durable messages behind an id, oldest first. Where there is none it may wait for one, as
    /// long as the ask says and the end can: an empty page is an answer.
    fn page(&self, ask: PageAsk) -> impl Future<Output = Result<SourcePage, CopyFailure>> + Send;

    /// Appends messages, all or none. The answer says that they are durable there.
    fn append(&self, batch: CopyBatch) -> impl Future<Output = Result<SinkAnswer, CopyFailure>> + Send;

    /// Whether a batch may be appended only once the position behind the one before is durable. An
    /// end needs that if it knows only the latest batch when that is sent again.
    fn is_stop_and_wait(&self) -> bool {
        false
    }

    /// Which stream it is, where that is known before it has answered.
    fn known_identity(&self) -> Option<PeerIdentity> {
        None
    }
}

/// Where the row of a copy is, and the time.
pub trait CopyHome: Send + Sync {
    /// The copy as it is stored.
    fn row(&self) -> impl Future<Output = Result<StreamCopy, Problem>> + Send;

    /// Moves it on, if it is still the copy that was read as `row`; durable when this returns.
    fn moved(
        &self,
        row: &StreamCopy,
        change: CopyMove,
    ) -> impl Future<Output = Result<CopyProgress, Problem>> + Send;

    /// Notes how it goes, for whoever looks at it.
    fn note(&self, status: CopyStatus);

    /// The clock of the engine.
    fn now(&self) -> Timestamp;

    /// Returns at that time.
    fn until(&self, at: Timestamp) -> impl Future<Output = ()> + Send;

    /// A number that no other run of appends has, on any node.
    fn draw_run(&self) -> u64;
}

/// What is read of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAsk {
    /// Messages behind this id.
    pub after: u64,
    /// Not those that were received earlier.
    pub from: Option<Timestamp>,
    /// Those of these segments alone; all if there are none.
    pub segments: Vec<Box<str>>,
    /// Most messages.
    pub limit: usize,
    /// Most bytes of messages; one is always given.
    pub bytes_max: usize,
    /// Whether it waits for the first one.
    pub waits: bool,
}

impl PageAsk {
    /// What it asks of a stream.
    #[must_use]
    pub fn query(&self) -> StreamRead {
        StreamRead {
            after: self.after,
            from: self.from,
            segments: self.segments.clone(),
            limit: self.limit,
            bytes_max: self.bytes_max,
        }
    }
}

/// Messages of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePage {
    /// The messages, in the form in which copies send them.
    pub body: Bytes,
    /// How many there are.
    pub messages: u64,
    /// When the first was received, on the clock of its node.
    pub oldest_at: Option<Timestamp>,
    /// Where to read on: it moves on past what was left out.
    pub next_after: u64,
    /// The newest durable message; 0 before the first.
    pub newest: u64,
    /// Which stream it is.
    pub identity: PeerIdentity,
}

impl SourcePage {
    /// What was read of a stream, as its copies send it.
    #[must_use]
    pub fn of(read: &OriginPage) -> Self {
        let items = &read.page.items;
        Self {
            body: if items.is_empty() { Bytes::new() } else { read.encode().into() },
            messages: items.len() as u64,
            oldest_at: items.first().map(|message| message.received_at),
            next_after: read.page.next_after,
            newest: read.newest_durable,
            identity: read.identity.clone(),
        }
    }
}

/// Messages that are appended together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyBatch {
    /// The messages, in the form in which copies send them.
    pub body: Bytes,
    /// How many there are.
    pub messages: u64,
    /// Batches of a run are taken in their order, or refused.
    pub run: u64,
    /// The place in the run, from 0.
    pub place: u64,
    /// Only the stream that is called so is to have them; any, where none has answered yet.
    pub expected: Option<Box<str>>,
}

/// What became of messages that were appended together: they are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkAnswer {
    /// Messages that were new.
    pub appended: u64,
    /// Messages that were there before.
    pub duplicates: u64,
    /// Reports that were refused for good.
    pub refused: u64,
    /// Which stream has them.
    pub identity: PeerIdentity,
}

/// Why an end did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFailure {
    /// What kind of failure it is.
    pub kind: CopyFailureKind,
    /// For people.
    pub error: Box<str>,
    /// For how long the end asks to be left alone.
    pub patience: Option<Duration>,
}

/// What a failure means for who tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFailureKind {
    /// Nothing was answered, or not in time: what was asked may have been done.
    Unanswered,
    /// It cannot now.
    NotNow,
    /// It has no room for so many messages: fewer may fit.
    Full,
    /// A batch came before the one that it follows.
    OutOfOrder,
    /// It has no such stream.
    NotThere,
    /// It has another stream than the one that a batch is for, or none.
    OtherStream,
    /// It will not, until somebody changes something.
    Refused,
}

impl CopyFailure {
    /// A failure.
    #[must_use]
    pub fn new(kind: CopyFailureKind, error: impl Into<Box<str>>) -> Self {
        Self { kind, error: error.into(), patience: None }
    }

    /// What a refusal by an engine or by its API means.
    #[must_use]
    pub fn of_problem(status: u16, code: &str, detail: &str) -> Self {
        let kind = match (status, code) {
            (503, "busy") => CopyFailureKind::OutOfOrder,
            (503, "stream_full") => CopyFailureKind::Full,
            (404, "unknown_stream") => CopyFailureKind::NotThere,
            (409, "other_stream") => CopyFailureKind::OtherStream,
            (408 | 429 | 500..=599, _) => CopyFailureKind::NotNow,
            _ => CopyFailureKind::Refused,
        };
        Self::new(kind, format!("{status} {code}: {detail}"))
    }
}

impl From<Problem> for CopyFailure {
    fn from(problem: Problem) -> Self {
        Self::of_problem(problem.status, problem.code, &problem.detail)
    }
}
