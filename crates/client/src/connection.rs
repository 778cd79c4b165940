//! A connection of one's own, which can be hung up without losing what was already said.
//!
//! Whoever waits for jobs and then wants none must not simply leave. An answer may be on its way,
//! and its jobs would be with nobody until their ttr is over. So only the own side of the
//! connection is closed. The server sees that and takes back what it had not handed out; what it
//! had, arrives.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, ReadBufCursor, Write};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower_service::Service;

use crate::error::Error;
use crate::request::Request;
use crate::transport::Transport;

/// One connection, opened when it is needed and kept while it is good.
#[derive(Debug)]
pub(crate) struct ReusableConnection {
    sender: Option<SendRequest<Full<Bytes>>>,
    hang_up: CancellationToken,
}

impl ReusableConnection {
    /// A line that is hung up when `hang_up` is cancelled.
    pub(crate) fn new(hang_up: CancellationToken) -> Self {
        Self { sender: None, hang_up }
    }

    /// Asks once.
    pub(crate) async fn exchange(
        &mut self,
        transport: &Transport,
        request: &Request,
    ) -> Result<Bytes, Error> {
        let http = transport.request_on_line(request)?;
        let exchange = async {
            let mut sender = self.ready(transport).await?;
            let response = sender.send_request(http).await.map_err(|error| transport.broken(error))?;
            let answer = transport.read(response, request.answer_bytes_max).await;
            self.sender = Some(sender);
            answer?.success()
        };
        transport.in_time(transport.timeout_of(request), exchange).await
    }

    /// The connection, taken out: one on which an exchange was broken off is not used again.
    async fn ready(&mut self, transport: &Transport) -> Result<SendRequest<Full<Bytes>>, Error> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let stream = transport.connector.clone().call(transport.address()).await;
        let stream = stream.map_err(|error| transport.unreachable(error))?;
        let closable = Closable::new(stream, self.hang_up.clone());
        let (sender, connection) = handshake(closable).await.map_err(|error| transport.unreachable(error))?;
        // Why it ended, if it did so in the middle of an exchange, is told to whoever asked.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}

/// A stream that sends nothing more once it is hung up, and can still be read to its end.
struct Closable<S> {
    stream: S,
    hang_up: Pin<Box<WaitForCancellationFutureOwned>>,
    state: ConnectionStage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionStage {
    Open,
    Closing,
    Closed,
}

impl<S: Write + Unpin> Closable<S> {
    fn new(stream: S, hang_up: CancellationToken) -> Self {
        Self { stream, hang_up: Box::pin(hang_up.cancelled_owned()), state: ConnectionStage::Open }
    }

    fn heed(&mut self, cx: &mut Context<'_>) {
        if self.state == ConnectionStage::Open && self.hang_up.as_mut().poll(cx).is_ready() {
            self.state = ConnectionStage::Closing;
        }
        // When it fails the stream is broken, and reading tells.
        if self.state == ConnectionStage::Closing && Pin::new(&mut self.stream).poll_shutdown(cx).is_ready() {
            self.state = ConnectionStage::Closed;
        }
    }
}

impl<S: Read + Write + Unpin> Read for Closable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.heed(cx);
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: Write + Unpin> Write for Closable<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }
}
