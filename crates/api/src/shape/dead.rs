//! Dead letters in answers.

use engine::queues::{DeadView, id_text};
use serde::Serialize;
use utoipa::ToSchema;

use super::payload::PayloadShape;
use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// A job that failed for good.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadJob)]
pub(crate) struct DeadShape<'a> {
    #[schema(schema_with = words::job_id)]
    id: String,
    #[serde(flatten)]
    payload: PayloadShape<'a>,
    attempt: u32,
    tries: u32,
    #[schema(schema_with = words::dead_reason)]
    reason: &'static str,
    /// What its last consumer said of it.
    #[schema(required)]
    error: Option<&'a str>,
    died_at: Time,
}

impl<'a> From<&'a DeadView> for DeadShape<'a> {
    fn from(view: &'a DeadView) -> Self {
        let dead = &view.dead;
        Self {
            id: id_text(dead.id),
            payload: (&view.payload).into(),
            attempt: dead.attempt,
            tries: dead.tries,
            reason: dead.reason.as_str(),
            error: dead.error.as_deref(),
            died_at: Time(dead.died_at),
        }
    }
}

impl CsvRow for DeadShape<'_> {
    const COLUMNS: &'static [&'static str] =
        &["id", "payload", "payload_base64", "attempt", "tries", "reason", "error", "died_at"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id);
        self.payload.write(cells);
        cells.shown(self.attempt).shown(self.tries).text(self.reason).shown_or_empty(self.error);
        cells.shown(self.died_at);
    }
}

/// How many dead jobs are tried again.
#[derive(Serialize, ToSchema)]
#[schema(as = Respawned)]
pub(crate) struct RespawnedShape {
    pub respawned: usize,
}
