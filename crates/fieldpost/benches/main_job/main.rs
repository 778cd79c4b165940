//! `make bench`: what this machine does with the main job, beside Mosquitto and NATS in the same
//! run.
//!
//! Everything is measured from outside: load from the `simulator`, webhooks counted at a sink, the
//! real binary as a child process with `durability.sync = "always"`. Client, server and peer share
//! the machine, so what is shown is what all of them do together. The ratio to the peer says more
//! than the figure. Each rate is the median of several rounds, own and peer in turn. The table goes
//! to stdout and, with every round, to `benches/runs/DATE-MACHINE.txt`.
//!
//! This is no regression test: figures of a shared machine differ from run to run.

#[path = "../rig.rs"]
mod rig;

mod mosquitto;
mod mqtt_subscriber;
mod registry;
mod reports;
mod webhooks;

use rig::parts::{self, Parts};
use rig::report::{self, Report};
use rig::{Failure, machine, nats, peer, sink, site};
use tokio::runtime::Builder;

/// Rounds of each rate; the median of them is the figure.
const ROUNDS: usize = 3;

fn main() -> Result<(), Failure> {
    parts::run(Builder::new_current_thread(), &["reports", "webhooks", "latency", "registry"], measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    if parts.has("reports") {
        reports::mqtt_beside_mosquitto(report).await?;
        reports::http_lines_beside_nats(report).await?;
        reports::growth(report).await?;
    }
    if parts.has("webhooks") {
        webhooks::deliveries(report).await?;
    }
    if parts.has("latency") {
        webhooks::report_to_webhook(report).await?;
    }
    if parts.has("registry") {
        registry::a_million_devices(report).await?;
    }
    Ok(())
}
