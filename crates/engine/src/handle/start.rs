//! How the engine is put together: every partition loaded and on its task, and the task that orders
//! stale clients to be told.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Incarnation, PartitionId, Timestamp, WayIn, random};
use records::Process;
use store::StoreError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{Instrument, debug_span};

use crate::EngineSettings;
use crate::campaigns::courier::PickCourier;
use crate::campaigns::{CampaignMachine, CampaignsInput};
use crate::context::EngineContext;
use crate::devices::input::DeviceInput;
use crate::devices::partition::DevicePartition;
use crate::devices::stale_clients::StaleClients;
use crate::kernel::context::KernelContext;
use crate::kernel::driver::{INBOX_INPUTS_MAX, MachineDriver};
use crate::kernel::machine::Machine;
use crate::kernel::partition_handle::{NotAccepting, PartitionHandle};
use crate::kernel::runner::Runner;
use crate::notices::courier;
use crate::queues::QueueInput;
use crate::queues::partition::QueuePartition;
use crate::registry::{Registry, RegistryInput};
use crate::rollouts::courier::Courier;
use crate::streams::block_worker::{work_on_blocks, work_on_storage};
use crate::streams::machine::memory_share;
use crate::streams::storage_watch::count_blocks;
use crate::streams::unloading::unload_blocks;
use crate::streams::{StreamPartition, StreamsInput};

/// What is put together while the engine starts.
pub(super) struct Starting {
    settings: Arc<EngineSettings>,
    context: EngineContext,
    process: Process,
    pub(super) attended: Arc<[AtomicBool; 3]>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) tasks: JoinSet<()>,
    pub(super) orphans: HashSet<Incarnation>,
}

impl Starting {
    pub(super) fn new(settings: Arc<EngineSettings>, context: EngineContext) -> Result<Self, StoreError> {
        let bytes =
            random::unguessable().map_err(|error| StoreError::Refused(format!("no randomness: {error}")))?;
        Ok(Self {
            settings,
            context,
            process: Process(u64::from_le_bytes(bytes)),
            attended: Arc::default(),
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
            orphans: HashSet::new(),
        })
    }

    pub(super) fn start_registry(&mut self) -> Result<PartitionHandle<RegistryInput>, StoreError> {
        let (settings, context) = (Arc::clone(&self.settings), self.context.clone());
        let load = move || {
            let registry = Registry::load(&*context.kernel.store, &settings)?;
            context.registry_loaded(&registry);
            Ok(registry)
        };
        Ok(self.spawn(PartitionId::REGISTRY, load()?, load, Arc::clone(&self.context.registry)))
    }

    pub(super) fn start_partition(
        &mut self,
        id: PartitionId,
    ) -> Result<PartitionHandle<DeviceInput>, StoreError> {
        let (settings, context) = (Arc::clone(&self.settings), self.context.clone());
        let (process, attended) = (self.process, Arc::clone(&self.attended));
        let load = move || {
            let (kernel, moment) = (&context.kernel, context.kernel.moment_of_load());
            let mut opened =
                DevicePartition::load(&*kernel.store, id, &settings, process, moment, &context.devices)?;
            for way in WayIn::ALL {
                opened.partition.attend(moment.now, way, attended[way.index()].load(Ordering::SeqCst));
            }
            opened.partition.go_on_with_sessions(&context.devices);
            Ok(opened)
        };
        let opened = load()?;
        self.orphans.extend(opened.orphans);
        let reload = move || Ok(load()?.partition);
        Ok(self.spawn(id, opened.partition, reload, Arc::clone(&self.context.devices)))
    }

    pub(super) fn start_queues(
        &mut self,
        id: PartitionId,
    ) -> Result<PartitionHandle<QueueInput>, StoreError> {
        let (settings, context, process) = (Arc::clone(&self.settings), self.context.clone(), self.process);
        let load = move || {
            let (kernel, notices) = (&context.kernel, &context.notices);
            let moment = kernel.moment_of_load();
            let resident_max = settings.jobs_resident_max;
            let partition = QueuePartition::load(&*kernel.store, id, resident_max, process, moment)?;
            let told = notices.firing_queues(id, kernel.store.partitions());
            let (partition, changed) = partition.telling(settings.notices, &told);
            changed.into_iter().for_each(|signal| notices.signal(signal));
            context.queues.controls.loaded(id, kernel.store.view(id)?.queue_controls()?);
            let share = |all: usize| all.div_ceil(usize::from(kernel.store.partitions()).max(1)).max(1);
            let bounds = &settings.coordination;
            Ok(partition.bounding_locks(share(bounds.locks_max), share(bounds.lock_waits_max)))
        };
        Ok(self.spawn(id, load()?, load, Arc::clone(&self.context.queues)))
    }

    pub(super) fn start_streams(
        &mut self,
        id: PartitionId,
    ) -> Result<PartitionHandle<StreamsInput>, StoreError> {
        let context = self.context.clone();
        let memory_bytes = self.settings.streams_memory_bytes;
        let load = move || {
            let store = &*context.kernel.store;
            let partition = StreamPartition::load(store, id, memory_share(memory_bytes, store.partitions()))?;
            let partition = partition.on_disk(context.streams.free_space());
            let partition = partition.on_node(context.streams.node_name(), store);
            let partition = partition.marked(context.streams.mark());
            context.streams.partition_loaded(id, &partition);
            Ok(partition)
        };
        Ok(self.spawn(id, load()?, load, Arc::clone(&self.context.streams)))
    }

    /// Starts the tasks that write and delete files of blocks, one for each storage.
    pub(super) fn work_on_blocks(&mut self, partitions: &[PartitionHandle<StreamsInput>]) {
        let inboxes: Vec<_> = partitions.iter().map(|partition| partition.inbox.clone()).collect();
        for (name, _) in self.settings.block_storages.clone().iter() {
            let (context, name) = (self.context.clone(), Box::from(name));
            let inboxes = inboxes.clone();
            self.spawn_until_stop(work_on_storage(context.kernel, context.streams, inboxes, name));
        }
        let context = self.context.clone();
        self.spawn_until_stop(count_blocks(Arc::clone(&context.kernel), Arc::clone(&context.streams)));
        self.spawn_until_stop(unload_blocks(Arc::clone(&context.kernel), Arc::clone(&context.streams)));
        self.spawn_until_stop(work_on_blocks(context.kernel, context.streams, inboxes));
    }

    /// The partitions of devices have been started: they say which devices there are.
    pub(super) fn start_campaigns(&mut self) -> Result<PartitionHandle<CampaignsInput>, StoreError> {
        let (settings, context) = (Arc::clone(&self.settings), self.context.clone());
        let load = move || {
            let (kernel, fleet) = (&context.kernel, Arc::clone(&context.campaigns.fleet));
            let moments = (kernel.began_at_wall(), kernel.moment_of_load());
            CampaignMachine::load(&*kernel.store, &settings, fleet, moments)
        };
        Ok(self.spawn(PartitionId::CAMPAIGNS, load()?, load, Arc::clone(&self.context.campaigns)))
    }

    fn spawn<M: Machine>(
        &mut self,
        id: PartitionId,
        machine: M,
        reload: impl Fn() -> Result<M, StoreError> + Send + 'static,
        context: Arc<M::Context>,
    ) -> PartitionHandle<M::Input> {
        let (inbox, inputs) = mpsc::channel(INBOX_INPUTS_MAX);
        let kernel = Arc::clone(&self.context.kernel);
        let runner = Runner::new(id, machine, Box::new(reload), Arc::clone(&kernel), context);
        let writing_since = runner.writing_since();
        let driver = MachineDriver { runner, inbox: inputs, stop: self.stop.subscribe(), kernel };
        self.tasks.spawn(driver.run().instrument(debug_span!("partition", %id)));
        PartitionHandle { inbox, writing_since }
    }

    /// Starts the tasks between the registry and the partitions of devices.
    pub(super) fn carry_rollouts(
        &mut self,
        registry: &PartitionHandle<RegistryInput>,
        partitions: &[PartitionHandle<DeviceInput>],
    ) {
        let courier = Courier {
            context: self.context.clone(),
            registry: registry.inbox.clone(),
            partitions: partitions.iter().map(|partition| partition.inbox.clone()).collect(),
        };
        let (carrier, searcher) = (courier.clone(), courier);
        self.spawn_until_stop(async move { carrier.carry().await.unwrap_or_else(ends_with_its_machine) });
        self.spawn_until_stop(async move { searcher.search().await.unwrap_or_else(ends_with_its_machine) });
    }

    /// Starts the tasks between the machine of campaigns and the partitions of devices.
    pub(super) fn carry_picks(
        &mut self,
        campaigns: &PartitionHandle<CampaignsInput>,
        partitions: &[PartitionHandle<DeviceInput>],
    ) {
        let courier = PickCourier {
            context: self.context.clone(),
            campaigns: campaigns.inbox.clone(),
            partitions: partitions.iter().map(|partition| partition.inbox.clone()).collect(),
        };
        let (carrier, searcher) = (courier.clone(), courier);
        self.spawn_until_stop(async move { carrier.carry().await.unwrap_or_else(ends_with_its_machine) });
        self.spawn_until_stop(async move { searcher.search().await.unwrap_or_else(ends_with_its_machine) });
    }

    /// Starts the task that carries signals to the registry.
    pub(super) fn carry_notices(&mut self, registry: &PartitionHandle<RegistryInput>) {
        let carrying = courier::carry(self.context.clone(), registry.inbox.clone(), self.settings.notices);
        self.spawn_until_stop(carrying);
    }

    /// Starts the task that tells partitions which stale clients to tell again.
    pub(super) fn tell_stale_clients(&mut self, partitions: &[PartitionHandle<DeviceInput>]) {
        let inboxes: Vec<_> = partitions.iter().map(|partition| partition.inbox.clone()).collect();
        let context = self.context.clone();
        self.spawn_until_stop(async move {
            order_stale(&context.kernel, &context.devices.stale, &inboxes).await;
        });
    }

    /// Runs a task until it ends by itself or the engine stops.
    fn spawn_until_stop(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let mut stop = self.stop.subscribe();
        self.tasks.spawn(async move {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => {}
                () = task => {}
            }
        });
    }
}

/// Whoever carries for a machine that takes nothing more is done.
fn ends_with_its_machine(NotAccepting: NotAccepting) {}

/// Hands in what is to be told again, whenever there is something.
async fn order_stale(kernel: &KernelContext, stale: &StaleClients, inboxes: &[mpsc::Sender<DeviceInput>]) {
    loop {
        for order in stale.take(kernel.clock.now()) {
            let input = DeviceInput::TellStale { client: order.client, probe: order.probe };
            if let Some(inbox) = inboxes.get(usize::from(order.partition.0)) {
                // A partition that takes nothing more tells nothing more; after the next start it
                // says again what is stale.
                let _not_accepting = inbox.send(input).await;
            }
        }
        tokio::select! {
            () = stale.changed() => {}
            () = until(kernel, stale.next_probe()) => {}
        }
    }
}

async fn until(kernel: &KernelContext, at: Option<Timestamp>) {
    match at {
        Some(at) => kernel.alarm().until(at).await,
        None => pending().await,
    }
}
