//! `fieldpost_spool_*` at the agent's `/metrics`.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::disk_threads::now;
use crate::log::SpoolLog;

/// What the log knows when it is asked.
pub(crate) struct SpoolMetrics(pub(crate) Arc<SpoolLog>);

base::debug_as_name!(SpoolMetrics);

impl Collector for SpoolMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let summary = self.0.summary();
        let age = summary.oldest_at.map_or(0.0, |oldest| now().since(oldest).as_secs_f64());
        for (name, help, value) in [
            ("fieldpost_spool_waiting", "Items that wait to be forwarded", summary.waiting as f64),
            ("fieldpost_spool_bytes", "Bytes of the records that wait", summary.bytes as f64),
            ("fieldpost_spool_disk_bytes", "Bytes of all segments on disk", summary.disk_bytes as f64),
            (
                "fieldpost_spool_destinations",
                "Destinations with something waiting",
                summary.destinations as f64,
            ),
            ("fieldpost_spool_oldest_seconds", "How long the oldest item has waited", age),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let totals = summary.totals;
        for (name, help, value) in [
            ("fieldpost_spool_forwarded", "Items that the server took", totals.forwarded),
            ("fieldpost_spool_refused", "Items that the server refused for good", totals.refused),
            ("fieldpost_spool_dropped", "Items given up: too old, or no room", totals.dropped),
            ("fieldpost_spool_damaged", "Damaged places that were set aside", totals.damaged),
            (
                "fieldpost_spool_conflicts",
                "Forwarded messages in whose place the server has another one",
                totals.conflicts,
            ),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}
