//! What every machine shares with the outside: the store, the clocks, and why it does not go on.

use std::sync::{Arc, OnceLock};

use base::{Clock, Timestamp};
use store::{Store, StoreError};

use super::alarm::Alarm;
use super::feed_clock::FeedClock;
use super::machine::StepTime;

/// The outside of all machines.
pub struct KernelContext {
    /// Where batches are kept.
    pub store: Arc<dyn Store>,
    /// The engine clock.
    pub clock: Arc<dyn Clock>,
    feed_clock: FeedClock,
    alarm: Alarm,
    failure: OnceLock<Arc<StoreError>>,
    /// When the process began; on the wall clock.
    began_at_wall: Timestamp,
}

impl KernelContext {
    /// Nothing was written yet, and nothing has failed.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            alarm: Alarm::new(Arc::clone(&clock)),
            began_at_wall: clock.wall(),
            store,
            clock,
            feed_clock: FeedClock::default(),
            failure: OnceLock::new(),
        }
    }

    /// A partition does not go on: the first reason is kept.
    pub(crate) fn fail(&self, error: Arc<StoreError>) {
        // The others have the same cause, or come too late to be the cause.
        let _later = self.failure.set(error);
    }

    /// Why the store, or a partition, does not go on.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<StoreError>> {
        self.store.failure().or_else(|| self.failure.get().cloned())
    }

    /// The present moment, for a step.
    pub(crate) fn moment(&self, last_stamp: Timestamp) -> StepTime {
        let now = self.clock.now();
        StepTime { now, stamp: self.feed_clock.stamp(now, last_stamp), wall: self.clock.wall() }
    }

    /// The moment of a load: behind every stamp that was given.
    #[must_use]
    pub fn moment_of_load(&self) -> StepTime {
        let now = self.clock.now();
        StepTime { now, stamp: self.feed_clock.latest().max(now), wall: self.clock.wall() }
    }

    /// When the process began; on the wall clock. A partition may be loaded later, and again.
    #[must_use]
    pub fn began_at_wall(&self) -> Timestamp {
        self.began_at_wall
    }

    /// Where to wait for a time of the engine clock.
    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    pub(crate) fn feed_clock(&self) -> &FeedClock {
        &self.feed_clock
    }
}

base::debug_as_name!(KernelContext);
