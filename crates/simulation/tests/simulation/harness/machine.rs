//! The machine under a simulated server: its clocks, its disk, and the chance that moves both.
//!
//! It knows no workload. All that runs on it shares it. It counts its own faults and ends.

use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use base::{Clock, Timestamp};

use super::clock::VirtualClock;
use super::counts::counts;
use super::fault_injection::InjectedFault;
use super::storage::{self, Storage, check_rows};
use super::trace::Trace;
use super::violation::{Checked, Invariant};

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

impl MachineWeights {
    /// The process lives on, and its store is well: what it has in memory is not loaded again.
    pub(crate) fn without_ends(self) -> Self {
        Self { crash: 0, kill: 0, doom: 0, stop: 0, storage_fault: 0, ..self }
    }
}

/// What a seed decides of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachinePlan {
    pub(crate) seed: u64,
    /// Runs of one seed that differ in this alone draw other numbers.
    pub(crate) variation: u64,
    /// Steps of the run before it becomes quiet.
    pub(crate) steps: u64,
    pub(crate) storage: StorageKind,
    pub(crate) partitions: u16,
    pub(crate) weights: MachineWeights,
    /// Whether batches may weigh more than a step usually takes.
    pub(crate) has_large_batches: bool,
    /// Everything that is stored is looked at after each start.
    pub(crate) audits_starts: bool,
    /// What is answered is synced so much later at most, if the store can do that.
    pub(crate) syncs_later: Option<Duration>,
    pub(crate) injected: Option<InjectedFault>,
}

impl MachinePlan {
    /// How long a sync may be put off. Not with large batches: what may be lost is remembered
    /// whole.
    pub(crate) fn sync_interval(&self) -> Option<Duration> {
        let can = self.storage == StorageKind::Embedded && !self.has_large_batches;
        self.syncs_later.filter(|_| can)
    }
}

/// Some seeds put syncs off, whatever else they decide.
pub(crate) fn syncs_later(seed: u64) -> Option<Duration> {
    let mut random = Random::new(seed ^ 0x0000_51bc_1a7e_0000);
    random.chance(1, 4).then(|| Duration::from_millis(1 + random.below(5_000)))
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
    /// Partitions that were loaded again within a life.
    reloads,
    batches,
    /// Batches that were answered and not synced when the power failed.
    taken_by_power,
    audits,
    /// Checks of all rows.
    row_checks,
}

/// How far the wall clock is set at most; twice as far off, it is set right.
const WALL_STEP_MS: u64 = 3_600_000;
/// Keeps the numbers of two variations of a seed apart.
const VARIATION: u64 = 0x9e37_79b9_7f4a_7c15;

/// All chance of a run.
pub(crate) struct Chance(RefCell<Random>);

impl Chance {
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.0.borrow_mut().below(bound)
    }

    pub(crate) fn chance(&self, ones: u64, of: u64) -> bool {
        self.0.borrow_mut().chance(ones, of)
    }

    pub(crate) fn next_u64(&self) -> u64 {
        self.0.borrow_mut().next_u64()
    }

    /// One of several, by its place.
    pub(crate) fn one_of<T: Clone>(&self, several: &[T]) -> T {
        several[self.below(several.len() as u64) as usize].clone()
    }

    /// For whoever draws many numbers; nobody else draws any meanwhile.
    pub(crate) fn numbers(&self) -> RefMut<'_, Random> {
        self.0.borrow_mut()
    }
}

/// See the module.
pub(crate) struct Machine {
    pub(crate) plan: MachinePlan,
    pub(crate) random: Chance,
    pub(crate) clock: Arc<VirtualClock>,
    storage: RefCell<Box<dyn Storage>>,
    processes: Cell<u64>,
    /// Since when something is committed and, with syncs at intervals, not synced.
    unsynced_since: Cell<Option<Timestamp>>,
    pub(crate) trace: Trace,
    counts: Cell<MachineCounts>,
}

impl Machine {
    pub(crate) fn new(plan: MachinePlan) -> Self {
        Self::with_trace(plan, Trace::new())
    }

    /// One of several in one world.
    pub(super) fn with_trace(plan: MachinePlan, trace: Trace) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let random = Random::new(plan.seed ^ plan.variation.wrapping_mul(VARIATION));
        Self {
            random: Chance(RefCell::new(random)),
            storage: RefCell::new(storage::of(&plan, &clock)),
            clock,
            processes: Cell::new(0),
            unsynced_since: Cell::new(None),
            trace,
            counts: Cell::new(MachineCounts::default()),
            plan,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Up to when timers are due: nothing is where a broken harness wakes nobody.
    pub(crate) fn timers_now(&self) -> Option<Timestamp> {
        (!self.injects(InjectedFault::DeadlineLost)).then(|| self.now())
    }

    /// Processes that have been started.
    pub(crate) fn processes(&self) -> u64 {
        self.processes.get()
    }

    /// Whether this is broken on purpose.
    pub(crate) fn injects(&self, fault: InjectedFault) -> bool {
        self.plan.injected == Some(fault)
    }

    pub(super) fn storage(&self) -> RefMut<'_, Box<dyn Storage>> {
        self.storage.borrow_mut()
    }

    /// Puts another storage in the place of the one that there is.
    pub(super) fn replace_storage(&self, storage: Box<dyn Storage>) {
        self.storage.replace(storage);
    }

    /// Another process starts: which it is.
    pub(super) fn next_process(&self) -> u64 {
        self.processes.set(self.processes.get() + 1);
        self.processes.get()
    }

    pub(super) fn count(&self, one: impl FnOnce(&mut MachineCounts)) {
        let mut counts = self.counts.get();
        one(&mut counts);
        self.counts.set(counts);
    }

    pub(super) fn counts(&self) -> MachineCounts {
        self.counts.get()
    }

    /// Commits what waits. Whether there was anything.
    pub(super) fn commit(&self) -> bool {
        let any = self.storage().commit_step(&mut self.random.numbers());
        if any {
            self.unsynced_since.set(self.unsynced_since.get().or(Some(self.now())));
        }
        any
    }

    /// What waits for the store, of so many partitions, keeps to its limit.
    pub(super) fn check_bounded(&self, partitions: usize) -> Checked {
        self.storage().is_bounded(partitions).map_err(|found| Invariant::BOUNDED.broken(found))
    }

    /// Work of the store that nobody waits for.
    pub(super) fn upkeep(&self) {
        let any = self.storage().upkeep_step(&mut self.random.numbers());
        self.trace.note(format_args!("upkeep: {any}"));
    }

    /// Everything that was committed is synced.
    pub(super) fn synced(&self) {
        self.unsynced_since.set(None);
    }

    /// Whether what is not synced would be too old `ms` from now.
    pub(super) fn must_sync_within(&self, ms: i64) -> bool {
        let due = self.unsynced_since.get().zip(self.plan.sync_interval());
        due.is_some_and(|(since, interval)| since.after(interval).0 <= self.now().0 + ms)
    }

    /// Time passes, for a process that is up or for nobody.
    pub(super) fn pass(&self, ms: i64, is_up: bool) {
        if is_up {
            self.clock.pass(ms);
        } else {
            self.clock.pass_down(ms);
        }
        self.trace.note(format_args!("{ms} ms pass, it is {}", self.now().0));
    }

    /// Somebody sets the wall clock.
    pub(super) fn set_wall(&self) {
        let span = self.random.below(2 * WALL_STEP_MS) as i64 - WALL_STEP_MS as i64;
        // Away from the engine clock only so far: a day would refuse the start.
        let ahead = self.clock.wall_ahead();
        let ms = if ahead.abs() > 2 * WALL_STEP_MS as i64 { -ahead } else { span };
        self.trace.note(format_args!("the wall clock is set by {ms} ms"));
        self.clock.step_wall(ms);
    }

    /// The disk fails from now on, or at one of the next calls.
    pub(super) fn fail_storage(&self) {
        let fault = self.storage().fault(&mut self.random.numbers());
        self.trace.note(format_args!("storage: {fault}"));
    }

    /// The process is to end in the middle of one of the next steps.
    pub(super) fn doom(&self) {
        let doom = self.storage().doom(&mut self.random.numbers());
        self.trace.note(format_args!("storage: {doom}"));
    }

    /// Whether a fault of the storage may still come, or has come since it was healed.
    pub(crate) fn is_storage_faulty(&self) -> bool {
        self.storage().is_faulty()
    }

    /// Reads of files that the disk has failed so far.
    pub(crate) fn failed_reads(&self) -> u64 {
        self.storage().failed_reads()
    }

    pub(super) fn heal_storage(&self) {
        self.trace.note(format_args!("storage heals"));
        self.storage().heal();
    }

    /// How many inputs a step takes: mostly few, sometimes all.
    pub(crate) fn batch_size(&self) -> usize {
        match self.random.below(4) {
            0 => usize::MAX,
            1 => 1,
            _ => 1 + self.random.below(6) as usize,
        }
    }

    /// Checks the rows that are there, when a life has ended, and at the end of all.
    pub(super) fn check_rows(&self) -> Checked {
        if !self.plan.injected.is_none_or(InjectedFault::is_left_in_rows) {
            return Ok(());
        }
        self.count(|counts| counts.row_checks += 1);
        check_rows(&mut **self.storage())
    }
}
