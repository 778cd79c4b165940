//! What the listeners share: room for connections and files, who is shown out where there is none, patience
//! with the operating system, and agreeing on TLS.
//!
//! What is spoken on a connection is not known here.

mod arrivals;
pub(crate) mod crowd;
mod moving;
pub(crate) mod patience;
pub(crate) mod room;
pub(crate) mod stopping;
pub(crate) mod tls;
pub(crate) mod watched;

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

pub use arrivals::{Arrivals, Speak};
pub use crowd::Guest;
pub use room::OpenFiles;
pub use tls::TlsSource;

/// Connections that wait to be accepted, as far as the operating system allows: one more waits a second before it tries again.
const BACKLOG: u32 = 4_096;

/// Listens at an address, with room for a storm of connections.
///
/// # Errors
/// When the address cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
