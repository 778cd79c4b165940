//! The service `Reports`: batches become slices, slices are handed in ahead of their answers, and
//! each is answered in turn once it is durable.
//!
//! A report is written as the line that it would be over HTTP, and read as such a line is. So it is
//! refused for the same reasons, and what the quarantine keeps of it can be replayed.

use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use access::{Admitted, RequestedAction};
use base::limits::{REPORT_BYTES, SLICE_REPORTS_MAX};
use base::{Problem, WayIn};
use engine::intake::{NotAccepting, Received, Slice};
use engine::{Engine, Intake, Report, SliceOutcome};
use futures_util::{Stream, stream};
use net::memory_budget::{MemoryBudget, MemoryPart, Purpose};
use prost::Message;
use serde_json::value::RawValue;
use tonic::{Request, Response, Status, Streaming};

use crate::callers::{caller_sender_and_message, peer};
use crate::metrics::GrpcMetrics;
use crate::proto::send_response::Rejection;
use crate::proto::{self, SendRequest, SendResponse, reports_server};
use crate::receiving::CallMessages;
use crate::sent_ahead::{BatchesInFlight, SentAhead};
use crate::status::status;
use crate::stopping::StopSignal;
use crate::time::read_moment;

/// Reads a report from a line of NDJSON.
pub type ReadReport = Arc<dyn Fn(&[u8]) -> Result<Report, Problem> + Send + Sync>;

/// The way in for reports.
pub(crate) struct Reports {
    intake: Intake,
    memory: MemoryPart,
    read: ReadReport,
    stop: StopSignal,
    metrics: GrpcMetrics,
}

impl Reports {
    pub(crate) fn new(
        engine: &Engine,
        memory: &MemoryBudget,
        read: ReadReport,
        stop: StopSignal,
        metrics: &GrpcMetrics,
    ) -> Self {
        // Silence over gRPC is counted like that over HTTP: both are there as long as the server
        // is.
        let intake = engine.intake(WayIn::Http);
        Self { intake, memory: memory.part(Purpose::Lines), read, stop, metrics: metrics.clone() }
    }
}

#[tonic::async_trait]
impl reports_server::Reports for Reports {
    type SendStream = Pin<Box<dyn Stream<Item = Result<SendResponse, Status>> + Send>>;

    async fn send(
        &self,
        request: Request<Streaming<SendRequest>>,
    ) -> Result<Response<Self::SendStream>, Status> {
        let peer = peer(&request);
        let request = CallMessages::of(request, crate::MESSAGE_BYTES_MAX);
        let (caller, sender, batches) = caller_sender_and_message(request)?;
        caller.may(RequestedAction::Reports).map_err(|problem| status(&problem))?;
        let memory = SentAhead::that_waits(self.memory.clone(), sender);
        let answers = memory.answers(batches.memory_wanted());
        let sending = Sending {
            caller,
            peer,
            batches,
            intake: self.intake.clone(),
            read: Arc::clone(&self.read),
            stop: self.stop.clone(),
            metrics: self.metrics.clone(),
            sent: BatchesInFlight::new(memory),
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
    stop: StopSignal,
    metrics: GrpcMetrics,
    sent: BatchesInFlight<SendRequest, Result<SliceOutcome, NotAccepting>>,
    /// No more batches are taken; this is how the stream ends.
    over: Option<Result<(), Status>>,
}

impl Sending {
    /// The next answer. Batches are taken only while answers are: who reads none is not read from
    /// either.
    async fn next(mut self) -> Option<(Result<SendResponse, Status>, Self)> {
        loop {
            self.hand_in_waiting().await;
            let takes = self.over.is_none() && self.sent.has_room();
            tokio::select! {
                biased;
                Some(outcome) = self.sent.next() => {
                    let answer = match outcome {
                        Ok(outcome) => Ok(self.answer(outcome)),
                        Err(not) => Err(self.end(Err(status(&not.into())))),
                    };
                    return Some((answer, self));
                }
                batch = self.batches.message(), if takes => self.take(batch),
                () = self.stop.stopping(), if self.over.is_none() => self.over = Some(Ok(())),
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
        self.sent.clear();
        how.err().unwrap_or_else(|| Status::ok(""))
    }

    fn take(&mut self, batch: Result<Option<SendRequest>, Status>) {
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
        let bytes = memory_bytes(&batch, self.batches.large_bytes());
        self.sent.wait(batch, bytes);
    }

    /// Hands in the batch that waits for memory, once there is some.
    async fn hand_in_waiting(&mut self) {
        let Some((batch, held)) = self.sent.with_memory().await else { return };
        let slice = self.slice(&batch);
        drop(batch);
        match self.intake.submit(slice).await {
            Ok(pending) => self.sent.push(held, pending.durable()).await,
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

    fn answer(&self, outcome: SliceOutcome) -> SendResponse {
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

/// What a batch takes in memory, in bytes: its content, and what it was read into. A part may keep
/// all that came, so the content counts as no less.
fn memory_bytes(batch: &SendRequest, came: usize) -> usize {
    batch.encoded_len().max(came) + batch.reports.len() * (size_of::<proto::Report>() + REPORT_BYTES)
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
    fn a_batch_takes_memory_for_what_it_is_read_into() {
        let batch = SendRequest { reports: vec![proto::Report::default(); SLICE_REPORTS_MAX] };
        assert!(batch.encoded_len() <= 2 * SLICE_REPORTS_MAX);
        assert!(memory_bytes(&batch, 0) > SLICE_REPORTS_MAX * REPORT_BYTES);
        assert!(memory_bytes(&batch, crate::MESSAGE_BYTES_MAX) > crate::MESSAGE_BYTES_MAX);
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
