//! Lean calls of the gRPC service `Coordination`: messages stay bytes, of which only what has to be
//! known is looked at.
//!
//! Field numbers are those of `crates/grpc/proto`.

use std::net::SocketAddr;

use bytes::{Buf, BufMut, Bytes};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::Failure;

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

/// Holds and releases the lock of a lane, again and again.
pub(super) async fn locks(address: SocketAddr, lane: u64, count: u64) -> Result<(), Failure> {
    let mut connection = GrpcConnection::open(address).await?;
    let mut release = Vec::new();
    put_bytes(&mut release, 1, NAMESPACE);
    put_bytes(&mut release, 2, format!("lock{lane}").as_bytes());
    put_bytes(&mut release, 3, OWNER);
    let mut acquire = release.clone();
    put_bytes(&mut acquire, 4, &seconds(TTL_S));
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
    let mut ask = Vec::new();
    put_bytes(&mut ask, 1, NAMESPACE);
    put_bytes(&mut ask, 2, format!("limit{lane}").as_bytes());
    put_number(&mut ask, 3, LIMIT);
    put_bytes(&mut ask, 4, &seconds(60));
    // As INCR and EXPIRE do it.
    put_number(&mut ask, 6, 1);
    let ask = Bytes::from(ask);
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
        let mut message = Vec::new();
        put_bytes(&mut message, 1, NAMESPACE);
        for key in 0..values {
            put_bytes(&mut message, 2, format!("key{}", (number * values + key) % keys).as_bytes());
        }
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

/// A `google.protobuf.Duration`.
fn seconds(seconds: u64) -> Vec<u8> {
    let mut message = Vec::new();
    put_number(&mut message, 1, seconds);
    message
}

fn put_number(out: &mut Vec<u8>, field: u8, number: u64) {
    out.push(field << 3);
    put_varint(out, number);
}

fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Messages as they are.
#[derive(Clone, Copy)]
struct AsBytes;

impl Codec for AsBytes {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for AsBytes {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for AsBytes {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, read: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(read.copy_to_bytes(read.remaining())))
    }
}
