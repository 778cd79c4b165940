//! A client that says exactly the bytes it is told to, right or wrong.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::PATIENCE;

pub(crate) const PING: &[u8] = b"\xc0\0";
pub(crate) const PONG: &[u8] = b"\xd0\0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V311 = 4,
    V5 = 5,
}

pub(crate) struct RawClient {
    pub(crate) version: Version,
    stream: TcpStream,
}

/// What may differ in a CONNECT.
#[derive(Clone, Copy)]
pub(crate) struct Connect<'a> {
    pub(crate) version: Version,
    pub(crate) client_id: &'a str,
    pub(crate) keep_alive: u8,
    /// Topic and payload.
    pub(crate) will: Option<(&'a str, &'a str)>,
    /// In seconds.
    pub(crate) will_delay: u8,
    pub(crate) clean: bool,
    /// Of the session, in seconds; only MQTT 5 can say it.
    pub(crate) expiry: u32,
    /// Username and password.
    pub(crate) credentials: Option<(&'a str, &'a str)>,
}

impl Connect<'_> {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            version,
            client_id: "me",
            keep_alive: 60,
            will: None,
            will_delay: 0,
            clean: true,
            expiry: 0,
            credentials: None,
        }
    }

    /// With a session that goes on without the connection.
    pub(crate) fn lasting(version: Version) -> Self {
        Self { clean: false, expiry: 3_600, ..Self::new(version) }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let v5 = self.version == Version::V5;
        let flag = |on: bool, bits: u8| if on { bits } else { 0 };
        let flags =
            flag(self.clean, 0x02) | flag(self.will.is_some(), 0x0c) | flag(self.credentials.is_some(), 0xc0);
        let properties = |id: u8, value: u32| match (v5, value) {
            (false, _) => Vec::new(),
            (true, 0) => vec![0],
            (true, value) => [&[5, id], &value.to_be_bytes()[..]].concat(),
        };
        let mut body = [b"\0\x04MQTT", &[self.version as u8, flags, 0, self.keep_alive][..]].concat();
        body.extend(properties(0x11, self.expiry));
        body.extend(text(self.client_id));
        if let Some((topic, payload)) = self.will {
            body.extend(properties(0x18, self.will_delay.into()));
            body.extend(text(topic));
            body.extend(text(payload));
        }
        if let Some((username, password)) = self.credentials {
            body.extend(text(username));
            body.extend(text(password));
        }
        packet(0x10, &body)
    }
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

pub(crate) fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let mut length = body.len();
    loop {
        let more = length > 127;
        bytes.push((length % 128) as u8 | if more { 0x80 } else { 0 });
        length /= 128;
        if !more {
            break;
        }
    }
    bytes.extend_from_slice(body);
    bytes
}

/// A PUBLISH with QoS 1, or 0 with packet id 0.
pub(crate) fn publish(version: Version, packet_id: u16, topic: &str, payload: &str) -> Vec<u8> {
    let mut body = text(topic);
    if packet_id > 0 {
        body.extend(packet_id.to_be_bytes());
    }
    if version == Version::V5 {
        body.push(0);
    }
    body.extend_from_slice(payload.as_bytes());
    packet(if packet_id > 0 { 0x32 } else { 0x30 }, &body)
}

/// The state of a lock, with QoS 2.
pub(crate) fn lock_qos_2(version: Version, packet_id: u16, device: &str, value: u8) -> Vec<u8> {
    let mut bytes = lock(version, packet_id, device, value);
    bytes[0] = 0x34;
    bytes
}

/// A PUBREC, PUBREL or PUBCOMP without a reason.
pub(crate) fn handshake(first: u8, packet_id: u16) -> Vec<u8> {
    [&[first, 2], &packet_id.to_be_bytes()[..]].concat()
}

pub(crate) fn pubrec(packet_id: u16) -> Vec<u8> {
    handshake(0x50, packet_id)
}

pub(crate) fn pubrel(packet_id: u16) -> Vec<u8> {
    handshake(0x62, packet_id)
}

pub(crate) fn pubcomp(packet_id: u16) -> Vec<u8> {
    handshake(0x70, packet_id)
}

/// The reason code of a PUBACK or its like; 0 if it has none.
pub(crate) fn reason_of(ack: &[u8]) -> u8 {
    let header = if ack[1] & 0x80 == 0 { 2 } else { 3 };
    ack.get(header + 2).copied().unwrap_or(0)
}

/// A SUBSCRIBE with packet id 5 and QoS 1.
pub(crate) fn subscribe(version: Version, filters: &[&str]) -> Vec<u8> {
    let mut body = vec![0, 5];
    if version == Version::V5 {
        body.push(0);
    }
    for filter in filters {
        body.extend(text(filter));
        body.push(1);
    }
    packet(0x82, &body)
}

/// The state of a lock, with QoS 1.
pub(crate) fn lock(version: Version, packet_id: u16, device: &str, value: u8) -> Vec<u8> {
    publish(version, packet_id, &format!("dev/lock/{device}/state"), &value.to_string())
}

pub(crate) fn puback(packet_id: u16) -> Vec<u8> {
    [b"\x40\x02", &packet_id.to_be_bytes()[..]].concat()
}

impl RawClient {
    pub(crate) async fn open(address: SocketAddr, version: Version) -> Self {
        Self { version, stream: TcpStream::connect(address).await.expect("a listener") }
    }

    /// A client that takes only a little at a time.
    pub(crate) async fn open_narrow(address: SocketAddr, version: Version) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4_096).expect("a size");
        Self { version, stream: socket.connect(address).await.expect("a listener") }
    }

    /// Connects and takes the CONNACK.
    pub(crate) async fn connect(address: SocketAddr, connect: Connect<'_>) -> Self {
        let (client, session_present) = Self::connect_to_session(address, connect).await;
        assert!(!session_present);
        client
    }

    /// Connects: whether there was a session to go on with.
    pub(crate) async fn connect_to_session(address: SocketAddr, connect: Connect<'_>) -> (Self, bool) {
        let (client, connack) = Self::connack(address, connect).await;
        assert_eq!((connack[0], connack[3]), (0x20, 0), "the CONNECT is accepted: {connack:x?}");
        (client, connack[2] == 1)
    }

    /// Connects, or not: the CONNACK.
    pub(crate) async fn connack(address: SocketAddr, connect: Connect<'_>) -> (Self, Vec<u8>) {
        let mut client = Self::open(address, connect.version).await;
        client.send(&connect.bytes()).await;
        let connack = client.receive().await;
        (client, connack)
    }

    /// Sends much while it takes what comes in small bites: everything that comes.
    pub(crate) async fn send_and_receive(mut self, bytes: &[u8], receive_bytes: usize) -> Vec<u8> {
        let (mut reader, mut writer) = self.stream.split();
        let mut received = vec![0; receive_bytes];
        let (sent, got) =
            tokio::join!(writer.write_all(bytes), timeout(PATIENCE, reader.read_exact(&mut received)));
        sent.expect("an open connection");
        got.expect("in time").expect("all of it");
        received
    }

    pub(crate) async fn plain(address: SocketAddr, version: Version) -> Self {
        Self::connect(address, Connect::new(version)).await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("an open connection");
    }

    pub(crate) async fn lock(&mut self, packet_id: u16, device: &str, value: u8) {
        self.send(&lock(self.version, packet_id, device, value)).await;
    }

    /// The next packet, whole.
    pub(crate) async fn receive(&mut self) -> Vec<u8> {
        timeout(PATIENCE, self.read_packet()).await.expect("in time").expect("a packet, not the end")
    }

    pub(crate) async fn expect(&mut self, bytes: &[u8]) {
        let received = self.receive().await;
        assert_eq!(received, bytes, "{received:x?} is not {bytes:x?}");
    }

    /// Waits for the end: what comes before it.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end too.
        let read = timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await.expect("in time");
        drop(read);
        rest
    }

    /// Waits for the end, after this DISCONNECT if the version has one.
    pub(crate) async fn expect_end(&mut self, code: u8) {
        let expect = if self.version == Version::V5 { vec![0xe0, 2, code, 0] } else { Vec::new() };
        assert_eq!(self.rest().await, expect, "{:?} code {code:x}", self.version);
    }

    async fn read_packet(&mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![self.stream.read_u8().await?];
        let (mut length, mut shift) = (0, 0);
        loop {
            let byte = self.stream.read_u8().await?;
            bytes.push(byte);
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let header = bytes.len();
        bytes.resize(header + length, 0);
        self.stream.read_exact(&mut bytes[header..]).await?;
        Ok(bytes)
    }
}
