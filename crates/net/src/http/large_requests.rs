//! Requests with large bodies: those that have memory of the budget go on when their caller hangs
//! up. HTTP/1.1 drops any other with its connection.

use std::task::{Context, Poll};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::header::CONTENT_ENCODING;
use futures_util::future::Either;
use tower_service::Service;

use crate::body::is_ndjson;
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
        let may_be_large = may_be_large(&request);
        let call = self.0.call(request);
        if may_be_large { Either::Right(Detaching::new(call)) } else { Either::Left(call) }
    }
}

/// Whether the body may turn out to need memory of the budget. One in a coding is larger than it
/// comes, and lines always take some.
fn may_be_large(request: &Request) -> bool {
    if request.body().is_end_stream() {
        return false;
    }
    let is_encoded = request.headers().contains_key(CONTENT_ENCODING);
    let is_small = !is_ndjson(request.headers())
        && request.body().size_hint().exact().is_some_and(|bytes| bytes <= FREE_BYTES as u64);
    is_encoded || !is_small
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use axum::response::Response;
    use base::limits::JSON_BODY_BYTES_MAX;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use futures_util::stream;
    use tokio::sync::{mpsc, oneshot};
    use tokio::task::yield_now;

    use super::*;
    use crate::body::{WholeBody, whole};
    use crate::memory_budget::{MemoryBudget, MemoryPart, Purpose};
    use crate::shares::SenderKey;

    /// Reads the body whole, says how large it is, and answers when the store does.
    struct App {
        memory: MemoryPart,
        store: Option<oneshot::Receiver<()>>,
        read: mpsc::UnboundedSender<usize>,
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
                let WholeBody { bytes, held: _held } = body.expect("there is memory");
                read.send(bytes.len()).expect("it is looked at");
                store.await.expect("it answers");
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
            assert_eq!(told.try_recv(), Ok(bytes));
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
