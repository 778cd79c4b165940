//! Copying a stream from one node to another on this machine, durable on both.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::append::{Load, append};
use super::http::{self, Http};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, ROUNDS};

const TOTAL: u64 = 400_000;
const COPY: &str = "/v1/streams/bench/one/copies/all";

/// A backlog that is copied, from the moment at which the copy is made until its last message is
/// durable there.
pub(super) async fn a_backlog(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "copy_to_1stream_100B_sync_both";
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let (one, two) = (Fieldpost::start().await?, Fieldpost::start().await?);
        let address = one.site.http.address().await;
        append(address, Load { connections: 8, in_each: 1_000, total: TOTAL, is_once: false }).await?;
        let mut http = Http::open(address).await?;
        let node = format!(r#"{{"url":"{}"}}"#, two.url().await);
        http.ask(&http::json("PUT", "/v1/nodes/two", &node), 201).await?;
        let start = Instant::now();
        let terms = r#"{"direction":"to","node":"two"}"#;
        http.ask(&http::json("PUT", COPY, terms), 201).await?;
        loop {
            let copy: Value =
                serde_json::from_slice(http.ask(&http::request("GET", COPY, &[], ""), 200).await?)?;
            if copy["position"].as_str() == Some(&TOTAL.to_string()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        rates.push(report.round(NAME, TOTAL, start.elapsed())?);
        one.stop().await?;
        two.stop().await?;
    }
    report.rate(NAME, rates, None);
    Ok(())
}
