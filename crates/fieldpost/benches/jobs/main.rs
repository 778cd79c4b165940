//! `make bench`: what this machine does with queues of jobs, beside beanstalkd in the same run and
//! beside what lmstfy did.
//!
//! Everything is measured from outside, on the built binary with `durability.sync = "always"`, with
//! payloads of 100 bytes. The clients are lean: ready-made requests, and answers of which no more
//! is read than is needed. `cargo bench --bench jobs -- publish work` runs those two parts alone;
//! `large` (`make bench-jobs-large`) runs only when it is named.
//!
//! This is no regression test: figures of a shared machine differ from run to run.

#[path = "../main_job/machine.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod machine;
#[path = "../main_job/parts.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod parts;
#[path = "../main_job/peer.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod peer;
#[path = "../../tests/black_box/overload/raw.rs"]
#[allow(dead_code, reason = "shared with the test of overload")]
mod raw;
#[path = "../main_job/report.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod report;
#[path = "../main_job/site.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod site;

mod beanstalkd;
mod delayed;
mod flood;
mod http;
mod lateness;
mod lmstfy;
mod publish;
mod replies;
mod work;
mod work_stream;

use std::error::Error;
use std::time::{Duration, Instant};

use parts::Parts;
use report::Report;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// What can go wrong in a benchmark: anything, and then there is no table.
type Failure = Box<dyn Error + Send + Sync>;

/// Rounds of each rate; the median of them is the figure.
const ROUNDS: usize = 3;

/// The compact text of a payload, 100 bytes of it: what every job here carries.
const PAYLOAD: &str =
    r#""the payload of a job: a hundred bytes of JSON, counted with the quotes that stand around this text""#;
const _: () = assert!(PAYLOAD.len() == 100);

fn main() -> Result<(), Failure> {
    const PARTS: [&str; 7] = ["publish", "lmstfy", "work", "lateness", "flood", "delayed", "large"];
    parts::run(Builder::new_current_thread(), &PARTS, measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    if parts.has("publish") {
        publish::one_by_one_beside_beanstalkd(report).await?;
        publish::in_batches(report).await?;
    }
    if parts.has("lmstfy") {
        lmstfy::publish(report).await?;
        lmstfy::consume(report).await?;
    }
    if parts.has("work") {
        work::beside_beanstalkd(report).await?;
    }
    if parts.has("lateness") {
        lateness::of_delayed_jobs(report).await?;
    }
    if parts.has("flood") {
        flood::of_a_million(report).await?;
    }
    if parts.has("delayed") {
        delayed::two_million(report).await?;
    }
    // It takes far longer than the others.
    if parts.names("large") {
        delayed::twenty_million(report).await?;
    }
    Ok(())
}

/// Runs `lane` so often at once, and says how long it took until the last was done.
async fn lanes<F>(count: u32, lane: impl Fn(u32) -> F) -> Result<Duration, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let start = Instant::now();
    let mut running: JoinSet<_> = (0..count).map(lane).collect();
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(start.elapsed())
}
