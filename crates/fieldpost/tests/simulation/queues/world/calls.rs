//! Calls under way: what was asked, who answers, and what the answer is held against.

use std::collections::BTreeMap;

use base::{PartitionId, Problem, Timestamp};
use engine::queues::driving::{self, HandOver, Leases, Seen};
use engine::queues::{Consumed, DeadView, JobView, Listed, PublishedJob, QueueName, QueueStats};
use records::JobId;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::devices::meant::CallId;
use crate::harness::violation::{Checked, Invariant};
use crate::queues::meant::LeaseRef;
use crate::queues::model::expected::{Expected, ShownDead, ShownFigures, ShownJob, ShownLease};

/// A call.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) waiting: Waiting,
    pub(crate) partition: PartitionId,
    /// Which life of the partition was asked.
    pub(crate) life: Option<u32>,
    pub(crate) then: Then,
}

/// Who answers, and in what form.
pub(crate) enum Waiting {
    Published(Receiver<Result<Vec<PublishedJob>, Problem>>),
    Leased(Receiver<Leases>),
    Acked(Receiver<Vec<usize>>),
    Extended(Receiver<Result<Timestamp, Problem>>),
    Done(Receiver<Result<(), Problem>>),
    Seen(Receiver<Result<Seen, Problem>>),
    QueueStats(Receiver<QueueStats>),
    Listed(Receiver<Listed>),
    Dead(Receiver<Vec<DeadView>>),
    Respawned(Receiver<Result<driving::Respawned, Problem>>),
    Deleted(Receiver<usize>),
    /// There is something to lease.
    Told(Receiver<()>),
}

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
    Told,
}

/// Whether an answer has come.
pub(crate) enum Polled {
    NotYet,
    Answered(Answer),
    /// Nobody will answer: the outcome is unknown.
    Dropped,
}

impl Waiting {
    pub(crate) fn poll(&mut self) -> Polled {
        fn received<T>(receiver: &mut Receiver<T>, answer: impl FnOnce(T) -> Answer) -> Polled {
            match receiver.try_recv() {
                Ok(value) => Polled::Answered(answer(value)),
                Err(TryRecvError::Empty) => Polled::NotYet,
                Err(TryRecvError::Closed) => Polled::Dropped,
            }
        }
        match self {
            Self::Published(receiver) => received(receiver, Answer::Published),
            Self::Leased(receiver) => received(receiver, |leases| {
                let (jobs, hand_over) = driving::consumed(leases).expect("what was written can be read");
                Answer::Leased(jobs, hand_over)
            }),
            Self::Acked(receiver) => received(receiver, Answer::Acked),
            Self::Extended(receiver) => received(receiver, Answer::Extended),
            Self::Done(receiver) => received(receiver, Answer::Done),
            Self::Seen(receiver) => {
                received(receiver, |seen| Answer::Seen(seen.and_then(driving::view).map(Box::new)))
            }
            Self::QueueStats(receiver) => received(receiver, |figures| Answer::QueueStats(vec![figures])),
            Self::Listed(receiver) => received(receiver, |listed| Answer::QueueStats(listed.queues)),
            Self::Dead(receiver) => received(receiver, Answer::Dead),
            Self::Respawned(receiver) => {
                received(receiver, |some| Answer::Count(some.map(|some| some.count)))
            }
            Self::Deleted(receiver) => received(receiver, |count| Answer::Count(Ok(count))),
            Self::Told(receiver) => received(receiver, |()| Answer::Told),
        }
    }
}

/// What was stepped and not answered yet: the answers that the model expects, with the batch that
/// each rests on.
#[derive(Default)]
pub(crate) struct Expectations {
    by_call: BTreeMap<CallId, (PartitionId, u64, Expected)>,
}

impl Expectations {
    pub(crate) fn expect(&mut self, call: CallId, partition: PartitionId, seq: u64, expected: Expected) {
        self.by_call.insert(call, (partition, seq, expected));
    }

    /// A partition went back to batch `seq`.
    pub(crate) fn forget_after(&mut self, partition: PartitionId, seq: u64) {
        self.by_call.retain(|_, (of, made, _)| *of != partition || *made <= seq);
    }

    pub(crate) fn forget(&mut self, call: CallId) {
        self.by_call.remove(&call);
    }

    pub(crate) fn clear(&mut self) {
        self.by_call.clear();
    }

    /// What a call is to be answered, if its input was taken.
    pub(crate) fn of(&self, call: CallId) -> Option<&Expected> {
        self.by_call.get(&call).map(|(_, _, expected)| expected)
    }

    /// The same, once it is answered: whoever answers had better be sure of the batch that it rests
    /// on.
    pub(crate) fn take(&mut self, call: CallId) -> Checked<(u64, Expected)> {
        let found = self.by_call.remove(&call);
        found.map(|(_, seq, expected)| (seq, expected)).ok_or_else(|| {
            Invariant::DurableBeforeAcknowledged
                .broken(format!("call {call} is answered, and its partition has no such thing"))
        })
    }
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
        Answer::QueueStats(figures) => {
            return check_figures(call, figures, expected, parking);
        }
        Answer::Dead(dead) => Expected::Dead(dead.iter().map(ShownDead::of).collect()),
        Answer::Count(count) => Expected::Count(coded(count, |count| *count)),
        Answer::Told => return Ok(()),
    };
    Invariant::AsTheModel.same(format_args!("answer to call {call}"), &found, expected)
}

fn check_figures(call: CallId, found: &[QueueStats], expected: &Expected, parking: Parking) -> Checked {
    let Expected::QueueStats { shown: expected, is_sure, late } = expected else {
        return Err(Invariant::AsTheModel.broken(format!("call {call} is answered {found:?}")));
    };
    let is_exact = parking == Parking::Nothing || (parking == Parking::Settled && *is_sure);
    let seen = |shown: ShownFigures| {
        let shown = if is_exact {
            shown
        } else {
            // Of what has come due, and was not read yet, no figure knows that it is ready.
            ShownFigures { scheduled: shown.scheduled + shown.ready, ready: 0, ..shown }
        };
        let knows_oldest = parking == Parking::Nothing;
        ShownFigures { oldest_ready: shown.oldest_ready.filter(|_| knows_oldest), ..shown }
    };
    let found: Vec<_> = found.iter().map(ShownFigures::of).map(seen).collect();
    let mut expected: Vec<_> = expected.iter().cloned().map(seen).collect();
    for (expected, found) in expected.iter_mut().zip(&found).filter(|_| !is_exact) {
        let more = found.scheduled.saturating_sub(expected.scheduled);
        expected.scheduled += more.min(*late);
    }
    Invariant::FiguresAreRight.same(format_args!("answer to call {call}"), &found, &expected)
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
    Invariant::AsTheModel
        .check(is_right, || format!("call {call} is shown {seen:?}, and it should be one of {may_be:?}"))
}
