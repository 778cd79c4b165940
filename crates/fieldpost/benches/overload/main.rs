//! `make bench`: what a caller who behaves sees while others ask for far more than there is. Also
//! how soon all is as before, and what an idle connection costs.
//!
//! Everything is measured from outside, on the built binary with `durability.sync = "always"`;
//! those who overload it share the machine with it. What must hold whatever the times are - memory,
//! loss, refusals - is in the test of the same name.

#[path = "../rig.rs"]
mod rig;

mod dead_receiver;
mod floods;
mod idle;
mod polite;

use rig::report::{self, Report};
use rig::{Failure, machine, raw, sink, site};

fn main() -> Result<(), Failure> {
    // `cargo test --benches` runs this too, and only wants to know that it starts.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    rlimit::increase_nofile_limit(u64::MAX)?;
    // Two threads: who behaves must not wait for those who do not on this side already.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Failure> {
    let mut report = Report::open()?;
    machine::describe(&mut report)?;
    idle::mqtt_connections(&mut report).await?;
    idle::waiting_consumers(&mut report).await?;
    floods::slow_callers(&mut report).await?;
    floods::connection_storm(&mut report).await?;
    floods::a_million_wrong_requests(&mut report).await?;
    floods::ten_times(&mut report).await?;
    dead_receiver::others_are_told(&mut report).await?;
    report.finish()
}
