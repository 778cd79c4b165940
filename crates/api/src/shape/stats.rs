//! Counts over time in answers.

use base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::text::Time;

/// Counts of hours or days, oldest first, those in which nothing happened too.
#[derive(Serialize, ToSchema)]
#[schema(as = Stats)]
pub(crate) struct StatsShape {
    items: Vec<CountShape>,
}

/// How often it happened in the hour or UTC day that begins then.
#[derive(Serialize, ToSchema)]
#[schema(as = Count)]
pub(crate) struct CountShape {
    from: Time,
    count: u64,
}

impl From<Vec<(Timestamp, u64)>> for StatsShape {
    fn from(counts: Vec<(Timestamp, u64)>) -> Self {
        let item = |(from, count)| CountShape { from: Time(from), count };
        Self { items: counts.into_iter().map(item).collect() }
    }
}
