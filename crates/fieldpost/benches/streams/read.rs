//! Reading a stream from its start, a thousand messages in each answer: out of blocks and out of
//! the open one.

use std::time::Instant;

use serde_json::Value;

use super::append::{Load, append};
use super::http::{self, Http};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, MESSAGES, ROUNDS};

const TOTAL: u64 = 800_000;
const PAGE: u64 = 1_000;

/// One reader, page by page; a restart in between takes what was in memory away.
pub(super) async fn from_the_start(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "read_rest_1x1000_1stream";
    let server = Fieldpost::start().await?;
    let load = Load { connections: 8, in_each: PAGE, total: TOTAL, is_once: true };
    append(server.site.http.address().await, load).await?;
    let (server, _) = server.restart().await?;
    let address = server.site.http.address().await;
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let (mut http, start, mut after, mut read) = (Http::open(address).await?, Instant::now(), 0, 0);
        while read < TOTAL {
            let path = format!("{MESSAGES}?limit={PAGE}&after={after}");
            let page = http.ask(&http::request("GET", &path, &[], ""), 200).await?;
            let (next, count) = place_of(page)?;
            if count == 0 {
                return Err(format!("{read} of {TOTAL} messages are there").into());
            }
            (after, read) = (next, read + count);
        }
        rates.push(report.round(NAME, TOTAL, start.elapsed())?);
    }
    server.stop().await?;
    report.rate(NAME, rates, None);
    Ok(())
}

/// Where to read on, and how many messages a page has: from its end, without making a tree of it.
pub(super) fn place_of(page: &[u8]) -> Result<(u64, u64), Failure> {
    const MARK: &[u8] = b"\"next_after\":";
    let at = page.windows(MARK.len()).rposition(|part| part == MARK).ok_or("no place")?;
    let rest: Value = serde_json::from_slice(&[b"{", &page[at..]].concat())?;
    let next = rest["next_after"].as_str().ok_or("no place")?.parse()?;
    let count = page.windows(6).filter(|part| *part == b"{\"id\":").count();
    Ok((next, count as u64))
}
