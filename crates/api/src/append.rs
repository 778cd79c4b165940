//! Lines that are appended to a stream as their body comes: gathered into slices, a bounded number
//! of which is under way. When that many are, or there is no memory, the body is not read on.
//!
//! Slices are handed in one after the other, as a run: messages come in the order of their lines,
//! and where a slice is refused, what is behind it is not appended.

use base::Problem;
use base::limits::{MESSAGES_PER_CALL_MAX, NDJSON_LINE_BYTES_MAX};
use engine::Streams;
use engine::streams::{AppendRun, AppendTerms, AppendedMessage, NewMessage, StreamName};
use futures_util::future::{BoxFuture, poll_immediate};
use futures_util::stream::{FuturesOrdered, StreamExt};
use net::body::Pieces;
use net::memory_budget::Reservation;
use net::shares::SenderKey;

use crate::ApiState;
use crate::lines::{Line, TakesLines, feed};
use crate::shape::{AppendedLinesShape, message_in_line};

/// Slices of one body that are handed in and not yet answered.
const SLICES_IN_FLIGHT_MAX: usize = 8;
/// Lines of a slice that is handed in even if it has few of them, in bytes.
const SLICE_BYTES: usize = 256 * 1_024;
/// What a message takes beside its line until it is answered, about, in bytes.
const MESSAGE_BYTES: usize = 256;
/// What the largest slice takes, in bytes.
const SLICE_HELD_BYTES_MAX: usize =
    SLICE_BYTES + NDJSON_LINE_BYTES_MAX + MESSAGES_PER_CALL_MAX * MESSAGE_BYTES;

/// Takes the whole body.
///
/// # Errors
/// When the body breaks off, the stream is full or the server is not accepting; lines that came
/// before may have been appended.
pub(crate) async fn take(
    api: &ApiState,
    (stream, is_durable): (&StreamName, bool),
    whose: &SenderKey,
    mut body: Pieces,
) -> Result<AppendedLinesShape, Problem> {
    let mut lines = AppendingLines {
        api,
        stream,
        is_durable,
        whose,
        open: SliceOfLines::default(),
        in_flight: FuturesOrdered::new(),
        run: api.streams().begin_run(),
        told: AppendedLinesShape::default(),
    };
    feed(&mut body, &mut lines).await?;
    lines.finish().await
}

struct AppendingLines<'a> {
    api: &'a ApiState,
    stream: &'a StreamName,
    is_durable: bool,
    whose: &'a SenderKey,
    open: SliceOfLines,
    in_flight: FuturesOrdered<BoxFuture<'a, Result<Outcomes, Problem>>>,
    /// Slices that are not answered.
    run: AppendRun,
    told: AppendedLinesShape,
}

/// What became of the lines of a slice, with their numbers.
type Outcomes = Vec<(u64, Result<AppendedMessage, Problem>)>;

impl TakesLines for AppendingLines<'_> {
    async fn add(&mut self, number: u64, line: Line) -> Result<(), Problem> {
        self.make_room().await?;
        self.open.add(number, line);
        if self.open.is_full() { self.hand_in().await } else { Ok(()) }
    }

    fn has_open(&self) -> bool {
        !self.open.lines.is_empty()
    }

    async fn hand_in(&mut self) -> Result<(), Problem> {
        while self.in_flight.len() >= SLICES_IN_FLIGHT_MAX {
            self.settle_oldest().await?;
        }
        let slice = std::mem::take(&mut self.open);
        if self.in_flight.is_empty() {
            self.run = self.api.streams().begin_run();
        }
        self.in_flight.push_back(slice.append(
            &self.api.streams(),
            (self.stream, self.is_durable),
            &mut self.run,
        ));
        // What is polled once is on its way, ahead of all that is handed in later.
        if let Some(Some(outcomes)) = poll_immediate(self.in_flight.next()).await {
            self.tell(outcomes?);
        }
        Ok(())
    }
}

impl AppendingLines<'_> {
    /// Takes memory for the slice that begins. While there is none the body is not read on.
    async fn make_room(&mut self) -> Result<(), Problem> {
        let memory = &self.api.shared.memory_of_lines;
        while self.open.memory.is_none() {
            self.open.memory = memory.try_take(self.whose, SLICE_HELD_BYTES_MAX);
            match self.open.memory {
                Some(_) => {}
                None if self.in_flight.is_empty() => {
                    self.open.memory = Some(memory.take(self.whose, SLICE_HELD_BYTES_MAX).await);
                }
                None => self.settle_oldest().await?,
            }
        }
        Ok(())
    }

    /// Waits for the oldest slice; so rejections come in order of their lines.
    async fn settle_oldest(&mut self) -> Result<(), Problem> {
        if let Some(outcomes) = self.in_flight.next().await {
            self.tell(outcomes?);
        }
        Ok(())
    }

    fn tell(&mut self, outcomes: Outcomes) {
        for (line, outcome) in outcomes {
            self.told.add(line, outcome);
        }
    }

    async fn finish(mut self) -> Result<AppendedLinesShape, Problem> {
        if self.has_open() {
            self.hand_in().await?;
        }
        while !self.in_flight.is_empty() {
            self.settle_oldest().await?;
        }
        Ok(self.told)
    }
}

/// Lines that will be handed in together.
#[derive(Debug, Default)]
struct SliceOfLines {
    messages: Vec<NewMessage>,
    /// The number of each line, and why it is not handed in, where it is not.
    lines: Vec<(u64, Option<Problem>)>,
    bytes: usize,
    memory: Option<Reservation>,
}

impl SliceOfLines {
    fn add(&mut self, number: u64, line: Line) {
        self.bytes += line.as_ref().map_or(0, String::len);
        match line.and_then(|line| message_in_line(&line)) {
            Ok(message) => {
                self.messages.push(message);
                self.lines.push((number, None));
            }
            Err(problem) => self.lines.push((number, Some(problem))),
        }
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= MESSAGES_PER_CALL_MAX || self.bytes >= SLICE_BYTES
    }

    fn append<'a>(
        mut self,
        streams: &Streams,
        (stream, is_durable): (&StreamName, bool),
        run: &mut AppendRun,
    ) -> BoxFuture<'a, Result<Outcomes, Problem>> {
        if let Some(memory) = &mut self.memory {
            memory.shrink(self.bytes + self.lines.len() * MESSAGE_BYTES);
        }
        let messages = std::mem::take(&mut self.messages);
        let append = (!messages.is_empty()).then(|| {
            let terms = AppendTerms { is_durable, ..AppendTerms::default() };
            streams.append_next(run, stream, messages, terms)
        });
        Box::pin(async move {
            let appended = match append {
                Some(append) => append.await?,
                None => Vec::new(),
            };
            let mut appended = appended.into_iter();
            let outcome = |(number, refused): (u64, Option<Problem>)| match refused {
                Some(problem) => Some((number, Err(problem))),
                None => Some((number, Ok(appended.next()?))),
            };
            Ok(self.lines.into_iter().filter_map(outcome).collect())
        })
    }
}
