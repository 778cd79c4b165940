//! A call that appends: batches come up ahead of their answers, and each is answered in turn, once
//! it is durable.

use access::{Admitted, RequestedAction, StreamRights};
use base::Problem;
use engine::streams::{AppendRun, AppendTerms, AppendedMessage, StreamName};
use prost::Message;
use tonic::Status;

use super::new_message;
use crate::proto::{AppendRequest, AppendResponse, NewStreamMessage, append_response};
use crate::receiving::CallMessages;
use crate::sent_ahead::{BatchesInFlight, SentAhead};
use crate::status::status;
use crate::stopping::StopSignal;

/// What a header takes beside its letters, in bytes: two texts, in a map that may be half empty.
const HEADER_BYTES: usize = 4 * size_of::<String>();

type AppendEnd = Result<Vec<AppendedMessage>, Problem>;

/// A call of batches.
pub(super) struct Appending {
    caller: Admitted,
    batches: CallMessages<AppendRequest>,
    streams: engine::StreamCalls,
    stop: StopSignal,
    /// That of the batch before.
    stream: Option<StreamName>,
    /// Batches of that stream that are not answered.
    run: AppendRun,
    sent: BatchesInFlight<AppendRequest, AppendEnd>,
    /// No more batches are taken; this is how the call ends.
    over: Option<Result<(), Status>>,
}

impl Appending {
    pub(super) fn new(
        caller: Admitted,
        batches: CallMessages<AppendRequest>,
        (streams, memory): (engine::StreamCalls, SentAhead),
        stop: StopSignal,
    ) -> Self {
        Self {
            caller,
            batches,
            run: streams.begin_run(),
            streams,
            stop,
            stream: None,
            sent: BatchesInFlight::new(memory),
            over: None,
        }
    }

    /// The next answer. Batches are taken only while answers are: who reads none is not read from
    /// either.
    pub(super) async fn next(mut self) -> Option<(Result<AppendResponse, Status>, Self)> {
        loop {
            self.hand_in_waiting().await;
            let takes = self.over.is_none() && self.sent.has_room();
            tokio::select! {
                biased;
                Some(outcome) = self.sent.next() => {
                    let answer = outcome.map(answer).map_err(|problem| {
                        // Nothing more is said after a refusal.
                        self.over = Some(Ok(()));
                        self.sent.clear();
                        status(&problem)
                    });
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

    fn take(&mut self, batch: Result<Option<AppendRequest>, Status>) {
        match batch {
            Ok(Some(batch)) => {
                let bytes = memory_bytes(&batch, self.batches.large_bytes());
                self.sent.wait(batch, bytes);
            }
            Ok(None) => self.over = Some(Ok(())),
            Err(status) => self.over = Some(Err(status)),
        }
    }

    /// Hands in the batch that waits for memory, once there is some.
    async fn hand_in_waiting(&mut self) {
        let Some((batch, held)) = self.sent.with_memory().await else { return };
        match self.append(batch) {
            Ok(append) => self.sent.push(held, append).await,
            Err(problem) => self.over = Some(Err(status(&problem))),
        }
    }

    fn append(
        &mut self,
        batch: AppendRequest,
    ) -> Result<impl Future<Output = AppendEnd> + Send + use<>, Problem> {
        let AppendRequest { namespace, stream, messages, expect_last_id } = batch;
        let mut is_other = false;
        if !(namespace.is_empty() && stream.is_empty()) {
            let action = RequestedAction::Stream { namespace: &namespace, right: StreamRights::Append };
            self.caller.may(action)?;
            let named = Some(StreamName::new(&namespace, &stream)?);
            is_other = named != self.stream;
            self.stream = named;
        }
        if is_other || self.sent.is_empty() {
            self.run = self.streams.begin_run();
        }
        let unnamed = || Problem::not_allowed("missing_field", "the first batch has to name its stream");
        let stream = self.stream.clone().ok_or_else(unnamed)?;
        let messages =
            messages.into_iter().zip(1..).map(|(message, place)| new_message::read(place, message));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let terms = AppendTerms { expect_last_id, waits_until_durable: true, ..AppendTerms::default() };
        Ok(self.streams.append_next(&mut self.run, &stream, messages, terms))
    }
}

/// What a batch takes in memory, in bytes: its content, and what it was read into. A part may keep
/// all that came, so the content counts as no less. A short header is a few bytes on the wire.
fn memory_bytes(batch: &AppendRequest, came: usize) -> usize {
    let headers: usize = batch.messages.iter().map(|message| message.headers.len()).sum();
    let read_into = batch.messages.len() * size_of::<NewStreamMessage>() + headers * HEADER_BYTES;
    batch.encoded_len().max(came) + read_into
}

fn answer(appended: Vec<AppendedMessage>) -> AppendResponse {
    let message = |AppendedMessage { id, duplicate, conflict }| append_response::AppendedMessage {
        id,
        duplicate,
        conflict,
    };
    AppendResponse { messages: appended.into_iter().map(message).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_takes_memory_for_what_it_is_read_into() {
        let headers = ('a'..='p').map(|letter| (letter.to_string(), String::new())).collect();
        let message = NewStreamMessage { headers, ..NewStreamMessage::default() };
        let batch = AppendRequest { messages: vec![message; 1_000], ..AppendRequest::default() };
        assert!(batch.encoded_len() < 1_000 * 16 * 8);
        assert!(memory_bytes(&batch, 0) > 1_000 * 16 * HEADER_BYTES);
        assert!(memory_bytes(&batch, crate::MESSAGE_BYTES_MAX) > crate::MESSAGE_BYTES_MAX);
    }
}
