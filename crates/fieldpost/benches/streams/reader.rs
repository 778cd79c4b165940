//! How soon a reader that waits has what is appended, in the mode that syncs first.

use std::time::{Duration, Instant};

use simulator::latency::Latency;
use tokio::sync::mpsc;
use tokio::time::interval;

use super::http::{self, Http};
use super::machine::ms;
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, MESSAGES, PAYLOAD};

const APPENDS: u64 = 5_000;
const EVERY: Duration = Duration::from_millis(2);

/// One producer, 500 messages a second, and one reader that always waits for the next one.
pub(super) async fn woken_by_an_append(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "append_to_waiting_reader_500_per_s";
    let server = Fieldpost::start().await?;
    let address = server.site.http.address().await;
    let append = http::json("POST", MESSAGES, &format!(r#"{{"payload":{PAYLOAD}}}"#));
    let mut producer = Http::open(address).await?;
    producer.ask(&append, 201).await?;
    let (sent, mut seen) = mpsc::channel(64);
    let reader = tokio::spawn(async move {
        let mut http = Http::open(address).await?;
        // Behind the one that made the stream, one at a time.
        for id in 1..=APPENDS {
            let path = format!("{MESSAGES}?limit=1&wait=30s&after={id}");
            let page = http.ask(&http::request("GET", &path, &[], ""), 200).await?;
            if !page.starts_with(b"{\"items\":[{") {
                return Err::<_, Failure>("nothing came in time".into());
            }
            sent.send(Instant::now()).await?;
        }
        Ok(())
    });
    let (mut pace, mut latency) = (interval(EVERY), Latency::default());
    for _ in 0..APPENDS {
        pace.tick().await;
        let began = Instant::now();
        producer.ask(&append, 201).await?;
        let read = seen.recv().await.ok_or("the reader ended")?;
        latency.record(read.saturating_duration_since(began));
    }
    reader.await??;
    server.stop().await?;
    report.note(&format!("  {NAME}: of {} messages {latency}", latency.count()))?;
    let [p50, p99] = [50.0, 99.0].map(|percent| ms(latency.percentile(percent)));
    report.figure(&format!("{NAME} p50 / p99"), format!("{p50:.2} / {p99:.2} ms"));
    Ok(())
}
