//! Pages and other large answers on their way to their callers.
//!
//! A page is given to its connection in pieces, and its memory is held until the last piece is
//! sent. A caller may keep its window of HTTP/2 shut for as long as it likes. So a call ends when
//! its page does not move, at the pace that answers over HTTP have.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use http_body::{Body, Frame};
use hyper::rt::Executor;
use net::memory_budget::MemoryReservation;
use net::pace::{PaceWatch, TAKING};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;
use tokio::task_local;
use tokio::time::Instant;
use tonic::Status;

/// A connection has so much of a page at a time, in bytes.
const PIECE_BYTES: usize = TAKING.bytes_min;
/// A call ends when nothing of its page is sent for so long, even while nobody waits.
const STALL_MAX: Duration = Duration::from_secs(30);

task_local! {
    /// Where a call says what is to be watched.
    static WATCHED: Cell<Option<oneshot::Sender<TooSlow>>>;
}

/// Resolves to whether an answer was taken too slowly.
type TooSlow = BoxFuture<'static, bool>;

/// The call that this is called by ends once its answer is taken too slowly.
pub(crate) fn watch_call(is_too_slow: impl Future<Output = bool> + Send + 'static) {
    let tell = WATCHED.try_with(Cell::take).ok().flatten();
    if let Some(tell) = tell {
        // Who no longer hears it ends the call.
        drop(tell.send(Box::pin(is_too_slow)));
    }
}

/// The memory of a page, beside its answer.
#[derive(Clone, Debug)]
pub(crate) struct PageMemory(Arc<MemoryReservation>);

impl PageMemory {
    pub(crate) fn new(memory: MemoryReservation) -> Self {
        Self(Arc::new(memory))
    }
}

/// A page that is on its way, as long as anything of it is there.
#[derive(Debug)]
struct PageInFlight {
    memory: Arc<MemoryReservation>,
    /// Bytes that were sent since somebody looked.
    taken: AtomicUsize,
    /// Pieces that the connection has not sent.
    pieces: AtomicUsize,
    sent: AtomicWaker,
}

/// A page that is given out in pieces.
#[derive(Debug)]
pub(crate) struct SendingPage {
    in_flight: Arc<PageInFlight>,
    rest: Bytes,
    /// What stands behind the page. It is given out when every piece is sent, so that the call
    /// lasts as long as the connection has anything of it.
    end: Option<Frame<Bytes>>,
}

impl SendingPage {
    pub(crate) fn new(PageMemory(memory): PageMemory) -> Self {
        let in_flight = Arc::new(PageInFlight {
            memory,
            taken: AtomicUsize::new(0),
            pieces: AtomicUsize::new(0),
            sent: AtomicWaker::new(),
        });
        let watched = Arc::downgrade(&in_flight);
        watch_call(async move { is_too_slow(&watched).await });
        Self { in_flight, rest: Bytes::new(), end: None }
    }

    /// The next piece of the body.
    pub(crate) fn poll_frame<B>(
        &mut self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>>
    where
        B: Body<Data = Bytes, Error = Status>,
    {
        while self.rest.is_empty() && self.end.is_none() {
            match ready!(body.as_mut().poll_frame(cx)?).map(Frame::into_data) {
                Some(Ok(data)) => self.rest = data,
                Some(Err(trailers)) => self.end = Some(trailers),
                None => return Poll::Ready(None),
            }
        }
        if !self.rest.is_empty() {
            let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
            self.in_flight.pieces.fetch_add(1, Ordering::AcqRel);
            let piece = PagePiece { bytes, in_flight: Arc::clone(&self.in_flight) };
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))));
        }
        self.in_flight.sent.register(cx.waker());
        if self.in_flight.pieces.load(Ordering::Acquire) > 0 {
            return Poll::Pending;
        }
        Poll::Ready(self.end.take().map(Ok))
    }
}

/// A piece that a connection has.
struct PagePiece {
    bytes: Bytes,
    in_flight: Arc<PageInFlight>,
}

impl AsRef<[u8]> for PagePiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PagePiece {
    fn drop(&mut self) {
        self.in_flight.taken.fetch_add(self.bytes.len(), Ordering::Relaxed);
        self.in_flight.pieces.fetch_sub(1, Ordering::AcqRel);
        self.in_flight.sent.wake();
    }
}

/// Runs the calls of a connection, and ends those whose answers do not move.
#[derive(Clone, Debug)]
pub(crate) struct CallTasks {
    slow_readers: Counter,
}

impl CallTasks {
    /// Calls that it ends are counted.
    pub(crate) fn new(slow_readers: &Counter) -> Self {
        Self { slow_readers: slow_readers.clone() }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for CallTasks {
    fn execute(&self, call: F) {
        let (tell, told) = oneshot::channel();
        let call = WATCHED.scope(Cell::new(Some(tell)), call);
        let slow_readers = self.slow_readers.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = call => {}
                () = is_lost(told) => {
                    slow_readers.inc();
                }
            }
        });
    }
}

/// Resolves when the answer of a call does not move.
async fn is_lost(told: oneshot::Receiver<TooSlow>) {
    let is_lost = match told.await {
        Ok(is_too_slow) => is_too_slow.await,
        // Most calls have nothing to be watched.
        Err(_) => false,
    };
    if !is_lost {
        pending::<()>().await;
    }
}

/// Whether the page was taken too slowly, which is known when it is over.
async fn is_too_slow(page: &Weak<PageInFlight>) -> bool {
    let (mut watch, mut moved_at) = (PaceWatch::new(TAKING), Instant::now());
    poll_fn(|cx| {
        let Some(page) = page.upgrade() else { return Poll::Ready(false) };
        let taken = page.taken.swap(0, Ordering::Relaxed);
        if taken > 0 {
            moved_at = Instant::now();
        }
        watch.moved(taken);
        let is_in_the_way = || moved_at.elapsed() >= STALL_MAX || page.memory.taken_from().is_wanted();
        watch.poll_too_slow(cx, is_in_the_way).map(|()| true)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use hyper::client::conn::http2 as client;
    use hyper::server::conn::http2 as server;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
    use net::memory_budget::{MemoryBudget, MemoryPart, PART_BYTES, Purpose};
    use net::shares::SenderKey;
    use tokio::io::duplex;
    use tokio::time::pause;

    use super::*;

    const PAGE_BYTES: usize = 3 * PIECE_BYTES + 1;

    /// A message in one piece, and what stands behind it.
    struct Whole(Vec<Frame<Bytes>>);

    impl Body for Whole {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop().map(Ok))
        }
    }

    /// The body of a page.
    struct Sending(Whole, SendingPage);

    impl Sending {
        async fn of(memory: &MemoryPart) -> Self {
            let memory = memory.take(&SenderKey::Unknown, PAGE_BYTES).await;
            let message = Frame::data(Bytes::from(vec![7; PAGE_BYTES]));
            let whole = Whole(vec![Frame::trailers(http::HeaderMap::new()), message]);
            Self(whole, SendingPage::new(PageMemory::new(memory)))
        }
    }

    impl Body for Sending {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let Self(body, page) = &mut *self;
            page.poll_frame(Pin::new(body), cx)
        }
    }

    /// What a client with such a window reads of a page: its bytes, or `None` where the call ends
    /// before its page does.
    async fn read(window_bytes: u32, memory: &MemoryPart, slow_readers: &Counter) -> Option<usize> {
        let (near, far) = duplex(PIECE_BYTES);
        let memory = memory.clone();
        let service = service_fn(move |_| {
            let memory = memory.clone();
            async move { Ok::<_, Infallible>(Response::new(Sending::of(&memory).await)) }
        });
        let serving =
            server::Builder::new(CallTasks::new(slow_readers)).serve_connection(TokioIo::new(near), service);
        let serving = tokio::spawn(serving);
        let mut builder = client::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).initial_stream_window_size(window_bytes);
        let (mut calls, connection) =
            builder.handshake::<_, Whole>(TokioIo::new(far)).await.expect("they speak HTTP/2");
        let connection = tokio::spawn(connection);
        let request = Request::post("http://localhost/").body(Whole(Vec::new())).expect("a request");
        let mut answer = calls.send_request(request).await.expect("answered").into_body();
        let mut bytes = Some(0);
        while let Some(before) = bytes
            && let Some(frame) = poll_fn(|cx| Pin::new(&mut answer).poll_frame(cx)).await
        {
            bytes = frame.ok().map(|frame| before + frame.data_ref().map_or(0, Bytes::len));
        }
        drop((calls, answer));
        connection.await.expect("no panic").expect("a good end");
        serving.await.expect("no panic").expect("a good end");
        bytes
    }

    #[tokio::test]
    async fn a_call_ends_when_its_page_does_not_move() {
        pause();
        let (memory, slow_readers) = (MemoryBudget::default().part(Purpose::Pages), Counter::default());
        assert_eq!(read(PIECE_BYTES as u32, &memory, &slow_readers).await, Some(PAGE_BYTES));
        assert_eq!((memory.free_bytes(), slow_readers.get()), (PART_BYTES, 0));
        let began = Instant::now();
        assert_eq!(read(0, &memory, &slow_readers).await, None, "its window stays shut");
        assert_eq!((memory.free_bytes(), slow_readers.get()), (PART_BYTES, 1));
        assert_eq!(began.elapsed().as_secs(), STALL_MAX.as_secs());
    }

    #[tokio::test]
    async fn a_page_has_its_memory_until_its_last_piece_is_sent() {
        let memory = MemoryBudget::default().part(Purpose::Pages);
        let mut body = Sending::of(&memory).await;
        let mut next = async || poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
        let mut pieces = Vec::new();
        while let Poll::Ready(Some(frame)) = next().await {
            pieces.push(frame.expect("never fails").into_data().expect("data"));
        }
        let bytes: Vec<_> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(bytes, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, 1]);
        pieces.truncate(1);
        assert!(next().await.is_pending(), "a piece is not sent");
        pieces.clear();
        assert!(matches!(next().await, Poll::Ready(Some(Ok(end))) if end.is_trailers()));
        assert!(memory.free_bytes() < PART_BYTES);
        drop(body);
        assert_eq!(memory.free_bytes(), PART_BYTES);
    }

    #[tokio::test]
    async fn who_takes_little_of_a_page_is_in_the_way_of_others() {
        pause();
        let memory = MemoryBudget::default().part(Purpose::Pages);
        for (others_wait, expect) in [(false, STALL_MAX), (true, TAKING.every)] {
            let Sending(_, page) = Sending::of(&memory).await;
            let rest =
                memory.take(&SenderKey::Unknown, PART_BYTES / 2 - PAGE_BYTES.next_multiple_of(1_024)).await;
            let began = Instant::now();
            let watched = Arc::downgrade(&page.in_flight);
            let lost = async {
                assert!(is_too_slow(&watched).await);
                drop(page);
            };
            let waiting = async {
                if others_wait {
                    drop(memory.take(&SenderKey::Unknown, 1_024).await);
                }
            };
            tokio::join!(lost, waiting);
            assert_eq!(began.elapsed().as_secs(), expect.as_secs());
            drop(rest);
        }
    }
}
