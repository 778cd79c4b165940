//! When jobs are read by their time although there is little room.
//!
//! Of a flood of jobs that come due together, most would be read only to be parked again, in a line. While jobs are leased all
//! the time, which makes room, they are therefore left where they are: but for those of queues that have nothing for whoever
//! asked.

use std::collections::BTreeSet;
use std::time::Duration;

use base::Timestamp;
use records::{JobClock, QueueKey};

use crate::jobs::Jobs;
use crate::parked::READ_AHEAD;
use crate::queues::Queue;
use crate::slab::Handle;

/// Jobs are read so often at least.
const PAUSE: Duration = Duration::from_millis(100);
/// Queues that are looked at one by one; where there are more, nothing is left unread.
const QUEUES_MAX: usize = 64;

/// What a pause depends on.
pub(crate) struct ReadThrottle {
    /// When a job was leased last.
    leased_at: Timestamp,
    /// When jobs were read by their time last.
    read_at: Timestamp,
    /// Queues that had nothing for whoever asked, or were not asked yet, and may have jobs that wait for their time in the store.
    /// Some may be of that kind no more.
    starved: BTreeSet<QueueKey>,
}

impl Default for ReadThrottle {
    fn default() -> Self {
        let never = Timestamp(i64::MIN);
        Self { leased_at: never, read_at: never, starved: BTreeSet::new() }
    }
}

impl ReadThrottle {
    pub(crate) fn leased(&mut self, now: Timestamp) {
        self.leased_at = now;
    }

    pub(crate) fn read(&mut self, now: Timestamp) {
        self.read_at = now;
    }
}

impl Jobs {
    /// Notes a queue if nobody has been told of what it has, and jobs of it wait for their time in the store.
    pub(crate) fn note_starved(&mut self, queue: Handle<Queue>) {
        if self.parked.read_throttle.starved.len() <= QUEUES_MAX && self.earliest_parked(queue).is_some() {
            self.parked.read_throttle.starved.insert(self.queues[queue].key());
        }
    }

    /// Until when jobs need not be read by their time, though some are near.
    pub(crate) fn throttled_until(&self) -> Timestamp {
        let ReadThrottle { leased_at, read_at, starved } = &self.parked.read_throttle;
        if self.is_roomy() || starved.len() > QUEUES_MAX {
            return Timestamp(i64::MIN);
        }
        let queues = starved.iter().filter_map(|key| self.queues.find(*key));
        let earliest_parked = queues.filter_map(|queue| self.earliest_parked(queue)).min();
        let ends = (*leased_at).min(*read_at).after(PAUSE);
        earliest_parked.map_or(ends, |from| from.before(READ_AHEAD).min(ends))
    }

    /// Forgets queues that have what their consumers were told of, or nothing in the store.
    pub(crate) fn forget_served(&mut self) {
        let mut starved = std::mem::take(&mut self.parked.read_throttle.starved);
        starved
            .retain(|key| self.queues.find(*key).is_some_and(|queue| self.earliest_parked(queue).is_some()));
        self.parked.read_throttle.starved = starved;
    }

    /// When a job of the queue that waits for its time in the store is due at the earliest, by the engine clock, if somebody is to be
    /// told of it.
    fn earliest_parked(&self, queue: Handle<Queue>) -> Option<Timestamp> {
        let queue = &self.queues[queue];
        let parked = queue.parked().filter(|parked| parked.scheduled > 0 && !queue.line().is_open())?;
        let by_wall = parked.from.wall.map(|at| self.clocks.on_engine(JobClock::Wall, at));
        parked.from.engine.into_iter().chain(by_wall).min()
    }
}
