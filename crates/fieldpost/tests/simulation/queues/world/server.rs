//! One life of the process, as far as queues go: their partitions behind inboxes, and what comes
//! back to them unasked.

use std::sync::Arc;

use base::{Clock, PartitionId};
use engine::context::EngineContext;
use engine::kernel::machine::Machine;
use engine::kernel::runner::Runner;
use engine::queues::partition::QueuePartition;
use engine::queues::{Held, QueueInput};
use engine::{Settings, Store};
use records::Process;
use store::StoreError;
use tokio::sync::mpsc;

use crate::devices::world::server::{Outcomes, Port};
use crate::harness::store_spy::StoreSpy;
use crate::queues::meant::Meant;

/// Leases on their way back that wait at most: far more than a run has.
const RETURNS_MAX: usize = 4_096;

/// A partition of queues, and the ways in.
pub(crate) struct Door {
    pub(crate) port: Port<QueuePartition, Meant>,
    /// Where leases go back that reached nobody. The partition's own inbox is the port's.
    pub(crate) inbox: mpsc::Sender<<QueuePartition as Machine>::Input>,
    returns: mpsc::Receiver<QueueInput>,
}

impl Door {
    /// What came back since this was last asked, in order.
    pub(crate) fn returned(&mut self) -> Vec<Vec<Held>> {
        let inputs = std::iter::from_fn(|| self.returns.try_recv().ok());
        inputs
            .filter_map(|input| if let QueueInput::GiveBack(held) = input { Some(held) } else { None })
            .collect()
    }
}

/// A running process.
pub(crate) struct Server {
    pub(crate) spy: Arc<StoreSpy>,
    pub(crate) doors: Vec<Door>,
    pub(crate) outcomes: Outcomes,
}

impl Server {
    /// Loads every partition of queues, as the engine does when it starts.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn start(
        spy: &Arc<StoreSpy>,
        clock: Arc<dyn Clock>,
        settings: &Arc<Settings>,
        process: Process,
        resident_max: usize,
    ) -> Result<Self, StoreError> {
        let context = EngineContext::new(Arc::clone(spy) as Arc<dyn Store>, clock, settings);
        let ids = (0..spy.partitions()).map(PartitionId::of_queues);
        let doors = ids.map(|id| load(&context, process, resident_max, id)).collect::<Result<_, _>>()?;
        Ok(Self { spy: Arc::clone(spy), doors, outcomes: Outcomes::default() })
    }

    pub(crate) fn door(&mut self, partition: PartitionId) -> &mut Door {
        let index = partition.queues_index().expect("only partitions of queues are asked for");
        &mut self.doors[usize::from(index)]
    }

    pub(crate) fn port(&mut self, partition: PartitionId) -> &mut Port<QueuePartition, Meant> {
        &mut self.door(partition).port
    }

    /// Whether nothing waits for an input to be taken or for a batch to be durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.ports().all(|port| port.runner.is_settled() && !port.has_input() && !port.more)
    }

    /// The same of those that are not dead.
    pub(crate) fn is_settled_or_dead(&self) -> bool {
        self.ports().all(|port| port.dead || port.runner.is_settled() && !port.has_input())
    }

    /// Whether somebody takes nothing more, because its store does not go on.
    pub(crate) fn is_broken(&self) -> bool {
        self.ports().any(|port| port.dead)
    }

    /// How often a partition lost its memory; nothing for one that is dead.
    pub(crate) fn life(&mut self, partition: PartitionId) -> Option<u32> {
        let port = self.port(partition);
        (!port.dead).then_some(port.life)
    }

    pub(crate) fn ports(&self) -> impl Iterator<Item = &Port<QueuePartition, Meant>> {
        self.doors.iter().map(|door| &door.port)
    }
}

fn load(
    context: &EngineContext,
    process: Process,
    resident_max: usize,
    id: PartitionId,
) -> Result<Door, StoreError> {
    let kernel = Arc::clone(&context.kernel);
    let load =
        move || QueuePartition::load(&*kernel.store, id, resident_max, process, kernel.moment_of_load());
    let (kernel, effects) = (Arc::clone(&context.kernel), Arc::clone(&context.queues));
    let port = Port::new(Runner::new(id, load()?, Box::new(load), kernel, effects));
    let (inbox, returns) = mpsc::channel(RETURNS_MAX);
    Ok(Door { port, inbox, returns })
}
