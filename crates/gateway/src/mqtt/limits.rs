//! What one listener and one connection may take. What a client is told of it: receive maximum and maximum packet size
//! (MQTT 5).

use std::num::NonZeroU16;
use std::time::Duration;

use base::limits::VALUE_BYTES_MAX;

/// The limits of a listener that a caller may set.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at a time; one more is refused with "server busy". An idle one takes 2 to 3 KiB here.
    pub connections_max: usize,
    /// Largest packet, in bytes, its fixed header included. Values are far smaller; heartbeats may carry anything.
    pub packet_bytes_max: u32,
    /// Most reports of one connection that are not yet acknowledged. At the limit its socket is not read: 3.1.1 has no other way
    /// to slow a sender, and a client of 5 is told the number. It covers a slice, so that a fast client keeps a
    /// partition busy, and costs 16 bytes for each.
    pub unacknowledged_max: NonZeroU16,
    /// Most subscriptions of one connection.
    pub subscriptions_max: usize,
    /// How long a connection may take until its CONNECT is answered.
    pub connect_timeout: Duration,
    /// How long a connection that ends may take to settle what it handed in.
    pub settle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 65_536,
            packet_bytes_max: 256 * 1_024,
            unacknowledged_max: NonZeroU16::new(1_024).unwrap_or(NonZeroU16::MIN),
            subscriptions_max: 64,
            connect_timeout: Duration::from_secs(10),
            settle_timeout: Duration::from_secs(5),
        }
    }
}

/// Largest CONNECT, in bytes: a will is a report, so nothing in it needs more.
pub(super) const CONNECT_BYTES_MAX: u32 = 16 * 1_024;
/// Longest client id, in bytes; 3.1.1 asks for 23 at least.
pub(super) const CLIENT_ID_BYTES_MAX: usize = 256;
/// Longest filter of a subscription, in bytes.
pub(super) const FILTER_BYTES_MAX: usize = 1_024;
/// Bytes that wait to be written to one client. Beyond it, its socket is not read until it takes some.
pub(super) const OUT_BYTES_MAX: usize = 64 * 1_024;
/// Bytes taken in one read, and so the most that one slice comes from beside the rest of an earlier read.
pub(super) const READ_BYTES_MAX: usize = 64 * 1_024;
/// Connections beyond `connections_max` that are read far enough to be told that the server is busy.
pub(super) const REFUSING_MAX: usize = 128;
/// Longest reason string of a PUBACK, in bytes.
pub(super) const REASON_BYTES_MAX: usize = 256;
/// After a client's last packet its TCP connection is probed this often: a device that lost its power is noticed even if its
/// keep-alive is 0.
pub(super) const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// How long a client may take to hear our last words and to close.
pub(super) const LINGER: Duration = Duration::from_secs(1);

const _: () = assert!(
    CONNECT_BYTES_MAX as usize > 2 * VALUE_BYTES_MAX,
    "a CONNECT holds a will with the largest value"
);
