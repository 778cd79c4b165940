//! How far copies are behind, in messages and in seconds, and what went by them: read when somebody
//! asks for it.

use base::limits::COPIES_MAX;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use records::StreamCopy;

use super::copy::CopyReport;
use super::{CopyKey, CopyState};
use crate::Engine;

/// Looks at copies when `/metrics` is asked for.
#[derive(Debug)]
pub(crate) struct CopyCollector {
    pub(crate) engine: Engine,
}

/// How a copy stands: its name, what it is, and how it is read.
type CopyGauge = (&'static str, &'static str, fn(&CopyReport, base::Timestamp) -> f64);
/// The same of what went by it.
type CopyCounter = (&'static str, &'static str, fn(&StreamCopy) -> u64);

const GAUGES: [CopyGauge; 3] = [
    (
        "fieldpost_streams_copy_lag_messages",
        "Messages that a copy has not copied, and reports that are no messages yet",
        |copy, _| copy.lag as f64,
    ),
    (
        "fieldpost_streams_copy_lag_seconds",
        "Age of the oldest of these messages; 0 without one",
        |copy, now| {
            let age = |at: base::Timestamp| now.0.saturating_sub(at.0).max(0) as f64 / 1_000.0;
            copy.oldest_uncopied_at.map_or(0.0, age)
        },
    ),
    ("fieldpost_streams_copy_failing", "1 while the latest try of a copy failed", |copy, _| {
        f64::from(u8::from(copy.state == CopyState::Waiting || copy.error.is_some()))
    }),
];

/// `_total` is added to the names.
const COUNTERS: [CopyCounter; 4] = [
    ("fieldpost_streams_copy_copied", "Messages of a copy that were new at its other end", |copy| {
        copy.copied
    }),
    ("fieldpost_streams_copy_duplicates", "Messages of a copy that its other end had already", |copy| {
        copy.duplicates
    }),
    ("fieldpost_streams_copy_dropped", "Messages that went before a copy took them", |copy| copy.dropped),
    (
        "fieldpost_streams_copy_refused",
        "Reports of a copy of kind reports that its other end refused for good",
        |copy| copy.reports.as_ref().map_or(0, |reports| reports.refused),
    ),
];

impl Collector for CopyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let copies = self.copies();
        let now = self.engine.clock().now();
        for (name, help, figure) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (key, copy) in &copies {
                ConstGauge::new(figure(copy, now)).encode(family.encode_family(&labels(key))?)?;
            }
        }
        for (name, help, count) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (key, copy) in &copies {
                ConstCounter::new(count(&copy.row)).encode(family.encode_family(&labels(key))?)?;
            }
        }
        Ok(())
    }
}

fn labels(copy: &CopyKey) -> [(&'static str, String); 3] {
    [
        ("namespace", copy.stream.namespace().to_owned()),
        ("stream", copy.stream.stream().to_owned()),
        ("copy", copy.copy.to_string()),
    ]
}

impl CopyCollector {
    /// All of them: there are no more than [`COPIES_MAX`]. What cannot be read now is not shown; a
    /// store that fails says so elsewhere.
    fn copies(&self) -> Vec<(CopyKey, CopyReport)> {
        let keys = self.engine.context().streams.copies.keys(COPIES_MAX);
        self.engine.streams().copies_by_key(keys)
    }
}
