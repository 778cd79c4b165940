//! A reading in answers.

use engine::records::Reading;
use serde::Serialize;
use serde_json::value::RawValue;

use super::text::{Time, of_value};

/// A reading.
#[derive(Serialize)]
pub(crate) struct ReadingShape {
    ts: Time,
    data: Box<RawValue>,
    changed: bool,
}

impl From<&Reading> for ReadingShape {
    fn from(reading: &Reading) -> Self {
        Self { ts: Time(reading.ts), data: of_value(&reading.value), changed: reading.changed }
    }
}
