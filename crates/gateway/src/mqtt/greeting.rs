//! From a new connection to a session: its CONNECT is awaited, checked and answered, and an older connection of the
//! same client is seen out first.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::BytesMut;
use rmqtt_codec::v5::ConnectAckReason as Reason;
use tokio::net::TcpStream;

use super::connect::{self, Hello};
use super::limits::CONNECT_BYTES_MAX;
use super::session::{KeepAlive, Session};
use super::sessions::Seat;
use super::talk::Talk;
use super::{Shared, Version, last_words, reply, scratch, wire};

/// A client whose CONNECT is accepted.
pub(super) struct Greeted {
    hello: Hello,
    seat: Seat,
    /// What came behind the CONNECT.
    unread: Vec<u8>,
    /// The CONNACK.
    out: BytesMut,
}

impl Greeted {
    pub(super) fn into_session(self, stream: TcpStream, shared: &Arc<Shared>) -> Session {
        let Hello { client, keep_alive, will, .. } = self.hello;
        Session {
            talk: Talk::new(Arc::clone(shared), client, self.unread, self.out),
            shared: Arc::clone(shared),
            stream,
            seat: self.seat,
            will,
            keep_alive: KeepAlive::new(keep_alive),
        }
    }
}

/// Why there is no session; the label it is counted under.
pub(super) type NotGreeted = &'static str;

/// Waits for the CONNECT and answers it; `busy` if there is no room for one more connection.
pub(super) async fn greet(
    stream: &mut TcpStream,
    shared: &Shared,
    busy: bool,
) -> Result<Greeted, NotGreeted> {
    let (hello, unread) = match receive_hello(stream, shared).await? {
        Ok(received) => received,
        Err(Some((version, reason))) => return Err(refuse(stream, version, reason).await),
        Err(None) => return Err("not_mqtt"),
    };
    let version = hello.client.version;
    if busy {
        return Err(refuse(stream, version, Reason::ServerBusy).await);
    }
    if shared.engine.failure().is_some() {
        return Err(refuse(stream, version, Reason::ServerUnavailable).await);
    }
    let Some(seat) = shared.sessions.enter(&hello.client_id).await else {
        return Err(refuse(stream, version, Reason::ServerUnavailable).await);
    };
    let mut out = BytesMut::new();
    if hello.client.accept(&hello.terms, &shared.limits, &mut out).is_err() {
        return Err("connack_too_large");
    }
    Ok(Greeted { hello, seat, unread, out })
}

type Received = Result<(Hello, Vec<u8>), connect::Refusal>;

async fn receive_hello(stream: &mut TcpStream, shared: &Shared) -> Result<Received, NotGreeted> {
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
        shared.figures.received_bytes.inc_by(read as u64);
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

async fn refuse(stream: &mut TcpStream, version: Version, reason: Reason) -> NotGreeted {
    let mut out = BytesMut::new();
    if reply::refuse(version, reason, &mut out).is_err() {
        return "malformed";
    }
    last_words::say(stream, &out, true).await;
    match reason {
        Reason::ServerBusy => "busy",
        Reason::ServerUnavailable => "unavailable",
        Reason::UnsupportedProtocolVersion => "unsupported_version",
        Reason::ClientIdentifierNotValid => "client_id_invalid",
        Reason::BadAuthenticationMethod => "authentication_not_supported",
        Reason::TopicNameInvalid => "will_topic_invalid",
        Reason::QosNotSupported => "will_qos_not_supported",
        _ => "malformed",
    }
}
