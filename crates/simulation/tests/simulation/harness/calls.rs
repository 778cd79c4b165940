//! Calls under way: who was asked, and what the answer is held against.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use base::PartitionId;
use engine::{PendingSlice, SliceOutcome};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use super::violation::{Checked, Invariant};

/// A call from outside, numbered.
pub(crate) type CallId = u64;

/// A batch: its partition, and its number there.
pub(crate) type BatchRef = (PartitionId, u64);

/// Whether an answer has come.
pub(crate) enum Polled<A> {
    NotYet,
    Answered(A),
    /// Nobody will answer: the outcome is unknown.
    Dropped,
}

/// Who answers.
pub(crate) struct Waiting<A>(Box<dyn FnMut() -> Polled<A>>);

impl<A> Waiting<A> {
    pub(crate) fn new(poll: impl FnMut() -> Polled<A> + 'static) -> Self {
        Self(Box::new(poll))
    }

    /// For what a partition replies, in the form in which it is compared.
    pub(crate) fn on<T: 'static>(mut receiver: Receiver<T>, answer: impl Fn(T) -> A + 'static) -> Self {
        Self::new(move || match receiver.try_recv() {
            Ok(value) => Polled::Answered(answer(value)),
            Err(TryRecvError::Empty) => Polled::NotYet,
            Err(TryRecvError::Closed) => Polled::Dropped,
        })
    }

    /// For what becomes of a slice.
    pub(crate) fn on_slice(pending: PendingSlice, answer: impl Fn(SliceOutcome) -> A + 'static) -> Self {
        let mut pending = Some(pending);
        Self::new(move || match poll_slice(&mut pending) {
            Polled::NotYet => Polled::NotYet,
            Polled::Answered(outcome) => Polled::Answered(answer(outcome)),
            Polled::Dropped => Polled::Dropped,
        })
    }

    pub(crate) fn poll(&mut self) -> Polled<A> {
        (self.0)()
    }
}

/// What became of a slice, if that is known.
pub(crate) fn poll_slice(pending: &mut Option<PendingSlice>) -> Polled<SliceOutcome> {
    let Some(ready) = pending.take_if(|pending| pending.is_ready()) else { return Polled::NotYet };
    match pin!(ready.durable()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(outcome)) => Polled::Answered(outcome),
        Poll::Ready(Err(_)) => Polled::Dropped,
        Poll::Pending => Polled::NotYet,
    }
}

/// A call; `T` is what follows from its answer.
pub(crate) struct Call<A, T> {
    pub(crate) id: CallId,
    pub(crate) waiting: Waiting<A>,
    /// Who takes part, and in which life.
    pub(crate) asked: Vec<(PartitionId, Option<u32>)>,
    pub(crate) then: T,
}

/// All calls of a workload.
pub(crate) struct Calls<A, T> {
    last: CallId,
    pub(crate) waiting: Vec<Call<A, T>>,
}

impl<A, T> Calls<A, T> {
    pub(crate) fn new() -> Self {
        Self { last: 0, waiting: Vec::new() }
    }

    pub(crate) fn next_id(&mut self) -> CallId {
        self.last += 1;
        self.last
    }

    pub(crate) fn last_id(&self) -> CallId {
        self.last
    }

    /// Those that are answered, or never will be.
    pub(crate) fn take_ended(&mut self) -> EndedCalls<A, T> {
        let mut ended = Vec::new();
        for mut call in std::mem::take(&mut self.waiting) {
            match call.waiting.poll() {
                Polled::NotYet => self.waiting.push(call),
                Polled::Answered(answer) => ended.push((call, Some(answer))),
                Polled::Dropped => ended.push((call, None)),
            }
        }
        EndedCalls(ended)
    }
}

/// Calls that are answered, or never will be, with their answers.
pub(crate) struct EndedCalls<A, T>(Vec<(Call<A, T>, Option<A>)>);

impl<A, T> EndedCalls<A, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order in which they were made, but some come before all others.
    pub(crate) fn with_first(mut self, is_first: impl Fn(&T) -> bool) -> Self {
        self.0.sort_by_key(|(call, _)| (!is_first(&call.then), call.id));
        self
    }

    /// Gives each to its workload.
    pub(crate) fn deliver<W>(
        self,
        workload: &mut W,
        answered: impl Fn(&mut W, Call<A, T>, A) -> Checked,
        dropped: impl Fn(&mut W, Call<A, T>) -> Checked,
    ) -> Checked {
        for (call, answer) in self.0 {
            match answer {
                Some(answer) => answered(workload, call, answer)?,
                None => dropped(workload, call)?,
            }
        }
        Ok(())
    }
}

impl<A, T> Call<A, T> {
    /// Nobody answers: allowed only where a partition that was asked has lost its memory meanwhile.
    pub(crate) fn check_dropped(&self, life: impl Fn(PartitionId) -> Option<u32>) -> Checked {
        let lost = self.asked.iter().any(|(of, asked)| asked.is_none() || life(*of) != *asked);
        Invariant::BOUNDED.check(lost, || format!("call {} was dropped in silence", self.id))
    }
}

/// What was stepped and not answered yet: the answers that the model expects, with the batch that
/// each rests on.
pub(crate) struct Expectations<E> {
    by_call: BTreeMap<(CallId, PartitionId), (u64, E)>,
}

impl<E> Expectations<E> {
    pub(crate) fn new() -> Self {
        Self { by_call: BTreeMap::new() }
    }

    pub(crate) fn expect(&mut self, call: CallId, partition: PartitionId, seq: u64, expected: E) {
        self.by_call.insert((call, partition), (seq, expected));
    }

    /// A partition went back to batch `seq`.
    pub(crate) fn forget_after(&mut self, partition: PartitionId, seq: u64) {
        self.by_call.retain(|(_, of), (made, _)| *of != partition || *made <= seq);
    }

    pub(crate) fn forget(&mut self, call: CallId) {
        self.by_call.retain(|(id, _), _| *id != call);
    }

    pub(crate) fn clear(&mut self) {
        self.by_call.clear();
    }

    /// What one partition is to answer, if it took its input, and the batch that this rests on.
    pub(crate) fn of(&self, call: CallId) -> Option<(BatchRef, &E)> {
        let mut of_call = self.by_call.range((call, PartitionId(0))..=(call, PartitionId(u16::MAX)));
        of_call.next().map(|((_, partition), (seq, expected))| ((*partition, *seq), expected))
    }

    /// What each partition was expected to answer, and the batches that this rests on: whoever
    /// answers had better be sure of them.
    pub(crate) fn take<A, T>(&mut self, call: &Call<A, T>) -> Checked<Vec<(BatchRef, E)>> {
        let taken = call.asked.iter().map(|(partition, _)| {
            let found = self.by_call.remove(&(call.id, *partition));
            let (seq, expected) = found.ok_or_else(|| {
                Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(format!(
                    "call {} is answered, and partition {partition} has no such thing",
                    call.id
                ))
            })?;
            Ok(((*partition, seq), expected))
        });
        taken.collect()
    }
}
