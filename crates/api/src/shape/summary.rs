//! Readings summed up, in answers.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::text::Time;
use crate::openapi::words;
use crate::summary::{Summary, SummaryBucket};

/// A device's readings in equal steps of time.
#[derive(Serialize, ToSchema)]
#[schema(as = Summary)]
pub(crate) struct SummaryShape {
    /// Steps without readings are left out.
    items: Vec<StepShape>,
    /// How long a step is.
    step_ms: i64,
    /// Readings that were read for this answer.
    looked_at: u64,
    /// Whether that was all; otherwise `next_cursor` goes on.
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::cursor, required = false)]
    next_cursor: Option<String>,
}

/// The readings of a step.
#[derive(Serialize, ToSchema)]
#[schema(as = SummaryStep)]
struct StepShape {
    /// When it begins.
    from: Time,
    /// Its readings.
    count: u64,
    /// Those that changed the device's value.
    changed: u64,
    /// Of the numbers among them; `true` is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
    /// What the last of them said; null where `path` leads nowhere.
    #[schema(schema_with = words::any, required = true)]
    last: Option<Box<RawValue>>,
}

impl SummaryShape {
    /// What was summed up of so many readings, and where to go on.
    pub(crate) fn of(summary: &Summary, looked_at: u64, next_cursor: Option<String>) -> Self {
        Self {
            items: summary.found.iter().map(StepShape::from).collect(),
            step_ms: summary.steps.step_ms,
            looked_at,
            complete: next_cursor.is_none(),
            next_cursor,
        }
    }
}

impl From<&SummaryBucket> for StepShape {
    fn from(step: &SummaryBucket) -> Self {
        Self {
            from: Time(step.from),
            count: step.count,
            changed: step.changed,
            min: step.range.map(|range| range.min),
            max: step.range.map(|range| range.max),
            mean: step.range.map(|range| range.mean()),
            last: step.last.clone(),
        }
    }
}
