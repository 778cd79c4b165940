//! A session over HTTP: one NDJSON body after the other on a connection that is kept.
//!
//! The next body goes out when the last one is answered. A body without an answer is repeated as a whole.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::lane::{Lane, rest};
use crate::traffic::Traffic;
use crate::wire_time::format_ms;

/// Bytes of a line besides the device's id, about.
const LINE_BYTES: usize = 72;

/// Carries the lane's traffic over one connection.
pub(super) async fn session<T: Traffic>(
    lane: &mut Lane<T>,
    address: SocketAddr,
    lines: usize,
) -> io::Result<()> {
    let mut connection = Connection::open(address).await?;
    loop {
        let pause = lane.fill(lines.max(1), Instant::now());
        if lane.is_done(pause) {
            return Ok(());
        }
        match write_lines(lane) {
            Some(body) => {
                let answer = connection.post(body).await?;
                settle(lane, &answer)?;
            }
            None => rest(pause).await,
        }
    }
}

/// The answer to a body of reports.
#[derive(Debug, Deserialize)]
struct Answer {
    accepted: usize,
    rejected_count: usize,
    rejected: Vec<Rejected>,
}

/// A line that was not accepted; lines count from 1.
#[derive(Debug, Deserialize)]
struct Rejected {
    line: usize,
    code: String,
}

/// The unwritten reports as a body; `None` when there are none.
fn write_lines<T: Traffic>(lane: &mut Lane<T>) -> Option<Bytes> {
    let now = Instant::now();
    let mut body = Vec::with_capacity(lane.outbox.len() * (LINE_BYTES + lane.plan.devices.id_bytes()));
    while let Some(report) = lane.outbox.next_to_write(now) {
        body.extend_from_slice(b"{\"device_id\":\"");
        lane.plan.devices.write(report.device, &mut body);
        body.extend_from_slice(b"\",\"data\":");
        body.push(b'0' + report.value);
        body.extend_from_slice(b",\"ts\":\"");
        body.extend_from_slice(format_ms(report.ts_ms).as_bytes());
        body.extend_from_slice(b"\"}\n");
    }
    (!body.is_empty()).then(|| body.into())
}

/// Notes for each line of the body whether it was accepted.
fn settle<T: Traffic>(lane: &mut Lane<T>, answer: &Answer) -> io::Result<()> {
    let lines = lane.outbox.written();
    if answer.accepted + answer.rejected_count != lines || answer.rejected.len() != answer.rejected_count {
        return Err(io::Error::other(format!("{lines} lines were sent, the answer speaks of {answer:?}")));
    }
    let mut done = 0;
    for rejected in &answer.rejected {
        tracing::warn!(line = rejected.line, code = rejected.code, "report refused");
        let before = rejected.line.checked_sub(done + 1).filter(|_| rejected.line <= lines);
        let before = before.ok_or_else(|| io::Error::other("rejected lines are not in order"))?;
        lane.outbox.acknowledge(before, Instant::now());
        lane.outbox.refuse_oldest();
        done = rejected.line;
    }
    lane.outbox.acknowledge(lines - done, Instant::now());
    Ok(())
}

#[derive(Debug)]
struct Connection {
    host: String,
    requests: SendRequest<Full<Bytes>>,
    /// Drives the connection; ends with it.
    _driver: JoinSet<()>,
}

impl Connection {
    async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection broke");
            }
        });
        Ok(Self { host: address.to_string(), requests, _driver: driver })
    }

    async fn post(&mut self, body: Bytes) -> io::Result<Answer> {
        let request = Request::post("/v1/reports")
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/x-ndjson")
            .body(Full::new(body))
            .map_err(io::Error::other)?;
        self.requests.ready().await.map_err(io::Error::other)?;
        let response = self.requests.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        if status != StatusCode::OK {
            return Err(io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&body))));
        }
        serde_json::from_slice(&body).map_err(io::Error::other)
    }
}
