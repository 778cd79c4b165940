//! Calls of this workload: in what form they are answered, what follows from an answer, and what it
//! is held against.

use base::{Problem, Timestamp};
use engine::coordination::{LockGrant, LockStatus};
use engine::queues::driving::{self, HandOver, InspectedJob, Leases};
use engine::queues::{Consumed, DeadView, JobView, PublishedJob, QueueName, QueueStats};
use records::JobId;
use tokio::sync::oneshot::Receiver;

use crate::harness::calls::{self, CallId};
use crate::harness::violation::{Checked, Invariant};
use crate::queues::meant::LeaseRef;
use crate::queues::model::expected::{Expected, ShownDead, ShownJob, ShownLease, ShownStats};

/// Who answers.
pub(crate) type Waiting = calls::Waiting<Answer>;

/// A call.
pub(crate) type Call = calls::Call<Answer, Then>;

/// What follows from the answer.
pub(crate) enum Then {
    Nothing,
    /// Jobs were published: if nobody says what became of them, and there is a key, they are
    /// published again.
    Published(Box<super::publishers::Publishing>),
    /// Jobs were leased from this queue.
    Consumed(super::consumers::Consuming),
    /// Jobs are done.
    Acked(Vec<LeaseRef>),
    Extended(LeaseRef),
    Released(LeaseRef),
    /// A job is gone, if it was named by its id.
    Cancelled(Option<JobId>),
    /// Somebody holds a lock, or does not any more.
    Locked(super::lockers::Locking),
    /// A consumer that watches several queues is told of this one.
    Told(u64, QueueName),
}

/// What came of a call.
pub(crate) enum Answer {
    Published(Result<Vec<PublishedJob>, Problem>),
    Leased(Vec<Consumed>, HandOver),
    Acked(Vec<usize>),
    Extended(Result<Timestamp, Problem>),
    Done(Result<(), Problem>),
    Seen(Result<Box<JobView>, Problem>),
    QueueStats(Vec<QueueStats>),
    Dead(Vec<DeadView>),
    Count(Result<usize, Problem>),
    Locked(Result<LockGrant, Problem>),
    LockStatus(LockStatus),
    Told,
}

/// Leases are replied.
pub(super) fn leased(receiver: Receiver<Leases>) -> Waiting {
    Waiting::on(receiver, |leases| {
        let (jobs, hand_over) = driving::consumed(leases).expect("what was written can be read");
        Answer::Leased(jobs, hand_over)
    })
}

/// A job is replied.
pub(super) fn seen(receiver: Receiver<Result<InspectedJob, Problem>>) -> Waiting {
    Waiting::on(receiver, |seen| Answer::Seen(seen.and_then(driving::view).map(Box::new)))
}

/// What the model knows of jobs that are parked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parking {
    /// There are none.
    Nothing,
    /// Some may have to be read before they are seen to be ready.
    MayLag,
    /// All that should be read was.
    Settled,
}

/// Holds an answer against what was expected.
pub(crate) fn compare(call: CallId, answer: &Answer, expected: &Expected, parking: Parking) -> Checked {
    fn coded<T, U>(result: &Result<T, Problem>, map: impl FnOnce(&T) -> U) -> Result<U, &'static str> {
        result.as_ref().map(map).map_err(|problem| problem.code)
    }
    let found = match answer {
        Answer::Published(jobs) => Expected::Published(coded(jobs, Clone::clone)),
        Answer::Leased(jobs, _) => Expected::Leased(jobs.iter().map(ShownLease::of).collect()),
        Answer::Acked(stale) => Expected::Acked(stale.clone()),
        Answer::Extended(until) => Expected::Extended(coded(until, |until| *until)),
        Answer::Done(done) => Expected::Done(coded(done, |()| ())),
        Answer::Seen(seen) if let Expected::Peeked(may_be) = expected => {
            return check_peeked(call, seen, may_be, parking);
        }
        Answer::Seen(seen) => Expected::Seen(coded(seen, |seen| ShownJob::of(seen))),
        Answer::QueueStats(stats) => {
            return check_stats(call, stats, expected, parking);
        }
        Answer::Dead(dead) => Expected::Dead(dead.iter().map(ShownDead::of).collect()),
        Answer::Count(count) => Expected::Count(coded(count, |count| *count)),
        Answer::Locked(held) => {
            Expected::Locked(coded(held, |grant| (grant.owner.to_string(), grant.expires_at)))
        }
        Answer::LockStatus(LockStatus { holder, waiting, .. }) => {
            let holder = holder.as_ref().map(|(owner, until)| (owner.to_string(), *until));
            Expected::LockStatus(holder, *waiting)
        }
        Answer::Told => return Ok(()),
    };
    Invariant::AS_THE_MODEL.same(format_args!("answer to call {call}"), &found, expected)
}

fn check_stats(call: CallId, found: &[QueueStats], expected: &Expected, parking: Parking) -> Checked {
    let Expected::QueueStats { shown: expected, is_sure, late } = expected else {
        return Err(Invariant::AS_THE_MODEL.broken(format!("call {call} is answered {found:?}")));
    };
    let is_exact = parking == Parking::Nothing || (parking == Parking::Settled && *is_sure);
    let seen = |shown: ShownStats| {
        let shown = if is_exact {
            shown
        } else {
            // Of what has come due, and was not read yet, no figure knows that it is ready.
            ShownStats { scheduled: shown.scheduled + shown.ready, ready: 0, ..shown }
        };
        let knows_oldest = parking == Parking::Nothing;
        ShownStats { oldest_ready: shown.oldest_ready.filter(|_| knows_oldest), ..shown }
    };
    let found: Vec<_> = found.iter().map(ShownStats::of).map(seen).collect();
    let mut expected: Vec<_> = expected.iter().cloned().map(seen).collect();
    for (expected, found) in expected.iter_mut().zip(&found).filter(|_| !is_exact) {
        let more = found.scheduled.saturating_sub(expected.scheduled);
        expected.scheduled += more.min(*late);
    }
    Invariant::STATS_ARE_RIGHT.same(format_args!("answer to call {call}"), &found, &expected)
}

fn check_peeked(
    call: CallId,
    seen: &Result<Box<JobView>, Problem>,
    may_be: &[ShownJob],
    parking: Parking,
) -> Checked {
    let is_right = match seen {
        Ok(seen) => may_be.contains(&ShownJob::of(seen)),
        Err(problem) => problem.code == "unknown_job" && (may_be.is_empty() || parking == Parking::MayLag),
    };
    Invariant::AS_THE_MODEL
        .check(is_right, || format!("call {call} is shown {seen:?}, and it should be one of {may_be:?}"))
}
