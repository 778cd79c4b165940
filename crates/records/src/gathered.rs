//! Accepted reports on their way from a partition of devices to the stream of a copy of kind
//! `reports`. A row is written with the reports themselves, and goes once the stream has them.

use base::{DeviceId, Incarnation, Lineage, Timestamp, Value};

use crate::weight::weighs;

/// Some accepted reports, in the order in which they were applied. A row without any holds the
/// number of the next one, so that no number is given twice.
#[derive(Clone, Debug, PartialEq)]
pub struct GatheredReports {
    /// For which copy they are: [`ReportsCopy::gather`].
    pub gather: Incarnation,
    /// The number of the first; the others follow without a gap.
    pub first: u64,
    /// The lineage in which the numbers were given: those of a restored directory are others.
    pub lineage: Lineage,
    /// When they were received.
    pub received_at: Timestamp,
    /// The reports.
    pub reports: Vec<GatheredReport>,
}

weighs!(GatheredReports: |gathered| gathered.bytes());

/// An accepted report.
#[derive(Clone, Debug, PartialEq)]
pub struct GatheredReport {
    /// The device.
    pub device: DeviceId,
    /// The report's own `ts`; `None` is the time of receipt.
    pub ts: Option<Timestamp>,
    /// What was reported.
    pub value: Value,
}

/// What a copy of kind `reports` has that no other has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportsCopy {
    /// Names its gathered reports. Never used twice, also where a copy is made again.
    pub gather: Incarnation,
    /// Only reports of the devices that this selection means; all if there is none.
    pub selector: Option<Box<str>>,
    /// Reports that the node at the other end refused for good.
    pub refused: u64,
}

impl GatheredReports {
    /// About how many bytes a report takes beside its texts.
    const REPORT_BYTES: usize = 16;

    /// The number behind the last one.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.first.saturating_add(self.reports.len() as u64)
    }

    /// About how many bytes the reports take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.reports.iter().map(GatheredReport::bytes).sum()
    }
}

impl GatheredReport {
    /// About how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let value = match &self.value {
            Value::Text(text) => text.len(),
            Value::Number(_) => 8,
        };
        GatheredReports::REPORT_BYTES + self.device.as_str().len() + value
    }
}
