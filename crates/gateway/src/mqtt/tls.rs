//! TLS on the listener. Certificates belong to whoever runs the server: they come from a source that may change them while it
//! runs, and each connection takes what is there when it begins.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::greeting::NotGreeted;

/// Where the present certificate and key are.
pub type TlsSource = Arc<ArcSwap<ServerConfig>>;

/// Agrees on TLS with a client that has just connected.
pub(super) async fn handshake(
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<TlsStream<TcpStream>, NotGreeted> {
    TlsAcceptor::from(config).accept(stream).await.map_err(|error| {
        tracing::debug!(%error, "a client and the server did not agree on TLS");
        "tls_failed"
    })
}
