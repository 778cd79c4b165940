//! Calls of this workload: in what form they are answered, what follows from an answer, and what it
//! is held against.

use base::{DeviceId, Incarnation, PartitionId, Problem, WayIn};
use engine::devices::input::ImportOutcome;
use engine::queries::DeviceDetails;
use engine::{AttemptDue, Report, SliceOutcome};
use notify::lanes::LaneLease;
use records::{Client, DeviceSlot};
use tokio::sync::oneshot::Receiver;

use crate::devices::meant::ImportLine;
use crate::devices::model::Expected;
use crate::devices::model::device::Shown;
use crate::devices::model::registry::KnownClient;
use crate::harness::calls::{self, BatchRef, CallId};
use crate::harness::violation::{Checked, Invariant};

/// Who answers.
pub(crate) type Waiting = calls::Waiting<Answer>;

/// A call.
pub(crate) type Call = calls::Call<Answer, Then>;

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
    Send(LaneLease),
    /// An attempt's end is recorded, now that its client is disabled.
    Record(Box<super::sender::Ended>),
}

/// What came of a call.
pub(crate) enum Answer {
    Slice(SliceOutcome),
    Device(Result<Box<DeviceDetails>, Problem>),
    Client(Result<Box<Client>, Problem>),
    Done(Result<(), Problem>),
    Swept(bool),
    Resent(Option<DeviceSlot>),
    Leased(Vec<AttemptDue>),
    Imported(Vec<(u32, Result<ImportOutcome, Problem>)>),
    Kept,
}

/// A device is replied.
pub(super) fn device(receiver: Receiver<Result<DeviceDetails, Problem>>) -> Waiting {
    Waiting::on(receiver, |device| Answer::Device(device.map(Box::new)))
}

/// A client is replied.
pub(super) fn client(receiver: Receiver<Result<Client, Problem>>) -> Waiting {
    Waiting::on(receiver, |client| Answer::Client(client.map(Box::new)))
}

/// What the only client of a lease gets.
pub(super) fn leased(due: Vec<Vec<AttemptDue>>) -> Answer {
    Answer::Leased(due.into_iter().flatten().collect())
}

/// Holds an answer against what was expected. Attempts are compared elsewhere.
pub(crate) fn compare(call: CallId, answer: &Answer, expected: &[(BatchRef, Expected)]) -> Checked {
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
            let outcome = |(index, outcome): &(u32, Result<ImportOutcome, Problem>)| {
                (*index, outcome.as_ref().map_err(code).copied())
            };
            Expected::Imported(outcomes.iter().map(outcome).collect())
        }
        Answer::Kept => Expected::Kept,
        Answer::Swept(more) => Expected::Swept(*more),
        Answer::Resent(next) => Expected::Resent(*next),
    };
    let expected: Vec<&Expected> = expected.iter().map(|(_, expected)| expected).collect();
    Invariant::AS_THE_MODEL.same(what, &vec![&found], &expected)
}

fn compare_slice(call: CallId, outcome: &SliceOutcome, expected: &[(BatchRef, Expected)]) -> Checked {
    let mut refused: Vec<(u32, &str)> = Vec::new();
    for (_, expected) in expected {
        if let Expected::Refused(part) = expected {
            refused.extend(part);
        }
    }
    refused.sort_unstable();
    let found: Vec<(u32, &str)> = outcome.rejected.iter().map(|r| (r.index, r.problem.code)).collect();
    Invariant::AS_THE_MODEL.same(format_args!("reports refused of call {call}"), &found, &refused)
}
