//! The committer's thread: commits what waits, pauses as
//! [backpressure](crate::embedded::backpressure) says, and syncs or claims the log when it is time
//! to. It waits with no lock but the inbox's own, and a checkpoint that makes room wakes it.

use std::time::{Duration, Instant};

use super::Bell;
use crate::embedded::inbox::Woken;
use crate::embedded::{EmbeddedStore, StepOutcome, SyncMode};

/// After so long without a batch the log claims what it holds.
const CLAIM_AFTER: Duration = Duration::from_millis(10);

pub(super) struct Committing<'a> {
    store: &'a EmbeddedStore,
    bell: &'a Bell,
    /// The log says of everything in it that it is durable.
    is_claimed: bool,
    /// Since when something is committed and not synced.
    unsynced_since: Option<Instant>,
}

impl<'a> Committing<'a> {
    pub(super) fn new(store: &'a EmbeddedStore, bell: &'a Bell) -> Self {
        Self { store, bell, is_claimed: true, unsynced_since: None }
    }

    /// Until the inbox is closed and empty. What was committed is synced then.
    pub(super) fn run(mut self) {
        while self.turn() {}
        self.store.idle_step();
    }

    fn turn(&mut self) -> bool {
        self.sync_if_due();
        let began = Instant::now();
        match self.store.commit_step() {
            StepOutcome::Worked => self.committed(began),
            StepOutcome::Full => self.wait_for_room(),
            StepOutcome::Idle => return self.rest(),
        }
        true
    }

    fn committed(&mut self, began: Instant) {
        self.is_claimed = false;
        if self.store.is_unsynced() {
            self.unsynced_since.get_or_insert(began);
        }
        self.bell.committed(self.store.is_laden());
        self.pace(began.elapsed());
    }

    /// Pauses after a commit that took `worked`; less, when a checkpoint makes room meanwhile.
    fn pace(&mut self, worked: Duration) {
        if self.store.pause_after(worked).is_zero() {
            return;
        }
        let began = Instant::now();
        loop {
            let left = self.store.pause_after(worked).saturating_sub(began.elapsed());
            if left.is_zero() || !self.store.inbox.pause(left.min(self.until_sync())) {
                break;
            }
            self.sync_if_due();
        }
        self.store.counters.paced(began.elapsed());
    }

    fn wait_for_room(&mut self) {
        let began = Instant::now();
        self.bell.ring();
        self.store.inbox.wait_for_nudge(self.unsynced_since.map(|_| self.until_sync()));
        self.store.counters.paced(began.elapsed());
    }

    /// Waits for a batch; whether there may ever be one.
    fn rest(&mut self) -> bool {
        let quiet = match self.unsynced_since {
            Some(_) => Some(self.until_sync()),
            None => (!self.is_claimed).then_some(CLAIM_AFTER),
        };
        match self.store.inbox.wait(quiet) {
            Woken::Work => {}
            Woken::Quiet if self.unsynced_since.is_some() => self.sync_if_due(),
            Woken::Quiet => {
                self.store.idle_step();
                self.is_claimed = true;
            }
            Woken::Closed => return false,
        }
        true
    }

    fn sync_if_due(&mut self) {
        if self.unsynced_since.is_some() && self.until_sync().is_zero() {
            self.unsynced_since = None;
            self.store.sync_step();
        }
    }

    /// For how long a sync need not be made; for ever where none is to be.
    fn until_sync(&self) -> Duration {
        match (self.store.options.sync, self.unsynced_since) {
            (SyncMode::Interval(interval), Some(since)) => interval.saturating_sub(since.elapsed()),
            (SyncMode::Interval(_), None) | (SyncMode::Always, _) => Duration::MAX,
        }
    }
}
