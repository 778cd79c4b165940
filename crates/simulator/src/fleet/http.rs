//! A session over HTTP: one NDJSON body after the other on a connection that is kept.
//!
//! The next body goes out when the last one is answered. A body without an answer is repeated as a
//! whole.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;

use super::lane::{Ending, Lane, Pause, rest};
use super::payload;
use crate::json_lines::HttpConnection;
use crate::traffic::LaneTraffic;

/// Bytes of a line besides the device's id, about.
const LINE_BYTES: usize = 96;

const REPORTS: &str = "/v1/reports";

/// A request that is cut off has so long to leave this machine.
const CUT_AFTER: Duration = Duration::from_millis(1);

/// Carries the lane's traffic over one connection.
pub(super) async fn session<T: LaneTraffic>(lane: &mut Lane<T>, lines: usize) -> io::Result<Ending> {
    let mut connection = HttpConnection::open(&lane.plan.endpoint).await?;
    loop {
        let pause = lane.fill(lines.max(1), Instant::now());
        if lane.is_done(pause) {
            return Ok(Ending::Done);
        }
        let Some(body) = write_lines(lane) else {
            rest(pause).await;
            continue;
        };
        let answer = connection.post(REPORTS, body);
        if pause == Pause::Cut {
            return cut(answer).await;
        }
        settle(lane, &read(&answer.await?)?)?;
    }
}

/// Lets a request go out, and does not wait for the answer.
async fn cut(request: impl Future<Output = io::Result<Bytes>>) -> io::Result<Ending> {
    let sending = tokio::time::timeout(CUT_AFTER, request);
    match sending.await {
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) | Err(_) => Ok(Ending::Cut),
    }
}

fn read(answer: &[u8]) -> io::Result<ReportsAnswer> {
    serde_json::from_slice(answer).map_err(io::Error::other)
}

/// The answer to a body of reports.
#[derive(Debug, Deserialize)]
struct ReportsAnswer {
    accepted: usize,
    rejected_count: usize,
    rejected: Vec<RejectedReport>,
}

/// A line that was not accepted; lines count from 1.
#[derive(Debug, Deserialize)]
struct RejectedReport {
    line: usize,
    code: String,
}

/// The unwritten reports as a body; `None` when there are none.
fn write_lines<T: LaneTraffic>(lane: &mut Lane<T>) -> Option<Bytes> {
    let now = Instant::now();
    let mut body = Vec::with_capacity(lane.outbox.len() * (LINE_BYTES + lane.plan.devices.id_bytes()));
    while let Some(report) = lane.outbox.next_to_write(now) {
        payload::write_line(lane.plan.payload, &lane.plan.devices, report, &mut body);
    }
    (!body.is_empty()).then(|| body.into())
}

/// Notes for each line of the body whether it was accepted.
fn settle<T: LaneTraffic>(lane: &mut Lane<T>, answer: &ReportsAnswer) -> io::Result<()> {
    let lines = lane.outbox.written();
    if answer.accepted + answer.rejected_count != lines || answer.rejected.len() != answer.rejected_count {
        return Err(io::Error::other(format!("{lines} lines were sent, the answer speaks of {answer:?}")));
    }
    let mut done = 0;
    for rejected in &answer.rejected {
        tracing::debug!(line = rejected.line, code = rejected.code, "report refused");
        let before = rejected.line.checked_sub(done + 1).filter(|_| rejected.line <= lines);
        let before = before.ok_or_else(|| io::Error::other("rejected lines are not in order"))?;
        lane.outbox.acknowledge(before, Instant::now());
        lane.outbox.refuse_oldest(&rejected.code);
        done = rejected.line;
    }
    lane.outbox.acknowledge(lines - done, Instant::now());
    Ok(())
}
