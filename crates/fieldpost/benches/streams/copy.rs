//! Copying a stream from one node to another on this machine, durable on both. The streams are a
//! backlog, a large one of once-only messages, and what a weak node gathered in a month without a
//! line.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::interval;

use super::append::{Load, append};
use super::http::{self, Http};
use super::line::Line;
use super::machine::{own_resident_kib, peak_resident_kib, resident_kib};
use super::parts::size;
use super::report::Report;
use super::site::Fieldpost;
use super::weak::STREAMS_ALONE;
use super::{Failure, MESSAGES, PAYLOAD, ROUNDS};

const TOTAL: u64 = 400_000;
const COPY: &str = "/v1/streams/bench/one/copies/all";

/// A backlog that is copied, from the moment at which the copy is made until its last message is
/// durable there.
pub(super) async fn a_backlog(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "copy_to_1stream_100B_sync_both";
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let (one, two) = (Fieldpost::start().await?, Fieldpost::start().await?);
        let address = one.site.http.address().await;
        append(address, Load { connections: 8, in_each: 1_000, total: TOTAL, is_once: false }).await?;
        let start = Instant::now();
        begin_copy(address, &two.url().await).await?;
        until_level(address, TOTAL).await?;
        rates.push(report.round(NAME, TOTAL, start.elapsed())?);
        one.stop().await?;
        two.stop().await?;
    }
    report.rate(NAME, rates, None);
    Ok(())
}

/// Ten million messages with a source and an external id each. Measured are the time from making
/// the copy until its last message is durable there, and the memory of both nodes meanwhile. The
/// one that has them was started anew, so that what it took to take them does not count.
pub(super) async fn catch_up(report: &mut Report) -> Result<(), Failure> {
    let total = size("CATCH_UP_MESSAGES", 10_000_000)?;
    let name = format!("catch_up_{total}_once_only");
    let (one, two) = (Fieldpost::start().await?, Fieldpost::start().await?);
    let address = one.site.http.address().await;
    let empty_one = resident_kib(one.process_id()?)?;
    let empty_two = resident_kib(two.process_id()?)?;
    append(address, Load { connections: 8, in_each: 1_000, total, is_once: true }).await?;
    let filled = resident_kib(one.process_id()?)?;
    let (one, _) = one.restart().await?;
    let address = one.site.http.address().await;
    let (of_one, of_two) = (one.process_id()?, two.process_id()?);
    let started = resident_kib(of_one)?;
    let start = Instant::now();
    begin_copy(address, &two.url().await).await?;
    until_level(address, total).await?;
    let took = start.elapsed();
    report.round(&name, total, took)?;
    let (peak_one, peak_two) = (peak_resident_kib(of_one)?, peak_resident_kib(of_two)?);
    report.note(&format!(
        "  {name}: the source has {empty_one} KiB when empty, {filled} when full, {started} after a start, \
         {peak_one} at most; its peer {empty_two} when empty, {peak_two} at most"
    ))?;
    report.figure(&format!("{name} time"), format!("{:.1} s", took.as_secs_f64()));
    let above = |peak: u64, empty: u64| (peak.saturating_sub(empty) as f64 - STREAMS_KIB) / 1_024.0;
    report.figure(
        &format!("{name} memory above [streams] memory: source, peer"),
        format!("{:.0}, {:.0} MiB", above(peak_one, empty_one), above(peak_two, empty_two)),
    );
    one.stop().await?;
    two.stop().await
}

/// The default of `[streams] memory`, in KiB.
const STREAMS_KIB: f64 = 64e6 / 1_024.0;

/// Thirty days of a message a second, in blocks of a minute each, on a node with little memory
/// whose line is cut. Then the line is back.
pub(super) async fn a_month_without_a_line(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "month_cut_off";
    let days: u64 = size("CUT_OFF_DAYS", 30)?;
    let total = days * 24 * 3_600;
    let (node, peer) = (Fieldpost::start_with(&STREAMS_ALONE).await?, Fieldpost::start().await?);
    let (address, peer_address) = (node.site.http.address().await, peer.site.http.address().await);
    let line = Line::open(peer_address).await?;
    let settings = |text| http::json("PUT", "/v1/streams/bench/one/settings", text);
    Http::open(address).await?.ask(&settings(r#"{"block":{"messages":60}}"#), 204).await?;
    // So that the first message there can be waited for.
    Http::open(peer_address).await?.ask(&settings("{}"), 204).await?;
    begin_copy(address, &line.url()).await?;
    append(address, Load { connections: 1, in_each: 60, total, is_once: false }).await?;
    let (node, _) = node.restart().await?;
    let address = node.site.http.address().await;
    let process = node.process_id()?;
    let begun = one_a_second(address, process).await?;
    let cut = one_a_second(address, process).await?;
    let total = total + 2 * u64::from(PACED_SECONDS);
    let back = Instant::now();
    line.mend();
    let mut http = Http::open(peer_address).await?;
    let first = http::request("GET", &format!("{MESSAGES}?limit=1&wait=60s"), &[], "");
    let first: Value = serde_json::from_slice(http.ask(&first, 200).await?)?;
    if first["items"].as_array().is_none_or(Vec::is_empty) {
        return Err("nothing came within a minute".into());
    }
    let resumed = back.elapsed();
    until_level(address, total).await?;
    let level = back.elapsed();
    let peak = peak_resident_kib(process)?;
    report.note(&format!(
        "  {NAME}: {total} messages; in the minute after a start at most {} KiB, {} its own, in the next one \
         {}, {}; until level {peak}",
        begun.all, begun.own, cut.all, cut.own
    ))?;
    report.figure(
        &format!("{NAME} RSS; its own; until level"),
        format!("{:.1}; {:.1}; {:.1} MiB", mib(cut.all), mib(cut.own), mib(peak)),
    );
    report.figure(&format!("{NAME} resumed after"), format!("{:.1} s", resumed.as_secs_f64()));
    report.figure(&format!("{NAME} level after"), format!("{:.1} s", level.as_secs_f64()));
    node.stop().await?;
    peer.stop().await
}

/// How long messages come one by one, in seconds.
const PACED_SECONDS: u32 = 60;

/// Most that a process had in memory, in KiB.
struct MostResident {
    all: u64,
    own: u64,
}

/// A message a second for a minute, and what the server took of memory at most.
async fn one_a_second(address: SocketAddr, process: u32) -> Result<MostResident, Failure> {
    let mut http = Http::open(address).await?;
    let message = http::json("POST", MESSAGES, &format!(r#"{{"payload":{PAYLOAD}}}"#));
    let mut pace = interval(Duration::from_secs(1));
    let mut most = MostResident { all: 0, own: 0 };
    for _ in 0..PACED_SECONDS {
        pace.tick().await;
        http.ask(&message, 201).await?;
        let now = MostResident { all: resident_kib(process)?, own: own_resident_kib(process)? };
        most = MostResident { all: most.all.max(now.all), own: most.own.max(now.own) };
    }
    Ok(most)
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1_024.0
}

/// Begins to copy the stream to another node.
async fn begin_copy(address: SocketAddr, to: &str) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    let node = format!(r#"{{"url":"{to}"}}"#);
    http.ask(&http::json("PUT", "/v1/nodes/two", &node), 201).await?;
    http.ask(&http::json("PUT", COPY, r#"{"direction":"to","node":"two"}"#), 201).await?;
    Ok(())
}

/// Until all of it is durable on the other node too.
async fn until_level(address: SocketAddr, total: u64) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    let receipt = format!("/v1/streams/bench/one/receipts?id={total}&nodes=2&wait=60s");
    loop {
        let told = http.ask(&http::request("GET", &receipt, &[], ""), 200).await?;
        if serde_json::from_slice::<Value>(told)?["enough"] == true {
            return Ok(());
        }
    }
}
