//! One life of the server process: the production state machines behind inboxes, and what belongs
//! to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Incarnation, PartitionId, WayIn};
use engine::EngineSettings;
use engine::context::EngineContext;
use engine::devices::partition::DevicePartition;
use engine::kernel::runner::Runner;
use engine::registry::Registry;
use notify::lanes::{Lanes, SendLimits};
use store::StoreError;
use tokio::sync::watch;

use crate::devices::meant::{Meant, MeantClient};
use crate::harness::port::Port;
use crate::harness::process::Process;

/// A running process.
pub(crate) struct Server {
    pub(crate) context: EngineContext,
    pub(crate) registry: Port<Registry, MeantClient>,
    pub(crate) partitions: Vec<Port<DevicePartition, Meant>>,
    pub(crate) attended: Arc<[AtomicBool; 3]>,
    pub(crate) lanes: Lanes,
    pub(crate) clients_changed: watch::Receiver<u64>,
    /// Clients that are gone and still linked: swept at the start.
    pub(crate) orphans: Vec<Incarnation>,
}

impl Server {
    /// Loads everything, as the engine does when it starts.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn start(
        process: &Process,
        partitions: impl Iterator<Item = PartitionId>,
        settings: &Arc<EngineSettings>,
        limits: SendLimits,
    ) -> Result<Self, StoreError> {
        let context = process.context(settings);
        let attended: Arc<[AtomicBool; 3]> = Arc::default();
        let registry = load_registry(process, &context, settings)?;
        let mut orphans = Vec::new();
        let partitions = partitions
            .map(|id| load_partition((process, &context), settings, &attended, id, &mut orphans))
            .collect::<Result<Vec<_>, _>>()?;
        orphans.sort_unstable();
        orphans.dedup();
        Ok(Self {
            clients_changed: context.directory().subscribe(),
            context,
            registry,
            partitions,
            attended,
            lanes: Lanes::new(limits),
            orphans,
        })
    }

    pub(crate) fn port(&mut self, partition: PartitionId) -> &mut Port<DevicePartition, Meant> {
        &mut self.partitions[usize::from(partition.0)]
    }

    /// Which ways in are attended.
    pub(crate) fn attended_now(&self) -> [bool; 3] {
        WayIn::ALL.map(|way| self.attended[way.index()].load(Ordering::SeqCst))
    }
}

fn load_registry(
    process: &Process,
    context: &EngineContext,
    settings: &Arc<EngineSettings>,
) -> Result<Port<Registry, MeantClient>, StoreError> {
    let (settings, shared) = (Arc::clone(settings), context.clone());
    let load = move || {
        let registry = Registry::load(&*shared.kernel.store, &settings)?;
        shared.directory().replace(registry.clients().cloned());
        Ok(registry)
    };
    Ok(Port::load(process, PartitionId::REGISTRY, &context.registry, load)?.at_rest())
}

fn load_partition(
    (process, context): (&Process, &EngineContext),
    settings: &Arc<EngineSettings>,
    attended: &Arc<[AtomicBool; 3]>,
    id: PartitionId,
    orphans: &mut Vec<Incarnation>,
) -> Result<Port<DevicePartition, Meant>, StoreError> {
    let (settings, shared, attended) = (Arc::clone(settings), context.clone(), Arc::clone(attended));
    let number = process.number;
    let load = move || {
        let (kernel, moment) = (&shared.kernel, shared.kernel.moment_of_load());
        let mut opened =
            DevicePartition::load(&*kernel.store, id, &settings, number, moment, &shared.devices)?;
        for way in WayIn::ALL {
            opened.partition.attend(moment.now, way, attended[way.index()].load(Ordering::SeqCst));
        }
        Ok(opened)
    };
    let opened = load()?;
    orphans.extend(opened.orphans);
    let reload = Box::new(move || Ok(load()?.partition));
    let (kernel, effects) = (Arc::clone(&context.kernel), Arc::clone(&context.devices));
    Ok(Port::new(Runner::new(id, opened.partition, reload, kernel, effects), process))
}
