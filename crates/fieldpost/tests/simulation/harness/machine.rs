//! The machine under a simulated server: its clocks, its disk, and the chance that moves both.
//!
//! It knows no workload. It counts its own faults and ends.

use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use base::{Clock, Timestamp};

use super::clock::VirtualClock;
use super::counts::counts;
use super::storage::{self, Storage, check_rows};
use super::trace::Trace;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::violation::Checked;

/// Which store a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    /// In memory: every outcome of a commit.
    Memory,
    /// The embedded store on a simulated disk.
    Embedded,
}

/// How often the scheduler picks each step of the machine, relative to each other and to the steps
/// of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineWeights {
    pub(crate) time: u64,
    pub(crate) leap: u64,
    /// Most of a day passes, or more.
    pub(crate) day: u64,
    pub(crate) wall: u64,
    pub(crate) crash: u64,
    pub(crate) kill: u64,
    /// The process is to end in the middle of a step of the store.
    pub(crate) doom: u64,
    pub(crate) stop: u64,
    pub(crate) storage_fault: u64,
    pub(crate) audit: u64,
}

/// What a seed decides of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachinePlan {
    pub(crate) seed: u64,
    pub(crate) storage: StorageKind,
    pub(crate) partitions: u16,
    pub(crate) weights: MachineWeights,
    /// Whether one batch may be larger than the log's usual limit.
    pub(crate) has_large_batches: bool,
    /// What is answered is synced so much later at most.
    pub(crate) sync_interval: Option<Duration>,
    pub(crate) injected: Option<InjectedFault>,
}

counts! {
    /// What a machine went through.
    MachineCounts:
    crashes,
    kills,
    /// Ends in the middle of a step of the store,
    ends_in_a_step,
    /// and of the opening of a data directory.
    ends_in_a_start,
    stops,
    refused_opens,
    audits,
    /// Checks of all rows.
    row_checks,
}

/// How far the wall clock is set at most; twice as far off, it is set right.
const WALL_STEP_MS: u64 = 3_600_000;

/// See the module.
pub(crate) struct Machine {
    pub(crate) plan: MachinePlan,
    pub(crate) random: Random,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) storage: Box<dyn Storage>,
    /// Processes that have been started.
    pub(crate) processes: u64,
    /// Since when something is committed and, with syncs at intervals, not synced.
    pub(crate) unsynced_since: Option<Timestamp>,
    pub(crate) trace: Trace,
    pub(crate) counts: MachineCounts,
}

impl Machine {
    pub(crate) fn new(plan: MachinePlan) -> Self {
        let clock = Arc::new(VirtualClock::new());
        Self {
            random: Random::new(plan.seed),
            storage: storage::of(&plan, &clock),
            clock,
            processes: 0,
            unsynced_since: None,
            trace: Trace::new(),
            counts: MachineCounts::default(),
            plan,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Commits what waits. Whether there was anything.
    pub(crate) fn commit(&mut self) -> bool {
        let any = self.storage.commit_step(&mut self.random);
        if any {
            self.unsynced_since.get_or_insert(self.clock.now());
        }
        any
    }

    /// Work of the store that nobody waits for.
    pub(crate) fn upkeep(&mut self) {
        let any = self.storage.upkeep_step(&mut self.random);
        self.trace.note(format_args!("upkeep: {any}"));
    }

    /// Whether what is not synced would be too old `ms` from now.
    pub(crate) fn must_sync_within(&self, ms: i64) -> bool {
        let due = self.unsynced_since.zip(self.plan.sync_interval);
        due.is_some_and(|(since, interval)| since.after(interval).0 <= self.now().0 + ms)
    }

    /// Time passes, for a process that is up or for nobody.
    pub(crate) fn pass(&mut self, ms: i64, is_up: bool) {
        if is_up {
            self.clock.pass(ms);
        } else {
            self.clock.pass_down(ms);
        }
        self.trace.note(format_args!("{ms} ms pass, it is {}", self.now().0));
    }

    /// Somebody sets the wall clock.
    pub(crate) fn set_wall(&mut self) {
        let span = self.random.below(2 * WALL_STEP_MS) as i64 - WALL_STEP_MS as i64;
        // Away from the engine clock only so far: a day would refuse the start.
        let ahead = self.clock.wall_ahead();
        let ms = if ahead.abs() > 2 * WALL_STEP_MS as i64 { -ahead } else { span };
        self.trace.note(format_args!("the wall clock is set by {ms} ms"));
        self.clock.step_wall(ms);
    }

    /// The disk fails from now on, or at one of the next calls.
    pub(crate) fn fail_storage(&mut self) {
        let fault = self.storage.fault(&mut self.random);
        self.trace.note(format_args!("storage: {fault}"));
    }

    /// The process is to end in the middle of one of the next steps.
    pub(crate) fn doom(&mut self) {
        let doom = self.storage.doom(&mut self.random);
        self.trace.note(format_args!("storage: {doom}"));
    }

    pub(crate) fn heal_storage(&mut self) {
        self.trace.note(format_args!("storage heals"));
        self.storage.heal();
    }

    /// How many inputs a step takes: mostly few, sometimes all.
    pub(crate) fn batch_size(&mut self) -> usize {
        match self.random.below(4) {
            0 => usize::MAX,
            1 => 1,
            _ => 1 + self.random.below(6) as usize,
        }
    }

    /// Checks the rows that are there, when a life has ended, and at the end of all.
    pub(crate) fn check_rows(&mut self) -> Checked {
        if !self.plan.injected.is_none_or(InjectedFault::is_left_in_rows) {
            return Ok(());
        }
        self.counts.row_checks += 1;
        check_rows(&mut *self.storage)
    }
}
