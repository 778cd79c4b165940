//! What the benchmarks share: the server and its peers, clients, the parts that are asked for, and
//! the report.

#![allow(dead_code, reason = "each benchmark uses some of it")]

#[path = "rig/http.rs"]
pub(crate) mod http;
#[path = "rig/machine.rs"]
pub(crate) mod machine;
#[path = "rig/nats.rs"]
pub(crate) mod nats;
#[path = "rig/parts.rs"]
pub(crate) mod parts;
#[path = "rig/peer.rs"]
pub(crate) mod peer;
#[path = "rig/protobuf.rs"]
pub(crate) mod protobuf;
#[path = "../tests/black_box/overload/raw.rs"]
pub(crate) mod raw;
#[path = "rig/replies.rs"]
pub(crate) mod replies;
#[path = "rig/report.rs"]
pub(crate) mod report;
#[path = "rig/sink.rs"]
pub(crate) mod sink;
#[path = "rig/site.rs"]
pub(crate) mod site;

use std::error::Error;
use std::time::{Duration, Instant};

use simulator::latency::Latency;
use tokio::task::JoinSet;

/// What can go wrong in a benchmark: anything, and then there is no table.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Runs all lanes at once, and says how long it took until the last was done.
pub(crate) async fn lanes<L, F>(
    lanes: impl IntoIterator<Item = L>,
    run: impl FnMut(L) -> F,
) -> Result<Duration, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let start = Instant::now();
    let mut running: JoinSet<_> = lanes.into_iter().map(run).collect();
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(start.elapsed())
}

/// `p50 / p99` in milliseconds.
pub(crate) fn percentiles(latency: &Latency) -> String {
    let [p50, p99] = [50.0, 99.0].map(|percent| machine::ms(latency.percentile(percent)));
    format!("{p50:.2} / {p99:.2} ms")
}
