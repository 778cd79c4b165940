//! Calls that announce much and send little, as no client library would: in frames of HTTP/2 that
//! are written here.

use grpc::proto::NewJob;
use grpc::proto::new_job::Payload;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::grpc::access::Guarded;
use crate::grpc::rig::{PATIENCE, Rig, publish};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A connection that speaks in frames.
struct Frames(TcpStream);

impl Frames {
    async fn open(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("sent");
        Self(stream)
    }

    /// Begins a call: its request has a head and this much of its body, and no end.
    async fn begin(&mut self, stream: u32, path: &str, body: &[u8]) {
        // POST and http by their index, then literals: path, authority, content-type, te.
        let mut head = vec![0x83, 0x86];
        let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        for (name, value) in [
            (vec![0x04], path),
            (vec![0x01], "localhost"),
            (vec![0x0f, 0x10], "application/grpc"),
            ([&[0], &*literal("te")].concat(), "trailers"),
        ] {
            head.extend(name);
            head.extend(literal(value));
        }
        self.send(HEADERS, END_HEADERS, stream, &head).await;
        self.send(DATA, 0, stream, body).await;
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
        let frame = [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.0.write_all(&frame).await.expect("the connection is open");
    }

    /// Reads until so many calls are answered and over.
    async fn until_ended(&mut self, calls: usize) {
        let mut ended = 0;
        while ended < calls {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.expect("a frame");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.0.read_exact(&mut payload).await.expect("all of it");
            ended += usize::from(head[3] == HEADERS && head[4] & END_STREAM != 0);
        }
    }
}

/// The beginning of a message of this size.
fn announced(bytes: u32, sent: usize) -> Vec<u8> {
    [&[0], &bytes.to_be_bytes()[..], &vec![0; sent]].concat()
}

#[tokio::test]
async fn health_is_told_to_anybody_and_takes_little() {
    const CALLS: u32 = 100;
    let server = Guarded::start().await;
    let mut frames = Frames::open(&server.address()).await;
    for call in 0..CALLS {
        let path = ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"][call as usize % 2];
        frames.begin(1 + 2 * call, path, &announced(256 * 1_024, 15)).await;
    }
    // What says that it is large is refused by its head, and beyond 16 at a time by its place.
    timeout(PATIENCE, frames.until_ended(CALLS as usize)).await.expect("none is held");
    let mut frames = Frames::open(&server.address()).await;
    for call in 0..CALLS {
        frames.begin(1 + 2 * call, "/grpc.health.v1.Health/Check", &announced(300, 15)).await;
    }
    timeout(PATIENCE, frames.until_ended(CALLS as usize - 16)).await.expect("16 wait for their message");
    let health = HealthClient::new(server.channel().await).check(HealthCheckRequest::default()).await;
    assert!(health.is_ok(), "another connection has a share of its own");
}

#[tokio::test]
async fn messages_that_are_only_announced_hold_up_nobody() {
    let rig = Rig::start().await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut frames = Frames::open(&rig.address()).await;
        for call in 0..16 {
            frames.begin(1 + 2 * call, "/fieldpost.v1.Jobs/Publish", &announced(16 << 20, 10)).await;
        }
        held.push(frames);
    }
    let text = format!("\"{}\"", "x".repeat(300 * 1_024));
    let job = NewJob { payload: Some(Payload::Json(text.into())), ..NewJob::default() };
    let mut jobs = rig.jobs().await;
    let published = timeout(PATIENCE, jobs.publish(publish(vec![job]))).await.expect("nobody is in the way");
    assert_eq!(published.expect("published").into_inner().jobs.len(), 1);
    drop(held);
}
