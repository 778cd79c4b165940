//! The service `Reports`: batches become slices, slices are handed in ahead of their answers, and
//! each is answered in turn once it is durable.
//!
//! A report is written as the line that it would be over HTTP and read as such a line is: so it is
//! refused for the same reasons, and what the quarantine keeps of it can be replayed.

use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use access::{Admitted, RequestedAction};
use base::limits::SLICE_REPORTS_MAX;
use base::{Problem, WayIn};
use engine::intake::{NotAccepting, Received, Slice};
use engine::{Engine, Intake, Outcome, Report};
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture, stream};
use serde_json::value::RawValue;
use tonic::{Request, Response, Status, Streaming};

use crate::answers_in_flight::AnswersInFlight;
use crate::callers::{caller, peer};
use crate::metrics::Metrics;
use crate::proto::send_response::Rejection;
use crate::proto::{self, SendRequest, SendResponse, reports_server};
use crate::receiving::CallMessages;
use crate::status::status;
use crate::stopping::Stop;
use crate::time::read_moment;

/// Reads a report from a line of NDJSON.
pub type ReadReport = Arc<dyn Fn(&[u8]) -> Result<Report, Problem> + Send + Sync>;

/// Batches of one stream that are handed in and not yet answered.
const BATCHES_IN_FLIGHT_MAX: usize = 8;

/// The way in for reports.
pub(crate) struct Reports {
    intake: Intake,
    read: ReadReport,
    stop: Stop,
    metrics: Metrics,
}

impl Reports {
    pub(crate) fn new(engine: &Engine, read: ReadReport, stop: Stop, metrics: &Metrics) -> Self {
        // Silence over gRPC is counted like that over HTTP: both are there as long as the server
        // is.
        Self { intake: engine.intake(WayIn::Http), read, stop, metrics: metrics.clone() }
    }
}

#[tonic::async_trait]
impl reports_server::Reports for Reports {
    type SendStream = Pin<Box<dyn Stream<Item = Result<SendResponse, Status>> + Send>>;

    async fn send(
        &self,
        request: Request<Streaming<SendRequest>>,
    ) -> Result<Response<Self::SendStream>, Status> {
        let caller = caller(&request)?;
        caller.may(RequestedAction::Reports).map_err(|problem| status(&problem))?;
        let peer = peer(&request);
        let batches = CallMessages::of(request, crate::MESSAGE_BYTES_MAX).into_inner();
        let answers = AnswersInFlight::new(batches.memory_wanted());
        let sending = Sending {
            caller,
            peer,
            batches,
            intake: self.intake.clone(),
            read: Arc::clone(&self.read),
            stop: self.stop.clone(),
            metrics: self.metrics.clone(),
            in_flight: FuturesOrdered::new(),
            over: None,
        };
        Ok(answers.response(Box::pin(stream::unfold(sending, Sending::next))))
    }
}

/// A stream of batches.
struct Sending {
    caller: Admitted,
    peer: SocketAddr,
    batches: CallMessages<SendRequest>,
    intake: Intake,
    read: ReadReport,
    stop: Stop,
    metrics: Metrics,
    in_flight: FuturesOrdered<BoxFuture<'static, Result<Outcome, NotAccepting>>>,
    /// No more batches are taken; this is how the stream ends.
    over: Option<Result<(), Status>>,
}

impl Sending {
    /// The next answer. Batches are taken only while answers are: who reads none is not read from
    /// either.
    async fn next(mut self) -> Option<(Result<SendResponse, Status>, Self)> {
        loop {
            let takes = self.over.is_none() && self.in_flight.len() < BATCHES_IN_FLIGHT_MAX;
            tokio::select! {
                biased;
                Some(outcome) = self.in_flight.next() => {
                    let answer = match outcome {
                        Ok(outcome) => Ok(self.answer(outcome)),
                        Err(not) => Err(self.end(Err(status(&not.into())))),
                    };
                    return Some((answer, self));
                }
                batch = self.batches.message(), if takes => self.take(batch).await,
                () = self.stop.told(), if self.over.is_none() => self.over = Some(Ok(())),
                else => return match self.over.replace(Ok(())) {
                    Some(Err(status)) => Some((Err(status), self)),
                    _ => None,
                },
            }
        }
    }

    /// Nothing more is said after this.
    fn end(&mut self, how: Result<(), Status>) -> Status {
        self.over = Some(Ok(()));
        self.in_flight.clear();
        how.err().unwrap_or_else(|| Status::ok(""))
    }

    async fn take(&mut self, batch: Result<Option<SendRequest>, Status>) {
        let batch = match batch {
            Ok(Some(batch)) => batch,
            Ok(None) => return self.over = Some(Ok(())),
            Err(status) => return self.over = Some(Err(status)),
        };
        if batch.reports.len() > SLICE_REPORTS_MAX {
            let detail =
                format!("a batch has at most {SLICE_REPORTS_MAX} reports, not {}", batch.reports.len());
            return self.over = Some(Err(status(&Problem::not_allowed("too_many_reports", detail))));
        }
        match self.intake.submit(self.slice(&batch)).await {
            Ok(pending) => self.in_flight.push_back(pending.durable().boxed()),
            Err(not) => self.over = Some(Err(status(&not.into()))),
        }
    }

    fn slice(&self, batch: &SendRequest) -> Slice {
        let (mut slice, mut line) = (Slice::new(), Vec::new());
        for report in &batch.reports {
            line.clear();
            let written = write_line(report, &mut line);
            let received = Received { payload: &line, topic: None };
            match written.and_then(|()| (self.read)(&line)) {
                Ok(report) => slice.push(report, received),
                Err(problem) => slice.push_refused(problem, received),
            }
        }
        slice
    }

    fn answer(&self, outcome: Outcome) -> SendResponse {
        self.metrics.reports("accepted", outcome.accepted.into());
        let rejected = outcome.rejected.into_iter().map(|rejection| {
            self.metrics.refusals.of_report(&rejection, self.caller.name(), self.peer);
            let Problem { code, detail, .. } = rejection.problem;
            self.metrics.reports(code, 1);
            Rejection { index: rejection.index, code: code.to_owned(), detail }
        });
        SendResponse { accepted: outcome.accepted, rejected: rejected.collect() }
    }
}

/// Writes the line that a report would be over HTTP. It is written as far as it goes also where it
/// is refused.
fn write_line(report: &proto::Report, line: &mut Vec<u8>) -> Result<(), Problem> {
    let text = |text: &str| serde_json::Value::from(text);
    let ts = report.ts.as_ref().map(|ts| read_moment("ts", ts)).transpose();
    let data: Result<&RawValue, _> = serde_json::from_slice(&report.data);
    line.extend_from_slice(b"{\"device_id\":");
    let mut written = write!(line, "{}", text(&report.device_id));
    if !report.data.is_empty() {
        line.extend_from_slice(b",\"data\":");
        line.extend_from_slice(&report.data);
    }
    if let Ok(Some(ts)) = &ts {
        written = written.and_then(|()| write!(line, ",\"ts\":\"{ts}\""));
    }
    if !report.id.is_empty() {
        written = written.and_then(|()| write!(line, ",\"id\":{}", text(&report.id)));
    }
    line.push(b'}');
    written.expect("a vector takes all that is written to it");
    ts.map_err(|problem| Problem { code: "invalid_ts", ..problem })?;
    match data {
        Err(error) if !report.data.is_empty() => {
            Err(Problem::unreadable(format!("data is not a JSON value: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(data: &[u8], ts: Option<(i64, i32)>, id: &str) -> (String, Option<&'static str>) {
        let ts = ts.map(|(seconds, nanos)| prost_types::Timestamp { seconds, nanos });
        let report = proto::Report {
            device_id: "0xA\"".to_owned(),
            data: data.to_vec().into(),
            ts,
            id: id.to_owned(),
        };
        let mut line = Vec::new();
        let written = write_line(&report, &mut line);
        (String::from_utf8_lossy(&line).into_owned(), written.err().map(|problem| problem.code))
    }

    #[test]
    fn a_report_is_written_as_the_line_that_it_would_be() {
        for (written, expect, code) in [
            (line(b"1", None, ""), r#"{"device_id":"0xA\"","data":1}"#, None),
            (
                line(b"{\"a\": 1}", Some((1, 500_000_000)), "x\n"),
                r#"{"device_id":"0xA\"","data":{"a": 1},"ts":"1970-01-01T00:00:01.500Z","id":"x\n"}"#,
                None,
            ),
            (line(b"", None, ""), r#"{"device_id":"0xA\""}"#, None),
            (
                line(b"1,\"ts\":\"x\"", None, ""),
                r#"{"device_id":"0xA\"","data":1,"ts":"x"}"#,
                Some("unreadable"),
            ),
            (line(b"1", Some((0, -1)), ""), r#"{"device_id":"0xA\"","data":1}"#, Some("invalid_ts")),
        ] {
            assert_eq!(written, (expect.to_owned(), code));
        }
    }
}
