//! What is broken on purpose in runs of queues, and of all that has jobs.

use std::time::Duration;

use records::{Batch, HeadState, JobHead, LeaseHolder, Op, RecurrenceRule};

use crate::harness::fault_injection::{InjectedFault, Shows, StoredFault};

pub(crate) const GROUP_IGNORED: InjectedFault =
    InjectedFault::Around("jobs are published without their group");
pub(crate) const JOBS_TOO_SOON: InjectedFault =
    InjectedFault::Around("jobs that are to come later come in half the time");
pub(crate) const STALE_LEASE_HONOURED: InjectedFault =
    InjectedFault::Around("a consumer shows the reservation of whoever has the job now");

pub(crate) const READING_UNLIMITED: InjectedFault =
    InjectedFault::Around("a step reads in as many jobs as it can, not as many as it may");

pub(crate) const FENCE_TWICE: InjectedFault =
    InjectedFault::Around("holders of a lock are told their fence without its last digits");
pub(crate) const CONTROL_HOLDS_BACK: InjectedFault =
    InjectedFault::Around("a queue is paused when its workers are told to take no more");

pub(crate) const ALIAS_NOT_FREED: InjectedFault =
    stored("every third job that ends, and with it its alias, stays in the store", |batch, seen| {
        batch.ops.retain(|op| !(matches!(op, Op::DeleteJob(_)) && is_third(seen)));
    });

pub(crate) const BODY_STAYS: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "every third job that ends leaves what it carried in the store",
    shows: Shows::Rows,
    change: |batch, seen| {
        for op in &mut batch.ops {
            if let Op::DeleteJob(id) = *op
                && is_third(seen)
            {
                *op = Op::DeleteJobHead(id);
            }
        }
    },
});

pub(crate) const LEASE_FORGOTTEN: InjectedFault =
    stored("a lease of a consumer outside is stored as if there were none", |batch, _| {
        let now = batch.head.now;
        for head in heads(batch) {
            if matches!(head.state, HeadState::Reserved { holder: LeaseHolder::Outside, .. }) {
                head.state = HeadState::Waiting;
                head.visible_at = now;
            }
        }
    });

pub(crate) const ATTEMPTS_FORGOTTEN: InjectedFault =
    stored("a job that was tried is stored as if it had not been", |batch, _| {
        heads(batch).filter(|head| is_tried(head)).for_each(|head| head.attempt = 0);
    });

pub(crate) const GROUP_FORGOTTEN: InjectedFault =
    stored("a job that was tried is stored without its group: that is free after a start", |batch, _| {
        heads(batch).filter(|head| is_tried(head)).for_each(|head| head.terms.group = None);
    });

pub(crate) const DEATH_FORGOTTEN: InjectedFault =
    stored("a job that dies stays in the store, and with it its alias", |batch, _| {
        batch.ops.retain(|op| !matches!(op, Op::DeleteJobHead(_)));
    });

pub(crate) const PARKED_FORGOTTEN: InjectedFault =
    stored("every third job that is not to be in memory is not stored either", |batch, seen| {
        batch.ops.retain(|op| !(matches!(op, Op::ParkJob(_)) && is_third(seen)));
    });

pub(crate) const RUNS_FROM_NOW: InjectedFault =
    stored("the next run of a job is stored as due one interval after it is made", |batch, _| {
        let now = batch.head.now;
        for head in heads(batch) {
            let next = head.terms.recurrence.filter(|again| again.run > 1 && head.attempt == 0);
            if let Some(RecurrenceRule::Every(ms)) = next.map(|again| again.rule) {
                head.run_at = now.after(Duration::from_millis(ms));
                head.visible_at = head.run_at;
            }
        }
    });

pub(crate) const ANSWERS_FORGOTTEN: InjectedFault =
    stored("answers to requests that may be repeated are not stored", |batch, _| {
        batch.ops.retain(|op| !matches!(op, Op::PutAnswer(_)));
    });

pub(crate) const COUNTS_FORGOTTEN: InjectedFault =
    stored("how many jobs are parked, and dead, is not stored", |batch, _| {
        batch.ops.retain(|op| !matches!(op, Op::PutQueueCounts(..)));
    });

pub(crate) const PAUSE_FORGOTTEN: InjectedFault = stored("a pause is not stored", |batch, _| {
    for op in &mut batch.ops {
        if let Op::PutQueue(queue) = op {
            queue.paused = false;
        }
    }
});

pub(crate) const LOCK_FORGOTTEN: InjectedFault =
    stored("every third lock that somebody holds is not stored", |batch, seen| {
        batch.ops.retain(|op| !(matches!(op, Op::PutLock(lock) if lock.owner.is_some()) && is_third(seen)));
    });

pub(crate) const FENCE_GOES_BACK: InjectedFault =
    stored("the holder of a lock is stored with a lower fence than it is told", |batch, _| {
        for op in &mut batch.ops {
            if let Op::PutLock(lock) = op
                && lock.owner.is_some()
            {
                lock.fence -= 1;
            }
        }
    });

pub(crate) const CONTROL_FORGOTTEN: InjectedFault =
    stored("every third thing that workers are told is not stored", |batch, seen| {
        batch.ops.retain(|op| !(matches!(op, Op::PutQueueControl(_)) && is_third(seen)));
    });

pub(crate) const CONTROL_STAYS: InjectedFault =
    stored("what workers are told stays in the store when it is taken back", |batch, _| {
        batch.ops.retain(|op| !matches!(op, Op::DeleteQueueControl(..)));
    });

const fn stored(name: &'static str, change: fn(&mut Batch, &mut u64)) -> InjectedFault {
    InjectedFault::Stored(StoredFault { name, shows: Shows::Store, change })
}

fn is_third(seen: &mut u64) -> bool {
    *seen += 1;
    seen.is_multiple_of(3)
}

fn heads(batch: &mut Batch) -> impl Iterator<Item = &mut JobHead> {
    batch.ops.iter_mut().filter_map(|op| if let Op::PutJob(head) = op { Some(&mut **head) } else { None })
}

fn is_tried(head: &JobHead) -> bool {
    head.attempt > 0 && head.state == HeadState::Waiting
}
