//! The ends and the home of a copy in this server.

use std::future::pending;
use std::time::Duration;

use base::{Problem, Timestamp, random};
use engine::Engine;
use engine::records::StreamCopy;
use engine::streams::{
    AppendTerms, CopyMove, CopyProgress, CopyStatus, CopyTarget, OriginPage, PlaceInRun, StreamName,
    decode_transfer,
};
use net::transfer::is_json_line;
use tokio::task::spawn_blocking;

use crate::ends::{CopyBatch, CopyFailure, CopyHome, PageAsk, SinkAnswer, SourcePage, StreamEnd};
use crate::places::{BatchPlace, BatchPlaces};

/// A stream of this server.
#[derive(Clone, Debug)]
pub struct LocalStream {
    engine: Engine,
    stream: StreamName,
    places: BatchPlaces,
}

/// The row of a copy in this server.
#[derive(Debug)]
pub struct LocalCopy {
    engine: Engine,
    target: CopyTarget,
}

impl LocalStream {
    /// A stream of this server.
    #[must_use]
    pub fn new(engine: &Engine, stream: StreamName, places: &BatchPlaces) -> Self {
        Self { engine: engine.clone(), stream, places: places.clone() }
    }

    async fn look(&self, ask: &PageAsk) -> Result<OriginPage, CopyFailure> {
        let query = ask.query();
        let (streams, stream) = (self.engine.streams(), self.stream.clone());
        let read = spawn_blocking(move || streams.durable_page(&stream, &query)).await;
        Ok(read.map_err(|_| Problem::unavailable("the server is not accepting now"))??)
    }

    /// Durable messages behind an id, as [`StreamEnd::page`] says, with the place that they take.
    pub(crate) async fn durable(&self, ask: PageAsk) -> Result<(BatchPlace, OriginPage), CopyFailure> {
        let mut ask = ask;
        let began = ask.after;
        let mut told_at: Option<Timestamp> = None;
        loop {
            let place = self.places.take().await;
            let read = self.look(&ask).await?;
            let is_empty = read.page.items.is_empty();
            let now = self.engine.clock().now();
            // What was left out is told now and then, not once for each message of others.
            if !is_empty
                || !ask.waits
                || !read.page.is_end
                || read.page.next_after > began.saturating_add(LEFT_OUT)
                || told_at.is_some_and(|at| now >= at)
            {
                return Ok((place, read));
            }
            ask.after = read.page.next_after;
            // Whoever waits for messages holds no place.
            drop((place, read));
            let streams = self.engine.streams();
            let more = streams.saved(&self.stream, ask.after);
            if ask.after == began {
                more.await;
                continue;
            }
            // Counted from the first of them: where others come all the time it is told too.
            let at = *told_at.get_or_insert_with(|| now.after(LEFT_OUT_TOLD_AFTER));
            tokio::select! {
                () = more => {}
                () = self.engine.until(at) => {}
            }
        }
    }
}

impl StreamEnd for LocalStream {
    async fn page(&self, ask: PageAsk) -> Result<SourcePage, CopyFailure> {
        let (place, read) = self.durable(ask).await?;
        let mut page = SourcePage::of(&read);
        page.body = place.held_by(page.body);
        Ok(page)
    }

    async fn append(&self, batch: CopyBatch) -> Result<SinkAnswer, CopyFailure> {
        let messages = decode_transfer(&batch.body, is_json_line)?;
        let run = Some(PlaceInRun::of_sender(batch.run, batch.place));
        let terms = AppendTerms { run, is_durable: true, ..AppendTerms::default() };
        let (streams, expected) = (self.engine.streams(), batch.expected.as_deref());
        let appended = streams.append_transfer(&self.stream, messages, terms, expected).await?;
        Ok(SinkAnswer {
            appended: appended.appended,
            duplicates: appended.duplicates,
            refused: 0,
            identity: appended.identity,
        })
    }
}

/// After so many messages of other segments a copy that waits moves on,
const LEFT_OUT: u64 = 10_000;
/// or so long after fewer of them.
const LEFT_OUT_TOLD_AFTER: Duration = Duration::from_secs(1);

impl LocalCopy {
    /// The row of a copy.
    #[must_use]
    pub fn new(engine: &Engine, target: CopyTarget) -> Self {
        Self { engine: engine.clone(), target }
    }
}

impl CopyHome for LocalCopy {
    async fn row(&self) -> Result<StreamCopy, Problem> {
        self.engine.streams().copy_row(&self.target.key).await
    }

    async fn moved(&self, row: &StreamCopy, change: CopyMove) -> Result<CopyProgress, Problem> {
        self.engine.streams().move_copy(&self.target.key, row, change).await
    }

    fn note(&self, status: CopyStatus) {
        self.engine.streams().note_copy(&self.target, status);
    }

    fn now(&self) -> Timestamp {
        self.engine.clock().now()
    }

    async fn until(&self, at: Timestamp) {
        if at == Timestamp::MAX {
            return pending().await;
        }
        self.engine.until(at).await;
    }

    fn draw_run(&self) -> u64 {
        // Without randomness the batches of a run are sent one by one, in effect: none follows.
        random::unguessable::<8>().map_or(0, u64::from_le_bytes)
    }
}
