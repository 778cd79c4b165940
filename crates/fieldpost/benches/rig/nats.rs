//! NATS JetStream as the peer: a stream in files, published to with many messages under way on each
//! connection.
//!
//! As it comes it acknowledges before it syncs; ours do not. The client is as lean as ours:
//! ready-made packets, and acknowledgements that are counted as they are read.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::peer::Peer;
use super::{Failure, lanes};

const BINARY: &str = "/usr/sbin/nats-server";
const PAYLOAD_BYTES: usize = 100;
const READ_BYTES: usize = 64 * 1_024;

/// Starts one with a stream for the subject `r`.
pub(crate) async fn start() -> Result<Peer, Failure> {
    let config = |port: u16, folder: &std::path::Path| {
        format!(
            "listen: 127.0.0.1:{port}\njetstream {{ store_dir: \"{}\", max_file: 20G }}\n",
            folder.display()
        )
    };
    let peer = Peer::start(BINARY, config).await?;
    let create = br#"{"name":"R","subjects":["r"],"storage":"file"}"#;
    let mut connection = Connection::open(peer.address, 0).await?;
    connection.stream.write_all(&publish("$JS.API.STREAM.CREATE.R", 0, create)).await?;
    connection.acknowledged().await?;
    Ok(peer)
}

/// Publishes `total` messages over some connections, `in_flight` of them unacknowledged on each,
/// and says how long that took.
pub(crate) async fn publish_all(
    address: SocketAddr,
    connections: u32,
    in_flight: u64,
    total: u64,
) -> Result<Duration, Failure> {
    let each = total / u64::from(connections);
    lanes(0..connections, |lane| lane_of(address, lane, in_flight, each)).await
}

async fn lane_of(address: SocketAddr, lane: u32, in_flight: u64, total: u64) -> Result<(), Failure> {
    let mut connection = Connection::open(address, lane).await?;
    let message = publish("r", lane, &[b'x'; PAYLOAD_BYTES]);
    let (mut sent, mut acknowledged) = (0, 0);
    while acknowledged < total {
        let more = (acknowledged + in_flight).min(total) - sent;
        connection.stream.write_all(&message.repeat(more as usize)).await?;
        sent += more;
        acknowledged += connection.acknowledged().await?;
    }
    Ok(())
}

fn publish(subject: &str, lane: u32, payload: &[u8]) -> Vec<u8> {
    let head = format!("PUB {subject} _INBOX.{lane} {}\r\n", payload.len());
    [head.as_bytes(), payload, b"\r\n"].concat()
}

/// A connection that hears its own inbox.
struct Connection {
    stream: TcpStream,
    /// Read, and not yet understood.
    read: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr, lane: u32) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let greeting = format!("CONNECT {{\"verbose\":false}}\r\nSUB _INBOX.{lane} 1\r\n");
        stream.write_all(greeting.as_bytes()).await?;
        Ok(Self { stream, read: Vec::with_capacity(2 * READ_BYTES) })
    }

    /// Waits for at least one acknowledgement, and says how many came.
    async fn acknowledged(&mut self) -> Result<u64, Failure> {
        let mut count = 0;
        while count == 0 {
            self.read.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("nats-server closed the connection".into());
            }
            let mut at = 0;
            while let Some((taken, reply)) = next(&self.read[at..])? {
                at += taken;
                match reply {
                    NatsReply::Acknowledged => count += 1,
                    NatsReply::Ping => self.stream.write_all(b"PONG\r\n").await?,
                    NatsReply::Other => {}
                }
            }
            self.read.drain(..at);
        }
        Ok(count)
    }
}

enum NatsReply {
    Acknowledged,
    Ping,
    Other,
}

/// The first thing that was said, if all of it is there, and how long it is.
fn next(read: &[u8]) -> Result<Option<(usize, NatsReply)>, Failure> {
    let Some(end) = read.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let (line, head) = (std::str::from_utf8(&read[..end])?, end + 2);
    match line.split_ascii_whitespace().next() {
        Some("MSG") => {
            let bytes: usize = line.rsplit(' ').next().unwrap_or_default().parse()?;
            let Some(body) = read.get(head..head + bytes + 2) else { return Ok(None) };
            if body.windows(7).any(|part| part == b"\"error\"") {
                return Err(format!("nats-server refused: {}", String::from_utf8_lossy(body)).into());
            }
            Ok(Some((head + bytes + 2, NatsReply::Acknowledged)))
        }
        Some("PING") => Ok(Some((head, NatsReply::Ping))),
        Some("-ERR") => Err(format!("nats-server says {line}").into()),
        _ => Ok(Some((head, NatsReply::Other))),
    }
}
