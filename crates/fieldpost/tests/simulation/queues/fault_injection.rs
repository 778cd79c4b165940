//! What is broken on purpose in runs of queues, and of all that has jobs.

use std::time::Duration;

use records::{Batch, Holder, JobHead, JobState, Op, Rule};

use crate::harness::fault_injection::{InjectedFault, Shows, StoredFault};

/// Jobs are published without their group.
pub(crate) const GROUP_IGNORED: InjectedFault = InjectedFault::Around("groups are ignored");
/// Jobs that are to come later come in half the time.
pub(crate) const JOBS_TOO_SOON: InjectedFault = InjectedFault::Around("jobs come too soon");
/// A consumer shows the reservation of whoever has the job now.
pub(crate) const STALE_LEASE_HONOURED: InjectedFault = InjectedFault::Around("a stale reservation holds");

/// Every third job that ends, and with it its alias, stays in the store.
pub(crate) const ALIAS_NOT_FREED: InjectedFault = stored("a job that ends stays", |batch, seen| {
    batch.ops.retain(|op| !(matches!(op, Op::DeleteJob(_)) && is_third(seen)));
});

/// Every third job that ends leaves what it carried in the store.
pub(crate) const BODY_STAYS: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "a body stays",
    shows: Shows::InRows,
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

/// A lease of a consumer outside is stored as if there were none.
pub(crate) const LEASE_FORGOTTEN: InjectedFault = stored("a lease is forgotten", |batch, _| {
    let now = batch.head.now;
    for head in heads(batch) {
        if matches!(head.state, JobState::Reserved { holder: Holder::Outside, .. }) {
            head.state = JobState::Waiting;
            head.visible_at = now;
        }
    }
});

/// A job that was tried is stored as if it had not been.
pub(crate) const ATTEMPTS_FORGOTTEN: InjectedFault = stored("attempts are forgotten", |batch, _| {
    heads(batch).filter(|head| is_tried(head)).for_each(|head| head.attempt = 0);
});

/// A job that was tried is stored without its group: that is free after a start.
pub(crate) const GROUP_FORGOTTEN: InjectedFault = stored("a group is forgotten", |batch, _| {
    heads(batch).filter(|head| is_tried(head)).for_each(|head| head.terms.group = None);
});

/// A job that dies stays in the store, and with it its alias.
pub(crate) const DEATH_FORGOTTEN: InjectedFault = stored("a death is forgotten", |batch, _| {
    batch.ops.retain(|op| !matches!(op, Op::DeleteJobHead(_)));
});

/// Every third job that is not to be in memory is not stored either.
pub(crate) const PARKED_FORGOTTEN: InjectedFault = stored("a parked job is forgotten", |batch, seen| {
    batch.ops.retain(|op| !(matches!(op, Op::ParkJob(_)) && is_third(seen)));
});

/// The next run of a job is stored as due one interval after it is made.
pub(crate) const RUNS_FROM_NOW: InjectedFault = stored("runs are counted from now", |batch, _| {
    let now = batch.head.now;
    for head in heads(batch) {
        let next = head.terms.recurrence.filter(|again| again.run > 1 && head.attempt == 0);
        if let Some(Rule::Every(ms)) = next.map(|again| again.rule) {
            head.run_at = now.after(Duration::from_millis(ms));
            head.visible_at = head.run_at;
        }
    }
});

/// Answers to requests that may be repeated are not stored.
pub(crate) const ANSWERS_FORGOTTEN: InjectedFault = stored("answers are forgotten", |batch, _| {
    batch.ops.retain(|op| !matches!(op, Op::PutAnswer(_)));
});

/// How many jobs are parked, and dead, is not stored.
pub(crate) const COUNTS_FORGOTTEN: InjectedFault = stored("counts are forgotten", |batch, _| {
    batch.ops.retain(|op| !matches!(op, Op::PutQueueCounts(..)));
});

/// A pause is not stored.
pub(crate) const PAUSE_FORGOTTEN: InjectedFault = stored("a pause is forgotten", |batch, _| {
    for op in &mut batch.ops {
        if let Op::PutQueue(queue) = op {
            queue.paused = false;
        }
    }
});

const fn stored(name: &'static str, change: fn(&mut Batch, &mut u64)) -> InjectedFault {
    InjectedFault::Stored(StoredFault { name, shows: Shows::InStore, change })
}

fn is_third(seen: &mut u64) -> bool {
    *seen += 1;
    seen.is_multiple_of(3)
}

fn heads(batch: &mut Batch) -> impl Iterator<Item = &mut JobHead> {
    batch.ops.iter_mut().filter_map(|op| if let Op::PutJob(head) = op { Some(&mut **head) } else { None })
}

fn is_tried(head: &JobHead) -> bool {
    head.attempt > 0 && head.state == JobState::Waiting
}
