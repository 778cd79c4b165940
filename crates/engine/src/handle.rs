//! The engine as the edges hold it: calls become inputs, and answers come back when they are
//! durable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use base::locks::locked;
use base::{ClientId, Clock, DeviceId, EntityId, Incarnation, PartitionId, Problem, Timestamp, WayIn, hash};
use records::Client;
use store::{Store, StoreError};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::campaigns::CampaignsInput;
use crate::context::EngineContext;
use crate::devices::input::{Addressed, DeviceInput, LinkedClient, RefusedMessage};
use crate::devices::intake::{IntakeMirror, PendingSlice, Slice, SlicePart};
use crate::followers::Followers;
use crate::kernel::partition_handle::{NotAccepting, PartitionHandle};
use crate::queries::DeviceDetails;
use crate::queues::QueueInput;
use crate::refusals::unknown_client;
use crate::registry::RegistryInput;
use crate::streams::StreamsInput;
use crate::{
    ClientDirectory, ClientPatch, DevicePatch, DueLanes, EngineSettings, ImportDevice, ImportOutcome, Intake,
    NewClient, NewDevice, OnlyIf, Queries,
};

mod attempts;
mod campaigns;
mod commands;
mod feeds;
mod gathering;
mod idempotent;
mod import;
mod metrics;
mod nodes;
mod notices;
mod operations;
mod portals;
mod quarantine;
mod queues;
mod rollouts;
mod start;
mod streams;

use idempotent::{made, unguessable};
use start::Starting;

/// A running engine. Cheap to clone; every clone is the same engine.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<SharedEngine>,
}

base::debug_as_name!(Engine);

struct SharedEngine {
    settings: Arc<EngineSettings>,
    context: EngineContext,
    partitions: Vec<PartitionHandle<DeviceInput>>,
    queues: Vec<PartitionHandle<QueueInput>>,
    registry: PartitionHandle<RegistryInput>,
    campaigns: PartitionHandle<CampaignsInput>,
    streams: Vec<PartitionHandle<StreamsInput>>,
    attended: Arc<[AtomicBool; 3]>,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
    mirror: OnceLock<Arc<dyn IntakeMirror>>,
    place_labels: OnceLock<Vec<String>>,
    feed_waiters: Semaphore,
}

impl Engine {
    /// Loads every partition and starts them. The store must be open; on return everything may be
    /// called.
    ///
    /// # Errors
    /// When a partition cannot be loaded.
    pub async fn start(
        settings: EngineSettings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let settings = Arc::new(settings);
        let context = EngineContext::new(store, clock, &settings);
        let mut starting = Starting::new(Arc::clone(&settings), context.clone())?;
        let registry = starting.start_registry()?;
        let count = context.kernel.store.partitions();
        // In front of devices: from their first report on they know which copies want some.
        let streams = (0..count)
            .map(|index| starting.start_streams(PartitionId::of_streams(index)))
            .collect::<Result<Vec<_>, _>>()?;
        let partitions =
            (0..count).map(|id| starting.start_partition(PartitionId(id))).collect::<Result<Vec<_>, _>>()?;
        let queues = (0..count)
            .map(|index| starting.start_queues(PartitionId::of_queues(index)))
            .collect::<Result<Vec<_>, _>>()?;
        let campaigns = starting.start_campaigns()?;
        starting.work_on_blocks(&streams);
        starting.tell_stale_clients(&partitions);
        starting.carry_rollouts(&registry, &partitions);
        starting.carry_notices(&registry);
        starting.carry_picks(&campaigns, &partitions);
        let Starting { attended, stop, tasks, orphans, .. } = starting;
        let shared = SharedEngine {
            settings,
            context,
            partitions,
            queues,
            registry,
            campaigns,
            streams,
            attended,
            stop,
            tasks: Mutex::new(tasks),
            mirror: OnceLock::new(),
            place_labels: OnceLock::new(),
            feed_waiters: Semaphore::new(feeds::FEED_WAITERS_MAX),
        };
        let engine = Self { shared: Arc::new(shared) };
        for client in orphans {
            // A store that fails here shows at the next call.
            let _not_accepting = engine.sweep(client).await;
        }
        Ok(engine)
    }

    /// Finishes what was accepted, then accepts nothing more.
    pub async fn stop(&self) {
        self.shared.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut *locked(&self.shared.tasks));
        while tasks.join_next().await.is_some() {}
    }

    /// The error that stopped the store, if one did: then `/readyz` is 503 and every call is
    /// refused.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<StoreError>> {
        self.shared.context.kernel.failure()
    }

    /// The clock that everything runs on.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.context.kernel.clock
    }

    /// Returns when the engine clock says `at`, a millisecond from now at the earliest.
    pub async fn until(&self, at: Timestamp) {
        self.shared.context.kernel.alarm().until(at).await;
    }

    /// Has everybody who waits for a time look at the clock again: the wall clock was set, or the
    /// machine has slept.
    pub fn clocks_stepped(&self) {
        self.shared.context.kernel.alarm().clocks_stepped();
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &EngineSettings {
        &self.shared.settings
    }

    /// Shows every report that is accepted from now on to this one. There is one mirror: a second
    /// is not taken.
    pub fn mirror_to(&self, mirror: Arc<dyn IntakeMirror>) {
        let _there_is_one = self.shared.mirror.set(mirror);
    }

    pub(crate) fn mirror(&self) -> Option<&Arc<dyn IntakeMirror>> {
        self.shared.mirror.get()
    }

    /// Where a way in hands in its reports.
    #[must_use]
    pub fn intake(&self, way: WayIn) -> Intake {
        Intake::new(self.clone(), way)
    }

    pub(crate) async fn submit(&self, way: WayIn, slice: Slice) -> Result<PendingSlice, NotAccepting> {
        let count = slice.len() as u32;
        let (reports, refused, received) = slice.into_parts();
        let partitions = self.shared.partitions.len();
        let mut split: Vec<Vec<Addressed>> = (0..partitions).map(|_| Vec::new()).collect();
        for (index, report) in reports {
            let hash = hash::device_hash(report.device.as_str());
            let partition = hash::partition_of(hash::routing_hash(hash), partitions as u16);
            split[usize::from(partition.0)].push(Addressed { index, hash, report });
        }
        let used = split.iter().filter(|reports| !reports.is_empty()).count();
        let (pending, mut parts) = SlicePart::split(count, used);
        let gatherings = &self.shared.context.devices.gatherings;
        for ((id, partition), reports) in (0..).map(PartitionId).zip(&self.shared.partitions).zip(split) {
            if reports.is_empty() {
                continue;
            }
            if gatherings.is_full(id) {
                tokio::select! {
                    () = gatherings.room(id) => {}
                    // What was gathered stays where it is: nobody waits for a partition that ended.
                    () = partition.inbox.closed() => return Err(NotAccepting),
                }
            }
            let Some(part) = parts.next() else { break };
            partition.send(DeviceInput::Reports { way, reports, part }).await?;
        }
        Ok(pending.keeping(refused, self.intake(way), received))
    }

    /// Keeps refused messages in the partition of their routing hash.
    pub(crate) async fn quarantine(
        &self,
        way: WayIn,
        routing: u32,
        messages: Vec<RefusedMessage>,
    ) -> Result<(), NotAccepting> {
        let partition = &self.shared.partitions[usize::from(self.partition_of(routing).0)];
        for messages in quarantine::pieces(messages) {
            partition.ask(|reply| DeviceInput::Quarantine { way, messages, reply }).await?;
        }
        Ok(())
    }

    /// Keeps a refused report no longer. 404 `unknown_quarantined` if it is not there.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn discard_quarantined(&self, id: EntityId) -> Result<(), Problem> {
        let partition = &self.shared.partitions[usize::from(self.partition_of(id.routing).0)];
        partition.ask(|reply| DeviceInput::Discard { id, reply }).await?
    }

    /// Gives a client another secret, which the answer shows; the one before is signed with too for
    /// 24 hours.
    ///
    /// # Errors
    /// 404 for an unknown client; see [`Engine::create_client`].
    pub async fn rotate_secret(&self, id: ClientId) -> Result<Client, Problem> {
        let secret = Box::new(unguessable()?);
        self.shared.registry.ask(|reply| RegistryInput::Rotate { id, secret, reply }).await?
    }

    pub(crate) async fn attend(&self, way: WayIn, attended: bool) {
        self.shared.attended[way.index()].store(attended, Ordering::SeqCst);
        for partition in &self.shared.partitions {
            // A partition that takes nothing more notices no silence either.
            let _not_accepting = partition.send(DeviceInput::Attend { way, attended }).await;
        }
    }

    /// The readers' side.
    #[must_use]
    pub fn queries(&self) -> Queries {
        Queries::new(self.clone())
    }

    /// The clients, as they are at this moment.
    #[must_use]
    pub fn directory(&self) -> &ClientDirectory {
        self.shared.context.directory()
    }

    /// Registers a client. 409 `exists` if the id is taken.
    ///
    /// # Errors
    /// A problem that says what is wrong; 503 when not accepting. The same for every call below.
    pub async fn create_client(&self, client: NewClient) -> Result<Client, Problem> {
        let (client, made) = (Box::new(client), Box::new(made()?));
        self.shared.registry.ask(|reply| RegistryInput::Create { client, made, reply }).await?
    }

    /// Changes what the patch names.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn patch_client(
        &self,
        id: ClientId,
        patch: ClientPatch,
        only_if: OnlyIf,
    ) -> Result<Client, Problem> {
        let patch = Box::new(patch);
        self.shared.registry.ask(|reply| RegistryInput::Patch { id, patch, only_if, reply }).await?
    }

    /// Removes a client; its pending notifications are cancelled and its links swept.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn delete_client(&self, id: ClientId, only_if: OnlyIf) -> Result<(), Problem> {
        let engine = self.clone();
        // On a task of its own: a caller who hangs up does not leave the client half removed.
        let removal = tokio::spawn(async move {
            let removed = engine.shared.registry.ask(|reply| RegistryInput::Delete { id, only_if, reply });
            let client = removed.await??;
            engine.sweep(client.incarnation).await.map_err(Problem::from)
        });
        removal.await.map_err(|_| Problem::from(NotAccepting))?
    }

    /// Unlinks a client that is gone everywhere, some devices at a time.
    async fn sweep(&self, client: Incarnation) -> Result<(), NotAccepting> {
        for partition in &self.shared.partitions {
            while partition.ask(|reply| DeviceInput::SweepClient { client, reply }).await? {}
        }
        Ok(())
    }

    /// Registers a device. 409 `exists` if it is there.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn create_device(&self, device: NewDevice) -> Result<DeviceDetails, Problem> {
        let device = Box::new(device.check(&self.shared.settings.registry_rules())?);
        self.partition_with(device.id()).ask(|reply| DeviceInput::CreateDevice { device, reply }).await?
    }

    /// Imports up to 1,000 devices ([`base::limits::SLICE_REPORTS_MAX`]): what became of each, in
    /// order.
    ///
    /// # Errors
    /// When the server is not accepting; then nothing is known of any.
    pub async fn import(
        &self,
        devices: Vec<ImportDevice>,
    ) -> Result<Vec<Result<ImportOutcome, Problem>>, NotAccepting> {
        import::import(self, devices).await
    }

    /// Changes what the patch names.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn patch_device(
        &self,
        id: DeviceId,
        patch: DevicePatch,
        only_if: OnlyIf,
    ) -> Result<DeviceDetails, Problem> {
        let patch = Box::new(patch);
        self.partition_with(&id)
            .ask(|reply| DeviceInput::PatchDevice { id: id.clone(), patch, only_if, reply })
            .await?
    }

    /// Removes a device with its readings and events.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn delete_device(&self, id: DeviceId, only_if: OnlyIf) -> Result<(), Problem> {
        self.partition_with(&id)
            .ask(|reply| DeviceInput::DeleteDevice { id: id.clone(), only_if, reply })
            .await?
    }

    /// Links a device to a client; nothing changes if they are linked.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn link(&self, device: DeviceId, client: ClientId) -> Result<(), Problem> {
        self.set_link(device, client, true).await
    }

    /// Unlinks them; pending notifications are cancelled.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn unlink(&self, device: DeviceId, client: ClientId) -> Result<(), Problem> {
        self.set_link(device, client, false).await
    }

    async fn set_link(&self, id: DeviceId, client: ClientId, linked: bool) -> Result<(), Problem> {
        let known = self.directory().by_id(&client).ok_or_else(|| unknown_client(&client))?;
        let incarnation = known.incarnation;
        let linking = LinkedClient { incarnation, id: client.clone() };
        self.partition_with(&id)
            .ask(|reply| DeviceInput::Link { id: id.clone(), client: linking, linked, reply })
            .await??;
        if linked && self.directory().get(incarnation).is_none() {
            // It was deleted meanwhile, and its sweep may have passed this device before.
            self.sweep(incarnation).await?;
            return Err(unknown_client(&client));
        }
        Ok(())
    }

    /// Sends a delivery again now: 409 `superseded` unless it is the newest of its client and
    /// device. A delivered one goes out under a new id.
    ///
    /// # Errors
    /// See [`Engine::create_client`].
    pub async fn retry_delivery(&self, id: EntityId) -> Result<(), Problem> {
        let partition = &self.shared.partitions[usize::from(self.partition_of(id.routing).0)];
        partition.ask(|reply| DeviceInput::RetryDelivery { id, reply }).await?
    }

    /// Tells a client again of all its devices that have events.
    ///
    /// # Errors
    /// 404 for an unknown client; see [`Engine::create_client`].
    pub async fn resend(&self, client: ClientId) -> Result<(), Problem> {
        let known = self.directory().by_id(&client).ok_or_else(|| unknown_client(&client))?;
        let (engine, client) = (self.clone(), known.incarnation);
        // On a task of its own: a caller who hangs up does not leave some devices out.
        let resending = tokio::spawn(async move {
            for partition in &engine.shared.partitions {
                let mut after = None;
                loop {
                    after = partition.ask(|reply| DeviceInput::Resend { client, after, reply }).await?;
                    if after.is_none() {
                        break;
                    }
                }
            }
            Ok(())
        });
        resending.await.map_err(|_| Problem::from(NotAccepting))?
    }

    /// Lanes with due work.
    #[must_use]
    pub fn due_lanes(&self) -> &DueLanes {
        &self.shared.context.devices.lanes
    }

    pub(crate) fn context(&self) -> &EngineContext {
        &self.shared.context
    }

    pub(crate) fn stale_since(&self, client: Incarnation) -> Option<Timestamp> {
        self.shared.context.devices.stale.since(client)
    }

    pub(crate) fn followers(&self) -> &Followers {
        &self.shared.context.devices.followers
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shared.context.kernel.store
    }

    pub(crate) fn partition_of(&self, routing_hash: u32) -> PartitionId {
        hash::partition_of(routing_hash, self.shared.partitions.len() as u16)
    }

    fn partition_with(&self, device: &DeviceId) -> &PartitionHandle<DeviceInput> {
        let partition = hash::device_partition(device, self.shared.partitions.len() as u16);
        &self.shared.partitions[usize::from(partition.0)]
    }
}
