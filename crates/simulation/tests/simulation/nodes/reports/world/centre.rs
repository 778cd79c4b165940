//! The centre, to which calls with reports come.

use base::Timestamp;
use copies::{CopyBatch, CopyFailure, SinkAnswer};
use engine::{PendingSlice, SliceOutcome};
use gateway::decode::{self, DecodeRules};

use super::World;
use super::reporters::slice_of;
use crate::harness::calls::{Polled, poll_slice};
use crate::nodes::exchange::{Ask, Request, WaitingForEnd, not_accepting};
use crate::nodes::fault_injection::{ANSWERED_WHEN_TAKEN, REPORTS_WITHOUT_IDS};
use crate::nodes::network::{Answer, AnswerOnItsWay, TakenBatch};
use crate::nodes::reports::{CENTRE, EDGE, centre_identity};

/// Where a call is among all.
fn place_of(request: &Request) -> Option<(u64, u64)> {
    match &request.ask {
        Ask::Append(_, batch, _) => Some((batch.run, batch.place)),
        _ => None,
    }
}

fn answer_of(outcome: &SliceOutcome) -> SinkAnswer {
    let (appended, refused) = (u64::from(outcome.accepted), outcome.rejected.len() as u64);
    SinkAnswer { appended, duplicates: 0, refused, identity: centre_identity() }
}

/// The lines of a body.
pub(super) fn lines_of(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

impl World {
    /// Whether a call may come: behind a newer one it does not, as its connection is closed by
    /// then.
    pub(super) fn arrives(&mut self, batch: &CopyBatch) -> bool {
        let place = (batch.run, batch.place);
        if place < self.newest {
            return false;
        }
        self.newest = place;
        self.network.travelling.retain(|request| place_of(request).is_none_or(|of| of >= place));
        true
    }

    pub(super) fn take_call(
        &mut self,
        batch: &CopyBatch,
        deadline: Option<Timestamp>,
        waiting: WaitingForEnd<SinkAnswer>,
    ) {
        if !self.arrives(batch) {
            return;
        }
        let taken = self.hand_in(lines_of(&batch.body));
        if self.machine.injects(ANSWERED_WHEN_TAKEN) {
            let all = SliceOutcome { accepted: batch.messages as u32, rejected: Vec::new() };
            return self.answer(deadline, waiting, Ok(answer_of(&all)));
        }
        self.network.batches.push(TakenBatch { from: EDGE, to: CENTRE, deadline, waiting, taken });
    }

    /// The centre takes lines as it takes any reports. `None` if it does not say what becomes of
    /// them.
    pub(super) fn hand_in<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> Option<PendingSlice> {
        let rules = DecodeRules {
            device_ids: self.plan.settings.device_ids,
            wall: self.nodes[CENTRE].clock().wall(),
        };
        let mut reports = Vec::new();
        for line in lines {
            let mut report = decode::object(line, None, rules).expect("a line of a copy is a report");
            if self.machine.injects(REPORTS_WITHOUT_IDS) {
                report.id = None;
            }
            reports.push(report);
        }
        self.machine.trace.note(format_args!("the centre is handed {} reports", reports.len()));
        let (input, pending) = slice_of(reports)?;
        self.nodes[CENTRE].users_mut().tell_devices(input).then_some(pending)
    }

    /// What the centre has answered goes on its way back.
    pub(super) fn take_answers_of_centre(&mut self) {
        for mut call in std::mem::take(&mut self.network.batches) {
            let polled = if call.taken.is_some() { poll_slice(&mut call.taken) } else { Polled::Dropped };
            match polled {
                Polled::NotYet => self.network.batches.push(call),
                Polled::Answered(outcome) => {
                    self.network.counts.batches += 1;
                    self.answer(call.deadline, call.waiting, Ok(answer_of(&outcome)));
                }
                Polled::Dropped => self.answer(call.deadline, call.waiting, Err(not_accepting().into())),
            }
        }
    }

    /// An answer goes from the centre to the edge.
    fn answer(
        &mut self,
        deadline: Option<Timestamp>,
        waiting: WaitingForEnd<SinkAnswer>,
        answer: Result<SinkAnswer, CopyFailure>,
    ) {
        if waiting.is_some() {
            let answer = Answer::Append(waiting, answer);
            self.network.answers.push(AnswerOnItsWay { from: CENTRE, to: EDGE, deadline, answer });
        }
    }
}
