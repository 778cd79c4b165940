//! What the engine tells of itself at `/metrics`.

use std::sync::Arc;

use prometheus_client::registry::Registry as MetricsRegistry;

use super::{Engine, SharedEngine};
use crate::context::EngineContext;
use crate::coordination_metrics::CoordinationCollector;
use crate::gathering_metrics::GatheringCollector;
use crate::kernel::partition_handle::PartitionHandle;
use crate::metrics::EngineCollector;
use crate::streams::copy_metrics::CopyCollector;
use crate::streams::subscription_metrics::SubscriptionCollector;

impl Engine {
    /// Registers the metrics for `/metrics`.
    pub fn register_metrics(&self, registry: &mut MetricsRegistry) {
        self.shared.context.metrics.register(registry);
        self.followers().register(registry);
        self.shared.context.notices.register(registry);
        self.shared.context.campaigns.counts.register(registry);
        self.shared.context.campaigns.links.register(registry);
        self.shared.context.streams.counts.register(registry);
        self.shared.context.streams.watch.register(registry);
        registry.register_collector(Box::new(SubscriptionCollector { engine: self.clone() }));
        registry.register_collector(Box::new(CopyCollector { engine: self.clone() }));
        registry.register_collector(Box::new(GatheringCollector { engine: self.clone() }));
        registry.register_collector(Box::new(CoordinationCollector { engine: self.clone() }));
        let EngineContext { kernel, devices, queues, .. } = self.shared.context.clone();
        let (engine, stale, named) = (self.clone(), Arc::clone(&devices), Arc::clone(&queues));
        registry.register_collector(Box::new(EngineCollector {
            store: Arc::clone(&kernel.store),
            inbox_inputs: Box::new(move || engine.inbox_inputs()),
            stale_clients: Box::new(move || stale.stale.len()),
            fleet: Arc::clone(&devices.fleet),
            devices: Box::new(move || devices.stats.sum()),
            queue_jobs: Box::new(move || named.named_queues.with_others(&named.stats.sum())),
            queues: Box::new(move || queues.stats.sum()),
        }));
    }

    fn inbox_inputs(&self) -> usize {
        let SharedEngine { partitions, queues, streams, .. } = &*self.shared;
        self.shared.campaigns.waiting()
            + partitions.iter().map(PartitionHandle::waiting).sum::<usize>()
            + queues.iter().map(PartitionHandle::waiting).sum::<usize>()
            + streams.iter().map(PartitionHandle::waiting).sum::<usize>()
    }
}
