//! Calls that announce much and send little, or ask for much and take nothing. No client library
//! would do that, so their frames of HTTP/2 are written here.

use std::net::SocketAddr;

use grpc::proto::jobs_client::JobsClient;
use grpc::proto::new_job::Payload;
use grpc::proto::work_request::Acks;
use grpc::proto::{NewJob, PublishRequest, WorkRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::grpc::access::Guarded;
use crate::grpc::rig::{NS, PATIENCE, QUEUE, Rig, Worker, consume, consuming, numbered, publish, refused};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const INITIAL_WINDOW_SIZE: u16 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A connection that speaks in frames.
struct Frames(TcpStream);

/// What may be sent before it is read, in bytes: of a call, and of all calls of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Windows {
    of_call: u32,
    of_connection: u32,
}

impl Frames {
    async fn open(address: &str) -> Self {
        Self::begun(TcpStream::connect(address).await.expect("it listens")).await
    }

    /// One that comes from this host.
    async fn open_from(host: u8, address: &str) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("an address of this machine");
        let address = address.parse().expect("an address");
        Self::begun(socket.connect(address).await.expect("it listens")).await
    }

    async fn begun(mut stream: TcpStream) -> Self {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("sent");
        Self(stream)
    }

    /// One that takes nothing of any answer but its head.
    async fn open_shut(address: &str) -> Self {
        let mut frames = Self(TcpStream::connect(address).await.expect("it listens"));
        frames.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
        let [high, low] = INITIAL_WINDOW_SIZE.to_be_bytes();
        frames.send(SETTINGS, 0, 0, &[high, low, 0, 0, 0, 0]).await;
        frames
    }

    /// Begins a call: its request has a head and this much of its body, and no end.
    async fn begin(&mut self, stream: u32, path: &str, body: &[u8]) {
        self.request(stream, path, body, 0).await;
    }

    /// Makes a call with this message.
    async fn call(&mut self, stream: u32, path: &str, message: &[u8]) {
        let head = [&[0], &(message.len() as u32).to_be_bytes()[..]].concat();
        self.request(stream, path, &[&head[..], message].concat(), END_STREAM).await;
    }

    async fn request(&mut self, stream: u32, path: &str, body: &[u8], end: u8) {
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
        self.send(DATA, end, stream, body).await;
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
        let frame = [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.0.write_all(&frame).await.expect("the connection is open");
    }

    /// The next frame: what it begins with, and its payload.
    async fn frame(&mut self) -> ([u8; 9], Vec<u8>) {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.0.read_exact(&mut payload).await.expect("all of it");
        (head, payload)
    }

    /// Reads until so many calls are answered and over.
    async fn until_ended(&mut self, calls: usize) {
        let mut ended = 0;
        while ended < calls {
            let (head, _) = self.frame().await;
            ended += usize::from(head[3] == HEADERS && head[4] & END_STREAM != 0);
        }
    }

    /// What the server lets this connection send, as it says before any call.
    async fn windows(&mut self) -> Windows {
        /// That of a connection before the server says more, and of a call too.
        const AT_FIRST: u32 = 65_535;
        let mut windows = Windows { of_call: AT_FIRST, of_connection: AT_FIRST };
        while windows.of_connection == AT_FIRST {
            let (head, payload) = timeout(PATIENCE, self.frame()).await.expect("it says so at once");
            if head[3] == SETTINGS {
                let of_call =
                    payload.chunks(6).find(|setting| setting[..2] == INITIAL_WINDOW_SIZE.to_be_bytes());
                windows.of_call = of_call.map_or(windows.of_call, |setting| number(&setting[2..]));
            }
            if head[3] == WINDOW_UPDATE {
                windows.of_connection += number(&payload);
            }
        }
        windows
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
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
async fn a_call_without_a_token_is_refused_before_any_of_its_message_is_there() {
    const PATHS: [&str; 12] = [
        "/fieldpost.v1.Jobs/Work",
        "/fieldpost.v1.Jobs/Publish",
        "/fieldpost.v1.Reports/Send",
        "/fieldpost.v1.Commands/Send",
        "/fieldpost.v1.Rollouts/Create",
        "/fieldpost.v1.Rollouts/Watch",
        "/fieldpost.v1.Tasks/Run",
        "/fieldpost.v1.Streams/Append",
        "/fieldpost.v1.Streams/Commit",
        "/fieldpost.v1.Coordination/Pipeline",
        "/fieldpost.v1.Coordination/Listen",
        "/fieldpost.v1.Coordination/PutCached",
    ];
    let server = Guarded::start().await;
    let mut frames = Frames::open(&server.address()).await;
    for (call, path) in (0..).zip(PATHS) {
        frames.begin(1 + 2 * call, path, &announced(16 << 20, 15)).await;
    }
    let ended = timeout(PATIENCE, frames.until_ended(PATHS.len())).await;
    assert!(ended.is_ok(), "none waits for its message");
}

#[tokio::test]
async fn what_calls_send_before_it_is_read_is_bounded_for_all_connections() {
    const CALLS: u32 = 256;
    let windows = |of_call: u32| Windows { of_call, of_connection: CALLS * of_call };
    let (wide, narrow) = (windows(64 * 1_024), windows(4 * 1_024));
    let rig = Rig::start().await;
    let mut held = Vec::new();
    // An address has eight wide ones, and all of them have sixteen.
    for (host, of_host) in [(1, 8), (2, 8), (3, 0)] {
        for connection in 0..=of_host {
            let mut frames = Frames::open_from(host, &rig.address()).await;
            let expect = if connection < of_host { wide } else { narrow };
            assert_eq!(frames.windows().await, expect, "{host} {connection}");
            held.push(frames);
        }
    }
    drop(held.swap_remove(0));
    let given_again = async { while Frames::open_from(3, &rig.address()).await.windows().await != wide {} };
    timeout(PATIENCE, given_again).await.expect("one of them is gone");
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

const HELD: &str = "fieldpost_grpc_answer_held_bytes";
const MIB: u64 = 1_024 * 1_024;

/// A job that makes an answer of a MiB, with what stands beside it.
fn heavy() -> NewJob {
    let text = format!("\"{}\"", "x".repeat(MIB as usize - 1_000));
    NewJob { payload: Some(Payload::Json(text.into())), ..NewJob::default() }
}

/// Fields of a message, each of them a short text.
fn fields(texts: &[(u8, &str)]) -> Vec<u8> {
    let field = |(tag, text): &(u8, &str)| [&[(*tag << 3) | 2, text.len() as u8], text.as_bytes()].concat();
    texts.iter().flat_map(field).collect()
}

#[tokio::test]
async fn answers_that_nobody_takes_have_a_share_of_memory_and_jobs_go_back_for_want_of_it() {
    const CALLS: usize = 200;
    const SHARE: usize = 128;
    /// Enough that refused answers would pass the bound on memory if they were kept.
    const MORE: usize = 130;
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let published = jobs.publish(publish(vec![heavy()])).await.expect("published").into_inner();
    let message = fields(&[(1, NS), (2, QUEUE), (3, &published.jobs[0].id)]);
    let resident_at_first = rig.metric("fieldpost_process_resident_memory_bytes").await;
    let mut callers = Vec::new();
    for (calls, refused) in [(CALLS, CALLS - SHARE), (MORE, MORE), (MORE, MORE), (MORE, MORE)] {
        let mut frames = Frames::open_shut(&rig.address()).await;
        for call in 0..calls as u32 {
            frames.call(1 + 2 * call, "/fieldpost.v1.Jobs/Get", &message).await;
        }
        timeout(PATIENCE, frames.until_ended(refused)).await.expect("all but those of a share");
        callers.push(frames);
    }
    rig.until_metric(HELD, SHARE as u64 * MIB).await;
    let grown = rig.metric("fieldpost_process_resident_memory_bytes").await.saturating_sub(resident_at_first);
    assert!(grown < 512 * MIB, "{} MiB", grown / MIB);
    let busy = (Code::Unavailable, "busy".to_owned());
    assert_eq!(refused(jobs.consume(consuming(&[QUEUE])).await), busy);
    rig.until_figure("ready", 1).await;

    // What is small needs no memory, and a stream is heard while it waits for some.
    let small = PublishRequest { queue: "small".to_owned(), ..publish(vec![numbered(0)]) };
    jobs.publish(small).await.expect("published");
    let mut worker = Worker::open(&mut jobs, &["small", QUEUE], 1).await;
    let got = worker.jobs(1).await;
    let reservations = vec![got[0].reservation.clone()];
    let acks = vec![Acks { queue: "small".to_owned(), reservations }];
    worker.say(WorkRequest { acks, credits: 1, ..WorkRequest::default() }).await;
    assert!(worker.until_acked(1).await.iter().all(|heard| heard.jobs.is_empty()), "there is no memory");
    drop(callers);
    let late = worker.jobs(1).await;
    assert_eq!((late[0].queue.as_str(), late[0].attempt), (QUEUE, 1));
    rig.until_metric(HELD, 0).await;
}

#[tokio::test]
async fn jobs_in_answers_that_nobody_takes_are_counted_and_come_back() {
    const JOBS: u64 = 16;
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for _ in 0..2 {
        jobs.publish(publish((0..JOBS / 2).map(|_| heavy()).collect())).await.expect("published");
    }
    let mut frames = Frames::open_shut(&rig.address()).await;
    for call in 0..JOBS as u32 {
        frames.call(1 + 2 * call, "/fieldpost.v1.Jobs/Consume", &fields(&[(1, NS), (2, QUEUE)])).await;
    }
    rig.until_metric(HELD, JOBS * MIB).await;
    assert_eq!(rig.figure(QUEUE, "reserved").await, JOBS);
    drop(frames);
    rig.until_figure("ready", JOBS).await;
    rig.until_metric(HELD, 0).await;
    let again = consume(&mut jobs, 1).await;
    assert_eq!(again.iter().map(|job| job.attempt).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn jobs_of_a_stream_are_counted_until_they_are_sent() {
    const JOBS: u32 = 4;
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    jobs.publish(publish((0..JOBS).map(|_| heavy()).collect())).await.expect("published");
    let mut narrow = JobsClient::new(rig.narrow_channel().await);
    let mut worker = Worker::open(&mut narrow, &[QUEUE], JOBS).await;
    // It has begun to take the first.
    rig.until_metric(HELD, u64::from(JOBS) * MIB).await;
    assert_eq!(worker.jobs(JOBS as usize).await.len(), JOBS as usize);
    rig.until_metric(HELD, 0).await;
}
