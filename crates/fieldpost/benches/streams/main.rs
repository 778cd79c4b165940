//! `make bench`: what this machine does with streams of messages, beside NATS JetStream in the same
//! run.
//!
//! Everything is measured from outside, on the built binary with `durability.sync = "always"` and
//! streams in their default mode `sync`, with payloads of 100 bytes. The clients are lean:
//! ready-made requests, and answers of which no more is read than is needed. JetStream acknowledges
//! before it syncs; ours do not. `cargo bench --bench streams -- append read` runs those two parts
//! alone.
//!
//! This is no regression test: figures of a shared machine differ from run to run.

#[path = "../rig.rs"]
mod rig;

mod append;
mod copy;
mod line;
mod read;
mod reader;
mod weak;

use rig::parts::{self, Parts};
use rig::report::{self, Report};
use rig::{Failure, http, lanes, machine, nats, site};
use tokio::runtime::Builder;

/// Rounds of each rate; the median of them is the figure.
const ROUNDS: usize = 3;

/// The compact text of a payload, 100 bytes of it: what every message here carries.
const PAYLOAD: &str =
    r#""what a message of a stream carries: a hundred bytes of JSON text, counted with both of its quotes.""#;
const _: () = assert!(PAYLOAD.len() == 100);

/// Where the messages of the benchmark are.
const MESSAGES: &str = "/v1/streams/bench/one/messages";

fn main() -> Result<(), Failure> {
    let parts = ["append", "read", "reader", "idle", "large", "copy", "catch_up", "cut_off"];
    parts::run(Builder::new_current_thread(), &parts, measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    if parts.has("append") {
        append::one_by_one_beside_nats(report).await?;
        append::in_batches_beside_nats(report).await?;
        append::in_every_mode(report).await?;
    }
    if parts.has("read") {
        read::from_the_start(report).await?;
    }
    if parts.has("reader") {
        reader::woken_by_an_append(report).await?;
    }
    if parts.has("idle") {
        weak::idle_streams(report).await?;
    }
    if parts.has("large") {
        weak::stream_larger_than_memory(report).await?;
    }
    if parts.has("copy") {
        copy::a_backlog(report).await?;
    }
    if parts.has("catch_up") {
        copy::catch_up(report).await?;
    }
    if parts.has("cut_off") {
        copy::a_month_without_a_line(report).await?;
    }
    Ok(())
}
