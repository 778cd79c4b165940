//! `make bench`: what this machine does with queues of jobs, beside beanstalkd in the same run and
//! beside what lmstfy did.
//!
//! Everything is measured from outside, on the built binary with `durability.sync = "always"`, with
//! payloads of 100 bytes. The clients are lean: ready-made requests, and answers of which no more
//! is read than is needed. `cargo bench --bench jobs -- publish work` runs those two parts alone;
//! `large` (`make bench-jobs-large`) runs only when it is named.
//!
//! This is no regression test: figures of a shared machine differ from run to run.

#[path = "../rig.rs"]
mod rig;

mod beanstalkd;
mod delayed;
mod flood;
mod lateness;
mod lmstfy;
mod publish;
mod work;
mod work_stream;

use rig::parts::{self, Parts};
use rig::report::{self, Report};
use rig::{Failure, http, lanes, machine, peer, protobuf, raw, replies, site};
use tokio::runtime::Builder;

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
