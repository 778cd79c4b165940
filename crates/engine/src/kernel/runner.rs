//! A state machine with its batches on their way: steps it, commits, and lets effects go when their batch is durable.
//!
//! No executor and no clock of its own: `driver.rs` runs it on tasks, the simulation on a virtual clock. Whatever a batch did
//! not survive takes its effects with it.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use base::{Clock, Incarnation, LogLimit, PartitionId, Timestamp};
use store::{CommitOutcome, Store, StoreError};
use tracing::warn;

use crate::devices::effect::Effect;
use crate::devices::stale_clients::StaleClients;
use crate::devices::stats::DeviceStandings;
use crate::followers::{Followers, News};
use crate::kernel::alarm::Alarm;
use crate::kernel::feed_clock::{FeedClock, WritingSince};
use crate::kernel::fetch::FromStore;
use crate::kernel::machine::{Machine, Moment};
use crate::metrics::Metrics;
use crate::queues::{NamedQueues, Standings};
use crate::{Directory, DueLanes, Settings};

/// Batches of a partition that are being written at most: one that is synced, one that gathers for the next sync.
pub const BATCHES_IN_FLIGHT_MAX: usize = 2;

/// What machines share with the outside.
pub struct Outside {
    /// Where batches are kept.
    pub store: Arc<dyn Store>,
    /// The engine clock.
    pub clock: Arc<dyn Clock>,
    /// The clients.
    pub directory: Directory,
    /// Lanes with due work.
    pub lanes: DueLanes,
    /// Clients to be told again.
    pub stale: StaleClients,
    pub(crate) followers: Followers,
    /// Log lines of notifications that failed for good, by client.
    pub(crate) given_up: LogLimit<Incarnation>,
    metrics: Metrics,
    standings: Standings,
    device_standings: DeviceStandings,
    named_queues: NamedQueues,
    feed_clock: FeedClock,
    alarm: Alarm,
    failure: OnceLock<Arc<StoreError>>,
}

impl Outside {
    /// An outside without clients.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: &Settings) -> Self {
        Self {
            stale: StaleClients::new(settings.stale_probe),
            alarm: Alarm::new(Arc::clone(&clock)),
            store,
            clock,
            directory: Directory::new(),
            lanes: DueLanes::default(),
            followers: Followers::default(),
            given_up: LogLimit::default(),
            metrics: Metrics::default(),
            standings: Standings::default(),
            device_standings: DeviceStandings::default(),
            named_queues: NamedQueues::default(),
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
    fn moment(&self, last_stamp: Timestamp) -> Moment {
        let now = self.clock.now();
        Moment { now, stamp: self.feed_clock.stamp(now, last_stamp), wall: self.clock.wall() }
    }

    /// The moment of a load: behind every stamp that was given.
    #[must_use]
    pub fn moment_of_load(&self) -> Moment {
        let now = self.clock.now();
        Moment { now, stamp: self.feed_clock.latest().max(now), wall: self.clock.wall() }
    }

    /// Where to wait for a time of the engine clock.
    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    pub(crate) fn feed_clock(&self) -> &FeedClock {
        &self.feed_clock
    }

    pub(crate) fn standings(&self) -> &Standings {
        &self.standings
    }

    pub(crate) fn device_standings(&self) -> &DeviceStandings {
        &self.device_standings
    }

    pub(crate) fn named_queues(&self) -> &NamedQueues {
        &self.named_queues
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outside")
    }
}

/// Loads a machine again after a commit whose outcome is not known.
pub type Reload<M> = Box<dyn Fn() -> Result<M, StoreError> + Send>;

/// A machine and what it has on its way.
pub struct Runner<M: Machine> {
    id: PartitionId,
    machine: M,
    reload: Reload<M>,
    outside: Arc<Outside>,
    writing_since: Arc<WritingSince>,
    in_flight: VecDeque<InFlight>,
    /// A batch was lost, or may be: the machine is loaded again as soon as nothing is on its way any more.
    lost: bool,
    /// The stamp of the latest step.
    last_stamp: Timestamp,
}

/// A batch that is being written, and what it holds back.
struct InFlight {
    seq: u64,
    stamp: Timestamp,
    effects: Vec<Effect>,
    /// Not looked at while nobody follows a feed.
    news: Option<News>,
}

/// The outcome of a batch.
#[derive(Debug)]
pub struct Told {
    seq: u64,
    outcome: CommitOutcome,
}

impl<M: Machine> Runner<M> {
    /// A machine with nothing on its way.
    pub fn new(id: PartitionId, machine: M, reload: Reload<M>, outside: Arc<Outside>) -> Self {
        let writing_since = Arc::new(WritingSince::nothing());
        Self {
            id,
            machine,
            reload,
            outside,
            writing_since,
            in_flight: VecDeque::new(),
            lost: false,
            last_stamp: Timestamp(0),
        }
    }

    pub(crate) fn writing_since(&self) -> Arc<WritingSince> {
        Arc::clone(&self.writing_since)
    }

    /// The partition.
    #[must_use]
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The machine as it is, durable or not.
    #[must_use]
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Whether another batch may be made before an outcome is known.
    #[must_use]
    pub fn may_step(&self) -> bool {
        !self.lost && self.in_flight.len() < BATCHES_IN_FLIGHT_MAX
    }

    /// Whether everything is durable.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether inputs were taken that are not applied to their end.
    #[must_use]
    pub fn has_unfinished(&self) -> bool {
        self.machine.has_unfinished()
    }

    /// The next step is the last before a clean stop.
    pub fn close(&mut self) {
        self.machine.close();
    }

    /// When the passing of time brings something next.
    #[must_use]
    pub fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        self.machine.next_wakeup(now)
    }

    /// One step over `inputs`; `tell` is called when the outcome of its batch is known. Whether there is more to do at once.
    ///
    /// # Errors
    /// When a record could not be read: the machine must not be used any more.
    pub fn step(
        &mut self,
        inputs: &mut dyn Iterator<Item = M::Input>,
        tell: impl FnOnce(Told) + Send + 'static,
    ) -> Result<bool, StoreError> {
        // Feeds end before this moment from here on; the step's own time and stamp are read after it.
        let is_first = self.in_flight.is_empty();
        if is_first {
            self.writing_since.set(self.outside.clock.now());
        }
        let moment = self.outside.moment(self.last_stamp);
        if is_first {
            self.writing_since.set(moment.stamp);
        }
        self.last_stamp = moment.stamp;
        let fetch = FromStore::new(&*self.outside.store, self.id);
        let step = self.machine.step(moment, inputs, &fetch)?;
        match step.batch {
            Some(batch) => {
                self.outside.metrics.batch(&batch);
                self.outside.feed_clock.note(batch.head.stamp);
                let seq = batch.head.seq;
                let news = self.outside.followers.news(self.id, &batch);
                self.in_flight.push_back(InFlight { seq, stamp: moment.stamp, effects: step.effects, news });
                self.outside.store.commit(batch, Box::new(move |outcome| tell(Told { seq, outcome })));
            }
            None => self.hold_or_release(step.effects),
        }
        Ok(step.more)
    }

    /// What a step without a batch shows may rest on batches that are still being written.
    fn hold_or_release(&mut self, effects: Vec<Effect>) {
        if let Some(last) = self.in_flight.back_mut() {
            last.effects.extend(effects);
        } else {
            self.writing_since.set(Timestamp::MAX);
            self.release(effects);
        }
    }

    fn release(&self, effects: Vec<Effect>) {
        for effect in effects {
            effect.release(&self.outside);
        }
    }

    /// The outcome of a batch is known.
    ///
    /// # Errors
    /// When the store accepts nothing more: everything held is dropped, and the machine must not be used any more.
    pub fn outcome(&mut self, told: Told) -> Result<(), Arc<StoreError>> {
        match told.outcome {
            CommitOutcome::Durable if !self.lost => {
                self.machine.settled(told.seq);
                // Before the effects: whoever is answered finds what it was answered about.
                let oldest = self.in_flight.iter().find(|batch| batch.seq > told.seq);
                self.writing_since.set(oldest.map_or(Timestamp::MAX, |batch| batch.stamp));
                while let Some(batch) = self.in_flight.pop_front_if(|batch| batch.seq <= told.seq) {
                    self.release(batch.effects);
                    self.outside.followers.tell(batch.stamp, batch.news.as_ref());
                }
                Ok(())
            }
            CommitOutcome::Failed(error) => {
                self.in_flight.clear();
                self.writing_since.set(Timestamp::MAX);
                Err(error)
            }
            outcome => {
                warn!(partition = %self.id, seq = told.seq, %outcome, "what is on its way is dropped");
                self.lost = true;
                self.in_flight.retain(|batch| batch.seq != told.seq);
                self.in_flight.iter_mut().for_each(|batch| batch.effects.clear());
                self.load_again_when_quiet()
            }
        }
    }

    /// While a batch is on its way it could still be written, under a number that the machine would use again.
    fn load_again_when_quiet(&mut self) -> Result<(), Arc<StoreError>> {
        if self.in_flight.is_empty() {
            self.machine = (self.reload)().map_err(Arc::new)?;
            self.lost = false;
            self.writing_since.set(Timestamp::MAX);
            self.outside.followers.tell_all(self.last_stamp);
            warn!(partition = %self.id, "partition was loaded again");
        }
        Ok(())
    }
}
