//! A byte stream to a server, bare or under TLS.
//!
//! Connecting takes at most [`CONNECT_TIMEOUT`], and only so many connections are made at a time. A
//! fleet that connects at once would otherwise fill the listener's backlog. It would count its own
//! haste as broken connections.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::endpoint::Endpoint;

/// Reaching the server and being let in take no longer.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that this process makes at the same time; below the usual backlog of a listener.
const CONNECTING_MAX: usize = 64;

static CONNECTING: Semaphore = Semaphore::const_new(CONNECTING_MAX);

/// Waits until another connection may be made; it may as long as the permit is held.
pub(crate) async fn permit_to_connect() -> SemaphorePermit<'static> {
    CONNECTING.acquire().await.expect("the semaphore is never closed")
}

/// See the module.
#[derive(Debug)]
pub(crate) enum ClientStream {
    Bare(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl ClientStream {
    /// Connects, under TLS if the endpoint's access says so.
    pub(crate) async fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let stream = TcpStream::connect(endpoint.address().await).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &endpoint.access().tls else { return Ok(Self::Bare(stream)) };
        let connector = TlsConnector::from(Arc::clone(&tls.config));
        let stream = connector.connect(tls.server_name.clone(), stream).await?;
        Ok(Self::Encrypted(Box::new(stream)))
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Bare(stream) => Pin::new(stream).poll_read(context, into),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Bare(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Bare(stream) => Pin::new(stream).poll_flush(context),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Bare(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A wire with what was read and not taken yet, and what is still to be written. Reading never
/// waits for writing.
#[derive(Debug)]
pub(crate) struct Buffered {
    wire: ClientStream,
    pub(crate) input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    is_flushed: bool,
}

impl Buffered {
    /// Nothing is read or written yet; so much room is held ready for reading.
    pub(crate) fn new(wire: ClientStream, ready: usize) -> Self {
        Self { wire, input: Vec::with_capacity(ready), output: Vec::new(), is_flushed: true }
    }

    /// Whether all has been written.
    pub(crate) fn is_written(&self) -> bool {
        self.output.is_empty() && self.is_flushed
    }

    /// Writes what the socket takes, and is ready when something was read.
    pub(crate) fn exchange(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write_some(context)?;
        let Self { wire, input, .. } = self;
        match pin!(wire.read_buf(input)).poll(context) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            read => read.map_ok(drop),
        }
    }

    /// Writes what the socket takes without waiting.
    pub(crate) fn write_some(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let mut written = 0;
        while written < self.output.len() {
            match Pin::new(&mut self.wire).poll_write(context, &self.output[written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => written += count,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        self.output.drain(..written);
        if written > 0 || !self.is_flushed {
            self.is_flushed = match Pin::new(&mut self.wire).poll_flush(context) {
                Poll::Ready(flushed) => flushed.map(|()| true)?,
                Poll::Pending => false,
            };
        }
        Ok(())
    }

    /// Writes all that is left.
    pub(crate) async fn write_all(mut self) -> io::Result<()> {
        self.wire.write_all(&self.output).await?;
        self.wire.flush().await
    }
}
