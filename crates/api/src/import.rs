//! An import as its body comes: lines are gathered into slices, slices are handed in, and a bounded
//! number of them is under way. When that many are, the body is not read on.
//!
//! Lines take effect in their order: slices are handed in one after the other, and the engine keeps
//! the order of a device.

use base::Problem;
use base::limits::SLICE_REPORTS_MAX;
use engine::{Engine, ImportDevice, ImportOutcome};
use net::body::BodyPieces;

use crate::lines::{Line, LineOutcomes, SliceOfLines, SlicesInFlight, TakesLines, feed};
use crate::shape::{ImportedShape, import_device};

/// Takes the whole body.
///
/// # Errors
/// When the body breaks off or the server is not accepting; lines that came before may have been
/// taken.
pub(crate) async fn take(engine: &Engine, mut body: BodyPieces) -> Result<ImportedShape, Problem> {
    let in_flight = SlicesInFlight::new(ImportedShape::add);
    let mut run = ImportRun { engine, open: SliceOfLines::default(), in_flight };
    feed(&mut body, &mut run).await?;
    let (told, settled) = run.in_flight.finish().await;
    settled.map(|()| told)
}

struct ImportRun<'a> {
    engine: &'a Engine,
    open: SliceOfLines<ImportDevice>,
    in_flight: SlicesInFlight<'a, ImportOutcome, ImportedShape>,
}

impl TakesLines for ImportRun<'_> {
    async fn add(&mut self, number: u64, line: Line) -> Result<(), Problem> {
        self.open.add(number, line, import_device);
        if self.open.is_full(SLICE_REPORTS_MAX) { self.hand_in().await } else { Ok(()) }
    }

    fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    async fn hand_in(&mut self) -> Result<(), Problem> {
        let slice = std::mem::take(&mut self.open);
        self.in_flight.push(Box::pin(imported(self.engine, slice))).await
    }
}

async fn imported(
    engine: &Engine,
    mut slice: SliceOfLines<ImportDevice>,
) -> Result<LineOutcomes<ImportOutcome>, Problem> {
    let devices = std::mem::take(&mut slice.items);
    Ok(slice.outcomes(engine.import(devices).await?))
}
