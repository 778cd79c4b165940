//! What the listeners share: room for connections and files, who is shown out where there is none, patience
//! with the operating system, and agreeing on TLS.
//!
//! What is spoken on a connection is not known here.

mod arrivals;
mod crowd;
mod moving;
mod patience;
mod room;
mod stopping;
mod tls;
mod watched;

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

pub use arrivals::{Arrivals, Speak};
pub use crowd::{Crowd, Guest};
pub use patience::Patience;
pub use room::{OpenFiles, Place, Room};
pub use stopping::stopped;
pub use tls::{Disagreed, Handshakes, TlsSource, TlsStream};
pub use watched::Watched;

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
