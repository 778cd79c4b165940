//! What the listeners share: capacity for connections and files, and eviction where there is none.
//! Also waiting where the operating system has no connection, and agreeing on TLS.
//!
//! The protocol of a connection is not known here.

mod accept_backoff;
mod admission;
mod capacity;
mod handshake_stream;
mod listener;
mod shutdown;
mod stall_guard;
mod tls;

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

pub use accept_backoff::AcceptBackoff;
pub use admission::{ConnectionPool, PooledConnection};
pub use capacity::{Capacity, CapacityPermit, OpenFiles};
pub use handshake_stream::HandshakeStream;
pub use listener::{Listener, Protocol};
pub use shutdown::stopped;
pub use tls::{HandshakeFailed, Handshakes, TlsSource, TlsStream};

/// Connections that wait to be accepted, as far as the operating system allows: one more waits a
/// second before it tries again.
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
