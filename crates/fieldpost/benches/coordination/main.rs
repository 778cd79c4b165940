//! `make bench`: locks, limits and the cache over gRPC beside Redis, in the same run, and messages
//! of a channel to many listeners.
//!
//! Redis syncs its log after each write where the lock is durable (`appendfsync always`), and keeps
//! nothing where it is not. `cargo bench --bench coordination -- lock cache` runs those two parts
//! alone.
//!
//! This is no regression test: figures of a shared machine differ from run to run.

#[path = "../rig.rs"]
mod rig;

mod calls;
mod pipeline;
mod redis;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use calls::GrpcConnection;
use rig::http::{self, Http};
use rig::parts::{self, Parts};
use rig::report::Report;
use rig::{Failure, lanes, peer, protobuf, replies, site};
use simulator::latency::Latency;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const ROUNDS: usize = 3;
const CONNECTIONS: u64 = 64;
/// Questions under way on a connection to the cache.
const IN_FLIGHT: u64 = 64;
/// Of a round.
const LOCKS: u64 = 40_000;
const LIMITS: u64 = 100_000;
const SINGLE_GETS: u64 = 200_000;
const GETS: u64 = 2_000_000;
/// Keys that are asked for by turns.
const KEYS: u64 = 1_000;
const VALUE_BYTES: usize = 100;
const LISTENERS: usize = 1_000;
const MESSAGES: usize = 200;
const MESSAGE_EVERY: Duration = Duration::from_millis(100);

fn main() -> Result<(), Failure> {
    parts::run(Builder::new_current_thread(), &["lock", "limit", "cache", "channel"], measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    if parts.has("lock") {
        locks(report).await?;
    }
    if parts.has("limit") {
        limits(report).await?;
    }
    if parts.has("cache") {
        cache(report).await?;
    }
    if parts.has("channel") {
        channel(report).await?;
    }
    Ok(())
}

/// Each connection holds and lets go its own lock, one pair after the other: over a pipeline, and
/// in calls of their own.
async fn locks(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "lock_release_64x1_grpc_pipeline";
    const SINGLE: &str = "lock_release_64x1_grpc";
    const PEER: &str = "redis_lock_release_64x1_aof_always";
    let (own, peer) = (site::Fieldpost::start().await?, redis::start(true).await?);
    let address = own.grpc()?;
    let (mut rates, mut single, mut peers) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let took =
            lanes(0..CONNECTIONS, move |lane| calls::pipelined_locks(address, lane, LOCKS / CONNECTIONS));
        rates.push(report.round(NAME, LOCKS, took.await?)?);
        let took = lanes(0..CONNECTIONS, move |lane| calls::locks(address, lane, LOCKS / CONNECTIONS));
        single.push(report.round(SINGLE, LOCKS, took.await?)?);
        let at = peer.address;
        let took = lanes(0..CONNECTIONS, move |lane| redis::locks(at, lane, LOCKS / CONNECTIONS));
        peers.push(report.round(PEER, LOCKS, took.await?)?);
    }
    report.rate(NAME, rates, Some((PEER, peers.clone())));
    report.rate(SINGLE, single, Some((PEER, peers)));
    own.stop().await
}

/// Asked one after the other on each connection, each connection its own limit: over a pipeline,
/// and in calls of their own.
async fn limits(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "limit_asked_64x1_grpc_pipeline";
    const SINGLE: &str = "limit_asked_64x1_grpc";
    const PEER: &str = "redis_incr_expire_64x1";
    let (own, peer) = (site::Fieldpost::start().await?, redis::start(false).await?);
    let address = own.grpc()?;
    let (mut rates, mut single, mut peers) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let took =
            lanes(0..CONNECTIONS, move |lane| calls::pipelined_limits(address, lane, LIMITS / CONNECTIONS));
        rates.push(report.round(NAME, LIMITS, took.await?)?);
        let took = lanes(0..CONNECTIONS, move |lane| calls::limits(address, lane, LIMITS / CONNECTIONS));
        single.push(report.round(SINGLE, LIMITS, took.await?)?);
        let at = peer.address;
        let took = lanes(0..CONNECTIONS, move |lane| redis::limits(at, lane, LIMITS / CONNECTIONS));
        peers.push(report.round(PEER, LIMITS, took.await?)?);
    }
    report.rate(NAME, rates, Some((PEER, peers.clone())));
    report.rate(SINGLE, single, Some((PEER, peers)));
    own.stop().await
}

/// Values that are there, with so many questions under way on each connection: over a pipeline, in
/// calls of their own, and in one call.
async fn cache(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "cache_get_100b_64x64_grpc_pipeline";
    const SINGLE: &str = "cache_get_100b_64x64_grpc";
    const TOGETHER: &str = "cache_get_100b_64x64_grpc_in_one_call";
    const PEER: &str = "redis_get_100b_64x64";
    let (own, peer) = (site::Fieldpost::start().await?, redis::start(false).await?);
    let (address, at) = (own.grpc()?, peer.address);
    let mut putting = GrpcConnection::open(address).await?;
    for key in 0..KEYS {
        putting.put(key, &[b'x'; VALUE_BYTES]).await?;
    }
    redis::put_all(at, KEYS, VALUE_BYTES).await?;
    let values = (KEYS, VALUE_BYTES);
    let [mut rates, mut single, mut together, mut peers] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let total = GETS / CONNECTIONS;
        let took = lanes(0..CONNECTIONS, move |_| calls::pipelined_gets(address, values, IN_FLIGHT, total));
        rates.push(report.round(NAME, GETS, took.await?)?);
        let total = SINGLE_GETS / CONNECTIONS;
        let took = lanes(0..CONNECTIONS, move |_| calls::gets(address, values, (IN_FLIGHT, 1), total));
        single.push(report.round(SINGLE, SINGLE_GETS, took.await?)?);
        let total = GETS / CONNECTIONS / IN_FLIGHT;
        let took = lanes(0..CONNECTIONS, move |_| calls::gets(address, values, (1, IN_FLIGHT), total));
        together.push(report.round(TOGETHER, total * IN_FLIGHT * CONNECTIONS, took.await?)?);
        let total = GETS / CONNECTIONS;
        let took = lanes(0..CONNECTIONS, move |_| redis::gets(at, values, IN_FLIGHT, total));
        peers.push(report.round(PEER, GETS, took.await?)?);
    }
    report.rate(NAME, rates, Some((PEER, peers.clone())));
    report.rate(SINGLE, single, Some((PEER, peers.clone())));
    report.rate(TOGETHER, together, Some((PEER, peers)));
    own.stop().await
}

/// From before a message is published until each of many listeners has read it.
async fn channel(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "channel_message_1000_listeners";
    let own = site::Fieldpost::start().await?;
    let address = own.site.http.address().await;
    let (heard, mut hearing) = mpsc::channel(LISTENERS);
    let mut listeners = JoinSet::new();
    for _ in 0..LISTENERS {
        let stream = listen(address).await?;
        listeners.spawn(hear(stream, heard.clone()));
    }
    let mut http = Http::open(address).await?;
    let publish = http::json("POST", "/v1/channels/bench/news", r#"{"price":17}"#);
    let mut latency = Latency::default();
    let mut ticks = tokio::time::interval(MESSAGE_EVERY);
    for _ in 0..MESSAGES {
        ticks.tick().await;
        let begun = Instant::now();
        http.ask(&publish, 200).await?;
        for _ in 0..LISTENERS {
            let at: Instant = hearing.recv().await.ok_or("no listener is left")?;
            latency.record(at.saturating_duration_since(begun));
        }
    }
    let [p50, p99] = [50.0, 99.0].map(|percent| latency.percentile(percent).as_secs_f64() * 1_000.0);
    report.note(&format!("  {NAME}: p50 {p50:.1} ms, p99 {p99:.1} ms"))?;
    report.figure(&format!("{NAME} p50 / p99"), format!("{p50:.1} / {p99:.1} ms"));
    listeners.shutdown().await;
    own.stop().await
}

/// A listener whose head and first comment were read.
async fn listen(address: SocketAddr) -> Result<TcpStream, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /v1/channels/bench/news HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let (mut read, mut piece) = (Vec::new(), [0; 4_096]);
    while !contains(&read, b": listening") {
        match stream.read(&mut piece).await? {
            0 => return Err("a listener was hung up on".into()),
            length => read.extend_from_slice(&piece[..length]),
        }
    }
    Ok(stream)
}

/// Tells when each message came.
async fn hear(mut stream: TcpStream, heard: mpsc::Sender<Instant>) -> Result<(), Failure> {
    let mut piece = [0; 4_096];
    loop {
        let length = stream.read(&mut piece).await?;
        if length == 0 {
            return Err("a listener was hung up on".into());
        }
        if contains(&piece[..length], b"event: message") {
            heard.send(Instant::now()).await?;
        }
    }
}

fn contains(read: &[u8], text: &[u8]) -> bool {
    read.windows(text.len()).any(|window| window == text)
}
