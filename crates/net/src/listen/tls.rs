//! TLS on the listeners. Certificates belong to whoever runs the server. They come from a source
//! that may change them while it runs, and each connection takes what is there when it begins.
//!
//! The handshakes that compute at one moment are bounded, not those that wait for their network. So
//! a fleet on slow links waits only for its links.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::{Accept, TlsAcceptor};

use super::admission::PooledConnection;
use super::handshake_stream::HandshakeStream;

/// Where the present certificate and key are.
pub type TlsSource = Arc<ArcSwap<ServerConfig>>;

/// A connection that speaks TLS.
pub type TlsStream = tokio_rustls::server::TlsStream<HandshakeStream<TcpStream>>;

/// Connections of one listener that may be agreeing on TLS. One takes some 15 KiB while it does.
pub(crate) const HANDSHAKES_MAX: usize = 4_096;

/// Handshakes of one listener that may compute at a moment, for about a millisecond each. In a
/// reconnect storm other work waits behind this many at most.
const COMPUTING_MAX: usize = 4;

/// The client and the server did not agree; the log says why.
#[derive(Debug)]
pub struct HandshakeFailed;

/// Who may compute. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handshakes {
    computing: Arc<Semaphore>,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self::new()
    }
}

impl Handshakes {
    /// Nobody computes yet.
    #[must_use]
    pub fn new() -> Self {
        Self { computing: Arc::new(Semaphore::new(COMPUTING_MAX)) }
    }

    /// Agrees on TLS with a client that has just connected.
    ///
    /// # Errors
    /// When they do not agree, or the client is gone.
    pub async fn agree(
        &self,
        stream: TcpStream,
        config: Arc<ServerConfig>,
        pooled: &PooledConnection,
    ) -> Result<TlsStream, HandshakeFailed> {
        let accept = TlsAcceptor::from(config).accept(pooled.watch(stream));
        let agreeing = PendingHandshake { accept, computing: Arc::clone(&self.computing), turn: None };
        let mut stream = agreeing.await.map_err(|error| {
            tracing::debug!(%error, "a client and the server did not agree on TLS");
            HandshakeFailed
        })?;
        stream.get_mut().0.end_handshake();
        Ok(stream)
    }
}

/// A handshake that goes on only in its turn, and holds up nobody while it waits for its client.
struct PendingHandshake {
    accept: Accept<HandshakeStream<TcpStream>>,
    computing: Arc<Semaphore>,
    turn: Option<BoxFuture<'static, Option<OwnedSemaphorePermit>>>,
}

impl Future for PendingHandshake {
    type Output = std::io::Result<TlsStream>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { accept, computing, turn } = &mut *self;
        let turn_of_it = match turn {
            None => Arc::clone(computing).try_acquire_owned().ok(),
            Some(_) => None,
        };
        let _turn = match turn_of_it {
            Some(permit) => Some(permit),
            None => {
                let waits = turn.get_or_insert_with(|| {
                    let computing = Arc::clone(computing);
                    async move { computing.acquire_owned().await.ok() }.boxed()
                });
                let permit = ready!(waits.as_mut().poll(cx));
                *turn = None;
                permit
            }
        };
        Pin::new(accept).poll(cx)
    }
}
