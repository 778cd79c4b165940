//! The embedded store on a simulated disk: production's log, overlays, checkpoints and tables, with
//! everything that a disk does to them.

use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use base::{Clock, Lineage};
use blocklog::{Disk, LogId, LogOptions, SimulatedDisk};
use engine::kernel::runner::BATCHES_IN_FLIGHT_MAX;
use store::embedded::LOG_BYTES_FACTOR_MAX;
use store::{
    BATCH_BYTES_MAX, BLOCK_SUFFIX, Checked, EmbeddedOptions, EmbeddedStore, StepOutcome, Store, StoreError,
    SyncMode,
};

use super::mortal_disk::{Doom, MortalDisk};
use super::{End, Storage};
use crate::harness::clock::VirtualClock;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::MachinePlan;

/// Calls after which a fault comes at the latest.
const FAULT_WITHIN_CALLS: u64 = 60;
/// Writes and syncs after which an end in the middle of a step comes at the latest.
const DOOM_WITHIN_CALLS: u64 = 150;
/// The file of the tables; all others are the log's, but for the lock, which is empty, and files of
/// blocks.
const TABLES: &str = "tables";
/// What the name of a segment of the log ends with.
const SEGMENT_SUFFIX: &str = ".seg";
/// Segments of the log besides spares and those that hold what waits for a checkpoint. They are the
/// oldest, the newest, and two that begin with a claim.
const OTHER_SEGMENTS: u64 = 4;
/// Bytes of a batch: a step takes no more work into one that weighs so much.
const BATCH_BYTES: u64 = 1 << 20;
/// Stands for never.
const NEVER: u64 = u64::MAX;

/// The store, whichever process has it.
pub(crate) struct OnDisk {
    disk: SimulatedDisk,
    options: EmbeddedOptions,
    clock: Arc<VirtualClock>,
    opened: Option<Arc<EmbeddedStore>>,
    faulty: bool,
    doom: Doom,
    injected: Option<InjectedFault>,
    copies: u64,
    /// Bytes that one batch may have.
    largest_batch_bytes: u64,
    /// Bytes by which the log grew with the latest commit that made it longer.
    commit_bytes: u64,
}

impl OnDisk {
    pub(crate) fn new(plan: &MachinePlan, clock: Arc<VirtualClock>) -> Self {
        let mut random = Random::new(plan.seed.rotate_left(32));
        Self {
            disk: SimulatedDisk::new(plan.seed),
            options: options(plan, &mut random),
            clock,
            opened: None,
            faulty: false,
            doom: Doom::default(),
            injected: plan.injected,
            copies: 0,
            largest_batch_bytes: if plan.has_large_batches { BATCH_BYTES_MAX as u64 } else { BATCH_BYTES },
            commit_bytes: 0,
        }
    }

    /// One that was made of a backup.
    pub(crate) fn restored(
        plan: &MachinePlan,
        clock: Arc<VirtualClock>,
        backup: &[u8],
    ) -> Result<Self, StoreError> {
        let made = Self::new(plan, clock);
        let disk = Arc::new(made.disk.clone()) as Arc<dyn Disk>;
        store::restore(backup, "the backup", &disk, &made.options)?;
        Ok(made)
    }

    fn as_seen(&self) -> Arc<dyn Disk> {
        let never_synced = match self.injected {
            Some(InjectedFault::ForgottenSync) => Some(""),
            Some(InjectedFault::ForgottenCheckpointSync) => Some(TABLES),
            _ => None,
        };
        Arc::new(MortalDisk { disk: self.disk.clone(), doom: self.doom.clone(), never_synced })
    }

    /// Bytes of the files that are meant.
    fn bytes_of(&self, meant: impl Fn(&str) -> bool) -> u64 {
        let names = self.disk.list().unwrap_or_default();
        names.iter().filter(|name| meant(name)).filter_map(|name| self.disk.file_len(name)).sum()
    }

    fn log_bytes(&self) -> u64 {
        self.bytes_of(|name| name != TABLES && !name.contains(BLOCK_SUFFIX))
    }

    /// Bytes that the log may take. A commit begins while less waits for a checkpoint than the
    /// store's limit, and comes on top. What waits may take twice its bytes: a frame goes to the
    /// next segment where it is too long for the rest of one.
    fn log_bytes_max(&self) -> u64 {
        let log = &self.options.log;
        let waiting = LOG_BYTES_FACTOR_MAX * self.options.checkpoint_log_bytes;
        2 * waiting
            + (OTHER_SEGMENTS + log.spare_segments_max as u64) * log.segment_bytes
            + self.long_oldest_bytes()
            + self.commit_bytes
    }

    /// Bytes of the oldest segment, if a single long frame made it longer than others. It may be
    /// there although the tables cover it. The log keeps the segment that is written to, and a
    /// checkpoint after that frees it.
    fn long_oldest_bytes(&self) -> u64 {
        let names = self.disk.list().unwrap_or_default();
        let oldest = names.iter().find(|name| name.ends_with(SEGMENT_SUFFIX));
        let bytes = oldest.and_then(|name| self.disk.file_len(name)).unwrap_or(0);
        if bytes > self.options.log.segment_bytes { bytes } else { 0 }
    }
}

/// Everything small, so that segments, checkpoints and pages turn over within a run.
fn options(plan: &MachinePlan, random: &mut Random) -> EmbeddedOptions {
    EmbeddedOptions {
        partitions: plan.partitions,
        table_cache_bytes: 64 << 10,
        checkpoint_log_bytes: 2_000 + random.below(60_000),
        checkpoint_memory_bytes: 20_000 + random.below(400_000) as usize,
        checkpoint_age: Duration::from_secs(1 + random.below(120)),
        merged_blobs: 2 + (plan.seed % 7) as u32,
        sync: plan.sync_interval().map_or(SyncMode::Always, SyncMode::Interval),
        log: LogOptions {
            segment_bytes: 1_500 + random.below(20_000),
            zeros_ahead_bytes: random.below(3) * 2_000,
            spare_segments_max: (plan.seed % 4) as usize,
        },
        identity: Some((Lineage(plan.seed), LogId(plan.seed ^ 1))),
    }
}

impl Storage for OnDisk {
    fn open(&mut self) -> Result<Arc<dyn Store>, StoreError> {
        let store = Arc::new(EmbeddedStore::open(self.as_seen(), self.options.clone())?);
        if self.injected == Some(InjectedFault::ForgottenPosition) {
            store.forget_positions();
        }
        self.opened = Some(Arc::clone(&store));
        Ok(store)
    }

    fn commit_step(&mut self, _: &mut Random) -> bool {
        let Some(store) = self.opened.clone() else { return false };
        let before = self.log_bytes();
        match store.commit_step() {
            StepOutcome::Idle => false,
            StepOutcome::Worked => {
                let grown = self.log_bytes().saturating_sub(before);
                // It does not grow into zeros that are there already, nor once the store has
                // failed.
                if grown > 0 {
                    self.commit_bytes = grown;
                }
                true
            }
            // The log has no room: the real committer wakes the checkpointer and waits.
            StepOutcome::Full => store.checkpoint_step(self.clock.now()) == StepOutcome::Worked,
        }
    }

    fn upkeep_step(&mut self, random: &mut Random) -> bool {
        let Some(store) = &self.opened else { return false };
        let step =
            if random.chance(1, 4) { store.idle_step() } else { store.checkpoint_step(self.clock.now()) };
        step == StepOutcome::Worked
    }

    fn sync_step(&mut self) -> bool {
        let Some(store) = self.opened.as_ref().filter(|_| self.options.sync != SyncMode::Always) else {
            return false;
        };
        if self.injected != Some(InjectedFault::ForgottenLateSync) {
            store.sync_step();
        }
        store.failure().is_none()
    }

    fn fault(&mut self, random: &mut Random) -> String {
        self.faulty = true;
        let nth = 1 + random.below(FAULT_WITHIN_CALLS);
        match random.below(6) {
            0 => {
                self.disk.fail_read(nth);
                format!("read {nth} fails")
            }
            1 | 2 => {
                self.disk.fail_write(nth);
                format!("write {nth} fails")
            }
            3 | 4 => {
                let nth = 1 + nth / 8;
                self.disk.fail_sync(nth);
                format!("sync {nth} fails")
            }
            _ => {
                let room = random.below(20_000);
                self.disk.set_capacity(Some(self.bytes_of(|_| true) + room));
                format!("the disk has room for {room} bytes more")
            }
        }
    }

    fn doom(&mut self, random: &mut Random) -> String {
        let calls = random.below(DOOM_WITHIN_CALLS);
        let end = if random.chance(1, 2) { End::Kill } else { End::Crash };
        self.doom.plan(calls, end);
        format!("{end:?} after {calls} writes and syncs")
    }

    fn take_end(&mut self) -> Option<End> {
        let end = self.doom.take()?;
        self.opened = None;
        Some(end)
    }

    fn is_bounded(&self, partitions: usize) -> Result<(), String> {
        // A crash may bring back files that were freed. The next opening frees them again.
        if self.opened.is_none() {
            return Ok(());
        }
        let largest_commit_bytes = (BATCHES_IN_FLIGHT_MAX * partitions) as u64 * self.largest_batch_bytes;
        let limits = [
            ("the latest commit", self.commit_bytes, largest_commit_bytes),
            ("the log", self.log_bytes(), self.log_bytes_max()),
        ];
        match limits.into_iter().find(|(_, bytes, most)| bytes > most) {
            None => Ok(()),
            Some((what, bytes, most)) => Err(format!("{what} takes {bytes} bytes; {most} are allowed")),
        }
    }

    fn is_faulty(&self) -> bool {
        self.faulty
    }

    fn failed_reads(&self) -> u64 {
        self.disk.counters().failed_reads
    }

    fn heal(&mut self) {
        self.faulty = false;
        self.doom.avert();
        self.disk.fail_read(NEVER);
        self.disk.fail_write(NEVER);
        self.disk.fail_sync(NEVER);
        self.disk.set_capacity(None);
    }

    fn backup(&mut self) -> Option<Vec<u8>> {
        let mut backup = self.opened.as_ref()?.backup().ok()?;
        let mut bytes = Vec::new();
        while let Some(piece) = backup.next_piece().ok()? {
            bytes.extend(piece);
        }
        Some(bytes)
    }

    fn kill(&mut self) {
        self.disk.kill();
        self.opened = None;
    }

    fn crash(&mut self, _: &mut Random) {
        self.disk.crash();
        self.opened = None;
    }

    fn stop(&mut self) -> bool {
        self.opened.take().is_some_and(|store| {
            store.idle_step();
            store.failure().is_none()
        })
    }

    fn reader(&self) -> Option<Arc<dyn Store>> {
        let store = self.opened.as_ref().filter(|store| store.failure().is_none())?;
        Some(Arc::clone(store) as Arc<dyn Store>)
    }

    fn after_a_crash(&mut self) -> Result<Arc<dyn Store>, StoreError> {
        self.copies += 1;
        let copy = self.disk.copy_of_durable(self.copies);
        Ok(Arc::new(EmbeddedStore::open(Arc::new(copy), self.options.clone())?))
    }

    fn findings(&mut self) -> Result<Vec<String>, StoreError> {
        self.copies += 1;
        let copy = self.disk.copy_of_current(self.copies);
        let store = EmbeddedStore::open(Arc::new(copy), self.options.clone())?;
        let mut findings = Vec::new();
        store.check_rows(&mut |told| {
            if let Checked::Found(error) = told {
                findings.push(error.to_string());
            }
        });
        Ok(findings)
    }
}
