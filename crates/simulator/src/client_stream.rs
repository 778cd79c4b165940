//! A byte stream to a server, bare or under TLS.
//!
//! Connecting takes at most [`CONNECT_TIMEOUT`], and only so many connections are made at a time: a
//! fleet that connects at once would otherwise fill the listener's backlog and count its own haste
//! as broken connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
