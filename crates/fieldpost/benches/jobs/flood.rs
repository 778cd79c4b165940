//! A million jobs of one queue that become due within one second. How fast are they leased, or
//! leased and done? How long do others wait meanwhile?
//!
//! Others are a queue of jobs published and consumed one by one, an empty queue that is polled, and
//! a device that reports over MQTT.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::Timestamp;
use serde_json::Value;
use simulator::latency::Latency;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::http::{self, Http};
use super::machine::{self, ms};
use super::raw::Mqtt;
use super::report::Report;
use super::site::Fieldpost;
use super::work_stream::{self, WorkedTo};
use super::{Failure, PAYLOAD, lanes};

const JOBS: u64 = 1_000_000;
const IN_EACH_CALL: u64 = 1_000;
const PUBLISHERS: u32 = 8;
const STREAMS: u32 = 8;
const CREDITS: u64 = 1_024;
/// Time to publish them all, and to have them parked.
const AHEAD: Duration = Duration::from_secs(120);
/// They are due at the milliseconds of this time.
const SPREAD_MS: u64 = 1_000;
const QUEUE: &str = "flood";
/// Between two calls of those who do other things.
const PAUSE: Duration = Duration::from_millis(2);

/// What others waited for.
#[derive(Default)]
struct Others {
    jobs: Latency,
    polls: Latency,
    pubacks: Latency,
}

/// In which order the jobs come due.
#[derive(Clone, Copy)]
enum DueOrder {
    /// About that in which they were published.
    Published,
    /// Another, so that jobs due one after the other lie far apart.
    Shuffled,
}

impl DueOrder {
    fn name(self) -> &'static str {
        match self {
            Self::Published => "in_order",
            Self::Shuffled => "shuffled",
        }
    }

    /// The millisecond at which a job comes due, of those of [`SPREAD_MS`].
    fn due_ms(self, number: u64) -> u64 {
        match self {
            Self::Published => number * SPREAD_MS / JOBS,
            Self::Shuffled => number.wrapping_mul(7_919) % SPREAD_MS,
        }
    }
}

pub(super) async fn of_a_million(report: &mut Report) -> Result<(), Failure> {
    for order in [DueOrder::Published, DueOrder::Shuffled] {
        for worked_to in [WorkedTo::Leased, WorkedTo::Done] {
            one(order, worked_to, report).await?;
        }
    }
    Ok(())
}

async fn one(order: DueOrder, worked_to: WorkedTo, report: &mut Report) -> Result<(), Failure> {
    let ends = match worked_to {
        WorkedTo::Leased => "leased",
        WorkedTo::Done => "leased_and_done",
    };
    let name = format!("flood_{JOBS}_due_in_1s_{}_1queue_{ends}", order.name());
    let server = Fieldpost::start().await?;
    let (rest, grpc) = (server.site.http.address().await, server.grpc()?);
    let mqtt = server.site.mqtt.address().await;
    let due = since_epoch()? + AHEAD;
    lanes(0..PUBLISHERS, |lane| publish(rest, lane, order, due)).await?;
    let left_to_wait = due.checked_sub(since_epoch()?).ok_or("they were due before all were published")?;
    let quiet = watch::Sender::new(false);
    let others = others(rest, mqtt, quiet.subscribe());
    let working = async {
        sleep(left_to_wait).await;
        let begun = Instant::now();
        let left = watch::Sender::new(JOBS);
        lanes(0..STREAMS, |_| work_stream::work_off(grpc, QUEUE, CREDITS, worked_to, left.clone())).await?;
        let took = begun.elapsed();
        quiet.send_replace(true);
        Ok::<_, Failure>(took)
    };
    let (took, others) = tokio::try_join!(working, others)?;
    let rate = report.round(&name, JOBS, took)?;
    report.rate(&format!("{name}_grpc_{STREAMS}x{CREDITS}"), vec![rate], None);
    let shown = |latency: &Latency| {
        let [p50, p99] = [50.0, 99.0].map(|percent| ms(latency.percentile(percent)));
        format!("{p50:.1} / {p99:.1} ms")
    };
    report.figure(&format!("{name} publish_and_consume of another queue p50 / p99"), shown(&others.jobs));
    report.figure(&format!("{name} poll of an empty queue p50 / p99"), shown(&others.polls));
    report.figure(&format!("{name} PUBACK p50 / p99"), shown(&others.pubacks));
    let peak = machine::peak_resident_mib(server.process_id()?)?;
    report.figure(&format!("{name} memory at most"), format!("{peak} MiB"));
    server.stop().await
}

async fn publish(address: SocketAddr, lane: u32, order: DueOrder, due: Duration) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    let calls = JOBS / IN_EACH_CALL / u64::from(PUBLISHERS);
    for call in 0..calls {
        let first = (call * u64::from(PUBLISHERS) + u64::from(lane)) * IN_EACH_CALL;
        let job = |number: u64| {
            let at = due.as_millis() as u64 + order.due_ms(number);
            format!(r#"{{"payload":{PAYLOAD},"run_at":"{}"}}"#, Timestamp(at as i64))
        };
        let jobs: Vec<String> = (first..first + IN_EACH_CALL).map(job).collect();
        let body = format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
        http.ask(&http::json("POST", &format!("/v1/queues/bench/{QUEUE}/jobs"), &body), 201).await?;
    }
    Ok(())
}

/// What others wait for, until it is quiet.
async fn others(rest: SocketAddr, mqtt: SocketAddr, quiet: watch::Receiver<bool>) -> Result<Others, Failure> {
    let mut others = Others::default();
    let (mut http, mut device) = (Http::open(rest).await?, Mqtt::open(mqtt).await?);
    device.connect("flood-device").await?;
    let publish = http::json(
        "POST",
        "/v1/queues/bench/other/jobs",
        &format!(r#"{{"jobs":[{{"payload":{PAYLOAD}}}]}}"#),
    );
    let consume = http::json("POST", "/v1/queues/bench/other/consume", r#"{"max":1,"ttr":"1m"}"#);
    let poll = http::json("POST", "/v1/queues/bench/empty/consume", r#"{"max":1,"ttr":"1m"}"#);
    let mut value = 0_u8;
    while !*quiet.borrow() {
        let begun = Instant::now();
        http.ask(&publish, 201).await?;
        let answer: Value = serde_json::from_slice(http.ask(&consume, 200).await?)?;
        others.jobs.record(begun.elapsed());
        if answer["jobs"].as_array().is_none_or(Vec::is_empty) {
            return Err("a job that was published just before is not there".into());
        }
        let begun = Instant::now();
        http.ask(&poll, 200).await?;
        others.polls.record(begun.elapsed());
        let begun = Instant::now();
        device.report("floodlock1", value).await?;
        others.pubacks.record(begun.elapsed());
        value = value.wrapping_add(1);
        sleep(PAUSE).await;
    }
    Ok(others)
}

fn since_epoch() -> Result<Duration, Failure> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}
