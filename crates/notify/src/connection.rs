//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! There is no task behind a connection: an exchange drives it, and between two exchanges nothing does. What the receiver sent or
//! closed meanwhile is found when the connection is asked whether it is [usable](Connection::is_usable). So an exchange
//! costs no hand-over between tasks, an idle connection costs only its buffers, and dropping an exchange closes it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Largest head of an answer. The buffer grows to it only when needed.
const ANSWER_HEAD_BYTES_MAX: usize = 32 * 1_024;
/// How much of an answer's body is read for the sake of the connection. Nobody looks at it.
const ANSWER_BODY_BYTES_MAX: usize = 64 * 1_024;

/// What a connection runs on: TCP, or TLS over it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(crate) type Post = Request<Full<Bytes>>;

/// A connection. Not usable for good once a call on it has failed or was dropped half-way.
pub(crate) struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>,
    closed: bool,
}

impl Connection {
    pub(crate) async fn open(stream: Box<dyn Stream>) -> Result<Self, hyper::Error> {
        let (requests, driver) =
            http1::Builder::new().max_buf_size(ANSWER_HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await?;
        Ok(Self { requests, driver, closed: false })
    }

    /// Whether another request may be sent on it: the answer before it is read, and the receiver has not closed it since.
    pub(crate) async fn is_usable(&mut self) -> bool {
        poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(!self.closed && self.requests.is_ready())
        })
        .await
    }

    /// Posts and waits for the head of the answer. An error that gives the request back says that nothing of it was sent.
    pub(crate) async fn post(&mut self, request: Post) -> Result<Response<Incoming>, TrySendError<Post>> {
        let answer = self.requests.try_send_request(request);
        self.driving(answer).await
    }

    /// Reads the body of an answer to its end. `false`: it is too long, and the rest of it is in the way of another request.
    pub(crate) async fn discard(&mut self, mut body: Incoming) -> Result<bool, hyper::Error> {
        let mut left = ANSWER_BODY_BYTES_MAX;
        while !body.is_end_stream() {
            let Some(frame) = self.driving(body.frame()).await else { break };
            let bytes = frame?.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else { return Ok(false) };
            left = rest;
        }
        Ok(true)
    }

    /// Waits for `answer`, which comes only as far as the connection is driven.
    async fn driving<F: Future>(&mut self, answer: F) -> F::Output {
        let mut answer = pin!(answer);
        poll_fn(|cx| {
            if let Poll::Ready(output) = answer.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            self.drive(cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        // How the connection ended is told by the answer that was waited for, if there was one.
        self.closed = self.closed || Pin::new(&mut self.driver).poll(cx).is_ready();
    }
}
