//! `make bench`: what this machine does with the main job, beside Mosquitto and NATS in the same
//! run.
//!
//! Everything is measured from outside: load from the `simulator`, webhooks counted at a sink, the
//! real binary as a child process with `durability.sync = "always"`. Client, server and peer share
//! the machine, so what is shown is what all of them do together; the ratio to the peer says more
//! than the figure. Each rate is the median of several rounds, own and peer in turn. The table goes
//! to stdout and, with every round, to `benches/runs/DATE-MACHINE.txt`.
//!
//! This is no regression test: figures of a shared machine differ from run to run.

mod machine;
mod mosquitto;
mod mqtt_subscriber;
mod nats;
mod peer;
mod registry;
mod report;
mod reports;
mod sink;
#[allow(dead_code, reason = "shared with another benchmark")]
mod site;
mod webhooks;

use std::error::Error;

use report::Report;

/// What can go wrong in a benchmark: anything, and then there is no table.
type Failure = Box<dyn Error + Send + Sync>;

/// Rounds of each rate; the median of them is the figure.
const ROUNDS: usize = 3;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` runs this too, and only wants to know that it starts.
    if arguments.iter().any(|argument| argument == "--test") {
        return Ok(());
    }
    let named: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(&named))
}

/// Runs the named parts, or all.
async fn run(named: &[&str]) -> Result<(), Failure> {
    const PARTS: [&str; 4] = ["reports", "webhooks", "latency", "registry"];
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(name)) {
        return Err(format!("no part is called {unknown}; there are {}", PARTS.join(", ")).into());
    }
    let wanted = |part: &str| named.contains(&part) || named.is_empty();
    let mut report = Report::open()?;
    machine::describe(&mut report)?;
    if wanted("reports") {
        reports::mqtt_beside_mosquitto(&mut report).await?;
        reports::http_lines_beside_nats(&mut report).await?;
        reports::growth(&mut report).await?;
    }
    if wanted("webhooks") {
        webhooks::deliveries(&mut report).await?;
    }
    if wanted("latency") {
        webhooks::report_to_webhook(&mut report).await?;
    }
    if wanted("registry") {
        registry::a_million_devices(&mut report).await?;
    }
    report.finish()
}
