//! How many devices there are, in answers.

use engine::fleet::index::ValueCount;
use engine::fleet_index::FleetCounts;
use serde::Serialize;
use utoipa::ToSchema;

/// Devices of a selection.
#[derive(Serialize, ToSchema)]
#[schema(as = FleetCount)]
pub(crate) struct FleetCountShape<'a> {
    total: u64,
    /// With a live session of their own.
    connected: u64,
    online: u64,
    lost: u64,
    never_seen: u64,
    /// The labels that the segments of a place are; none without the setting.
    place: &'a [String],
    /// With `by`, most first; at most 1,000 values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    items: Option<Vec<FleetValueShape<'a>>>,
    /// There are more values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    more: bool,
}

/// Devices with the same value; null are those without the key.
#[derive(Serialize, ToSchema)]
#[schema(as = FleetValue)]
pub(crate) struct FleetValueShape<'a> {
    value: Option<&'a str>,
    total: u64,
    connected: u64,
}

impl<'a> FleetCountShape<'a> {
    /// The counts, those by value where they were asked for.
    pub(crate) fn new(counts: &'a FleetCounts, is_by_value: bool, place: &'a [String]) -> Self {
        let FleetCounts { count, items, more } = counts;
        Self {
            total: count.total,
            connected: count.connected,
            online: count.online,
            lost: count.lost,
            never_seen: count.never_seen,
            place,
            items: is_by_value.then(|| items.iter().map(FleetValueShape::from).collect()),
            more: *more,
        }
    }
}

impl<'a> From<&'a ValueCount> for FleetValueShape<'a> {
    fn from(item: &'a ValueCount) -> Self {
        Self { value: item.value.as_deref(), total: item.total, connected: item.connected }
    }
}
