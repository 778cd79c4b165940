//! What is gathered for copies of kind `reports`, and what waits of it: read when somebody asks.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::Engine;
use crate::gathering::GatheringCounts;

/// Looks at what is gathered when `/metrics` is asked for.
#[derive(Debug)]
pub(crate) struct GatheringCollector {
    pub(crate) engine: Engine,
}

impl Collector for GatheringCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let GatheringCounts { copies, waiting, gathered, backpressured } = self.engine.gathering_counts();
        let gauges = [
            ("fieldpost_gathering_copies", "Copies of kind reports", copies as u64),
            (
                "fieldpost_gathering_waiting_reports",
                "Accepted reports that wait for the stream of their copy",
                waiting.reports,
            ),
            ("fieldpost_gathering_waiting_bytes", "Bytes of these reports, about", waiting.bytes as u64),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let counters = [
            ("fieldpost_gathering_reports", "Accepted reports that were gathered for copies", gathered),
            (
                "fieldpost_gathering_backpressure",
                "Slices of reports that waited because too many were waiting for a stream",
                backpressured,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        Ok(())
    }
}
