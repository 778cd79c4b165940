//! Lines that are appended to a stream as their body comes: gathered into slices, a bounded number
//! of which is under way. When that many are, or there is no memory, the body is not read on.
//!
//! Slices are handed in one after the other, as a run: messages come in the order of their lines.
//! Where a slice is refused, what is behind it is not appended.

use axum::response::{IntoResponse, Response};
use base::Problem;
use base::limits::{MESSAGES_PER_CALL_MAX, NDJSON_LINE_BYTES_MAX};
use engine::streams::{AppendRun, AppendTerms, AppendedMessage, NewMessage, StreamName};
use net::body::BodyPieces;
use net::detach::CALL_BYTES;
use net::memory_budget::MemoryReservation;
use net::problem::{Code, response_with};
use net::shares::SenderKey;

use crate::ApiState;
use crate::lines::{Line, LineOutcomes, SLICE_BYTES, SliceOfLines, SlicesInFlight, TakesLines, feed};
use crate::shape::{AppendedLinesShape, LinesBeforeShape, message_in_line};

/// What a message takes beside its line until it is answered, about, in bytes.
const MESSAGE_BYTES: usize = 256;
/// What the largest slice takes, in bytes.
const SLICE_HELD_BYTES_MAX: usize =
    SLICE_BYTES + NDJSON_LINE_BYTES_MAX + MESSAGES_PER_CALL_MAX * MESSAGE_BYTES;

/// Lines that were not all taken: why, and what became of those before.
#[derive(Debug)]
pub(crate) struct LinesCut {
    problem: Problem,
    before: LinesBeforeShape,
}

impl IntoResponse for LinesCut {
    fn into_response(self) -> Response {
        let mut response = response_with(&self.problem, &self.before);
        response.extensions_mut().insert(Code(self.problem.code));
        response
    }
}

/// Takes the whole body.
///
/// # Errors
/// When the body breaks off, the stream is full or the server is not accepting; lines that came
/// before may have been appended.
pub(crate) async fn take(
    api: &ApiState,
    (stream, is_durable): (&StreamName, bool),
    whose: &SenderKey,
    mut body: BodyPieces,
) -> Result<AppendedLinesShape, Box<LinesCut>> {
    let mut lines = AppendingLines {
        api,
        stream,
        is_durable,
        whose,
        open: SliceOfLines::default(),
        memory: None,
        in_flight: SlicesInFlight::new(LinesBeforeShape::add),
        run: api.streams().begin_run(),
    };
    let fed = feed(&mut body, &mut lines).await;
    // What is handed in has its memory until it is answered, also when the body breaks off. Nothing
    // else is kept so long.
    let AppendingLines { in_flight, open, memory, .. } = lines;
    drop((body, open, memory));
    let (before, settled) = in_flight.finish().await;
    match fed.and(settled) {
        Ok(()) => Ok(before.into_lines()),
        Err(problem) => Err(Box::new(LinesCut { problem, before })),
    }
}

struct AppendingLines<'a> {
    api: &'a ApiState,
    stream: &'a StreamName,
    is_durable: bool,
    whose: &'a SenderKey,
    open: SliceOfLines<NewMessage>,
    /// Of the open slice.
    memory: Option<MemoryReservation>,
    in_flight: SlicesInFlight<'a, AppendedMessage, LinesBeforeShape>,
    /// Slices that are not answered.
    run: AppendRun,
}

impl TakesLines for AppendingLines<'_> {
    async fn add(&mut self, number: u64, line: Line) -> Result<(), Problem> {
        self.take_memory().await?;
        self.open.add(number, line, message_in_line);
        if self.open.is_full(MESSAGES_PER_CALL_MAX) { self.hand_in().await } else { Ok(()) }
    }

    fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    async fn hand_in(&mut self) -> Result<(), Problem> {
        let (mut slice, mut memory) = (std::mem::take(&mut self.open), self.memory.take());
        if let Some(memory) = &mut memory {
            memory.shrink(slice.held_bytes(MESSAGE_BYTES).max(CALL_BYTES));
        }
        let streams = self.api.streams();
        if self.in_flight.is_empty() {
            self.run = streams.begin_run();
        }
        let messages = std::mem::take(&mut slice.items);
        let append = (!messages.is_empty()).then(|| {
            let terms = AppendTerms { is_durable: self.is_durable, ..AppendTerms::default() };
            streams.append_next(&mut self.run, self.stream, messages, terms)
        });
        self.in_flight.push(Box::pin(appended(slice, append, memory))).await
    }
}

impl AppendingLines<'_> {
    /// Takes memory for the slice that begins. While there is none the body is not read on.
    async fn take_memory(&mut self) -> Result<(), Problem> {
        let part = &self.api.shared.memory_of_lines;
        while self.memory.is_none() {
            self.memory = part.try_take(self.whose, SLICE_HELD_BYTES_MAX);
            match self.memory {
                Some(_) => {}
                None if self.in_flight.is_empty() => {
                    self.memory = Some(part.take(self.whose, SLICE_HELD_BYTES_MAX).await);
                }
                None => self.in_flight.settle_oldest().await?,
            }
        }
        Ok(())
    }
}

/// What became of the lines of a slice. Its memory is held until this is known.
async fn appended(
    slice: SliceOfLines<NewMessage>,
    append: Option<impl Future<Output = Result<Vec<AppendedMessage>, Problem>>>,
    _memory: Option<MemoryReservation>,
) -> Result<LineOutcomes<AppendedMessage>, Problem> {
    let appended = match append {
        Some(append) => append.await?,
        None => Vec::new(),
    };
    Ok(slice.outcomes(appended.into_iter().map(Ok)))
}

#[cfg(test)]
mod tests {
    use futures_util::future::poll_immediate;
    use net::memory_budget::{MemoryBudget, PART_BYTES, Purpose};
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn the_memory_of_a_slice_is_held_until_it_is_answered() {
        let part = MemoryBudget::default().part(Purpose::Lines);
        let memory = part.try_take(&SenderKey::Unknown, SLICE_HELD_BYTES_MAX);
        let (answer, answered) = oneshot::channel();
        let append = async { answered.await.expect("an answer") };
        let mut waiting = Box::pin(appended(SliceOfLines::default(), Some(append), memory));
        assert!(poll_immediate(&mut waiting).await.is_none());
        assert!(part.free_bytes() < PART_BYTES);
        assert!(answer.send(Ok(Vec::new())).is_ok());
        assert!(waiting.await.expect("outcomes").is_empty());
        assert_eq!(part.free_bytes(), PART_BYTES);
    }
}
