//! One life of the process, as far as queues go: their partitions behind inboxes, and what comes
//! back to them unasked.

use std::sync::Arc;

use base::PartitionId;
use engine::EngineSettings;
use engine::context::EngineContext;
use engine::kernel::machine::Machine;
use engine::queues::partition::{QueuePartition, StepLimits};
use engine::queues::{QueueInput, ReservationToken};
use store::StoreError;
use tokio::sync::mpsc;

use super::index_of;
use crate::harness::port::Port;
use crate::harness::process::Process;
use crate::queues::meant::Meant;

/// Leases on their way back that wait at most: far more than a run has.
const RETURNS_MAX: usize = 4_096;

/// A partition of queues, and the ways in.
pub(crate) struct SimulatedPartition {
    pub(crate) port: Port<QueuePartition, Meant>,
    /// Where leases go back that reached nobody. The partition's own inbox is the port's.
    pub(crate) inbox: mpsc::Sender<<QueuePartition as Machine>::Input>,
    returns: mpsc::Receiver<QueueInput>,
}

impl SimulatedPartition {
    /// What came back since this was last asked, in order.
    pub(crate) fn returned(&mut self) -> Vec<Vec<ReservationToken>> {
        let inputs = std::iter::from_fn(|| self.returns.try_recv().ok());
        inputs
            .filter_map(|input| if let QueueInput::GiveBack(held) = input { Some(held) } else { None })
            .collect()
    }
}

/// A running process.
pub(crate) struct Server {
    pub(crate) partitions: Vec<SimulatedPartition>,
}

impl Server {
    /// Loads every partition of queues, as the engine does when it starts.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn start(
        process: &Process,
        partitions: &[PartitionId],
        settings: &EngineSettings,
        (resident_max, limits): (usize, StepLimits),
    ) -> Result<Self, StoreError> {
        let context = process.context(settings);
        let load = |id: &PartitionId| load(process, &context, (resident_max, limits), *id);
        Ok(Self { partitions: partitions.iter().map(load).collect::<Result<_, _>>()? })
    }

    pub(crate) fn partition(&mut self, partition: PartitionId) -> &mut SimulatedPartition {
        &mut self.partitions[index_of(partition)]
    }
}

fn load(
    process: &Process,
    context: &EngineContext,
    (resident_max, limits): (usize, StepLimits),
    id: PartitionId,
) -> Result<SimulatedPartition, StoreError> {
    let (kernel, number) = (Arc::clone(&context.kernel), process.number);
    let load = move || {
        let partition =
            QueuePartition::load(&*kernel.store, id, resident_max, number, kernel.moment_of_load());
        partition.map(|partition| partition.with_limits(limits))
    };
    let port = Port::load(process, id, &context.queues, load)?;
    let (inbox, returns) = mpsc::channel(RETURNS_MAX);
    Ok(SimulatedPartition { port, inbox, returns })
}
