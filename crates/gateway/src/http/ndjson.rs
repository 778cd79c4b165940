//! An NDJSON body as it comes: lines are gathered into slices, slices are handed in, and a bounded
//! number of them is under way. When that many are, the body is not read on.

use std::collections::VecDeque;

use axum::body::{Body, Bytes};
use base::limits::{NDJSON_LINE_BYTES_MAX, REPORT_BYTES, SLICE_REPORTS_MAX};
use base::{DeviceId, Problem};
use engine::PendingSlice;
use engine::intake::{NotAccepting, Received, Slice};
use net::body::BodyPieces;
use net::detach::CALL_BYTES;
use net::memory_budget::MemoryReservation;

use super::answer::BodyOutcome;
use super::body;
use super::lines::{BodyLine, BodyLines};
use super::refusals::HttpSender;
use super::{HttpShared, RequestRefused};
use crate::decode::{self, DecodeRules};

/// Slices of one body that are handed in and not yet durable: enough to keep partitions and disk
/// busy while lines are read.
const SLICES_IN_FLIGHT_MAX: usize = 8;
/// A slice is handed in when its lines have this many bytes, even if it has few lines.
const SLICE_BYTES_MAX: usize = 256 * 1_024;

/// What the largest slice takes, in bytes.
const SLICE_HELD_BYTES_MAX: usize =
    SLICE_BYTES_MAX + NDJSON_LINE_BYTES_MAX + SLICE_REPORTS_MAX * REPORT_BYTES;

const _: () = assert!(NDJSON_LINE_BYTES_MAX <= SLICE_BYTES_MAX, "a slice holds the longest line");

/// Takes the whole body.
pub(super) async fn take(
    shared: &HttpShared,
    sender: &HttpSender,
    body: Body,
) -> Result<BodyOutcome, RequestRefused> {
    let mut run = NdjsonRun {
        shared,
        sender,
        open: OpenLines::default(),
        in_flight: VecDeque::new(),
        tally: BodyOutcome::default(),
    };
    let (mut lines, mut body) = (BodyLines::default(), BodyPieces::of(body));
    let read = loop {
        let piece = tokio::select! {
            biased;
            piece = body::next(&mut body) => match piece {
                Ok(piece) => piece,
                Err(broken_off) => break Err(broken_off),
            },
            // The sender pauses: what has come so far does not wait for it.
            () = std::future::ready(()), if !run.open.is_empty() => {
                run.hand_in().await?;
                continue;
            }
        };
        match piece {
            Some(chunk) => run.take_chunk(&mut lines, &chunk).await?,
            None => break Ok(()),
        }
    };
    drop(body);
    if let Err(broken_off) = read {
        drop(lines);
        return run.ends_early(broken_off).await;
    }
    if let Some((number, line)) = lines.last() {
        run.make_room().await?;
        run.open.add(number, line, DecodeRules::of(&shared.engine));
    }
    drop(lines);
    run.finish().await
}

struct NdjsonRun<'a> {
    shared: &'a HttpShared,
    sender: &'a HttpSender,
    open: OpenLines,
    in_flight: VecDeque<InFlight<'a>>,
    tally: BodyOutcome,
}

impl NdjsonRun<'_> {
    async fn take_chunk(&mut self, lines: &mut BodyLines, chunk: &Bytes) -> Result<(), NotAccepting> {
        self.shared.metrics.received_bytes.inc_by(chunk.len() as u64);
        let rules = DecodeRules::of(&self.shared.engine);
        let mut rest = &chunk[..];
        while let Some((number, line)) = lines.next(&mut rest) {
            self.make_room().await?;
            self.open.add(number, line, rules);
            if self.open.is_full() {
                self.hand_in().await?;
            }
        }
        Ok(())
    }

    /// Takes memory for the slice that begins. While there is none the body is not read on.
    async fn make_room(&mut self) -> Result<(), NotAccepting> {
        let (memory, sender) = (&self.shared.memory_of_lines, &self.sender.key);
        while self.open.memory.is_none() {
            let taken = match memory.try_take(sender, SLICE_HELD_BYTES_MAX) {
                None if self.in_flight.is_empty() => Some(memory.take(sender, SLICE_HELD_BYTES_MAX).await),
                taken => taken,
            };
            match taken {
                Some(taken) => self.open.memory = Some(taken.counted_by(&self.shared.metrics.held_bytes)),
                None => self.settle_oldest().await?,
            }
        }
        Ok(())
    }

    async fn hand_in(&mut self) -> Result<(), NotAccepting> {
        while self.in_flight.len() >= SLICES_IN_FLIGHT_MAX {
            self.settle_oldest().await?;
        }
        let OpenLines { slice, lines, bytes, mut memory } = std::mem::take(&mut self.open);
        if let Some(memory) = &mut memory {
            memory.shrink((bytes + lines.len() * REPORT_BYTES).max(CALL_BYTES));
        }
        let pending = self.shared.intake.submit(slice).await?;
        self.shared.metrics.slices_in_flight.inc();
        self.in_flight.push_back(InFlight {
            shared: self.shared,
            pending: Some(pending),
            lines,
            _memory: memory,
        });
        Ok(())
    }

    /// Waits for the oldest slice; so rejections come in order of their lines.
    async fn settle_oldest(&mut self) -> Result<(), NotAccepting> {
        let Some(mut slice) = self.in_flight.pop_front() else { return Ok(()) };
        let Some(pending) = slice.pending.take() else { return Ok(()) };
        let outcome = pending.durable().await?;
        for rejection in outcome.rejected {
            let (line, device) = &slice.lines[rejection.index as usize];
            let line = *line;
            let from = format_args!("line {line}");
            self.shared.refused(self.sender, device.as_ref(), &rejection.problem, from);
            self.tally.reject(line, rejection.problem);
        }
        self.shared.metrics.reports.accepted(outcome.accepted.into());
        self.tally.accept(outcome.accepted.into());
        Ok(())
    }

    /// What is handed in has its memory until it is durable, also where nobody is told.
    async fn ends_early(mut self, why: RequestRefused) -> Result<BodyOutcome, RequestRefused> {
        self.open = OpenLines::default();
        while !self.in_flight.is_empty() {
            if self.settle_oldest().await.is_err() {
                break;
            }
        }
        Err(why)
    }

    async fn finish(mut self) -> Result<BodyOutcome, RequestRefused> {
        if !self.open.is_empty() {
            self.hand_in().await?;
        }
        while !self.in_flight.is_empty() {
            self.settle_oldest().await?;
        }
        Ok(self.tally)
    }
}

/// Lines that will be handed in together.
#[derive(Default)]
struct OpenLines {
    slice: Slice,
    /// The number of each line, and the device that it names.
    lines: Vec<(u64, Option<DeviceId>)>,
    bytes: usize,
    memory: Option<MemoryReservation>,
}

impl OpenLines {
    fn add(&mut self, number: u64, line: BodyLine<'_>, rules: DecodeRules) {
        let (payload, decoded) = match line {
            BodyLine::Whole(bytes) => (bytes, decode::object(bytes, None, rules)),
            BodyLine::TooLong(beginning) => (beginning, Err(line_too_long())),
        };
        let received = Received { payload, topic: None };
        let device = decoded.as_ref().ok().map(|report| report.device.clone());
        match decoded {
            Ok(report) => self.slice.push(report, received),
            Err(problem) => self.slice.push_refused(problem, received),
        }
        self.lines.push((number, device));
        self.bytes += payload.len();
    }

    fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    fn is_full(&self) -> bool {
        self.slice.len() >= SLICE_REPORTS_MAX || self.bytes >= SLICE_BYTES_MAX
    }
}

fn line_too_long() -> Problem {
    Problem::not_allowed("line_too_long", format!("a line has at most {NDJSON_LINE_BYTES_MAX} bytes"))
}

/// A slice that is handed in.
struct InFlight<'a> {
    shared: &'a HttpShared,
    /// `None` once it is awaited.
    pending: Option<PendingSlice>,
    lines: Vec<(u64, Option<DeviceId>)>,
    _memory: Option<MemoryReservation>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.shared.metrics.slices_in_flight.dec();
    }
}
