//! One life of the server process: the production partitions of devices behind inboxes, and who
//! carries commands to devices.

use std::sync::{Arc, Mutex};

use base::PartitionId;
use base::locks::locked;
use engine::context::EngineContext;
use engine::devices::partition::DevicePartition;
use engine::registry::Registry;
use engine::{Downlink, EngineSettings, PublishedCommand};
use store::StoreError;

use crate::commands::meant::{Meant, MeantRollout};
use crate::harness::port::Port;
use crate::harness::process::Process;

/// A running process.
pub(crate) struct Server {
    pub(crate) context: EngineContext,
    pub(crate) partitions: Vec<Port<DevicePartition, Meant>>,
    /// In runs with rollouts.
    pub(crate) registry: Option<Port<Registry, MeantRollout>>,
    outbox: Arc<Outbox>,
}

/// Commands on their way to sessions.
#[derive(Default)]
struct Outbox(Mutex<Vec<PublishedCommand>>);

impl Downlink for Outbox {
    fn publish(&self, command: PublishedCommand) {
        locked(&self.0).push(command);
    }
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
        has_rollouts: bool,
    ) -> Result<Self, StoreError> {
        let context = process.context(settings);
        let outbox: Arc<Outbox> = Arc::default();
        context.devices.carry_commands_by(Arc::clone(&outbox) as Arc<dyn Downlink>);
        let partitions =
            partitions.map(|id| load(process, &context, settings, id)).collect::<Result<Vec<_>, _>>()?;
        let registry = has_rollouts.then(|| load_registry(process, &context, settings)).transpose()?;
        Ok(Self { context, partitions, registry, outbox })
    }

    pub(crate) fn port(&mut self, partition: PartitionId) -> &mut Port<DevicePartition, Meant> {
        &mut self.partitions[usize::from(partition.0)]
    }

    /// What goes out to sessions.
    pub(crate) fn take_published(&self) -> Vec<PublishedCommand> {
        std::mem::take(&mut *locked(&self.outbox.0))
    }
}

fn load_registry(
    process: &Process,
    context: &EngineContext,
    settings: &Arc<EngineSettings>,
) -> Result<Port<Registry, MeantRollout>, StoreError> {
    let (settings, kernel) = (Arc::clone(settings), Arc::clone(&context.kernel));
    let load = move || Registry::load(&*kernel.store, &settings);
    Port::load(process, PartitionId::REGISTRY, &context.registry, load)
}

fn load(
    process: &Process,
    context: &EngineContext,
    settings: &Arc<EngineSettings>,
    id: PartitionId,
) -> Result<Port<DevicePartition, Meant>, StoreError> {
    let (settings, shared, number) = (Arc::clone(settings), context.clone(), process.number);
    let load = move || {
        let (kernel, moment) = (&shared.kernel, shared.kernel.moment_of_load());
        let mut opened =
            DevicePartition::load(&*kernel.store, id, &settings, number, moment, &shared.devices)?;
        opened.partition.go_on_with_sessions(&shared.devices);
        Ok(opened.partition)
    };
    Port::load(process, id, &context.devices, load)
}
