//! How late delayed jobs come: from the moment that they were published for until a worker has them
//! in its hands.
//!
//! Jobs carry their time. Each is acknowledged, so that leases and acknowledgements load the server
//! too.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::Timestamp;
use simulator::latency::Latency;
use tokio::task::JoinSet;

use super::http::{self, Http};
use super::machine::ms;
use super::report::Report;
use super::site::Fieldpost;
use super::work_stream::WorkStream;
use super::{Failure, PAYLOAD};

const DUE_PER_S: u64 = 5_000;
const SECONDS: u64 = 10;
/// Time to publish them all before the first is due.
const AHEAD: Duration = Duration::from_secs(4);
const CREDITS: u64 = 4_096;
const IN_EACH_CALL: u64 = 1_000;
/// Digits of a time in milliseconds, for some centuries to come.
const DIGITS: usize = 13;

/// Jobs of one queue and one worker, then spread over eight of each.
pub(super) async fn of_delayed_jobs(report: &mut Report) -> Result<(), Failure> {
    for queues in [1, 8] {
        let server = Fieldpost::start().await?;
        let lateness = measure(&server, queues).await?;
        server.stop().await?;
        let name = format!("lateness_{DUE_PER_S}due_per_s_grpc_work_{queues}queues");
        report.note(&format!("  {name}: of {} jobs {lateness}", lateness.count()))?;
        let [p50, p99] = [50.0, 99.0].map(|percent| ms(lateness.percentile(percent)));
        report.figure(&format!("{name} p50 / p99"), format!("{p50:.2} / {p99:.2} ms"));
    }
    Ok(())
}

async fn measure(server: &Fieldpost, queues: u64) -> Result<Latency, Failure> {
    let (rest, grpc) = (server.site.http.address().await, server.grpc()?);
    let share = DUE_PER_S * SECONDS / queues;
    let mut workers = JoinSet::new();
    for queue in 0..queues {
        workers.spawn(work(grpc, queue, share));
    }
    let first_us = (since_epoch()? + AHEAD).as_micros() as u64;
    publish(rest, queues, first_us).await?;
    if since_epoch()?.as_micros() as u64 > first_us {
        return Err("the jobs could not be published before the first was due".into());
    }
    let mut lateness = Latency::default();
    while let Some(worker) = workers.join_next().await {
        lateness.merge(&worker??);
    }
    Ok(lateness)
}

/// Publishes each at the millisecond at which it is due; a queue has every so manieth.
async fn publish(address: SocketAddr, queues: u64, first_us: u64) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    let due_ms = |number: u64| (first_us + number * 1_000_000 / DUE_PER_S) / 1_000;
    for queue in 0..queues {
        let numbers: Vec<u64> = (queue..DUE_PER_S * SECONDS).step_by(queues as usize).collect();
        for numbers in numbers.chunks(IN_EACH_CALL as usize) {
            let jobs: Vec<String> = numbers.iter().map(|number| job(due_ms(*number))).collect();
            let body = format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
            http.ask(&http::json("POST", &format!("/v1/queues/bench/{queue}/jobs"), &body), 201).await?;
        }
    }
    Ok(())
}

/// A job whose payload begins with its time.
fn job(due_ms: u64) -> String {
    let rest = &PAYLOAD[1 + DIGITS..];
    format!(r#"{{"payload":"{due_ms:013}{rest},"run_at":"{}"}}"#, Timestamp(due_ms as i64))
}

async fn work(address: SocketAddr, queue: u64, total: u64) -> Result<Latency, Failure> {
    let mut stream = WorkStream::open(address, &queue.to_string(), CREDITS).await?;
    let mut lateness = Latency::default();
    while lateness.count() < total {
        let heard = stream.hear().await?;
        let now = since_epoch()?;
        for job in &heard.jobs {
            let digits = job.payload.get(1..=DIGITS).ok_or("a payload without a time")?;
            let due = Duration::from_millis(std::str::from_utf8(digits)?.parse()?);
            let late = now.checked_sub(due).ok_or("a job came before its time")?;
            lateness.record(late);
        }
        if !heard.jobs.is_empty() {
            stream.done(&heard).await?;
        }
    }
    Ok(lateness)
}

fn since_epoch() -> Result<Duration, Failure> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}
