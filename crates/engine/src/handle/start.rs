//! How the engine is put together: every partition loaded and on its task, and the task that orders stale clients to be told.

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

use super::Door;
use crate::Settings;
use crate::devices::input::Input;
use crate::devices::partition::Partition;
use crate::kernel::driver::{Driver, INBOX_INPUTS_MAX};
use crate::kernel::machine::Machine;
use crate::kernel::runner::{Outside, Runner};
use crate::queues::QueueInput;
use crate::queues::partition::QueuePartition;
use crate::registry::{Registry, RegistryInput};

/// What is put together while the engine starts.
pub(super) struct Starting {
    settings: Arc<Settings>,
    outside: Arc<Outside>,
    process: Process,
    pub(super) attended: Arc<[AtomicBool; 3]>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) tasks: JoinSet<()>,
    pub(super) orphans: HashSet<Incarnation>,
}

impl Starting {
    pub(super) fn new(settings: Arc<Settings>, outside: Arc<Outside>) -> Result<Self, StoreError> {
        let bytes =
            random::unguessable().map_err(|error| StoreError::Refused(format!("no randomness: {error}")))?;
        Ok(Self {
            settings,
            outside,
            process: Process(u64::from_le_bytes(bytes)),
            attended: Arc::default(),
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
            orphans: HashSet::new(),
        })
    }

    pub(super) fn start_registry(&mut self) -> Result<Door<RegistryInput>, StoreError> {
        let (settings, outside) = (Arc::clone(&self.settings), Arc::clone(&self.outside));
        let load = move || {
            let registry = Registry::load(&*outside.store, &settings)?;
            outside.directory.replace(registry.clients().cloned());
            Ok(registry)
        };
        Ok(self.spawn(PartitionId::REGISTRY, load()?, load))
    }

    pub(super) fn start_partition(&mut self, id: PartitionId) -> Result<Door<Input>, StoreError> {
        let (settings, outside) = (Arc::clone(&self.settings), Arc::clone(&self.outside));
        let (process, attended) = (self.process, Arc::clone(&self.attended));
        let load = move || {
            let moment = outside.moment_of_load();
            let mut opened =
                Partition::load(&*outside.store, id, &settings, process, moment, &outside.directory)?;
            for way in WayIn::ALL {
                opened.partition.attend(moment.now, way, attended[way.index()].load(Ordering::SeqCst));
            }
            Ok(opened)
        };
        let opened = load()?;
        self.orphans.extend(opened.orphans);
        Ok(self.spawn(id, opened.partition, move || Ok(load()?.partition)))
    }

    pub(super) fn start_queues(&mut self, id: PartitionId) -> Result<Door<QueueInput>, StoreError> {
        let (settings, outside, process) =
            (Arc::clone(&self.settings), Arc::clone(&self.outside), self.process);
        let load = move || {
            let moment = outside.moment_of_load();
            QueuePartition::load(&*outside.store, id, settings.jobs_resident_max, process, moment)
        };
        Ok(self.spawn(id, load()?, load))
    }

    fn spawn<M: Machine>(
        &mut self,
        id: PartitionId,
        machine: M,
        reload: impl Fn() -> Result<M, StoreError> + Send + 'static,
    ) -> Door<M::Input> {
        let (inbox, inputs) = mpsc::channel(INBOX_INPUTS_MAX);
        let runner = Runner::new(id, machine, Box::new(reload), Arc::clone(&self.outside));
        let writing_since = runner.writing_since();
        let (stop, outside) = (self.stop.subscribe(), Arc::clone(&self.outside));
        let driver = Driver { runner, inbox: inputs, stop, outside };
        self.tasks.spawn(driver.run().instrument(debug_span!("partition", %id)));
        Door { inbox, writing_since }
    }

    /// Starts the task that tells partitions which stale clients to tell again.
    pub(super) fn tell_stale_clients(&mut self, partitions: &[Door<Input>]) {
        let inboxes: Vec<_> = partitions.iter().map(|door| door.inbox.clone()).collect();
        let (outside, mut stop) = (Arc::clone(&self.outside), self.stop.subscribe());
        self.tasks.spawn(async move {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => {}
                () = order_stale(&outside, &inboxes) => {}
            }
        });
    }
}

/// Hands in what is to be told again, whenever there is something.
async fn order_stale(outside: &Outside, inboxes: &[mpsc::Sender<Input>]) {
    loop {
        for order in outside.stale.take(outside.clock.now()) {
            let input = Input::TellStale { client: order.client, probe: order.probe };
            if let Some(inbox) = inboxes.get(usize::from(order.partition.0)) {
                // A partition that takes nothing more tells nothing more; after the next start it says again what is stale.
                let _not_accepting = inbox.send(input).await;
            }
        }
        tokio::select! {
            () = outside.stale.changed() => {}
            () = until(outside, outside.stale.next_probe()) => {}
        }
    }
}

async fn until(outside: &Outside, at: Option<Timestamp>) {
    match at {
        Some(at) => outside.alarm().until(at).await,
        None => pending().await,
    }
}
