//! A partition's memory, built from what the store holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{PartitionId, Timestamp};
use jobs::{Jobs, JobsStep, NoCalendar, Numbers};
use records::{Batch, JobHead, Process, QueueCounts};
use store::{QueueResident, Store, StoreError};

use super::budget::{Spent, StepLimits};
use super::conditions::QueueConditions;
use super::coordination::{data_bytes, load_locks};
use super::dropping::Dropping;
use super::lifetime::{QueueSweep, rules};
use super::oldest_dead::OldestDead;
use super::paging::ParkedClocks;
use super::recently_parked::RecentlyParked;
use super::waiting::WaitingConsumers;
use super::{PartitionQueue, QueuePartition};
use crate::kernel::hashed::HashMap;
use crate::kernel::idempotency::KeptAnswers;
use crate::kernel::loaded_changes::LoadedChanges;
use crate::kernel::machine::StepTime;
use crate::kernel::pending_writes::PendingWrites;
use crate::queues::QueueName;
use crate::queues::queue_metrics::NamedPlaces;
use crate::queues::stats::PartitionStats;
use crate::queues::troubled::TroubleNotes;

/// Leases may have been answered whose batches did not survive, where the disk is synced late: what
/// was shown for them must not hold another's. More than any interval between two syncs sees.
const LEASES_SKIPPED: u64 = 1 << 24;

impl QueuePartition {
    /// Loads a partition of queues that keeps at most `resident_max` jobs in memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(
        store: &dyn Store,
        id: PartitionId,
        resident_max: usize,
        process: Process,
        moment: StepTime,
    ) -> Result<Self, StoreError> {
        let view = store.load(id)?;
        let head = view.head().clone();
        let next_lease = if head.seq == 0 { 0 } else { head.next_lease.saturating_add(LEASES_SKIPPED) };
        let numbers = Numbers { next_job: head.next_job, next_lease };
        let mut rules_of_jobs = Jobs::new(process, numbers).keeping_dead_letters();
        rules_of_jobs.set_resident_max(resident_max);
        let now = moment.now.max(head.now);
        rules_of_jobs.set_wall(now, moment.wall);
        let mut partition = Self {
            id,
            lineage: store.lineage(),
            jobs: rules_of_jobs,
            limits: StepLimits::of(resident_max),
            clocks: ParkedClocks::new(resident_max),
            names: BTreeMap::new(),
            queues: HashMap::default(),
            waiting: WaitingConsumers::default(),
            sweeps: BTreeMap::new(),
            dropping: Dropping::default(),
            lingering: VecDeque::new(),
            ageing: BTreeSet::new(),
            overfull: BTreeSet::new(),
            bodies: PendingWrites::default(),
            parked: RecentlyParked::default(),
            dead: PendingWrites::default(),
            oldest_dead: OldestDead::default(),
            answers: KeptAnswers::load(&*view)?,
            conditions: QueueConditions::default(),
            locks: load_locks(&*view, &head, moment)?,
            controls: BTreeMap::new(),
            dead_total: 0,
            latest_stats: PartitionStats::default(),
            named: NamedPlaces::default(),
            troubled: TroubleNotes::default(),
            spent: Spent::default(),
            latest_batch_ops: 0,
            settled: head.seq,
            loaded_changes: LoadedChanges::nothing(),
            closing: false,
            head,
        };
        let (mut batch, mut calendar, mut wakes) = (Batch::new(id), NoCalendar, Vec::new());
        let mut step = JobsStep::new(now, &mut calendar, &mut batch, &mut wakes);
        // One after the other: all at once take more memory than what they are loaded into.
        view.queue_residents(&mut |resident| match resident {
            QueueResident::Queue(queue, counts) => partition.load_queue(&queue, counts, now),
            QueueResident::Job(head) => partition.load_job(&head, &mut step),
        })?;
        partition.loaded_changes = LoadedChanges::of(batch.ops);
        for control in view.queue_controls()? {
            let queue = QueueName::unchecked(&control.namespace, &control.queue);
            partition.controls.insert(queue, data_bytes(&control));
        }
        Ok(partition)
    }

    fn load_queue(&mut self, stored: &records::Queue, counts: QueueCounts, now: Timestamp) {
        let key = stored.key;
        if stored.deleted {
            self.jobs.load_counts(key, counts.parked_scheduled, counts.parked_ready);
            self.sweeps.insert(key, QueueSweep::from(0, counts.dead));
            return;
        }
        let name = QueueName::unchecked(&stored.namespace, &stored.name);
        let queue = PartitionQueue {
            name: name.clone(),
            paused: stored.paused,
            settings: stored.settings,
            dead: counts.dead,
            lingers: true,
            ages_at: None,
            recent: None,
            dead_gone: None,
        };
        self.dead_total += counts.dead;
        self.troubled.note(key);
        self.jobs.load_rules(key, rules(&queue), now);
        self.jobs.load_counts(key, counts.parked_scheduled, counts.parked_ready);
        self.names.insert(name, key);
        self.queues.insert(key, queue);
        // Whether it is empty is looked at once everything is loaded.
        self.lingering.push_back((now, key));
        self.watch_age(key, now);
    }

    fn load_job(&mut self, head: &JobHead, step: &mut JobsStep<'_>) {
        self.jobs.load(head, step);
        let is_known = self.queues.contains_key(&head.queue) || self.sweeps.contains_key(&head.queue);
        debug_assert!(is_known, "a job's queue is there, or is being swept");
        if !is_known {
            self.sweeps.insert(head.queue, QueueSweep::from(0, 0));
        }
    }
}
