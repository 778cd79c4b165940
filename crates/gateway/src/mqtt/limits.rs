//! What one listener and one connection may take. What a client is told of it: receive maximum and
//! maximum packet size (MQTT 5).

use std::num::NonZeroU16;
use std::time::Duration;

use base::limits::{COMMAND_PAYLOAD_BYTES_MAX, VALUE_BYTES_MAX};

/// The limits of a listener that a caller may set.
#[derive(Clone, Copy, Debug)]
pub struct MqttLimits {
    /// Most connections at a time; one more is refused with "server busy", unless its client has
    /// one. Then it takes that over, and they share a place, with those of the same client that are
    /// still ending: four at most. An idle one takes less than 1.5 KiB here.
    pub connections_max: usize,
    /// Most connections and waiting sessions of one login; one more takes the place of its oldest.
    /// With several logins, none gets more than three quarters of all connections.
    pub connections_per_login_max: usize,
    /// Most connections without a complete CONNECT. At the limit, those without progress are
    /// closed, and new ones wait to be accepted.
    pub handshakes_max: usize,
    /// Largest packet, in bytes, its fixed header included. Values are far smaller; heartbeats may
    /// carry anything.
    pub packet_bytes_max: u32,
    /// Most reports of one connection that are not yet acknowledged. At the limit its socket is not
    /// read: 3.1.1 has no other way to slow a sender. A client of 5 is told the number (Receive
    /// Maximum). For such a client it also bounds the QoS 2 publishes that are not complete. It
    /// covers a slice, so that a fast client keeps a partition busy.
    pub unacknowledged_max: NonZeroU16,
    /// Most subscriptions of one connection.
    pub subscriptions_max: usize,
    /// Longest keep-alive, in seconds: a client of MQTT 5 that asks for more, or for none, is told
    /// this one.
    pub keep_alive_max: NonZeroU16,
    /// How long a session waits at most for its client to come back. One of 3.1.1 has no other end.
    pub session_expiry_max: Duration,
    /// Memory of the sessions of absent clients, in bytes; a session takes little more than 1 KiB.
    /// One that there is no room for ends with its connection.
    pub absent_bytes_max: usize,
    /// How long a connection may take until its CONNECT is answered, a TLS handshake included.
    pub connect_timeout: Duration,
    /// Whether subscriptions receive copies of accepted reports.
    pub mirror: bool,
    /// How long a connection that ends may take to settle what it handed in.
    pub settle_timeout: Duration,
}

impl Default for MqttLimits {
    fn default() -> Self {
        Self {
            connections_max: 65_536,
            connections_per_login_max: 65_536,
            handshakes_max: 4_096,
            packet_bytes_max: 256 * 1_024,
            unacknowledged_max: NonZeroU16::new(1_024).unwrap_or(NonZeroU16::MIN),
            subscriptions_max: 64,
            keep_alive_max: NonZeroU16::new(3_600).unwrap_or(NonZeroU16::MAX),
            session_expiry_max: Duration::from_secs(7 * 24 * 3_600),
            absent_bytes_max: 64 * 1_024 * 1_024,
            connect_timeout: Duration::from_secs(10),
            mirror: true,
            settle_timeout: Duration::from_secs(5),
        }
    }
}

/// Connections of one client on one place of the listener: the newest, and those that it took over,
/// while they end.
pub(super) const PLACE_SHARERS_MAX: usize = 4;
/// How long a newcomer waits for one of its login to be over, where too many are ending.
pub(super) const ENDING_WAIT: Duration = Duration::from_secs(1);
/// How many connections a login with so many slots may have: one in eight more. Each of these gave
/// up its slot and settles what it handed in, or waits for such a one.
pub(super) fn connections_with_ending_max(slots_max: usize) -> usize {
    slots_max.saturating_add(slots_max / 8 + 1)
}

/// The keep-alive of a client of 3.1.1 that asks for none, in seconds: the longest that can be
/// asked for, 18 hours.
pub(super) const KEEP_ALIVE_OF_NONE_SECS: u16 = u16::MAX;
/// Largest CONNECT, in bytes: a will is a report, so nothing in it needs more.
pub(super) const CONNECT_BYTES_MAX: u32 = 16 * 1_024;
/// Longest client id, in bytes; 3.1.1 asks for 23 at least.
pub(super) const CLIENT_ID_BYTES_MAX: usize = 256;
/// Longest username, in bytes.
pub(super) const USERNAME_BYTES_MAX: usize = 256;
/// Longest filter of a subscription, in bytes: no topic that we publish to is half as long.
pub(super) const FILTER_BYTES_MAX: usize = 256;
/// Most topic aliases of one connection (MQTT 5); a client is told the number.
pub(super) const TOPIC_ALIASES_MAX: u16 = 16;
/// Topics of one connection that have an alias, in bytes altogether: more than as many topics of
/// the contract.
pub(super) const TOPIC_ALIAS_BYTES_MAX: usize = 4 * 1_024;
/// Payloads and topics of one connection whose reports are not durable yet, and what one read can
/// add to them, in bytes. They are held for the quarantine. Beyond it, the socket is not read.
pub(super) const UNACKNOWLEDGED_BYTES_MAX: usize = 1_024 * 1_024;
/// Reports of all connections that are not durable yet, and packets that wait behind them, in
/// bytes. Beyond it, no socket is read.
pub(super) const HELD_BYTES_MAX: usize = 128 * 1_024 * 1_024;
/// Beginnings of packets of all connections, in bytes. Beyond it, a connection that sent more than
/// [`BEGUN_BYTES_FREE`] of one is ended. Otherwise those who never end theirs would hold the room,
/// and nobody else could send a large packet.
pub(super) const BEGUN_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// A beginning of a packet up to this many bytes is always kept: most packets are smaller.
pub(super) const BEGUN_BYTES_FREE: usize = 1_024;
/// How long a packet may take from its first byte to its last.
pub(super) const PACKET_MAX: Duration = Duration::from_secs(60);
/// What a session of an absent client takes beside filters and packet ids, in bytes: a task, a
/// timer, an entry in a table.
pub(super) const ABSENT_SESSION_BYTES: usize = 1_024;
/// Room for absent clients is counted in these, in bytes.
pub(super) const ABSENT_UNIT_BYTES: usize = 64;
/// How long it is remembered whether a device has a label, if its labels do not change. Long enough
/// for a busy site to be cheap. Short, because a change whose outcome is unknown may not be told.
pub(super) const LABELS_KEPT: Duration = Duration::from_millis(250);
/// Answers of that kind that are remembered, in each of two generations.
pub(super) const LABELS_KEPT_MAX: usize = 8_192;
/// Devices of one connection that are looked up at a time for that.
pub(super) const LABELS_ASKED_MAX: usize = 256;
/// Lookups of a listener that may read the store at a time, each on a thread of its own.
pub(super) const LABEL_READS_MAX: usize = 4;
/// Accepted reports that wait to be copied for those who watch, in bytes; beyond it, one is not
/// copied.
pub(super) const MIRROR_INCOMING_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// Copies that wait for one connection, in bytes, and for all of them; beyond either, one is
/// dropped.
pub(super) const MIRROR_COPIES_BYTES_MAX: usize = 256 * 1_024;
pub(super) const MIRROR_ALL_COPIES_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// Connections that may watch more than devices they name, for reports and for commands: each of
/// them is asked about every one.
pub(super) const WATCHING_ANYWHERE_MAX: usize = 256;
/// Connections that may watch one device by its id: each of them is asked about its reports, or
/// its commands.
pub(super) const WATCHING_DEVICE_MAX: usize = 128;
/// Kinds of devices that are remembered to name the topic of a report that came without one, and
/// for how long.
pub(super) const MIRROR_KINDS_MAX: usize = 16_384;
pub(super) const MIRROR_KINDS_KEPT: Duration = Duration::from_secs(10);
/// Commands that wait for one connection, in bytes, and for all of them, what is being written
/// included. Beyond either, one is dropped: the engine sends it again.
pub(super) const COMMANDS_WAITING_BYTES_MAX: usize = 1_024 * 1_024;
pub(super) const COMMANDS_ALL_WAITING_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// Commands of QoS 1 that a client of 3.1.1 has not acknowledged. It cannot say how many it takes.
pub(super) const COMMANDS_UNACKNOWLEDGED_V311_MAX: u16 = 64;
/// The same for a client of 5, however large its receive maximum is.
pub(super) const COMMANDS_UNACKNOWLEDGED_V5_MAX: u16 = 1_024;
/// Devices that one session can be of, or reach by their ids, from its beginning to its end.
pub(super) const DEVICES_PER_SESSION_MAX: usize = 256;
/// Bytes that wait to be written to one client. Beyond it, its socket is not read until it takes
/// some.
pub(super) const OUT_BYTES_MAX: usize = 64 * 1_024;
/// Bytes taken in one read, and so the most that one slice comes from beside the rest of an earlier
/// read.
pub(super) const READ_BYTES_MAX: usize = 64 * 1_024;
/// Longest reason string of a PUBACK or SUBACK, in bytes.
pub(super) const REASON_BYTES_MAX: usize = 256;
/// After a client's last packet its TCP connection is probed this often. So a device that lost its
/// power is noticed even if its keep-alive is 0.
pub(super) const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// How long a client may take to hear our last words and to close.
pub(super) const LINGER: Duration = Duration::from_secs(1);

const _: () = assert!(
    CONNECT_BYTES_MAX as usize > 2 * VALUE_BYTES_MAX,
    "a CONNECT holds a will with the largest value"
);
const _: () = assert!(
    COMMANDS_WAITING_BYTES_MAX > 2 * COMMAND_PAYLOAD_BYTES_MAX,
    "a connection that takes its commands takes the largest one"
);
