//! The outside of a whole engine: what all machines share, and what the effects of each reach.

use std::sync::Arc;

use base::Clock;
use store::Store;

use crate::devices::context::DeviceContext;
use crate::devices::stale_clients::StaleClients;
use crate::followers::Followers;
use crate::kernel::context::KernelContext;
use crate::metrics::BatchMetrics;
use crate::notices::links::NoticeLinks;
use crate::queues::context::QueueContext;
use crate::registry::RegistryContext;
use crate::rollouts::links::RolloutLinks;
use crate::{Directory, Settings};

/// The outside of an engine, a part for each machine.
#[derive(Clone, Debug)]
pub struct EngineContext {
    /// What all machines share.
    pub kernel: Arc<KernelContext>,
    /// Of partitions of devices.
    pub devices: Arc<DeviceContext>,
    /// Of partitions of queues.
    pub queues: Arc<QueueContext>,
    /// Of the registry.
    pub registry: Arc<RegistryContext>,
    pub(crate) notices: Arc<NoticeLinks>,
    pub(crate) rollouts: Arc<RolloutLinks>,
    pub(crate) metrics: Arc<BatchMetrics>,
}

impl EngineContext {
    /// An outside without clients.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: &Settings) -> Self {
        let metrics = Arc::new(BatchMetrics::default());
        let directory = Arc::new(Directory::new());
        let stale = Arc::new(StaleClients::new(settings.stale_probe));
        let on_enabled = {
            let stale = Arc::clone(&stale);
            Box::new(move |client| stale.reached(client))
        };
        let rollouts = Arc::new(RolloutLinks::default());
        let followers = Arc::new(Followers::default());
        let notices = Arc::new(NoticeLinks::new(Arc::clone(&followers)));
        let devices = DeviceContext::new(
            Arc::clone(&clock),
            Arc::clone(&directory),
            (stale, Arc::clone(&rollouts)),
            (followers, Arc::clone(&notices)),
            Arc::clone(&metrics),
            store.partitions(),
        );
        Self {
            kernel: Arc::new(KernelContext::new(store, clock)),
            queues: Arc::new(QueueContext::new(
                Arc::clone(&metrics),
                Arc::clone(&devices.followers),
                Arc::clone(&notices),
            )),
            registry: Arc::new(RegistryContext::new(
                directory,
                on_enabled,
                Arc::clone(&rollouts),
                (Arc::clone(&notices), Arc::clone(&devices.followers)),
                Arc::clone(&metrics),
            )),
            devices: Arc::new(devices),
            notices,
            rollouts,
            metrics,
        }
    }

    /// The clients.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.registry.directory
    }
}
