//! How evenly picks lie on devices, in answers.

use base::DeviceId;
use engine::campaigns::{CampaignCoverage, CoverageStats, FairnessStats, Weight};
use serde::Serialize;
use utoipa::ToSchema;

use super::text::{Time, of_millis};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// How often devices that match now were picked for a campaign.
#[derive(Serialize, ToSchema)]
#[schema(as = Coverage)]
pub(crate) struct CoverageShape {
    #[serde(flatten)]
    all: CoverageSummaryShape,
    /// With `by`: the same for the devices of each value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    items: Option<Vec<CoverageItemShape>>,
    /// There are more values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    more: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CoverageSummary)]
struct CoverageSummaryShape {
    /// Devices that match and are connected.
    eligible: u64,
    /// Their picks in the period.
    picked: u64,
    /// Those of them that were not picked.
    never_picked: u64,
    /// The fewest picks of one of them.
    min: u32,
    /// The most picks of one of them.
    max: u32,
    mean: f64,
    /// 0 if each was picked as often, near 1 if one had all picks.
    gini: f64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CoverageItem)]
struct CoverageItemShape {
    /// Null for devices without the label.
    #[schema(required)]
    value: Option<String>,
    #[serde(flatten)]
    summary: CoverageSummaryShape,
}

/// A device's share of all picks.
#[derive(Serialize, ToSchema)]
#[schema(as = FleetWeight)]
pub(crate) struct WeightShape<'a> {
    #[schema(schema_with = words::device_id)]
    device_id: &'a str,
    /// 1 where it has recovered from all its picks; the heaviest are picked first.
    weight: f64,
    /// Picks of the last 24 hours.
    picks: u64,
    #[schema(required)]
    last_picked_at: Option<Time>,
    /// It did not answer its last picks, and is set aside until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    benched_until: Option<Time>,
}

/// What the weights of devices follow from.
#[derive(Serialize, ToSchema)]
#[schema(as = Fairness)]
pub(crate) struct FairnessShape {
    /// Devices with a session.
    connected: u64,
    /// Devices that a task of the last hour picked, on average.
    avg_picked: f64,
    /// Tasks a minute, on average of the last hour.
    avg_tasks: f64,
    /// `connected / (avg_picked x avg_tasks)`, 1 at least.
    punishment: f64,
    /// A pick lowers a weight by this times the punishment; each period raises it by this.
    constant: f64,
    #[schema(schema_with = words::duration)]
    period: String,
}

/// By how much a weight recovers in each period.
const CONSTANT: f64 = 0.001;
const PERIOD_MS: u64 = 60_000;

impl<'a> WeightShape<'a> {
    pub(crate) fn of(device: &'a DeviceId, weight: &Weight) -> Self {
        Self {
            device_id: device.as_str(),
            weight: weight.weight,
            picks: weight.picks,
            last_picked_at: weight.last_picked_at.map(Time),
            benched_until: weight.benched_until.map(Time),
        }
    }
}

impl From<FairnessStats> for FairnessShape {
    fn from(FairnessStats { connected, avg_picked, avg_tasks, punishment }: FairnessStats) -> Self {
        Self {
            connected,
            avg_picked,
            avg_tasks,
            punishment,
            constant: CONSTANT,
            period: of_millis(PERIOD_MS),
        }
    }
}

impl From<CampaignCoverage> for CoverageShape {
    fn from(CampaignCoverage { all, items, more }: CampaignCoverage) -> Self {
        let item = |(value, stats): (Option<Box<str>>, CoverageStats)| CoverageItemShape {
            value: value.map(String::from),
            summary: stats.into(),
        };
        let items = items.map(|items| items.into_iter().map(item).collect());
        Self { all: all.into(), items, more }
    }
}

impl From<CoverageStats> for CoverageSummaryShape {
    fn from(coverage: CoverageStats) -> Self {
        let CoverageStats { eligible, picked, never_picked, min, max, mean, gini } = coverage;
        Self { eligible, picked, never_picked, min, max, mean, gini }
    }
}

impl CsvRow for WeightShape<'_> {
    const COLUMNS: &'static [&'static str] =
        &["device_id", "weight", "picks", "last_picked_at", "benched_until"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.device_id).shown(self.weight).shown(self.picks);
        cells.shown_or_empty(self.last_picked_at).shown_or_empty(self.benched_until);
    }
}
