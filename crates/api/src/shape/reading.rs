//! A reading in answers.

use engine::records::Reading;
use serde::Serialize;
use utoipa::ToSchema;

use super::text::{Data, Time};
use crate::row::{Cells, CsvRow};

/// A reading.
#[derive(Serialize, ToSchema)]
#[schema(as = Reading)]
pub(crate) struct ReadingShape {
    ts: Time,
    data: Data,
    changed: bool,
}

impl From<&Reading> for ReadingShape {
    fn from(reading: &Reading) -> Self {
        Self { ts: Time(reading.ts), data: (&reading.value).into(), changed: reading.changed }
    }
}

impl CsvRow for ReadingShape {
    const COLUMNS: &'static [&'static str] = &["ts", "data", "changed"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.shown(self.ts).json(Some(self.data.json())).shown(self.changed);
    }
}
