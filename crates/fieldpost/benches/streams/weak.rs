//! What streams take of a weak device: a stream that is far larger than its memory, and many
//! streams that nobody uses.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{interval, sleep};

use super::append::{Load, append};
use super::http::{self, Http};
use super::machine::{ms, resident_kib};
use super::parts::size;
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, MESSAGES, PAYLOAD, all_lanes};

/// A server that takes streams and nothing else, in little memory.
const STREAMS_ALONE: [(&str, &str); 4] = [
    ("FIELDPOST_MQTT__LISTEN", ""),
    ("FIELDPOST_GRPC__LISTEN", ""),
    ("FIELDPOST_STREAMS__MEMORY", "16MB"),
    ("FIELDPOST_STORE__MEMORY", "4MB"),
];
/// Messages in each request while the stream is filled.
const BATCH: u64 = 1_000;
/// How long messages come at their pace, and at which.
const PACED: u32 = 30_000;
const EVERY: Duration = Duration::from_millis(1);
const IDLE_STREAMS: u32 = 10_000;
const CONNECTIONS: u32 = 8;
/// How often it is looked whether they are out of memory: seldom enough to disturb nothing.
const LOOKED_EVERY: Duration = Duration::from_millis(100);

/// Fills one stream, then appends a thousand messages a second, each in a request of its own.
pub(super) async fn stream_larger_than_memory(report: &mut Report) -> Result<(), Failure> {
    let gigabytes: u64 = size("STREAMS_GIGABYTES", 10)?;
    let name = format!("stream_of_{gigabytes}_GB_in_16_MB");
    let server = Fieldpost::start_with(&STREAMS_ALONE).await?;
    let address = server.site.http.address().await;
    let empty = resident_kib(server.process_id()?)?;
    loop {
        let load = Load { connections: CONNECTIONS, in_each: BATCH, total: 4_000_000, is_once: true };
        append(address, load).await?;
        if bytes(address).await? >= gigabytes * 1_000_000_000 {
            break;
        }
    }
    let filled = resident_kib(server.process_id()?)?;
    let (server, took) = server.restart().await?;
    let process = server.process_id()?;
    let started = resident_kib(process)?;
    let mut http = Http::open(server.site.http.address().await).await?;
    let message = http::json("POST", MESSAGES, &format!(r#"{{"payload":{PAYLOAD}}}"#));
    let mut pace = interval(EVERY);
    let begun = Instant::now();
    for _ in 0..PACED {
        pace.tick().await;
        http.ask(&message, 201).await?;
    }
    report.round(&format!("{name}_appended"), PACED.into(), begun.elapsed())?;
    let paced = resident_kib(process)?;
    report.note(&format!(
        "  {name}: RSS {empty} KiB when empty, {filled} when full, {started} after a start, {paced} after messages"
    ))?;
    report.figure(&format!("{name} RSS at 1,000 /s"), format!("{:.1} MiB", paced as f64 / 1_024.0));
    report.figure(&format!("{name} start to ready"), format!("{:.0} ms", ms(took)));
    server.stop().await
}

/// Bytes of the stream's messages, as the server counts them.
async fn bytes(address: SocketAddr) -> Result<u64, Failure> {
    let mut http = Http::open(address).await?;
    let shown = http.ask(&http::request("GET", "/v1/streams/bench/one", &[], ""), 200).await?;
    let shown: Value = serde_json::from_slice(shown)?;
    Ok(shown["bytes"].as_u64().ok_or("no bytes")?)
}

/// Makes many streams of a message each, and waits until none of them is in memory.
pub(super) async fn idle_streams(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let (address, process) = (server.site.http.address().await, server.process_id()?);
    let before = resident_kib(process)?;
    all_lanes(CONNECTIONS, |lane| make_streams(address, lane)).await?;
    let used = resident_kib(process)?;
    let mut asking = Http::open(address).await?;
    let begun = Instant::now();
    while loaded(&mut asking).await? > 0 {
        if begun.elapsed() > Duration::from_secs(300) {
            return Err("streams that nobody uses stay in memory".into());
        }
        sleep(LOOKED_EVERY).await;
    }
    let idle = resident_kib(process)?;
    let each = |now: u64| now.saturating_sub(before) * 1_024 / u64::from(IDLE_STREAMS);
    let name = format!("streams_{IDLE_STREAMS}_idle");
    report.note(&format!("  {name}: {} B each while used, {} B each while idle", each(used), each(idle)))?;
    report.figure(&format!("{name} memory of each"), format!("{} B", each(idle)));
    server.stop().await
}

async fn make_streams(address: SocketAddr, lane: u32) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    for number in (lane..IDLE_STREAMS).step_by(CONNECTIONS as usize) {
        let stream = format!("/v1/streams/bench/idle-{number}");
        http.ask(&http::json("PUT", &format!("{stream}/settings"), r#"{"unload_after":"1s"}"#), 204).await?;
        let message = format!(r#"{{"payload":{PAYLOAD}}}"#);
        http.ask(&http::json("POST", &format!("{stream}/messages"), &message), 201).await?;
    }
    Ok(())
}

/// Streams in memory, as the server counts them.
async fn loaded(asking: &mut Http) -> Result<u32, Failure> {
    let told = asking.ask(&http::request("GET", "/metrics", &[], ""), 200).await?;
    let told = std::str::from_utf8(told)?;
    let line = told.lines().find_map(|line| line.strip_prefix("fieldpost_streams_loaded "));
    Ok(line.ok_or("no such figure")?.parse()?)
}
