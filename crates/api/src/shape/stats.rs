//! Counts over time in answers.

use std::collections::BTreeMap;

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
    /// Commands that came to each status; of commands only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    by_status: BTreeMap<&'static str, u64>,
}

impl StatsShape {
    /// Counts of the same hours or days, of one status.
    pub(crate) fn add_status(&mut self, status: &'static str, counts: Vec<(Timestamp, u64)>) {
        for (item, (_, count)) in self.items.iter_mut().zip(counts) {
            item.by_status.insert(status, count);
        }
    }
}

impl From<Vec<(Timestamp, u64)>> for StatsShape {
    fn from(counts: Vec<(Timestamp, u64)>) -> Self {
        let item = |(from, count)| CountShape { from: Time(from), count, by_status: BTreeMap::new() };
        Self { items: counts.into_iter().map(item).collect() }
    }
}
