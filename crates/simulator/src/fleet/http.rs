//! A session over HTTP: one NDJSON body after the other on a connection that is kept.
//!
//! The next body goes out when the last one is answered. A body without an answer is repeated as a whole.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::lane::{Ending, Lane, Pause, rest};
use super::payload;
use crate::access::Secret;
use crate::endpoint::Endpoint;
use crate::traffic::Traffic;
use crate::wire::{CONNECT_TIMEOUT, Wire, permit_to_connect};

/// Bytes of a line besides the device's id, about.
const LINE_BYTES: usize = 96;

const REPORTS: &str = "/v1/reports";

/// A request that is cut off has so long to leave this machine.
const CUT_AFTER: Duration = Duration::from_millis(1);

/// Of an answer that is not the one expected, so much is told.
const EXCERPT_BYTES: usize = 120;

/// Carries the lane's traffic over one connection.
pub(super) async fn session<T: Traffic>(lane: &mut Lane<T>, lines: usize) -> io::Result<Ending> {
    let mut connection = Connection::open(&lane.plan.endpoint).await?;
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

fn read(answer: &[u8]) -> io::Result<Answer> {
    serde_json::from_slice(answer).map_err(io::Error::other)
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
        payload::write_line(lane.plan.payload, &lane.plan.devices, report, &mut body);
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

/// A connection that takes one request at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    host: String,
    authorization: Option<HeaderValue>,
    requests: SendRequest<Full<Bytes>>,
    /// Drives the connection; ends with it.
    _driver: JoinSet<()>,
}

impl Connection {
    /// Connects, and is let in with the endpoint's token if it has one.
    pub(crate) async fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let _permit = permit_to_connect().await;
        let timeout = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
        let wire = tokio::time::timeout(CONNECT_TIMEOUT, Wire::open(endpoint)).await.map_err(timeout)??;
        let (requests, connection) = handshake(TokioIo::new(wire)).await.map_err(io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection broke");
            }
        });
        let host = endpoint.address().await.to_string();
        let token = endpoint.access().token.as_ref();
        let authorization = token.map(bearer).transpose()?;
        Ok(Self { host, authorization, requests, _driver: driver })
    }

    /// Posts lines of JSON; the body of the answer.
    ///
    /// # Errors
    /// Any status but 200, and a connection that breaks.
    pub(crate) async fn post(&mut self, path: &str, lines: Bytes) -> io::Result<Bytes> {
        let mut request = Request::post(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/x-ndjson")
            .body(Full::new(lines))
            .map_err(io::Error::other)?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        self.requests.ready().await.map_err(io::Error::other)?;
        let response = self.requests.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        if status != StatusCode::OK {
            return Err(io::Error::other(refusal(status, &body)));
        }
        Ok(body)
    }
}

fn bearer(token: &Secret) -> io::Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| io::Error::other("the token holds a character that no header can hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A refusal in few words: the status and what the server has to say to it.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Problem {
        code: String,
        detail: String,
    }
    match serde_json::from_slice(body) {
        Ok(Problem { code, detail }) => format!("{status}: {code}: {detail}"),
        Err(_) => {
            let excerpt = &body[..body.len().min(EXCERPT_BYTES)];
            format!("{status}: {}", String::from_utf8_lossy(excerpt))
        }
    }
}
