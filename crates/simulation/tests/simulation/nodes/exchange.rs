//! The ends and the home of a copy as its runner sees them. Each call becomes a request, which the
//! world brings to where it goes, or does not.

use std::future::poll_fn;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use base::locks::locked;
use base::{Clock, Problem, Timestamp};
use copies::{CopyBatch, CopyFailure, CopyFailureKind, CopyHome, PageAsk, SinkAnswer, SourcePage, StreamEnd};
use engine::streams::{CopyKey, CopyMove, CopyProgress, CopyStatus, StreamName};
use records::StreamCopy;
use tokio::sync::oneshot;

/// How long a node waits for the answer of another one.
const ANSWER_MAX: Duration = Duration::from_secs(4);

/// Who waits for an answer; nobody for a request that came twice, or too late.
pub(super) type Waiting<T> = Option<oneshot::Sender<T>>;
/// Who waits for what another node answers.
pub(super) type WaitingForEnd<T> = Waiting<Result<T, CopyFailure>>;

/// Somebody who waits is told, or nobody.
pub(super) fn tell<T>(waiting: Waiting<T>, answer: T) {
    let _nobody_waits = waiting.is_none_or(|waiting| waiting.send(answer).is_err());
}

/// What a copy asks for.
pub(super) enum Ask {
    Row(CopyKey, Waiting<Result<StreamCopy, Problem>>),
    Move(CopyKey, Box<StreamCopy>, CopyMove, Waiting<Result<CopyProgress, Problem>>),
    Page(StreamName, PageAsk, WaitingForEnd<SourcePage>),
    Append(StreamName, CopyBatch, WaitingForEnd<SinkAnswer>),
}

/// A request on its way.
pub(super) struct Request {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) ask: Ask,
    /// Until when somebody waits, where it goes to another node.
    pub(super) deadline: Option<Timestamp>,
}

impl Request {
    pub(super) fn is_remote(&self) -> bool {
        self.from != self.to
    }

    /// The same once more, which nobody waits for.
    pub(super) fn again(&self) -> Option<Self> {
        let ask = match &self.ask {
            Ask::Page(stream, page, _) => Ask::Page(stream.clone(), page.clone(), None),
            Ask::Append(stream, batch, _) => Ask::Append(stream.clone(), batch.clone(), None),
            Ask::Row(..) | Ask::Move(..) => return None,
        };
        Some(Self { from: self.from, to: self.to, ask, deadline: None })
    }

    /// Nobody waits any more: whoever did is told that nobody answered.
    pub(super) fn give_up(&mut self) {
        self.deadline = None;
        match &mut self.ask {
            Ask::Page(_, _, waiting) => drop(waiting.take()),
            Ask::Append(_, _, waiting) => drop(waiting.take()),
            Ask::Row(..) | Ask::Move(..) => {}
        }
    }

    /// Whoever asked on the same node is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        fn is_gone<T>(waiting: &Waiting<T>) -> bool {
            waiting.as_ref().is_none_or(oneshot::Sender::is_closed)
        }
        !self.is_remote()
            && match &self.ask {
                Ask::Row(_, waiting) => is_gone(waiting),
                Ask::Move(.., waiting) => is_gone(waiting),
                Ask::Page(_, _, waiting) => is_gone(waiting),
                Ask::Append(_, _, waiting) => is_gone(waiting),
            }
    }

    /// It fails at once.
    pub(super) fn fail(self, failure: CopyFailure) {
        match self.ask {
            Ask::Page(_, _, waiting) => tell(waiting, Err(failure)),
            Ask::Append(_, _, waiting) => tell(waiting, Err(failure)),
            Ask::Row(..) | Ask::Move(..) => {}
        }
    }
}

/// What copies of all nodes share.
#[derive(Clone, Default)]
pub(super) struct Exchange {
    /// Requests that were made and not taken up yet.
    requests: Arc<Mutex<Vec<Request>>>,
    /// Runs of appends in the whole world.
    runs: Arc<AtomicU64>,
}

impl Exchange {
    fn add(&self, request: Request) {
        locked(&self.requests).push(request);
    }

    pub(super) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *locked(&self.requests))
    }

    /// A stream of node `to`, as a copy of node `from` reaches it.
    pub(super) fn end(
        &self,
        (from, to): (usize, usize),
        stream: StreamName,
        clock: &Arc<dyn Clock>,
    ) -> NodeEnd {
        NodeEnd { exchange: self.clone(), from, to, stream, clock: Arc::clone(clock) }
    }

    /// The row of a copy on its node. Its runner notes in `status` how it goes.
    pub(super) fn home(
        &self,
        (node, key): (usize, CopyKey),
        clock: &Arc<dyn Clock>,
        status: Arc<Mutex<CopyStatus>>,
    ) -> NodeHome {
        let wakes_at = Arc::new(AtomicI64::new(i64::MAX));
        NodeHome { exchange: self.clone(), node, key, clock: Arc::clone(clock), wakes_at, status }
    }
}

/// A stream of some node, as a copy of a node reaches it.
pub(super) struct NodeEnd {
    exchange: Exchange,
    from: usize,
    to: usize,
    stream: StreamName,
    clock: Arc<dyn Clock>,
}

impl NodeEnd {
    fn ask(&self, ask: Ask) {
        let deadline = (self.from != self.to).then(|| self.clock.now().after(ANSWER_MAX));
        self.exchange.add(Request { from: self.from, to: self.to, ask, deadline });
    }
}

fn unanswered() -> CopyFailure {
    CopyFailure::new(CopyFailureKind::Unanswered, "nobody answered")
}

impl StreamEnd for NodeEnd {
    async fn page(&self, ask: PageAsk) -> Result<SourcePage, CopyFailure> {
        let (waiting, answer) = oneshot::channel();
        self.ask(Ask::Page(self.stream.clone(), ask, Some(waiting)));
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }

    async fn append(&self, batch: CopyBatch) -> Result<SinkAnswer, CopyFailure> {
        let (waiting, answer) = oneshot::channel();
        self.ask(Ask::Append(self.stream.clone(), batch, Some(waiting)));
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }
}

/// The row of a copy on its node.
pub(super) struct NodeHome {
    exchange: Exchange,
    node: usize,
    key: CopyKey,
    clock: Arc<dyn Clock>,
    /// When the copy wants to go on, where it waits for a time.
    pub(super) wakes_at: Arc<AtomicI64>,
    /// How the copy goes, as its runner noted last.
    status: Arc<Mutex<CopyStatus>>,
}

impl NodeHome {
    fn ask(&self, ask: Ask) {
        self.exchange.add(Request { from: self.node, to: self.node, ask, deadline: None });
    }
}

impl CopyHome for NodeHome {
    async fn row(&self) -> Result<StreamCopy, Problem> {
        let (waiting, answer) = oneshot::channel();
        self.ask(Ask::Row(self.key.clone(), Some(waiting)));
        answer.await.unwrap_or_else(|_| Err(not_accepting()))
    }

    async fn moved(&self, row: &StreamCopy, change: CopyMove) -> Result<CopyProgress, Problem> {
        let (waiting, answer) = oneshot::channel();
        self.ask(Ask::Move(self.key.clone(), Box::new(row.clone()), change, Some(waiting)));
        answer.await.unwrap_or_else(|_| Err(not_accepting()))
    }

    fn note(&self, status: CopyStatus) {
        *locked(&self.status) = status;
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn until(&self, at: Timestamp) {
        poll_fn(|_| {
            if self.clock.now() >= at {
                return Poll::Ready(());
            }
            self.wakes_at.fetch_min(at.0, Ordering::Relaxed);
            Poll::Pending
        })
        .await;
    }

    fn draw_run(&self) -> u64 {
        self.exchange.runs.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a node says that takes no inputs.
pub(super) fn not_accepting() -> Problem {
    Problem::unavailable("the server is not accepting now")
}
