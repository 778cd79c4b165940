//! Leasing: to whoever asks, or in the step in which something becomes available to whoever waits.

use base::Timestamp;
use records::{LeaseHolder, QueueKey};
use store::StoreError;
use tokio::sync::oneshot;

use super::waiting::{Waiter, WaiterWants};
use super::{QueuePartition, QueueStep};
use crate::queues::QueueName;
use crate::queues::consuming::{LeasedJob, Leases};
use crate::queues::effect::QueueEffect;
use crate::queues::input::ConsumeCall;
use crate::queues::rates::JobFlow;

impl QueuePartition {
    pub(super) fn consume(&mut self, call: ConsumeCall, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        let leased = match self.key_of(&call.queue) {
            Some(queue) => self.lease(queue, &call, step)?,
            None => Vec::new(),
        };
        if leased.is_empty() && call.until > step.now && !self.closing && self.waiting.has_room() {
            self.waiting.add(call.queue.clone(), call.until, WaiterWants::Jobs(call));
        } else {
            self.answer(call, leased, step);
        }
        Ok(())
    }

    fn answer(&self, call: ConsumeCall, leased: Vec<LeasedJob>, step: &mut QueueStep<'_>) {
        let ConsumeCall { reply, back, .. } = call;
        step.emit(QueueEffect::Leased(reply, Leases::new(leased, self.lineage, back)));
    }

    fn lease(
        &mut self,
        queue: QueueKey,
        call: &ConsumeCall,
        step: &mut QueueStep<'_>,
    ) -> Result<Vec<LeasedJob>, StoreError> {
        let holder = call.process.map_or(LeaseHolder::Outside, LeaseHolder::Own);
        let mut leased = Vec::new();
        while leased.len() < call.max && (leased.is_empty() || step.may_carry()) {
            if self.must_advance_first(queue, step) {
                break;
            }
            let lease = self.jobs.lease(queue, holder, call.ttr, &mut step.jobs());
            let Some(lease) = lease else {
                // What is ready may be in the store.
                if (leased.is_empty() || step.has_room()) && self.read_in_of(queue, step)? {
                    continue;
                }
                break;
            };
            let body = self.body(lease.reservation.job, step)?;
            leased.push(LeasedJob {
                reservation: lease.reservation,
                attempt: lease.attempt,
                tries: lease.tries,
                run_at: lease.run_at,
                expires_at: lease.expires_at,
                until: lease.until,
                body,
            });
        }
        step.own.counted.leased += leased.len() as u64;
        self.flowed(queue, JobFlow::Consumed, leased.len(), step.now);
        Ok(leased)
    }

    pub(super) fn watch(
        &mut self,
        queue: QueueName,
        until: Timestamp,
        signal: oneshot::Sender<()>,
        step: &mut QueueStep<'_>,
    ) {
        if self.closing || !self.waiting.has_room() {
            return;
        }
        // Served at the end of this step, or in the next, if there is something now.
        step.own.jobs.wakes.extend(self.key_of(&queue));
        self.waiting.add(queue, until, WaiterWants::Signal(signal));
    }

    /// Whoever waits for a queue is told of what it has.
    pub(super) fn pass_on(&self, queue: &QueueName, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        step.own.jobs.wakes.extend(self.key_of(queue));
        Ok(())
    }

    /// Somebody who waited for a queue has gone; whoever else does is told of what it was to have.
    pub(super) fn left(&mut self, queue: &QueueName, until: Timestamp, step: &mut QueueStep<'_>) {
        self.waiting.let_go(queue, until);
        step.own.jobs.wakes.extend(self.key_of(queue));
    }

    /// Serves those that wait for the queues that have something to lease: one at least, and as
    /// many as the step has room for. The others are due in the next.
    pub(super) fn serve(&mut self, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        let mut served = 0;
        step.own.jobs.wakes.extend(self.waiting.take_due());
        // What is read in for one of them may be of others.
        while !step.own.jobs.wakes.is_empty() {
            let mut wakes = std::mem::take(&mut step.own.jobs.wakes);
            wakes.sort_unstable();
            wakes.dedup();
            for queue in wakes {
                let Some(name) = self.queues.get(&queue).map(|queue| queue.name.clone()) else { continue };
                self.serve_queue(queue, &name, &mut served, step)?;
            }
        }
        Ok(())
    }

    fn serve_queue(
        &mut self,
        queue: QueueKey,
        name: &QueueName,
        served: &mut usize,
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        while let Some(waiter) = self.waiting.take(name) {
            if waiter.has_gone() {
                continue;
            }
            if *served > 0 && !step.has_room() {
                self.waiting.put_back(name.clone(), waiter);
                self.waiting.set_due(queue);
                break;
            }
            *served += 1;
            match waiter.wants {
                WaiterWants::Jobs(ref call) => {
                    let leased = self.lease(queue, call, step)?;
                    if leased.is_empty() {
                        self.waiting.put_back(name.clone(), waiter);
                        break;
                    }
                    if let WaiterWants::Jobs(call) = waiter.wants {
                        self.answer(call, leased, step);
                    }
                }
                WaiterWants::Signal(_) if !self.may_lease(queue, step)? => {
                    self.waiting.put_back(name.clone(), waiter);
                    break;
                }
                WaiterWants::Signal(signal) => {
                    // It passes on what it leaves; the others are told then.
                    step.emit(QueueEffect::Ready(signal));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether a lease would give something; what is ready may be in the store.
    fn may_lease(&mut self, queue: QueueKey, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        while !self.must_advance_first(queue, step) {
            if self.jobs.may_lease(queue, step.now) {
                return Ok(true);
            }
            if !self.read_in_of(queue, step)? {
                break;
            }
        }
        Ok(false)
    }

    /// Whether the queue must advance before a lease: the step had no room for what is due or has
    /// expired, or for lines to unblock. Consumers that wait are served in the next step then.
    fn must_advance_first(&mut self, queue: QueueKey, step: &QueueStep<'_>) -> bool {
        let is_unsettled = step.own.is_behind && self.jobs.is_first_unsettled(queue, step.now);
        let must = is_unsettled || self.jobs.has_lines_to_unblock_of(queue);
        if must {
            self.waiting.set_due(queue);
        }
        must
    }

    /// Sends home whoever has waited enough, as many as a step may, and at the end everyone: then
    /// nothing else waits for the step.
    pub(super) fn retire_waiters(&mut self, step: &mut QueueStep<'_>) {
        let end = if self.closing { Timestamp::MAX } else { step.now };
        if self.closing {
            self.waiting.take_due();
            self.waiting.take_unread();
            self.locks.send_home();
        }
        while self.closing || step.own.budget.may_retire() {
            let Some(Waiter { wants, .. }) = self.waiting.take_late(end) else { break };
            step.own.budget.spent.retired += usize::from(!self.closing);
            if let WaiterWants::Jobs(call) = wants {
                self.answer(call, Vec::new(), step);
            }
        }
    }
}
