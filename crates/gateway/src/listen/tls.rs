//! TLS on the listeners. Certificates belong to whoever runs the server: they come from a source that may change them while it
//! runs, and each connection takes what is there when it begins.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Where the present certificate and key are.
pub type TlsSource = Arc<ArcSwap<ServerConfig>>;

/// Handshakes of one listener that may be under way. Each keeps a core busy for about a millisecond: in a storm of them everything
/// else waits behind so many at most, and the storm waits to be accepted.
pub(crate) const HANDSHAKES_MAX: usize = 256;

/// The client and the server did not agree; the log says why.
#[derive(Debug)]
pub(crate) struct Disagreed;

/// Agrees on TLS with a client that has just connected.
pub(crate) async fn handshake(
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<TlsStream<TcpStream>, Disagreed> {
    TlsAcceptor::from(config).accept(stream).await.map_err(|error| {
        tracing::debug!(%error, "a client and the server did not agree on TLS");
        Disagreed
    })
}
