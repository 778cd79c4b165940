//! The counts of queues that metrics name, and the queues that somebody should look at.

use super::QueuePartition;
use crate::queues::{JobsByState, QueueEffect, TroubledQueue};

impl QueuePartition {
    /// Which of the named queues stand otherwise than after the step before.
    pub(super) fn changed_queue_counts(&mut self) -> Option<QueueEffect> {
        let Self { queues, jobs, names, named, .. } = self;
        let now = |key| {
            let queue = queues.get(&key)?;
            let resident = jobs.counts_of(key);
            let (parked_scheduled, parked_ready) = jobs.parked(key);
            Some(JobsByState {
                scheduled: resident.scheduled as u64 + parked_scheduled,
                ready: resident.ready as u64 + parked_ready,
                reserved: resident.reserved as u64,
                dead: queue.dead,
            })
        };
        let changes = named.changes(names.iter(), now);
        (!changes.is_empty()).then(|| QueueEffect::NamedQueues(self.id, changes))
    }

    /// How the queues stand that were paused or resumed, or have other dead letters.
    pub(super) fn changed_troubles(&mut self) -> Option<QueueEffect> {
        let queues = &self.queues;
        let changes = self.troubled.changes(|key| {
            let queue = queues.get(&key)?;
            Some(TroubledQueue { name: queue.name.clone(), paused: queue.paused, dead: queue.dead })
        });
        (!changes.is_empty()).then(|| QueueEffect::TroubledQueues(self.id, changes))
    }
}
