//! Requests with large bodies: those that have memory of the budget go on when their caller hangs
//! up. HTTP/1.1 drops any other with its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::CONTENT_ENCODING;
use base::Problem;
use futures_util::future::Either;
use http_body::{Frame, SizeHint};
use tower_service::Service;

use crate::detach::Detaching;
use crate::memory_budget::FREE_BYTES;

/// An app whose large requests go on while they have memory.
pub(super) struct LargeRequests<S>(pub(super) S);

impl<S> Service<Request> for LargeRequests<S>
where
    S: Service<Request, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, Detaching<S::Future>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if !may_be_large(&request) {
            return Either::Left(self.0.call(request));
        }
        let is_caller_gone = Arc::<AtomicBool>::default();
        let noted = Arc::clone(&is_caller_gone);
        let request = request.map(|body| Body::new(BodyOfCaller { body, is_caller_gone }));
        Either::Right(Detaching::noting(self.0.call(request), noted))
    }
}

/// Whether the body may turn out to need memory of the budget: one in a coding is larger than it
/// comes.
fn may_be_large(request: &Request) -> bool {
    let is_encoded = request.headers().contains_key(CONTENT_ENCODING);
    let is_small = request.body().size_hint().exact().is_some_and(|bytes| bytes <= FREE_BYTES as u64);
    !request.body().is_end_stream() && (is_encoded || !is_small)
}

/// A body that is broken off when its caller hangs up. A connection that is closed on our side ends
/// it as if it were whole.
struct BodyOfCaller {
    body: Body,
    is_caller_gone: Arc<AtomicBool>,
}

impl HttpBody for BodyOfCaller {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() && self.is_caller_gone.load(Ordering::Relaxed) {
            let hung_up = Problem::unreadable("the body broke off: its sender hung up");
            return Poll::Ready(Some(Err(axum::Error::new(hung_up))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::response::Response;
    use base::limits::JSON_BODY_BYTES_MAX;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use futures_util::stream::{self, StreamExt};
    use tokio::sync::{mpsc, oneshot};
    use tokio::task::yield_now;

    use super::*;
    use crate::body::whole;
    use crate::memory_budget::{MemoryBudget, MemoryPart, Purpose};
    use crate::shares::SenderKey;

    /// Reads the body whole, says what came of that, and answers when the store does.
    struct App {
        memory: MemoryPart,
        store: Option<oneshot::Receiver<()>>,
        read: mpsc::UnboundedSender<Result<usize, Problem>>,
    }

    impl Service<Request> for App {
        type Response = Response;
        type Error = Infallible;
        type Future = BoxFuture<'static, Result<Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request) -> Self::Future {
            let (memory, read) = (self.memory.clone(), self.read.clone());
            let store = self.store.take().expect("one request");
            async move {
                let sender = SenderKey::Unknown;
                let body = whole(request.into_body(), JSON_BODY_BYTES_MAX, &memory, &sender).await;
                let told = body.as_ref().map(|body| body.bytes.len()).map_err(Clone::clone);
                read.send(told).expect("it is looked at");
                if body.is_ok() {
                    store.await.expect("it answers");
                }
                Ok(Response::default())
            }
            .boxed()
        }
    }

    #[tokio::test]
    async fn a_large_body_keeps_its_memory_when_its_caller_hangs_up() {
        let budget = MemoryBudget::default();
        let unsized_body =
            |bytes: usize| Body::from_stream(stream::iter([Ok::<_, Infallible>(vec![b' '; bytes])]));
        for (body, bytes) in
            [(Body::from(vec![b' '; FREE_BYTES + 1]), FREE_BYTES + 1), (unsized_body(100_000), 100_000)]
        {
            let ((answers, store), (read, mut told)) = (oneshot::channel(), mpsc::unbounded_channel());
            let app = App { memory: budget.part(Purpose::Bodies), store: Some(store), read };
            let mut called = LargeRequests(app).call(Request::new(body));
            assert!((&mut called).now_or_never().is_none(), "the store does not answer");
            assert_eq!(told.try_recv(), Ok(Ok(bytes)));
            drop(called);
            yield_now().await;
            assert!(budget.held_bytes() >= bytes, "what was read waits for the store");
            answers.send(()).expect("it is waited for");
            while budget.held_bytes() > 0 {
                yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_body_that_its_caller_leaves_is_broken_off() {
        let budget = MemoryBudget::default();
        let (end, ended) = oneshot::channel::<()>();
        let begun = stream::iter([Ok::<_, Infallible>(vec![b' '; FREE_BYTES + 1])]);
        let rest =
            stream::once(ended).filter_map(|_| std::future::ready(None::<Result<Vec<u8>, Infallible>>));
        let body = Body::from_stream(begun.chain(Box::pin(rest)));
        let ((_answers, store), (read, mut told)) = (oneshot::channel(), mpsc::unbounded_channel());
        let app = App { memory: budget.part(Purpose::Bodies), store: Some(store), read };
        let mut called = LargeRequests(app).call(Request::new(body));
        assert!((&mut called).now_or_never().is_none() && told.try_recv().is_err(), "it has no end");
        drop(called);
        drop(end);
        let refused = told.recv().await.expect("it goes on").err();
        assert_eq!(refused.map(|problem| problem.code), Some("unreadable"));
        while budget.held_bytes() > 0 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_small_request_goes_with_its_caller() {
        let ((answers, store), (read, _told)) = (oneshot::channel(), mpsc::unbounded_channel());
        let app = App { memory: MemoryBudget::default().part(Purpose::Bodies), store: Some(store), read };
        let mut called = LargeRequests(app).call(Request::new(Body::from("{}")));
        assert!(matches!(called, Either::Left(_)));
        assert!((&mut called).now_or_never().is_none());
        drop(called);
        assert!(answers.send(()).is_err());
    }

    #[test]
    fn what_has_a_coding_or_no_size_may_be_large() {
        let request = |coding: Option<&str>, body: Body| {
            let mut request = Request::post("/");
            if let Some(coding) = coding {
                request = request.header(CONTENT_ENCODING, coding);
            }
            request.body(body).expect("a request")
        };
        let unsized_body = || Body::from_stream(stream::iter([Ok::<_, Infallible>("{}")]));
        for (coding, body, expect) in [
            (None, Body::empty(), false),
            (Some("gzip"), Body::empty(), false),
            (None, Body::from(vec![b' '; FREE_BYTES]), false),
            (None, Body::from(vec![b' '; FREE_BYTES + 1]), true),
            (Some("gzip"), Body::from("{}"), true),
            (None, unsized_body(), true),
        ] {
            assert_eq!(may_be_large(&request(coding, body)), expect, "{coding:?}");
        }
    }
}
