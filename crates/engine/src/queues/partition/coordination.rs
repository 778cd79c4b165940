//! Locks of a partition of queues, and what is said to the workers of its queues.

use base::Problem;
use base::limits::{CONTROLS_DATA_PER_PARTITION_MAX, CONTROLS_PER_PARTITION_MAX};
use coordination::{LockBounds, LockGrant, LockRefused, LockStep, LockTable};
use records::{Op, PartitionHead, WorkerControl};
use store::{StoreError, View};

use super::{QueuePartition, QueueStep};
use crate::kernel::machine::StepTime;
use crate::kernel::reply::{Answered, Reply};
use crate::queues::effect::QueueEffect;
use crate::queues::locks::{LockCall, refused};
use crate::queues::{LockCaller, QueueName};

/// Locks and callers that time does something to in a step; the others are in the next.
const LOCKS_DUE_PER_STEP: usize = 500;
/// Free locks whose last fence is remembered, of a partition.
const FREE_LOCKS_MAX: usize = 1_000;
/// Fences of a millisecond: more than any machine grants in one. They are so few that a number of
/// JavaScript holds a fence until the year 2248.
const FENCES_PER_MS: u64 = 1 << 10;

/// What a partition has without a setting.
const BOUNDS: LockBounds = LockBounds { held_max: 100_000, waiting_max: 100_000, free_max: FREE_LOCKS_MAX };

pub(super) type PartitionLocks = LockTable<LockCaller>;

/// The locks that are stored. The next fence is above all that are stored, and above every one that
/// can have been granted until now. So it is also above those that a restored backup does not know
/// of. And it is above those whose batches did not survive because the disk is synced late.
pub(super) fn load_locks(
    view: &dyn View,
    head: &PartitionHead,
    moment: StepTime,
) -> Result<PartitionLocks, StoreError> {
    let now = u64::try_from(moment.now.max(moment.wall).0).unwrap_or_default();
    let by_time = now.saturating_add(1).saturating_mul(FENCES_PER_MS);
    let mut locks = LockTable::new(BOUNDS, head.next_fence.max(by_time));
    view.locks()?.into_iter().for_each(|lock| locks.load(lock));
    Ok(locks)
}

impl QueuePartition {
    /// So many locks may be held, and so many callers may wait for one.
    #[must_use]
    pub fn bounding_locks(mut self, held_max: usize, waiting_max: usize) -> Self {
        self.locks.set_bounds(LockBounds { held_max, waiting_max, free_max: FREE_LOCKS_MAX });
        self
    }

    pub(super) fn apply_to_lock(
        &mut self,
        call: LockCall,
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        let mut locks = LockStep::new(step.now, &mut step.batch.ops);
        let effect = match call {
            LockCall::Acquire(mut asked, reply) => {
                let is_cut_short = self.closing && asked.until > locks.now;
                if is_cut_short {
                    asked.until = locks.now;
                }
                let caller = LockCaller { name: asked.name.clone(), reply };
                let answer = self.locks.acquire(asked, caller, &mut locks);
                answer.map(|(LockCaller { name, reply }, answer)| match answer {
                    // As those that wait already are told.
                    Err(_) if is_cut_short => QueueEffect::Locked(reply, Err(stopping())),
                    answer => granted(LockCaller { name, reply }, answer),
                })
            }
            LockCall::Extend { name, owner, ttl, reply } => {
                let answer = self.locks.extend(&name, &owner, ttl, &mut locks);
                Some(granted(LockCaller { name, reply }, answer))
            }
            LockCall::Release { name, owner, reply } => {
                let released = self.locks.release(&name, &owner, &mut locks);
                Some(QueueEffect::Done(reply, released.map_err(|error| refused(&name, error))))
            }
            LockCall::Leave(name, ticket) => {
                self.locks.leave(&name, ticket, &mut locks);
                None
            }
            LockCall::Show(name, reply) => {
                Some(QueueEffect::LockStatus(reply, Box::new(self.locks.show(&name, locks.now))))
            }
            LockCall::List(after, limit, reply) => {
                let held = self.locks.list(after.as_ref(), locks.now).take(limit).collect();
                Some(QueueEffect::LocksListed(reply, held))
            }
        };
        let answers = locks.answers;
        step.effects.extend(answers.into_iter().map(|(caller, answer)| granted(caller, answer)));
        step.effects.extend(effect);
        Ok(())
    }

    /// What time does to locks. Whether there is more of it now. Before inputs, so that who asks
    /// now sees what is so now, and behind them.
    pub(super) fn advance_locks(&mut self, step: &mut QueueStep<'_>) -> bool {
        let mut locks = LockStep::new(step.now, &mut step.batch.ops);
        let more = self.locks.advance(LOCKS_DUE_PER_STEP, &mut locks);
        let answers = locks.answers;
        step.effects.extend(answers.into_iter().map(|(caller, answer)| granted(caller, answer)));
        more
    }

    /// Says something to the workers of a queue, or nothing any more.
    pub(super) fn put_control(
        &mut self,
        queue: &QueueName,
        control: Option<Box<WorkerControl>>,
        step: &mut QueueStep<'_>,
    ) -> Answered<()> {
        let Some(control) = control else {
            self.delete_control(queue, step);
            return Ok(());
        };
        let others = self.controls.iter().filter(|(other, _)| *other != queue);
        let (count, bytes) = others.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes));
        let new = data_bytes(&control);
        if count >= CONTROLS_PER_PARTITION_MAX || bytes + new > CONTROLS_DATA_PER_PARTITION_MAX {
            let detail = "the workers of too many queues are told too much; delete a control";
            return Err(Problem::new(429, "too_many_controls", detail));
        }
        self.controls.insert(queue.clone(), new);
        step.push(Op::PutQueueControl(control.clone()));
        step.emit(QueueEffect::Control(self.id, queue.clone(), Some(control)));
        Ok(())
    }

    /// The workers of a queue are told nothing any more.
    pub(super) fn delete_control(&mut self, queue: &QueueName, step: &mut QueueStep<'_>) {
        if self.controls.remove(queue).is_some() {
            step.push(Op::DeleteQueueControl(queue.namespace().into(), queue.queue().into()));
            step.emit(QueueEffect::Control(self.id, queue.clone(), None));
        }
    }
}

/// What the data of a control takes.
pub(super) fn data_bytes(control: &WorkerControl) -> usize {
    control.data.as_ref().map_or(0, |data| data.len())
}

fn stopping() -> Problem {
    Problem::unavailable("the server is stopping")
}

fn granted(caller: LockCaller, answer: Result<LockGrant, LockRefused>) -> QueueEffect {
    let LockCaller { name, reply } = caller;
    let reply: Reply<Answered<LockGrant>> = reply;
    QueueEffect::Locked(reply, answer.map_err(|error| refused(&name, error)))
}
