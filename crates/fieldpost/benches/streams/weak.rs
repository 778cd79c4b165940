//! What streams take of a weak device: a stream that is far larger than its memory, and many
//! streams that nobody uses.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{interval, sleep};

use super::append::{Load, append};
use super::http::{self, Http};
use super::machine::{ms, own_resident_kib, resident_kib};
use super::parts::size;
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, MESSAGES, PAYLOAD, lanes};

/// A server that takes streams and nothing else, in little memory.
pub(super) const STREAMS_ALONE: [(&str, &str); 4] = [
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
const WARM_UP_STREAMS: u32 = 500;
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
    let own = own_resident_kib(process)?;
    let mib = |kib: u64| kib as f64 / 1_024.0;
    report.figure(
        &format!("{name} RSS at 1,000 /s; its own"),
        format!("{:.1}; {:.1} MiB", mib(paced), mib(own)),
    );
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

/// Makes many streams of a message each, and waits until none of them is in memory and a checkpoint
/// has their rows. The server has little memory for tables, so that what is kept of them for speed
/// does not count.
pub(super) async fn idle_streams(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start_with(&STREAMS_ALONE).await?;
    let (address, process) = (server.site.http.address().await, server.process_id()?);
    // So that what the first calls take does not count.
    lanes(0..CONNECTIONS, |lane| make_streams(address, "first", lane..WARM_UP_STREAMS)).await?;
    let before = resident_kib(process)?;
    lanes(0..CONNECTIONS, |lane| make_streams(address, "idle", lane..IDLE_STREAMS)).await?;
    let used = resident_kib(process)?;
    let mut asking = Http::open(address).await?;
    let begun = Instant::now();
    while figure(&mut asking, "fieldpost_streams_loaded").await? > 0.0
        || figure(&mut asking, "fieldpost_store_overlay_records").await? > 0.0
    {
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

async fn make_streams(address: SocketAddr, named: &str, numbers: Range<u32>) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    for number in numbers.step_by(CONNECTIONS as usize) {
        let stream = format!("/v1/streams/bench/{named}-{number}");
        http.ask(&http::json("PUT", &format!("{stream}/settings"), r#"{"unload_after":"1s"}"#), 204).await?;
        let message = format!(r#"{{"payload":{PAYLOAD}}}"#);
        http.ask(&http::json("POST", &format!("{stream}/messages"), &message), 201).await?;
    }
    Ok(())
}

/// A figure of the server.
async fn figure(asking: &mut Http, name: &str) -> Result<f64, Failure> {
    let told = asking.ask(&http::request("GET", "/metrics", &[], ""), 200).await?;
    let told = std::str::from_utf8(told)?;
    let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.ok_or("no such figure")?.parse()?)
}
