//! From a new connection to a session. Its CONNECT is awaited, checked and answered, and an older
//! connection of the same client is seen out first.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use access::Principal;
use base::address;
use bytes::BytesMut;
use net::listen::CapacityPermit;
use net::metrics::Counted;
use rmqtt_codec::v5::ConnectAckReason as Reason;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::connect::{self, Hello};
use super::ending::MqttEnding;
use super::keep_alive::KeepAlive;
use super::limits::{CONNECT_BYTES_MAX, KEEP_ALIVE_OF_NONE_SECS, MqttLimits};
use super::protocol::{ConnectionId, MqttProtocol};
use super::reply::ConnackProperties;
use super::rights::Rights;
use super::session::MqttSession;
use super::sessions::{Entered, SessionSlot};
use super::{MqttShared, ProtocolVersion, lingering_close, reply, scratch, wire};
use crate::decode::beginning;

/// A client whose CONNECT is accepted.
pub(super) struct HandshakeDone {
    hello: Hello,
    access: Rights,
    slot: SessionSlot,
    of_login: CapacityPermit,
    place: Arc<CapacityPermit>,
    protocol: MqttProtocol,
}

impl HandshakeDone {
    pub(super) fn into_session<S>(self, stream: S, shared: &Arc<MqttShared>) -> MqttSession<S> {
        let Hello { keep_alive, will, session_expiry_secs, .. } = self.hello;
        MqttSession {
            protocol: self.protocol,
            shared: Arc::clone(shared),
            stream,
            unflushed: false,
            _counted: Counted::new(&shared.metrics.connections),
            slot: self.slot,
            _of_login: self.of_login,
            _place: self.place,
            access: self.access,
            will,
            session_expiry_secs,
            keep_alive: KeepAlive::new(keep_alive),
            packet_due: None,
        }
    }
}

/// Why there is no session; the label it is counted under.
pub(super) type HandshakeRefused = &'static str;

/// Waits for the CONNECT and answers it; `take_place` then takes a place among all connections, if
/// there is one.
pub(super) async fn answer_connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    shared: &Arc<MqttShared>,
    peer: Option<SocketAddr>,
    take_place: impl FnOnce() -> Option<CapacityPermit>,
) -> Result<HandshakeDone, HandshakeRefused> {
    let (mut hello, unread) = match receive_hello(stream, shared).await? {
        Ok(received) => received,
        Err(Some((version, reason))) => return Err(refuse(stream, version, reason).await),
        Err(None) => return Err("not_mqtt"),
    };
    let version = hello.client.version;
    let principal = match let_in(&hello, shared, peer) {
        Ok(principal) => principal,
        Err(reason) => {
            if reason == Reason::BadUserNameOrPassword
                && let Some(logins) = &shared.logins
            {
                sleep(logins.failed_delay()).await;
            }
            return Err(refuse(stream, version, reason).await);
        }
    };
    let Some(of_login) = shared.sessions.login_place(principal.number, slots_max(&principal, shared)).await
    else {
        let reason = Reason::QuotaExceeded;
        note_full_login(&hello, &principal, (shared, peer), ("one more is refused", label(reason)));
        return Err(refuse(stream, version, reason).await);
    };
    // A client whose line broke comes back before anybody knows that its connection is dead. That
    // one must not keep it out.
    let own_place = || shared.sessions.listener_place_of(principal.number, &hello.client_id);
    let Some(place) = take_place().map(Arc::new).or_else(own_place) else {
        return Err(refuse(stream, version, Reason::ServerBusy).await);
    };
    if shared.engine.failure().is_some() {
        return Err(refuse(stream, version, Reason::ServerUnavailable).await);
    }
    let Some(Entered { slot, state, another_leaves }) = enter(&hello, &principal, shared, &place).await
    else {
        return Err(refuse(stream, version, Reason::ServerUnavailable).await);
    };
    if another_leaves {
        let code = MqttEnding::OverLoginLimit.label();
        note_full_login(&hello, &principal, (shared, peer), ("its oldest ends", code));
    }
    let mut out = BytesMut::new();
    let connack = agree(&mut hello, state.is_some(), &shared.limits);
    if hello.client.accept(&connack, &shared.limits, &mut out).is_err() {
        return Err("connack_too_large");
    }
    if state.is_some() {
        shared.metrics.sessions_resumed.inc();
    }
    let (access, connection) = (Rights::new(principal), ConnectionId { number: slot.number(), peer });
    let state = state.unwrap_or_default();
    let mut protocol = MqttProtocol::new(Arc::clone(shared), hello.client, connection, access.clone(), state);
    let client_id = if hello.id_is_assigned { "" } else { &hello.client_id };
    if protocol.tell_begin(client_id).await.is_err() {
        return Err(refuse(stream, version, Reason::ServerUnavailable).await);
    }
    let protocol = protocol.going_on(unread, out);
    Ok(HandshakeDone { hello, access, slot, of_login, place, protocol })
}

/// Notes what follows from it that a login has all its connections.
fn note_full_login(
    hello: &Hello,
    principal: &Principal,
    (shared, peer): (&MqttShared, Option<SocketAddr>),
    (what, code): (&'static str, &'static str),
) {
    let log = &shared.metrics.full_logins;
    let Some(left_out) = log.take(Arc::from(&*principal.username), Instant::now()) else { return };
    tracing::warn!(
        way = "mqtt",
        username = beginning(&principal.username),
        client = beginning(&hello.client_id),
        peer = peer.map(tracing::field::display),
        code,
        left_out,
        "an MQTT login has all its connections: {what}"
    );
}

/// Enters among the connections of its login.
async fn enter(
    hello: &Hello,
    principal: &Principal,
    shared: &MqttShared,
    place: &Arc<CapacityPermit>,
) -> Option<Entered> {
    let (slots_max, place) = (slots_max(principal, shared), Arc::downgrade(place));
    shared.sessions.enter(principal.number, &hello.client_id, hello.clean_start, slots_max, place).await
}

fn slots_max(principal: &Principal, shared: &MqttShared) -> usize {
    let MqttLimits { connections_max, connections_per_login_max, .. } = shared.limits;
    let of_logins = shared.logins.as_ref();
    let of_logins =
        of_logins.map(|logins| logins.connections_max(principal, connections_max, connections_per_login_max));
    of_logins.unwrap_or(usize::MAX)
}

/// Who it is, or why it is not let in.
fn let_in(hello: &Hello, shared: &MqttShared, peer: Option<SocketAddr>) -> Result<Arc<Principal>, Reason> {
    let Some(logins) = &shared.logins else { return Ok(Arc::clone(&shared.anybody)) };
    let found = match &hello.credentials {
        Some(credentials) => logins.find(credentials).ok_or(Reason::BadUserNameOrPassword),
        None => Err(Reason::NotAuthorized),
    };
    found.inspect_err(|reason| {
        let key = (peer.map(|peer| address::sender(peer.ip())), label(*reason));
        let Some(left_out) = shared.metrics.refused_logins.take(key, Instant::now()) else { return };
        let username = hello.credentials.as_ref().map_or("", |credentials| credentials.username.as_str());
        tracing::warn!(
            way = "mqtt",
            username = beginning(username),
            client = beginning(&hello.client_id),
            peer = peer.map(tracing::field::display),
            code = label(*reason),
            left_out,
            "refused an MQTT login"
        );
    })
}

/// Brings what the client asks for within our limits. What cannot be told to a client of 3.1.1
/// stays as it asked.
fn agree(hello: &mut Hello, session_present: bool, limits: &MqttLimits) -> ConnackProperties {
    let mut connack = ConnackProperties { session_present, ..ConnackProperties::default() };
    if hello.id_is_assigned {
        connack.assigned_id = Some(hello.client_id.clone());
    }
    let expiry_secs_max = u32::try_from(limits.session_expiry_max.as_secs()).unwrap_or(u32::MAX);
    if hello.session_expiry_secs > expiry_secs_max {
        hello.session_expiry_secs = expiry_secs_max;
        connack.session_expiry_secs = Some(expiry_secs_max);
    }
    let keep_alive_max = limits.keep_alive_max.get();
    let asks_too_much = hello.keep_alive == 0 || hello.keep_alive > keep_alive_max;
    if hello.client.version == ProtocolVersion::V5 && asks_too_much {
        hello.keep_alive = keep_alive_max;
        connack.keep_alive = Some(keep_alive_max);
    }
    if hello.client.version == ProtocolVersion::V311 && hello.keep_alive == 0 {
        hello.keep_alive = KEEP_ALIVE_OF_NONE_SECS;
    }
    connack
}

type Received = Result<(Hello, Vec<u8>), connect::Refusal>;

async fn receive_hello<S: AsyncRead + Unpin>(
    stream: &mut S,
    shared: &MqttShared,
) -> Result<Received, HandshakeRefused> {
    let mut bytes = Vec::new();
    loop {
        let read = poll_fn(|cx| {
            scratch::poll_read(stream, cx, |read| {
                bytes.extend_from_slice(read);
                read.len()
            })
        });
        let read = read.await.map_err(|_| "gone")?;
        if read == 0 {
            return Err("gone");
        }
        shared.metrics.received_bytes.inc_by(read as u64);
        if bytes[0] >> 4 != wire::CONNECT {
            // What it says is not MQTT, so its length says nothing either.
            return Ok(Err(None));
        }
        match wire::packet(&bytes, CONNECT_BYTES_MAX) {
            Ok(None) => {}
            Ok(Some(packet)) => {
                let hello = connect::read(packet);
                return Ok(hello.map(|hello| (hello, bytes[packet.bytes.len()..].to_vec())));
            }
            Err(_) => return Ok(Err(None)),
        }
    }
}

async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    version: ProtocolVersion,
    reason: Reason,
) -> HandshakeRefused {
    let mut out = BytesMut::new();
    if reply::refuse(version, reason, &mut out).is_err() {
        return "malformed";
    }
    lingering_close::say(stream, &out, true).await;
    label(reason)
}

/// What a refusal is counted under.
fn label(reason: Reason) -> HandshakeRefused {
    match reason {
        Reason::ServerBusy => "busy",
        Reason::QuotaExceeded => "login_full",
        Reason::ServerUnavailable => "unavailable",
        Reason::UnsupportedProtocolVersion => "unsupported_version",
        Reason::ClientIdentifierNotValid => "client_id_invalid",
        Reason::BadAuthenticationMethod => "authentication_not_supported",
        Reason::BadUserNameOrPassword => "bad_credentials",
        Reason::NotAuthorized => "no_credentials",
        Reason::TopicNameInvalid => "will_topic_invalid",
        _ => "malformed",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use access::{Login, Logins};
    use base::{Lineage, SystemClock, Timestamp};
    use engine::{Engine, EngineSettings};
    use net::listen::Capacity;
    use sha2::{Digest, Sha256};
    use store::MemoryStore;
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// A place among all connections, for one that is the only one.
    pub(in crate::mqtt) fn a_place() -> Option<CapacityPermit> {
        Arc::new(Capacity::new(1)).take()
    }

    /// A CONNECT of 3.1.1 with the login `gate`.
    fn connect_as(client_id: &str) -> Vec<u8> {
        let text = |text: &str| [&[0, text.len() as u8], text.as_bytes()].concat();
        let head = &b"\0\x04MQTT\x04\xc2\0\x3c"[..];
        let body = [head, &text(client_id), &text("gate"), &text("secret")].concat();
        [&[0x10, body.len() as u8], &body[..]].concat()
    }

    #[tokio::test]
    async fn a_login_whose_connections_do_not_end_gets_no_more() {
        let (store, clock) = (MemoryStore::new(Lineage(1), 1), SystemClock::start(Timestamp(0)));
        let engine = Engine::start(EngineSettings::for_tests(), Arc::new(store), Arc::new(clock)).await;
        let limits = MqttLimits { connections_per_login_max: 1, ..MqttLimits::default() };
        let mut shared = MqttShared::new(engine.expect("an empty store"), limits);
        let mut logins = Logins::new();
        logins.add("gate", Sha256::digest("secret").into(), Login::Admin).expect("a new name");
        shared.logins = Some(logins);
        let shared = Arc::new(shared);
        let connect = async |client_id: &str| {
            let (mut client, mut server) = duplex(4_096);
            client.write_all(&connect_as(client_id)).await.expect("room");
            answer_connect(&mut server, &shared, None, a_place).await
        };
        // As long as these are there, they have the login's places.
        let _first = connect("a").await.expect("it is let in");
        let _second = connect("b").await.expect("it is let in");
        tokio::time::pause();
        assert_eq!(connect("c").await.err(), Some("login_full"));
    }

    /// A CONNECT of this version, with this keep-alive.
    fn hello(version: ProtocolVersion, keep_alive: u16) -> Hello {
        let (level, properties): (u8, &[u8]) = match version {
            ProtocolVersion::V311 => (4, b""),
            ProtocolVersion::V5 => (5, b"\0"),
        };
        let name = &b"\0\x04MQTT"[..];
        let body = [name, &[level, 0x02], &keep_alive.to_be_bytes(), properties, b"\0\x02me"].concat();
        let bytes = [&[0x10, body.len() as u8], &body[..]].concat();
        connect::read(wire::packet(&bytes, 1_000).expect("a header").expect("whole")).expect("right")
    }

    #[test]
    fn nobody_goes_without_a_keep_alive() {
        let limits = MqttLimits::default();
        let longest = limits.keep_alive_max.get();
        for (version, asked, kept, told) in [
            (ProtocolVersion::V311, 0, KEEP_ALIVE_OF_NONE_SECS, None),
            (ProtocolVersion::V311, longest + 1, longest + 1, None),
            (ProtocolVersion::V311, 60, 60, None),
            (ProtocolVersion::V5, 0, longest, Some(longest)),
            (ProtocolVersion::V5, longest + 1, longest, Some(longest)),
            (ProtocolVersion::V5, 60, 60, None),
        ] {
            let mut hello = hello(version, asked);
            let connack = agree(&mut hello, false, &limits);
            assert_eq!((hello.keep_alive, connack.keep_alive), (kept, told), "{version:?}, {asked} s");
        }
    }
}
