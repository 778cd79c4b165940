//! `make bench`: what the agent `fieldpost spool` takes of a machine, and how much it accepts.
//!
//! The server is away, so that all work is the agent's own; every answer is given after a sync. The
//! part `forward` brings the server back and measures how fast the agent is empty again.
//! `cargo bench --bench spool -- idle accept` runs those two parts alone.
//!
//! This is no regression test: figures of a shared machine differ from run to run.

#[path = "../rig.rs"]
mod rig;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use rig::http::{self, Http};
use rig::parts::{self, Parts};
use rig::report::Report;
use rig::{Failure, lanes, machine, site};
use simulator::spool::{RunningSpool, SpoolSite};
use tokio::runtime::Builder;

const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: usize = 3;
const CONNECTIONS: u64 = 8;
/// Requests of a round, with one message each and with many.
const SINGLE: u64 = 40_000;
const BATCHED: u64 = 800_000;
const BATCH: u64 = 100;
/// Messages that are forwarded.
const FORWARDED: u64 = 200_000;

/// Nobody is there.
const NOBODY: &str = "http://127.0.0.1:9";
const MESSAGES: &str = "/v1/streams/bench/one/messages";
/// A message with a payload of 100 bytes.
const MESSAGE: &str = r#"{"payload":"what a message of a stream carries: a hundred bytes of JSON text, counted with both of its quotes."}"#;

fn main() -> Result<(), Failure> {
    parts::run(Builder::new_current_thread(), &["idle", "accept", "forward"], measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    if parts.has("idle") {
        idle(report).await?;
    }
    if parts.has("accept") {
        accept(report, "spooled_8x1_away", SINGLE, 1).await?;
        accept(report, "spooled_8x100_away", BATCHED, BATCH).await?;
    }
    if parts.has("forward") {
        forward(report).await?;
    }
    Ok(())
}

async fn start(to: &str) -> Result<(SpoolSite, RunningSpool), Failure> {
    let binary = Path::new(env!("CARGO_BIN_EXE_fieldpost"));
    let site = SpoolSite::new(binary, to, &["--max-bytes", "4GB"])?;
    let agent = site.start(PATIENCE).await?;
    Ok((site, agent))
}

/// Resident memory once it listens, and with a backlog.
async fn idle(report: &mut Report) -> Result<(), Failure> {
    let (site, agent) = start(NOBODY).await?;
    let fresh = machine::resident_kib(agent.process_id().ok_or("the agent has ended")?)?;
    send(site.http.address().await, 100_000, BATCH).await?;
    let waiting = machine::resident_kib(agent.process_id().ok_or("the agent has ended")?)?;
    report.note(&format!("  spool_idle: {fresh} KiB, with 100,000 waiting {waiting} KiB"))?;
    report.figure("spool_idle memory", format!("{:.1} MiB", fresh as f64 / 1_024.0));
    report.figure("spool_100k_waiting memory", format!("{:.1} MiB", waiting as f64 / 1_024.0));
    Ok(agent.kill().await?)
}

async fn accept(report: &mut Report, name: &str, total: u64, in_each: u64) -> Result<(), Failure> {
    let (site, agent) = start(NOBODY).await?;
    let address = site.http.address().await;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(report.round(name, total, send(address, total, in_each).await?)?);
    }
    report.rate(name, rounds, None);
    Ok(agent.kill().await?)
}

/// The server comes back to a backlog.
async fn forward(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "spool_forwarded_1stream";
    let server = site::Fieldpost::start().await?;
    let url = server.url().await;
    let (away, agent) = start(NOBODY).await?;
    send(away.http.address().await, FORWARDED, BATCH).await?;
    agent.kill().await?;
    let mut away = away;
    away.flag("--to", &url);
    let begun = Instant::now();
    let agent = away.start(PATIENCE).await?;
    let mut http = Http::open(away.http.address().await).await?;
    let state = http::request("GET", "/v1/spool", &[], "");
    loop {
        let told: serde_json::Value = serde_json::from_slice(http.ask(&state, 200).await?)?;
        if told["waiting"] == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rate = report.round(NAME, FORWARDED, begun.elapsed())?;
    report.rate(NAME, vec![rate], None);
    agent.kill().await?;
    server.stop().await
}

/// Sends it all, each connection one request at a time; how long that took.
async fn send(address: SocketAddr, total: u64, in_each: u64) -> Result<Duration, Failure> {
    let body = match in_each {
        1 => MESSAGE.to_owned(),
        _ => format!("{{\"messages\":[{}]}}", vec![MESSAGE; in_each as usize].join(",")),
    };
    let request = http::json("POST", MESSAGES, &body);
    let each = total / in_each / CONNECTIONS;
    lanes(0..CONNECTIONS, |_| send_lane(address, request.clone(), each)).await
}

async fn send_lane(address: SocketAddr, request: Vec<u8>, count: u64) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    for _ in 0..count {
        http.ask(&request, 202).await?;
    }
    Ok(())
}
