//! Appending over REST: a message in each request, and a thousand; with and without a source and an
//! external id.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use super::http::{self, Http};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, MESSAGES, PAYLOAD, ROUNDS, lanes, nats};

const CONNECTIONS: u32 = 64;
const SINGLE: u64 = 64_000;
const BATCH_CONNECTIONS: u32 = 8;
const BATCH: u64 = 1_000;
const BATCHED: u64 = 1_600_000;
/// Of JetStream, which takes many messages on a connection ahead of their acknowledgements.
const NATS_IN_FLIGHT: u64 = 64;

/// Each connection waits for the answer before it sends its next message; all into one stream.
pub(super) async fn one_by_one_beside_nats(report: &mut Report) -> Result<(), Failure> {
    const PEER: &str = "nats_jetstream_published_64x1_no_sync";
    let (server, peer) = (Fieldpost::start().await?, nats::start().await?);
    let address = server.site.http.address().await;
    append(address, Load { connections: CONNECTIONS, in_each: 1, total: SINGLE / 4, is_once: false }).await?;
    let mut beside = Vec::new();
    for _ in 0..ROUNDS {
        let took = nats::publish_all(peer.address, CONNECTIONS, 1, SINGLE).await?;
        beside.push(report.round(PEER, SINGLE, took)?);
    }
    for (name, is_once) in
        [("appended_rest_64x1_1stream", false), ("appended_rest_64x1_1stream_external_ids", true)]
    {
        let mut own = Vec::new();
        for _ in 0..ROUNDS {
            let load = Load { connections: CONNECTIONS, in_each: 1, total: SINGLE, is_once };
            own.push(report.round(name, SINGLE, append(address, load).await?)?);
        }
        report.rate(name, own, Some((PEER, beside.clone())));
    }
    server.stop().await
}

/// A thousand messages in each request, into one stream.
pub(super) async fn in_batches_beside_nats(report: &mut Report) -> Result<(), Failure> {
    const PEER: &str = "nats_jetstream_published_8x64_no_sync";
    let (server, peer) = (Fieldpost::start().await?, nats::start().await?);
    let address = server.site.http.address().await;
    let mut beside = Vec::new();
    for _ in 0..ROUNDS {
        let took = nats::publish_all(peer.address, BATCH_CONNECTIONS, NATS_IN_FLIGHT, BATCHED / 4).await?;
        beside.push(report.round(PEER, BATCHED / 4, took)?);
    }
    // By turns, since a stream that is new is faster for a while.
    let kinds =
        [("appended_rest_8x1000_1stream", false), ("appended_rest_8x1000_1stream_external_ids", true)];
    let mut own = kinds.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((name, is_once), own) in kinds.into_iter().zip(&mut own) {
            let load = Load { connections: BATCH_CONNECTIONS, in_each: BATCH, total: BATCHED, is_once };
            own.push(report.round(name, BATCHED, append(address, load).await?)?);
        }
    }
    for ((name, _), own) in kinds.into_iter().zip(own) {
        report.rate(name, own, Some((PEER, beside.clone())));
    }
    server.stop().await
}

/// A message in each request, in the modes that answer without a sync of their own.
pub(super) async fn in_every_mode(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let address = server.site.http.address().await;
    for mode in ["periodic", "memory"] {
        let settings =
            http::json("PUT", "/v1/streams/bench/one/settings", &format!(r#"{{"save":"{mode}"}}"#));
        Http::open(address).await?.ask(&settings, 204).await?;
        let name = format!("appended_rest_64x1_1stream_{mode}");
        let mut own = Vec::new();
        for _ in 0..ROUNDS {
            let load = Load { connections: CONNECTIONS, in_each: 1, total: SINGLE, is_once: false };
            own.push(report.round(&name, SINGLE, append(address, load).await?)?);
        }
        report.rate(&name, own, None);
    }
    server.stop().await
}

/// How much is appended, and how.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) connections: u32,
    pub(super) in_each: u64,
    pub(super) total: u64,
    /// Each with a source and an external id.
    pub(super) is_once: bool,
}

/// Requests are prepared for at most so many messages, with ids or without. So neither making them
/// nor the processor's cache makes a difference between the two. Larger loads only fill a stream.
const PREPARED_MAX: u64 = 2_000_000;

/// Appends it all; how long that took.
pub(super) async fn append(address: SocketAddr, load: Load) -> Result<Duration, Failure> {
    // Sources of rounds before are others, so that nothing is a duplicate.
    let round = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    let prepared = (0..load.connections).map(|lane| LaneRequests::new(load, format!("p{round}-{lane}")));
    let prepared: Vec<_> = prepared.collect::<Result<_, _>>()?;
    lanes(prepared, |requests| append_lane(address, requests)).await
}

/// The requests of a connection.
struct LaneRequests {
    load: Load,
    source: String,
    /// All of them, or none where they are made as they go.
    prepared: Vec<Vec<u8>>,
}

impl LaneRequests {
    fn new(load: Load, source: String) -> Result<Self, Failure> {
        let mut lane = Self { load, source, prepared: Vec::new() };
        let prepared = if load.total <= PREPARED_MAX { lane.count() } else { 0 };
        lane.prepared = (0..prepared).map(|request| lane.make(request)).collect::<Result<_, _>>()?;
        Ok(lane)
    }

    fn count(&self) -> u64 {
        self.load.total / self.load.in_each / u64::from(self.load.connections)
    }

    fn make(&self, request: u64) -> Result<Vec<u8>, Failure> {
        let of = (&*self.source, request * self.load.in_each);
        let body = body(self.load.in_each, self.load.is_once.then_some(of))?;
        Ok(http::json("POST", MESSAGES, &body))
    }
}

async fn append_lane(address: SocketAddr, lane: LaneRequests) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    for request in 0..lane.count() {
        match lane.prepared.get(request as usize) {
            Some(request) => http.ask(request, 201).await?,
            None => http.ask(&lane.make(request)?, 201).await?,
        };
    }
    Ok(())
}

/// So many messages, of this source from this number on.
fn body(count: u64, of: Option<(&str, u64)>) -> Result<String, Failure> {
    let mut text = String::new();
    for place in 0..count {
        let comma = if place == 0 { "" } else { "," };
        write!(text, r#"{comma}{{"payload":{PAYLOAD}"#)?;
        if let Some((source, first)) = of {
            write!(text, r#","source":"{source}","external_id":{}"#, first + place)?;
        }
        text.push('}');
    }
    Ok(if count == 1 { text } else { format!(r#"{{"messages":[{text}]}}"#) })
}
