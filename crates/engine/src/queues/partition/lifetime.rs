//! Queues come with their first job or setting, stay a little longer than their last, and are
//! deleted at once but swept in steps.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Timestamp;
use jobs::{JobsStep, NoCalendar, QueueRules};
use records::{JobId, Op, QueueCounts, QueueKey, QueueSettings};
use store::{ScannedJobs, StoreError};

use super::inspection::put_queue;
use super::{PartitionQueue, QueuePartition, QueueStep, RECORDS_MAX};
use crate::queues::QueueName;
use crate::queues::rates::JobFlow;

/// How long a queue stays that has become empty: one that comes and goes is not written each time.
const LINGERS_FOR: Duration = Duration::from_secs(60);

/// How far the sweep of a deleted queue has come.
#[derive(Debug)]
pub(super) struct QueueSweep {
    /// Jobs were put into the queue up to this batch: it starts when that is durable, and seen by
    /// views.
    from: u64,
    /// Jobs up to this one are gone.
    after: Option<JobId>,
    /// This pass has found jobs: there is another after it.
    found: bool,
    /// No jobs are left; dead letters may be.
    jobs_gone: bool,
    /// Dead letters up to this one are gone.
    dead_after: Option<u64>,
    /// Dead letters that are left.
    dead: u64,
}

impl QueueSweep {
    /// Of a queue with so many dead letters.
    pub(super) fn from(seq: u64, dead: u64) -> Self {
        Self { from: seq, after: None, found: false, jobs_gone: false, dead_after: None, dead }
    }

    pub(super) fn may_go_on(&self, settled: u64) -> bool {
        settled >= self.from
    }
}

impl QueuePartition {
    pub(super) fn create(&mut self, name: &QueueName, step: &mut QueueStep<'_>) -> QueueKey {
        let key = QueueKey(self.head.next_incarnation);
        self.head.next_incarnation += 1;
        let queue = PartitionQueue {
            name: name.clone(),
            paused: false,
            settings: QueueSettings::default(),
            dead: 0,
            lingers: false,
            ages_at: None,
            recent: None,
            dead_gone: None,
        };
        step.push(put_queue(&queue, key, false));
        self.names.insert(name.clone(), key);
        self.queues.insert(key, queue);
        key
    }

    pub(super) fn set(
        &mut self,
        name: &QueueName,
        settings: QueueSettings,
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        let key = self.configure(name, step, |queue| queue.settings = settings);
        self.drop_surplus(key, step)
    }

    pub(super) fn pause(&mut self, name: &QueueName, paused: bool, step: &mut QueueStep<'_>) {
        self.configure(name, step, |queue| queue.paused = paused);
    }

    fn configure(
        &mut self,
        name: &QueueName,
        step: &mut QueueStep<'_>,
        change: impl FnOnce(&mut PartitionQueue),
    ) -> QueueKey {
        let key = self.key_of(name).unwrap_or_else(|| self.create(name, step));
        if let Some(queue) = self.queues.get_mut(&key) {
            change(queue);
            step.push(put_queue(queue, key, false));
        }
        self.set_rules(key, step);
        self.watch_age(key, step.now);
        self.troubled.note(key);
        step.own.touched.push(key);
        key
    }

    fn set_rules(&mut self, key: QueueKey, step: &mut QueueStep<'_>) {
        if let Some(rules) = self.queues.get(&key).map(rules) {
            self.jobs.set_rules(key, rules, &mut step.jobs());
        }
    }

    /// The queue's name is free at once; what it holds is swept. Its control goes too, also where
    /// nothing else is left of the queue.
    pub(super) fn delete(&mut self, name: &QueueName, step: &mut QueueStep<'_>) {
        self.delete_control(name, step);
        let Some(key) = self.names.remove(name) else { return };
        let Some(queue) = self.queues.remove(&key) else { return };
        self.dead_total -= queue.dead;
        self.troubled.note(key);
        self.oldest_dead.forget(key);
        self.condition_is_over(key, name, step);
        step.push(put_queue(&queue, key, true));
        self.jobs.forget_rules(key);
        self.sweeps.insert(key, QueueSweep::from(step.seq, queue.dead));
    }

    /// Whether there is nothing that keeps a queue.
    pub(super) fn is_empty(&self, key: QueueKey) -> bool {
        self.queues.get(&key).is_none_or(|queue| {
            queue.dead == 0
                && !queue.paused
                && queue.settings == QueueSettings::default()
                && self.jobs_in(key) == 0
        })
    }

    /// Jobs of a queue, dead letters not counted.
    pub(super) fn jobs_in(&self, key: QueueKey) -> u64 {
        let jobs = self.jobs.counts_of(key);
        let (parked_scheduled, parked_ready) = self.jobs.parked(key);
        (jobs.scheduled + jobs.ready + jobs.reserved) as u64 + parked_scheduled + parked_ready
    }

    /// Queues that this step has touched and that are empty are looked at again later.
    pub(super) fn note_touched(&mut self, step: &mut QueueStep<'_>) {
        for key in std::mem::take(&mut step.own.touched) {
            self.note_condition(key, step);
            if !self.is_empty(key) {
                continue;
            }
            if let Some(queue) = self.queues.get_mut(&key).filter(|queue| !queue.lingers) {
                queue.lingers = true;
                self.lingering.push_back((step.now.after(LINGERS_FOR), key));
            }
        }
    }

    /// Queues that have been empty for long leave nothing behind.
    pub(super) fn let_empty_go(&mut self, step: &mut QueueStep<'_>) {
        for _ in 0..RECORDS_MAX {
            let Some((_, key)) = self.lingering.pop_front_if(|(at, _)| *at <= step.now) else { return };
            let is_empty = self.is_empty(key);
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            queue.lingers = false;
            if is_empty {
                let name = queue.name.clone();
                self.names.remove(&name);
                self.queues.remove(&key);
                self.condition_is_over(key, &name, step);
                self.jobs.forget_rules(key);
                step.push(Op::DeleteQueue(key));
            }
        }
    }

    /// Takes a step of what is left of deleted queues. Whether there is more to do at once.
    pub(super) fn sweep(&mut self, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        let ready = self.sweeps.iter().find(|(_, sweep)| sweep.may_go_on(self.settled));
        let Some(key) = ready.map(|(key, _)| *key) else { return Ok(false) };
        let Some(mut sweep) = self.sweeps.remove(&key) else { return Ok(false) };
        let changes = step.batch.ops.len();
        if self.sweep_step(key, &mut sweep, step)? {
            step.push(Op::DeleteQueue(key));
        } else {
            // Views show what is durable: the next look is after this one, if it has changed
            // anything.
            sweep.from = if step.batch.ops.len() > changes { step.seq } else { self.head.seq };
            self.sweeps.insert(key, sweep);
        }
        Ok(self.sweeps.values().any(|sweep| sweep.may_go_on(self.settled)))
    }

    /// Whether nothing is left of a deleted queue.
    fn sweep_step(
        &mut self,
        key: QueueKey,
        sweep: &mut QueueSweep,
        step: &mut QueueStep<'_>,
    ) -> Result<bool, StoreError> {
        let fetch = step.fetch;
        let view = fetch.view()?;
        if !sweep.jobs_gone {
            let scan_max = step.own.budget.left_to_sweep();
            let ScannedJobs { found: heads, next, scanned } =
                view.jobs_of(key, sweep.after, scan_max, RECORDS_MAX, &|_| true)?;
            step.own.budget.spent.swept += scanned;
            for head in heads {
                step.own.counted.cancelled += 1;
                // A successor that starts here is found by the next pass.
                sweep.found = true;
                let (mut no_calendar, mut no_wakes) = (NoCalendar, Vec::new());
                let mut untold = JobsStep::new(step.now, &mut no_calendar, &mut step.batch, &mut no_wakes);
                if self.jobs.cancel(head.id, &mut untold).is_some() {
                    continue;
                }
                // It may have been read in, and have gone, since the view's moment.
                if let Some(parked) = self.parked_job(head.id, step)? {
                    self.jobs.drop_parked(&parked, &mut step.jobs());
                }
            }
            sweep.jobs_gone = next.is_none() && !sweep.found;
            sweep.found &= next.is_some();
            sweep.after = next;
            return Ok(false);
        }
        let most = step.own.budget.left_to_sweep().min(RECORDS_MAX);
        let dead = view.dead(key, sweep.dead_after, true, most)?;
        step.own.budget.spent.swept += dead.len();
        for dead in &dead {
            step.push(Op::DeleteDead(key, dead.number, dead.id));
            step.push(Op::DeleteJobBody(dead.id));
            sweep.dead_after = Some(dead.number);
        }
        sweep.dead = sweep.dead.saturating_sub(dead.len() as u64);
        step.own.recounted.insert(key);
        Ok(dead.len() < most)
    }

    /// Writes how many dead letters there are, and jobs that are not resident, where that has
    /// changed.
    pub(super) fn put_counts(&mut self, step: &mut QueueStep<'_>) {
        let mut changed = Vec::new();
        self.jobs.take_changed_counts(&mut changed);
        let changed: BTreeMap<_, _> =
            changed.into_iter().map(|(key, scheduled, ready)| (key, (scheduled, ready))).collect();
        step.own.recounted.extend(changed.keys());
        for key in std::mem::take(&mut step.own.recounted) {
            let swept = || self.sweeps.get(&key).map(|sweep| sweep.dead);
            let Some(dead) = self.queues.get(&key).map(|queue| queue.dead).or_else(swept) else { continue };
            // Taken as they changed, not asked for: a count that has become nothing is not there to
            // be asked for.
            let (parked_scheduled, parked_ready) =
                changed.get(&key).copied().unwrap_or_else(|| self.jobs.parked(key));
            let counts = QueueCounts { parked_scheduled, parked_ready, dead };
            step.push(Op::PutQueueCounts(key, counts));
        }
    }
}

impl QueuePartition {
    /// That happened to so many jobs of a queue, for its rates.
    pub(super) fn flowed(&mut self, key: QueueKey, flow: JobFlow, jobs: usize, now: Timestamp) {
        if let Some(queue) = self.queues.get_mut(&key).filter(|_| jobs > 0) {
            queue.recent.get_or_insert_default().add(flow, jobs, now);
        }
    }
}

/// What the rules need to know of a queue.
pub(super) fn rules(queue: &PartitionQueue) -> QueueRules {
    let QueueSettings { order, concurrency, rate, .. } = queue.settings;
    QueueRules { order, paused: queue.paused, concurrency, rate }
}
