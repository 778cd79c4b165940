//! How soon a reader that waits has what is appended, in the mode that syncs first.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use simulator::latency::Latency;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at};

use super::http::{self, Http};
use super::machine::ms;
use super::read::place_of;
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, MESSAGES, PAYLOAD};

const APPENDS: u32 = 10_000;
const EVERY: Duration = Duration::from_millis(1);
/// Connections that append in turn, so that one answer that is late delays no other append.
const PRODUCERS: u32 = 8;

/// A thousand messages a second, and one reader that always waits for what comes next. A message
/// counts from when it was to be sent.
pub(super) async fn woken_by_an_append(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "append_to_waiting_reader_1000_per_s";
    let server = Fieldpost::start().await?;
    let address = server.site.http.address().await;
    let append = http::json("POST", MESSAGES, &format!(r#"{{"payload":{PAYLOAD}}}"#));
    Http::open(address).await?.ask(&append, 201).await?;
    let (sent, mut seen) = mpsc::unbounded_channel();
    let reader = tokio::spawn(async move {
        let (mut http, mut after) = (Http::open(address).await?, 1);
        while after <= u64::from(APPENDS) {
            let path = format!("{MESSAGES}?wait=30s&after={after}");
            let (next, count) = place_of(http.ask(&http::request("GET", &path, &[], ""), 200).await?)?;
            if count == 0 {
                return Err::<_, Failure>("nothing came in time".into());
            }
            after = next;
            sent.send((next, Instant::now()))?;
        }
        Ok(())
    });
    let begun = Instant::now();
    let mut producers: JoinSet<_> =
        (0..PRODUCERS).map(|place| produce(address, append.clone(), begun + EVERY * place)).collect();
    let mut due = BTreeMap::new();
    while let Some(ended) = producers.join_next().await {
        due.append(&mut ended??);
    }
    reader.await??;
    let mut latency = Latency::default();
    while let Ok((last, at)) = seen.try_recv() {
        while let Some(first) = due.first_entry().filter(|first| *first.key() <= last) {
            latency.record(at.saturating_duration_since(first.remove()));
        }
    }
    server.stop().await?;
    report.note(&format!("  {NAME}: of {} messages {latency}", latency.count()))?;
    let [p50, p99] = [50.0, 99.0].map(|percent| ms(latency.percentile(percent)));
    report.figure(&format!("{NAME} p50 / p99"), format!("{p50:.2} / {p99:.2} ms"));
    Ok(())
}

/// Appends its share of the messages, the first of them at `first`: when each was due, by its id.
async fn produce(
    address: SocketAddr,
    append: Vec<u8>,
    first: Instant,
) -> Result<BTreeMap<u64, Instant>, Failure> {
    let (mut http, mut due) = (Http::open(address).await?, BTreeMap::new());
    let mut pace = interval_at(first, EVERY * PRODUCERS);
    for _ in 0..APPENDS / PRODUCERS {
        let at = pace.tick().await;
        let answer: Value = serde_json::from_slice(http.ask(&append, 201).await?)?;
        let id = answer["messages"][0]["id"].as_str().ok_or("no id")?;
        due.insert(id.parse()?, at);
    }
    Ok(due)
}
