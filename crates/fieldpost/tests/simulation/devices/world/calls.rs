//! Calls under way: what was asked, who answers, and what the answer is held against.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use base::{DeviceId, Incarnation, PartitionId, Problem, WayIn};
use engine::devices::input::Imported;
use engine::queries::Device;
use engine::{AttemptDue, Outcome, Pending, Report};
use notify::lanes::Lease;
use records::{Client, DeviceSlot};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::devices::meant::{CallId, ImportLine};
use crate::devices::model::Expected;
use crate::devices::model::device::Shown;
use crate::devices::model::registry::KnownClient;
use crate::harness::violation::{Checked, Invariant};

/// Who answers, and in what form.
pub(crate) enum Waiting {
    Slice(Option<Pending>),
    Device(Receiver<Result<Device, Problem>>),
    Client(Receiver<Result<Client, Problem>>),
    Done(Receiver<Result<(), Problem>>),
    Swept(Receiver<bool>),
    Resent(Receiver<Option<DeviceSlot>>),
    Leased(Receiver<Vec<AttemptDue>>),
    Imported(Receiver<Vec<(u32, Result<Imported, Problem>)>>),
    Kept(Receiver<()>),
}

/// What follows from the answer.
pub(crate) enum Then {
    Nothing,
    /// A slice was handed in: if nobody says what became of it, it comes again.
    Repeat(WayIn, Vec<Report>),
    /// A device, or its link to a client, is gone once this is answered well.
    Cut(DeviceId, Option<Incarnation>),
    /// The devices of an import may have lost links.
    Imported(Vec<ImportLine>),
    /// A client is gone: its links are swept.
    Gone,
    /// The next partition is swept.
    SweepOn(Incarnation, PartitionId),
    /// The client is told again of more devices of this partition, or of those of the next.
    ResendOn(Incarnation, PartitionId),
    /// Attempts begin.
    Send(Lease),
    /// An attempt's end is recorded, now that its client is disabled.
    Record(Box<super::sender::Ended>),
}

/// A call.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) waiting: Waiting,
    /// Who takes part, and in which life.
    pub(crate) asked: Vec<(PartitionId, Option<u32>)>,
    pub(crate) then: Then,
}

/// What came of a call.
pub(crate) enum Answer {
    Slice(Outcome),
    Device(Result<Box<Device>, Problem>),
    Client(Result<Box<Client>, Problem>),
    Done(Result<(), Problem>),
    Swept(bool),
    Resent(Option<DeviceSlot>),
    Leased(Vec<AttemptDue>),
    Imported(Vec<(u32, Result<Imported, Problem>)>),
    Kept,
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
            Self::Slice(pending) => poll_slice(pending),
            Self::Device(receiver) => received(receiver, |device| Answer::Device(device.map(Box::new))),
            Self::Client(receiver) => received(receiver, |client| Answer::Client(client.map(Box::new))),
            Self::Done(receiver) => received(receiver, Answer::Done),
            Self::Swept(receiver) => received(receiver, Answer::Swept),
            Self::Resent(receiver) => received(receiver, Answer::Resent),
            Self::Leased(receiver) => received(receiver, Answer::Leased),
            Self::Imported(receiver) => received(receiver, Answer::Imported),
            Self::Kept(receiver) => received(receiver, |()| Answer::Kept),
        }
    }
}

fn poll_slice(pending: &mut Option<Pending>) -> Polled {
    let Some(ready) = pending.take_if(|pending| pending.is_ready()) else { return Polled::NotYet };
    let done = pin!(ready.durable()).poll(&mut Context::from_waker(Waker::noop()));
    match done {
        Poll::Ready(Ok(outcome)) => Polled::Answered(Answer::Slice(outcome)),
        Poll::Ready(Err(_)) => Polled::Dropped,
        Poll::Pending => Polled::NotYet,
    }
}

/// What was stepped and not answered yet: the answers that the model expects, with the batch that
/// each rests on.
#[derive(Default)]
pub(crate) struct Expectations {
    by_call: BTreeMap<(CallId, PartitionId), (u64, Expected)>,
}

impl Expectations {
    pub(crate) fn expect(&mut self, call: CallId, partition: PartitionId, seq: u64, expected: Expected) {
        self.by_call.insert((call, partition), (seq, expected));
    }

    /// A partition went back to batch `seq`.
    pub(crate) fn forget_after(&mut self, partition: PartitionId, seq: u64) {
        self.by_call.retain(|(_, of), (made, _)| *of != partition || *made <= seq);
    }

    pub(crate) fn forget(&mut self, call: &Call) {
        for (partition, _) in &call.asked {
            self.by_call.remove(&(call.id, *partition));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.by_call.clear();
    }

    /// What each partition was expected to answer, and the batches that this rests on: whoever
    /// answers had better be sure of them.
    pub(crate) fn take(&mut self, call: &Call) -> Checked<Vec<(PartitionId, u64, Expected)>> {
        let taken = call.asked.iter().map(|(partition, _)| {
            let found = self.by_call.remove(&(call.id, *partition));
            let (seq, expected) = found.ok_or_else(|| {
                Invariant::DurableBeforeAcknowledged.broken(format!(
                    "call {} is answered, and partition {partition} has no such thing",
                    call.id
                ))
            })?;
            Ok((*partition, seq, expected))
        });
        taken.collect()
    }
}

/// Holds an answer against what was expected. Attempts are compared elsewhere.
pub(crate) fn compare(call: CallId, answer: &Answer, expected: &[(PartitionId, u64, Expected)]) -> Checked {
    let what = format!("answer to call {call}");
    let code = |problem: &Problem| problem.code;
    let found = match answer {
        Answer::Slice(outcome) => return compare_slice(call, outcome, expected),
        Answer::Leased(_) => return Ok(()),
        Answer::Device(device) => Expected::Device(
            device
                .as_ref()
                .map_err(code)
                .map(|device| Shown::of(&device.profile, &device.state, device.seen)),
        ),
        Answer::Client(client) => Expected::Client(client.as_ref().map_err(code).map(|c| KnownClient::of(c))),
        Answer::Done(done) => Expected::Done(done.as_ref().map_err(code).copied()),
        Answer::Imported(outcomes) => {
            let outcome = |(index, outcome): &(u32, Result<Imported, Problem>)| {
                (*index, outcome.as_ref().map_err(code).copied())
            };
            Expected::Imported(outcomes.iter().map(outcome).collect())
        }
        Answer::Kept => Expected::Kept,
        Answer::Swept(more) => Expected::Swept(*more),
        Answer::Resent(next) => Expected::Resent(*next),
    };
    let expected: Vec<&Expected> = expected.iter().map(|(_, _, expected)| expected).collect();
    Invariant::AsTheModel.same(what, &vec![&found], &expected)
}

fn compare_slice(call: CallId, outcome: &Outcome, expected: &[(PartitionId, u64, Expected)]) -> Checked {
    let mut refused: Vec<(u32, &str)> = Vec::new();
    for (_, _, expected) in expected {
        if let Expected::Refused(part) = expected {
            refused.extend(part);
        }
    }
    refused.sort_unstable();
    let found: Vec<(u32, &str)> = outcome.rejected.iter().map(|r| (r.index, r.problem.code)).collect();
    Invariant::AsTheModel.same(format_args!("reports refused of call {call}"), &found, &refused)
}
