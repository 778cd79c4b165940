//! Lean calls of the gRPC service `Coordination`: messages stay bytes, of which only what has to be
//! known is looked at.
//!
//! Field numbers are those of `crates/grpc/proto`. The same calls are made in two ways: each as a
//! call of its own, and over a pipeline. Programs that make thousands a second use a pipeline.

use std::net::SocketAddr;

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

use super::Failure;
use super::pipeline::Pipeline;
use super::protobuf::{AsBytes, put_bytes, put_number};

const NAMESPACE: &[u8] = b"bench";
const OWNER: &[u8] = b"5d0c1f2a9b8e47d6a3c4e5f60718293a";
/// Longer than any round.
const TTL_S: u64 = 3_600;
/// More than a round asks.
const LIMIT: u64 = 1_000_000_000;

/// A connection of one's own.
pub(super) struct GrpcConnection {
    client: Grpc<Channel>,
}

impl GrpcConnection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        Ok(Self { client: Grpc::new(endpoint.connect().await?) })
    }

    async fn call(&mut self, path: &'static str, message: Bytes) -> Result<Bytes, Failure> {
        self.client.ready().await?;
        let path = PathAndQuery::from_static(path);
        Ok(self.client.unary(Request::new(message), path, AsBytes).await?.into_inner())
    }

    pub(super) async fn put(&mut self, key: u64, value: &[u8]) -> Result<(), Failure> {
        let mut message = Vec::new();
        put_bytes(&mut message, 1, NAMESPACE);
        put_bytes(&mut message, 2, format!("key{key}").as_bytes());
        put_bytes(&mut message, 3, value);
        self.call("/fieldpost.v1.Coordination/PutCached", message.into()).await?;
        Ok(())
    }
}

/// An acquire and a release of the lock of a lane.
fn lock_requests(lane: u64) -> (Vec<u8>, Vec<u8>) {
    let mut release = Vec::new();
    put_bytes(&mut release, 1, NAMESPACE);
    put_bytes(&mut release, 2, format!("lock{lane}").as_bytes());
    put_bytes(&mut release, 3, OWNER);
    let mut acquire = release.clone();
    put_bytes(&mut acquire, 4, &seconds(TTL_S));
    (acquire, release)
}

fn limit_request(lane: u64) -> Vec<u8> {
    let mut ask = Vec::new();
    put_bytes(&mut ask, 1, NAMESPACE);
    put_bytes(&mut ask, 2, format!("limit{lane}").as_bytes());
    put_number(&mut ask, 3, LIMIT);
    put_bytes(&mut ask, 4, &seconds(60));
    // As INCR and EXPIRE do it.
    put_number(&mut ask, 6, 1);
    ask
}

/// A request for so many values, of the keys that are asked for by turns.
fn get_request((number, values): (u64, u64), keys: u64) -> Vec<u8> {
    let mut message = Vec::new();
    put_bytes(&mut message, 1, NAMESPACE);
    for key in 0..values {
        put_bytes(&mut message, 2, format!("key{}", (number * values + key) % keys).as_bytes());
    }
    message
}

/// Holds and releases the lock of a lane, again and again.
pub(super) async fn locks(address: SocketAddr, lane: u64, count: u64) -> Result<(), Failure> {
    let mut connection = GrpcConnection::open(address).await?;
    let (acquire, release) = lock_requests(lane);
    let (acquire, release) = (Bytes::from(acquire), Bytes::from(release));
    for _ in 0..count {
        connection.call("/fieldpost.v1.Coordination/AcquireLock", acquire.clone()).await?;
        connection.call("/fieldpost.v1.Coordination/ReleaseLock", release.clone()).await?;
    }
    Ok(())
}

/// Asks the limit of a lane, again and again; it always may.
pub(super) async fn limits(address: SocketAddr, lane: u64, count: u64) -> Result<(), Failure> {
    let mut connection = GrpcConnection::open(address).await?;
    let ask = Bytes::from(limit_request(lane));
    for _ in 0..count {
        let answer = connection.call("/fieldpost.v1.Coordination/AskLimit", ask.clone()).await?;
        if !answer.starts_with(&[1 << 3, 1]) {
            return Err("a limit was reached".into());
        }
    }
    Ok(())
}

/// Makes calls for values that are there, some at a time, for so many values each.
pub(super) async fn gets(
    address: SocketAddr,
    (keys, value_bytes): (u64, usize),
    (in_flight, values): (u64, u64),
    count: u64,
) -> Result<(), Failure> {
    let connection = GrpcConnection::open(address).await?;
    let get = |number: u64| {
        let message = get_request((number, values), keys);
        let mut connection = GrpcConnection { client: connection.client.clone() };
        async move { connection.call("/fieldpost.v1.Coordination/GetCached", message.into()).await }
    };
    let mut asked = in_flight.min(count);
    let mut under_way: FuturesUnordered<_> = (0..asked).map(&get).collect();
    while let Some(answer) = under_way.next().await {
        if answer?.len() < value_bytes * values as usize {
            return Err("a value is not there".into());
        }
        if asked < count {
            under_way.push(get(asked));
            asked += 1;
        }
    }
    Ok(())
}

/// Fields of a `PipelinedCall`, and of its answer.
const ACQUIRE_LOCK: u8 = 2;
const RELEASE_LOCK: u8 = 4;
const ASK_LIMIT: u8 = 6;
const GET_CACHED: u8 = 8;
const HELD_LOCK: u8 = 3;

impl Pipeline {
    /// The answers that come together, each of the kind that is expected; how many.
    async fn answered(&mut self, kind: u8, check: impl Fn(&[u8]) -> bool) -> Result<u64, Failure> {
        let mut message = self.message().await?;
        let mut count = 0;
        while message.has_remaining() {
            let mut answer = read_field(&mut message).ok_or("an answer cannot be read")?.1;
            // Its number; the answer itself.
            read_varint(&mut answer, 1).ok_or("an answer has no number")?;
            match read_field(&mut answer) {
                Some((found, answer)) if found == kind && check(answer) => count += 1,
                _ => return Err("a call was refused".into()),
            }
        }
        Ok(count)
    }

    /// One call, and its answer.
    async fn ask(&mut self, call: &[u8], kind: u8, check: impl Fn(&[u8]) -> bool) -> Result<(), Failure> {
        self.send(call).await?;
        self.answered(kind, check).await.map(drop)
    }
}

/// A call in a message.
fn put_call(message: &mut Vec<u8>, id: u64, kind: u8, request: &[u8]) {
    let mut call = Vec::with_capacity(request.len() + 16);
    put_number(&mut call, 1, id);
    put_bytes(&mut call, kind, request);
    put_bytes(message, 1, &call);
}

fn one_call(kind: u8, request: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    put_call(&mut message, 1, kind, request);
    message
}

/// [`locks`], over a pipeline.
pub(super) async fn pipelined_locks(address: SocketAddr, lane: u64, count: u64) -> Result<(), Failure> {
    let mut pipeline = Pipeline::open(address).await?;
    let (acquire, release) = lock_requests(lane);
    let (acquire, release) = (one_call(ACQUIRE_LOCK, &acquire), one_call(RELEASE_LOCK, &release));
    for _ in 0..count {
        pipeline.ask(&acquire, HELD_LOCK, |_| true).await?;
        pipeline.ask(&release, RELEASE_LOCK, |_| true).await?;
    }
    Ok(())
}

/// [`limits`], over a pipeline.
pub(super) async fn pipelined_limits(address: SocketAddr, lane: u64, count: u64) -> Result<(), Failure> {
    let mut pipeline = Pipeline::open(address).await?;
    let ask = one_call(ASK_LIMIT, &limit_request(lane));
    for _ in 0..count {
        pipeline.ask(&ask, ASK_LIMIT, |answer| answer.starts_with(&[1 << 3, 1])).await?;
    }
    Ok(())
}

/// Asks for values that are there over a pipeline, with some calls under way: as many as were
/// answered are sent together.
pub(super) async fn pipelined_gets(
    address: SocketAddr,
    (keys, value_bytes): (u64, usize),
    in_flight: u64,
    count: u64,
) -> Result<(), Failure> {
    let mut pipeline = Pipeline::open(address).await?;
    let (mut asked, mut answered) = (0, 0);
    while answered < count {
        let more = (count - asked).min(in_flight - (asked - answered));
        if more > 0 {
            let mut message = Vec::new();
            for number in asked..asked + more {
                put_call(&mut message, number, GET_CACHED, &get_request((number, 1), keys));
            }
            pipeline.send(&message).await?;
            asked += more;
        }
        answered += pipeline.answered(GET_CACHED, |answer| answer.len() >= value_bytes).await?;
    }
    Ok(())
}

fn read_field<'a>(message: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let tag = message.try_get_u8().ok()?;
    let bytes = read_length(message)?;
    if tag & 7 != 2 {
        return None;
    }
    message.split_off(..bytes).map(|field| (tag >> 3, field))
}

fn read_varint(message: &mut &[u8], field: u8) -> Option<usize> {
    // A number that is 0 is left out.
    if message.first() != Some(&(field << 3)) {
        return Some(0);
    }
    message.advance(1);
    read_length(message)
}

fn read_length(message: &mut &[u8]) -> Option<usize> {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = message.try_get_u8().ok()?;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(length);
        }
        shift += 7;
    }
}

/// A `google.protobuf.Duration`.
fn seconds(seconds: u64) -> Vec<u8> {
    let mut message = Vec::new();
    put_number(&mut message, 1, seconds);
    message
}
