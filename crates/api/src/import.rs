//! An import as its body comes: lines are gathered into slices, slices are handed in, and a bounded
//! number of them is under way. When that many are, the body is not read on.
//!
//! Lines take effect in their order: slices are handed in one after the other, and the engine keeps
//! the order of a device.

use base::Problem;
use base::limits::{NDJSON_LINE_BYTES_MAX, SLICE_REPORTS_MAX};
use engine::intake::NotAccepting;
use engine::{Engine, ImportDevice, Imported};
use futures_util::future::{BoxFuture, poll_immediate};
use futures_util::stream::{FuturesOrdered, StreamExt};
use net::body::Pieces;

use crate::lines::{Line, TakesLines, feed};
use crate::shape::{ImportedShape, import_device};

/// Slices of one body that are handed in and not yet durable.
const SLICES_IN_FLIGHT_MAX: usize = 8;
/// A slice is handed in when its lines have this many bytes, even if it has few lines.
const SLICE_BYTES_MAX: usize = 256 * 1_024;

const _: () = assert!(NDJSON_LINE_BYTES_MAX <= SLICE_BYTES_MAX, "a slice holds the longest line");

/// Takes the whole body.
///
/// # Errors
/// When the body breaks off or the server is not accepting; lines that came before may have been
/// taken.
pub(crate) async fn take(engine: &Engine, mut body: Pieces) -> Result<ImportedShape, Problem> {
    let mut run = Run {
        engine,
        open: Slice::default(),
        in_flight: FuturesOrdered::new(),
        told: ImportedShape::default(),
    };
    feed(&mut body, &mut run).await?;
    run.finish().await
}

struct Run<'a> {
    engine: &'a Engine,
    open: Slice,
    in_flight: FuturesOrdered<BoxFuture<'a, Result<Outcomes, NotAccepting>>>,
    told: ImportedShape,
}

/// What became of the lines of a slice, with their numbers.
type Outcomes = Vec<(u64, Result<Imported, Problem>)>;

impl TakesLines for Run<'_> {
    async fn add(&mut self, number: u64, line: Line) -> Result<(), Problem> {
        self.open.add(number, line);
        if self.open.is_full() { self.hand_in().await } else { Ok(()) }
    }

    fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    async fn hand_in(&mut self) -> Result<(), Problem> {
        while self.in_flight.len() >= SLICES_IN_FLIGHT_MAX {
            self.settle_oldest().await?;
        }
        let (engine, slice) = (self.engine, std::mem::take(&mut self.open));
        self.in_flight.push_back(Box::pin(slice.import(engine)));
        // What is polled once is on its way, ahead of all that is handed in later.
        if let Some(Some(outcomes)) = poll_immediate(self.in_flight.next()).await {
            self.tell(outcomes?);
        }
        Ok(())
    }
}

impl Run<'_> {
    /// Waits for the oldest slice; so rejections come in order of their lines.
    async fn settle_oldest(&mut self) -> Result<(), NotAccepting> {
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

    async fn finish(mut self) -> Result<ImportedShape, Problem> {
        if !self.open.is_empty() {
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
struct Slice {
    devices: Vec<ImportDevice>,
    /// The number of each line, and why it is not handed in, where it is not.
    lines: Vec<(u64, Option<Problem>)>,
    bytes: usize,
}

impl Slice {
    fn add(&mut self, number: u64, line: Line) {
        self.bytes += line.as_ref().map_or(0, String::len);
        match line.and_then(|line| import_device(&line)) {
            Ok(device) => {
                self.devices.push(device);
                self.lines.push((number, None));
            }
            Err(problem) => self.lines.push((number, Some(problem))),
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= SLICE_REPORTS_MAX || self.bytes >= SLICE_BYTES_MAX
    }

    async fn import(self, engine: &Engine) -> Result<Outcomes, NotAccepting> {
        let mut imported = engine.import(self.devices).await?.into_iter();
        let outcome = |(number, refused): (u64, Option<Problem>)| match refused {
            Some(problem) => Some((number, Err(problem))),
            None => Some((number, imported.next()?)),
        };
        Ok(self.lines.into_iter().filter_map(outcome).collect())
    }
}
