//! The outside of a whole engine: what all machines share, and what the effects of each reach.

use std::sync::Arc;

use base::{ClientId, Clock};
use store::Store;

use crate::campaigns::CampaignsContext;
use crate::campaigns::links::PickLinks;
use crate::coordination::{Ephemeral, process_memory};
use crate::devices::context::DeviceContext;
use crate::devices::stale_clients::StaleClients;
use crate::followers::Followers;
use crate::kernel::context::KernelContext;
use crate::metrics::BatchMetrics;
use crate::notices::links::NoticeLinks;
use crate::notices::{Signal, SignalTopic};
use crate::queues::context::QueueContext;
use crate::registry::{Registry, RegistryContext};
use crate::rollouts::links::RolloutLinks;
use crate::streams::StreamsContext;
use crate::{ClientDirectory, EngineSettings};

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
    /// Of tasks and campaigns.
    pub campaigns: Arc<CampaignsContext>,
    /// Of partitions of streams.
    pub streams: Arc<StreamsContext>,
    /// Limits, the cache and channels.
    pub(crate) ephemeral: Ephemeral,
    pub(crate) notices: Arc<NoticeLinks>,
    pub(crate) rollouts: Arc<RolloutLinks>,
    pub(crate) metrics: Arc<BatchMetrics>,
}

impl EngineContext {
    /// An outside without clients.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: &EngineSettings) -> Self {
        let metrics = Arc::new(BatchMetrics::default());
        let directory = Arc::new(ClientDirectory::new());
        let stale = Arc::new(StaleClients::new(settings.stale_probe));
        let on_enabled = {
            let stale = Arc::clone(&stale);
            Box::new(move |client| stale.reached(client))
        };
        let rollouts = Arc::new(RolloutLinks::default());
        let followers = Arc::new(Followers::default());
        let picks = Arc::new(PickLinks::default());
        let notices = Arc::new(NoticeLinks::new(Arc::clone(&followers)));
        let devices = DeviceContext::new(
            Arc::clone(&clock),
            Arc::clone(&directory),
            (stale, Arc::clone(&rollouts), Arc::clone(&picks)),
            (followers, Arc::clone(&notices)),
            Arc::clone(&metrics),
            store.partitions(),
        );
        let fleet = Arc::clone(&devices.fleet);
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
            campaigns: Arc::new(CampaignsContext::new(
                picks,
                fleet,
                Arc::clone(&devices.followers),
                Arc::clone(&metrics),
            )),
            streams: Arc::new(
                StreamsContext::new(
                    settings.streams_memory_bytes,
                    settings.block_storages.clone(),
                    Arc::clone(&devices.gatherings),
                    Arc::clone(&metrics),
                )
                .on_node(settings.node_name.clone())
                .marked(settings.directory_mark),
            ),
            devices: Arc::new(devices),
            ephemeral: Ephemeral(process_memory(&settings.coordination)),
            notices,
            rollouts,
            metrics,
        }
    }

    /// The registry was loaded: what the outside knows of it is as it is there.
    pub fn registry_loaded(&self, registry: &Registry) {
        self.directory().replace(registry.clients().cloned());
        self.registry.portals().replace(registry.portals().cloned());
        self.registry.nodes().replace(registry.nodes().cloned());
        self.notices.registry_loaded(registry.standing_conditions());
    }

    /// A subject is in another condition. Whether and when that is told, the registry decides.
    pub fn signal(&self, signal: Signal) {
        self.notices.signal(signal);
    }

    /// The signals that are on their way to the registry, for whoever carries them by hand.
    #[must_use]
    pub fn take_signals(&self) -> Vec<Signal> {
        self.notices.pending.take_now()
    }

    /// Clients that operators were told fail, and not that they recovered: at the start of the
    /// process those of the process before.
    #[must_use]
    pub fn clients_told_failing(&self) -> Vec<ClientId> {
        let subjects = self.notices.firing_subjects(SignalTopic::Client);
        subjects.iter().filter_map(|subject| ClientId::new(subject.strip_prefix("client ")?)).collect()
    }

    /// The clients.
    #[must_use]
    pub fn directory(&self) -> &ClientDirectory {
        &self.registry.directory
    }
}
