//! How much the cache, limits and channels keep: read when `/metrics` is asked for.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::Engine;

/// Looks at them when `/metrics` is asked for.
#[derive(Debug)]
pub(crate) struct CoordinationCollector {
    pub(crate) engine: Engine,
}

impl Collector for CoordinationCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (cache, limits, listeners) = self.engine.context().ephemeral.0.stats();
        let stats = self.engine.context().queues.stats.sum();
        for (name, help, value) in [
            ("fieldpost_coordination_locks", "Locks that are held", stats.locks),
            ("fieldpost_coordination_lock_waits", "Callers that wait for locks", stats.lock_waits),
            ("fieldpost_coordination_cache_values", "Values in the cache", cache.values),
            ("fieldpost_coordination_cache_bytes", "Bytes that they count for", cache.bytes),
            ("fieldpost_coordination_limits", "Limits in memory", limits as u64),
            ("fieldpost_coordination_listeners", "Listeners of channels", listeners as u64),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        for (name, help, value) in [
            ("fieldpost_coordination_cache_hits", "Values that were asked for and there", cache.hits),
            ("fieldpost_coordination_cache_misses", "Values that were asked for and not there", cache.misses),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}
