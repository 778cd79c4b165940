//! A partition's memory, built from what the store holds: at the start, and again whenever a
//! commit's outcome is not known.
//!
//! Attempts that were under way in another process are cut off here. Their records are the first
//! thing the partition writes, in as many steps as it takes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, PartitionId, Timestamp};
use fleet::index::LoadingIndex;
use jobs::{Jobs, LoadOutcome, Numbers};
use records::{JobHead, NotificationState, Process};
use store::{DeviceResident, Store, StoreError};
use watch::Watch;

use super::commands::DeviceCommands;
use super::counts::DeviceGroups;
use super::devices::ResidentDevices;
use super::ended_job::{EndedJob, JobEnd};
use super::notification_states::NotificationStates;
use super::pending::PendingRecords;
use super::quarantine::PartitionQuarantine;
use super::report_outbox::{ReportOutbox, tell_loaded};
use super::stale::stale_devices;
use super::{DevicePartition, DeviceStep, DeviceStepPart, LoadedChange};
use crate::devices::context::DeviceContext;
use crate::devices::quarantine_budget::KeptReports;
use crate::devices::stats::DeviceStats;
use crate::kernel::fetch::FromStore;
use crate::kernel::hashed::HashMap;
use crate::kernel::idempotency::KeptAnswers;
use crate::kernel::loaded_changes::LoadedChanges;
use crate::kernel::machine::StepTime;
use crate::kernel::step_context::StepContext;
use crate::settings::EngineSettings;

/// A partition that was loaded.
#[derive(Debug)]
pub struct OpenedPartition {
    /// The partition.
    pub partition: DevicePartition,
    /// Linked clients that are gone: to be swept.
    pub orphans: HashSet<Incarnation>,
}

impl DevicePartition {
    /// Loads a partition, and its index into `context`, whose directory must hold the clients
    /// already. `moment.stamp` is not before any that was given earlier.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(
        store: &dyn Store,
        id: PartitionId,
        settings: &Arc<EngineSettings>,
        process: Process,
        moment: StepTime,
        context: &DeviceContext,
    ) -> Result<OpenedPartition, StoreError> {
        let view = store.load(id)?;
        let mut head = view.head().clone();
        let now = moment.now.max(head.now);
        head.stamp = head.stamp.max(moment.stamp);
        let jobs = Jobs::new(process, Numbers { next_job: head.next_job, next_lease: head.next_lease });
        let commands = DeviceCommands::load(settings.commands.keep, &FromStore::new(store, id), &jobs)?;
        let mut partition = Self {
            id,
            lineage: store.lineage(),
            settings: Arc::clone(settings),
            process,
            devices: ResidentDevices::default(),
            jobs,
            notification_states: NotificationStates::default(),
            stale: HashMap::default(),
            quarantine: PartitionQuarantine::new(&context.quarantine, &KeptReports::default()),
            groups: DeviceGroups::default(),
            counts_at_hand: HashMap::default(),
            addresses: HashMap::default(),
            unannounced: true,
            clients: HashMap::default(),
            pending: PendingRecords::default(),
            commands,
            answers: KeptAnswers::load(&*view)?,
            loaded_changes: LoadedChanges::nothing(),
            watch: Watch::new(watch_settings(settings, head.seq), head.attended, now),
            backlog: None,
            latest_stats: DeviceStats::default(),
            outbox: ReportOutbox::new(context, store.lineage().marked(settings.directory_mark)),
            closing: false,
            head,
        };
        let mut collected = Collected::default();
        view.device_residents(&mut |resident| partition.take_resident(resident, context, &mut collected))?;
        context.fleet.replace(id, collected.index.loaded());
        partition.notification_states = collected.notification_states.into_iter().collect();
        partition.stale = stale_devices(partition.notification_states.values());
        partition.load_jobs(collected.jobs, now, store);
        partition.outbox.load(&*view)?;
        // What others go by is told only once nothing can fail any more.
        tell_loaded(id, &partition.outbox, context);
        partition.quarantine = PartitionQuarantine::new(&context.quarantine, &collected.quarantined);
        context.quarantine.replace(id, collected.quarantined);
        Ok(OpenedPartition { partition, orphans: collected.orphans })
    }

    /// Takes a record in as it is read: all profiles at once would take several times the memory.
    fn take_resident(
        &mut self,
        resident: DeviceResident,
        context: &DeviceContext,
        collected: &mut Collected,
    ) {
        match resident {
            DeviceResident::Device(profile, state, seen) => {
                let group = self.groups.enter(&profile);
                self.devices.insert(&profile, group);
                collected.index.add(&profile, state.connection);
                self.watch.load(&profile, state, seen);
                for client in &profile.clients {
                    match context.directory.get(*client) {
                        Some(client) => drop(self.clients.insert(client.incarnation, client.id.clone())),
                        None => drop(collected.orphans.insert(*client)),
                    }
                }
            }
            DeviceResident::NotificationState(state) => collected.notification_states.push(*state),
            DeviceResident::Job(head) => collected.jobs.push(*head),
            DeviceResident::ReportIds(slot, ids) => self.devices.set_report_ids(slot, ids),
            DeviceResident::Quarantined(key, cost) => collected.quarantined.push(key, cost),
        }
    }

    /// Takes the jobs in, and cuts off the attempts of an earlier process. What follows from that
    /// is done by the first steps: until it is written, feeds go on past this moment.
    fn load_jobs(&mut self, jobs: Vec<JobHead>, now: Timestamp, store: &dyn Store) {
        let fetch = FromStore::new(store, self.id);
        let moment = StepTime { now, stamp: self.head.stamp, wall: now };
        let mut step: DeviceStep<'_> =
            StepContext::new(self.id, &self.head, moment, &fetch, DeviceStepPart::default());
        for head in jobs {
            let loaded = self.jobs.load(&head, &mut step.jobs());
            let cut_off = match loaded {
                LoadOutcome::Interrupted { released, .. } => {
                    Some(EndedJob { line: head.queue, alias: head.alias, end: JobEnd::Cut(released) })
                }
                LoadOutcome::Kept => None,
            };
            let ops = std::mem::take(&mut step.batch.ops);
            if cut_off.is_some() || !ops.is_empty() {
                self.loaded_changes.push(LoadedChange { ops, cut_off });
            }
        }
    }
}

/// What never ran before has nothing to forgive after a start.
fn watch_settings(settings: &EngineSettings, seq: u64) -> watch::SilenceSettings {
    watch::SilenceSettings {
        report_interval: settings.report_interval,
        loss_grace: settings.loss_grace,
        restart_grace: if seq == 0 { Duration::ZERO } else { settings.restart_grace },
        configured: settings.ways_configured,
    }
}

/// What is collected while a partition is read, and used once all of it is read.
#[derive(Default)]
struct Collected {
    index: LoadingIndex,
    orphans: HashSet<Incarnation>,
    notification_states: Vec<NotificationState>,
    jobs: Vec<JobHead>,
    quarantined: KeptReports,
}
