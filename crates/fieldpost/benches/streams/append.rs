//! Appending over REST: a message in each request, and a thousand; with and without a source and an
//! external id.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use super::http::{self, Http};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, MESSAGES, PAYLOAD, ROUNDS, all_lanes, nats};

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
    for (name, is_once) in
        [("appended_rest_8x1000_1stream", false), ("appended_rest_8x1000_1stream_external_ids", true)]
    {
        let mut own = Vec::new();
        for _ in 0..ROUNDS {
            let load = Load { connections: BATCH_CONNECTIONS, in_each: BATCH, total: BATCHED, is_once };
            own.push(report.round(name, BATCHED, append(address, load).await?)?);
        }
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

/// Appends it all; how long that took.
pub(super) async fn append(address: SocketAddr, load: Load) -> Result<Duration, Failure> {
    // Sources of rounds before are others, so that nothing is a duplicate.
    let round = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    all_lanes(load.connections, |lane| append_lane(address, load, format!("p{round}-{lane}"))).await
}

async fn append_lane(address: SocketAddr, load: Load, source: String) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    let requests = load.total / load.in_each / u64::from(load.connections);
    let plain = http::json("POST", MESSAGES, &body(load.in_each, None)?);
    for request in 0..requests {
        if load.is_once {
            let body = body(load.in_each, Some((&source, request * load.in_each)))?;
            http.ask(&http::json("POST", MESSAGES, &body), 201).await?;
        } else {
            http.ask(&plain, 201).await?;
        }
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
