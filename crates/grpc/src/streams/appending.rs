//! A call that appends: batches come up ahead of their answers, and each is answered in turn.

use access::{Admitted, RequestedAction, StreamRights};
use base::Problem;
use engine::streams::{AppendedMessage, StreamName};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt, poll_immediate};
use futures_util::stream::FuturesOrdered;
use tonic::{Status, Streaming};

use super::new_message;
use crate::proto::{AppendRequest, AppendResponse, append_response};
use crate::status::status;
use crate::stopping::Stop;

/// Batches of one call that are handed in and not yet answered.
const APPENDS_IN_FLIGHT_MAX: usize = 8;

type AppendEnd = Result<Vec<AppendedMessage>, Problem>;

/// A call of batches.
pub(super) struct Appending {
    caller: Admitted,
    batches: Streaming<AppendRequest>,
    streams: engine::Streams,
    stop: Stop,
    /// That of the batch before.
    stream: Option<StreamName>,
    in_flight: FuturesOrdered<BoxFuture<'static, AppendEnd>>,
    /// No more batches are taken; this is how the call ends.
    over: Option<Result<(), Status>>,
}

impl Appending {
    pub(super) fn new(
        caller: Admitted,
        batches: Streaming<AppendRequest>,
        streams: engine::Streams,
        stop: Stop,
    ) -> Self {
        Self { caller, batches, streams, stop, stream: None, in_flight: FuturesOrdered::new(), over: None }
    }

    /// The next answer. Batches are taken only while answers are: who reads none is not read from
    /// either.
    pub(super) async fn next(mut self) -> Option<(Result<AppendResponse, Status>, Self)> {
        loop {
            let takes = self.over.is_none() && self.in_flight.len() < APPENDS_IN_FLIGHT_MAX;
            tokio::select! {
                biased;
                Some(outcome) = self.in_flight.next() => {
                    let answer = outcome.map(answer).map_err(|problem| {
                        // Nothing more is said after a refusal.
                        self.over = Some(Ok(()));
                        self.in_flight.clear();
                        status(&problem)
                    });
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

    async fn take(&mut self, batch: Result<Option<AppendRequest>, Status>) {
        let batch = match batch {
            Ok(Some(batch)) => batch,
            Ok(None) => return self.over = Some(Ok(())),
            Err(status) => return self.over = Some(Err(status)),
        };
        match self.append(batch) {
            // What is polled once is on its way, ahead of all that comes later.
            Ok(mut append) => match poll_immediate(&mut append).await {
                Some(outcome) => self.in_flight.push_back(async { outcome }.boxed()),
                None => self.in_flight.push_back(append),
            },
            Err(problem) => self.over = Some(Err(status(&problem))),
        }
    }

    fn append(&mut self, batch: AppendRequest) -> Result<BoxFuture<'static, AppendEnd>, Problem> {
        let AppendRequest { namespace, stream, messages, expect_last_id } = batch;
        if !(namespace.is_empty() && stream.is_empty()) {
            let action = RequestedAction::Stream { namespace: &namespace, right: StreamRights::Append };
            self.caller.may(action)?;
            self.stream = Some(StreamName::new(&namespace, &stream)?);
        }
        let unnamed = || Problem::not_allowed("missing_field", "the first batch has to name its stream");
        let stream = self.stream.clone().ok_or_else(unnamed)?;
        let messages =
            messages.into_iter().zip(1..).map(|(message, place)| new_message::read(place, message));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let streams = self.streams.clone();
        Ok(async move { streams.append(&stream, messages, expect_last_id).await }.boxed())
    }
}

fn answer(appended: Vec<AppendedMessage>) -> AppendResponse {
    let message = |AppendedMessage { id, duplicate, conflict }| append_response::AppendedMessage {
        id,
        duplicate,
        conflict,
    };
    AppendResponse { messages: appended.into_iter().map(message).collect() }
}
