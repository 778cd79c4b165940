//! What the copy asks for: of its own node at once, and of the centre by a network.

use base::{Problem, Timestamp};
use copies::reports::page_of_reports;
use copies::{CopyFailure, CopyFailureKind, PageAsk, SinkAnswer, SourcePage};
use engine::kernel::reply::Reply;
use engine::streams::input::MoveCopyCall;
use engine::streams::{CopyKey, CopyMove, CopyProgress, StreamName, StreamsInput};
use records::StreamCopy;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::World;
use super::centre::{TakenCall, lines_of};
use crate::nodes::exchange::{Ask, Request, Waiting, WaitingForEnd, not_accepting};
use crate::nodes::reports::EDGE;

/// All that is on its way.
#[derive(Default)]
pub(super) struct Network {
    pub(super) travelling: Vec<Request>,
    /// Pages that wait for a message at the edge.
    pages: Vec<(StreamName, PageAsk, WaitingForEnd<SourcePage>)>,
    pub(super) calls: Vec<TakenCall>,
    moves: Vec<TakenMove>,
    pub(super) answers: Vec<AnswerOnItsWay>,
    pub(super) is_cut: bool,
    /// The newest call that came to the centre: its run, and its place there.
    pub(super) newest: (u64, u64),
}

struct TakenMove {
    waiting: Waiting<Result<CopyProgress, Problem>>,
    outcome: Receiver<Result<CopyProgress, Problem>>,
}

pub(super) struct AnswerOnItsWay {
    pub(super) deadline: Option<Timestamp>,
    pub(super) waiting: WaitingForEnd<SinkAnswer>,
    pub(super) answer: Result<SinkAnswer, CopyFailure>,
}

fn is_over(deadline: Option<Timestamp>, now: Timestamp) -> bool {
    deadline.is_some_and(|deadline| deadline <= now)
}

/// Somebody who waits is told, or nobody.
fn tell<T>(waiting: Waiting<T>, answer: T) {
    let _nobody_waits = waiting.is_none_or(|waiting| waiting.send(answer).is_err());
}

impl Network {
    /// A node's process has ended: its connections with it.
    pub(super) fn process_ended(&mut self, node: usize) {
        self.travelling.retain(|request| request.to != node);
        if node == EDGE {
            self.pages.clear();
            self.answers.clear();
        }
    }

    /// When somebody waits no more.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let travelling = self.travelling.iter().filter_map(|request| request.deadline);
        let calls = self.calls.iter().filter_map(|call| call.deadline);
        travelling.chain(calls).chain(self.answers.iter().filter_map(|answer| answer.deadline)).min()
    }
}

impl World {
    /// What the copy has asked for goes on its way.
    pub(super) fn take_up_requests(&mut self) {
        for request in self.exchange.take() {
            self.counts.requests += u64::from(request.is_remote());
            self.network.travelling.push(request);
        }
    }

    /// Whoever waited too long waits no more.
    pub(super) fn time_out(&mut self) {
        let now = self.now();
        let network = &mut self.network;
        for request in network.travelling.iter_mut().filter(|request| is_over(request.deadline, now)) {
            request.give_up();
            self.counts.requests_late += 1;
        }
        network.travelling.retain(|request| !request.is_abandoned());
        let is_waited_for = |waiting: &WaitingForEnd<_>| waiting.as_ref().is_some_and(|to| !to.is_closed());
        network.pages.retain(|(_, _, waiting)| is_waited_for(waiting));
        for call in network.calls.iter_mut().filter(|call| is_over(call.deadline, now)) {
            (call.deadline, call.waiting) = (None, None);
        }
        network.answers.retain(|answer| !is_over(answer.deadline, now));
    }

    /// A request comes to where it goes, or a page or an answer goes on. Whether there was any.
    pub(super) fn bring_any(&mut self) -> bool {
        let network = &self.network;
        let (requests, pages) = (network.travelling.len(), network.pages.len());
        let all = requests + pages + network.answers.len();
        if all == 0 {
            return false;
        }
        let index = self.machine.random.below(all as u64) as usize;
        if index < requests {
            return self.bring(index);
        }
        if index < requests + pages {
            return self.look_at_page(index - requests);
        }
        self.bring_answer(index - requests - pages)
    }

    /// All that can be brought at this moment. Whether there was any.
    pub(super) fn bring_all(&mut self) -> bool {
        let mut any = false;
        for index in (0..self.network.travelling.len()).rev() {
            any |= self.bring(index);
        }
        for index in (0..self.network.pages.len()).rev() {
            any |= self.look_at_page(index);
        }
        for index in (0..self.network.answers.len()).rev() {
            any |= self.bring_answer(index);
        }
        any
    }

    fn bring(&mut self, index: usize) -> bool {
        let Some(request) = self.network.travelling.get(index) else { return false };
        let (to, is_remote) = (request.to, request.is_remote());
        if is_remote && self.network.is_cut {
            return false;
        }
        let is_up = self.nodes[to].users().context().is_some();
        if is_up && !self.nodes[to].users().takes_input() && !self.is_quiet {
            // It is under load: whoever asks waits.
            return false;
        }
        let request = self.network.travelling.remove(index);
        if is_remote && !self.is_quiet && self.is_lost(&request) {
            return true;
        }
        if !is_up {
            self.counts.requests_failed += u64::from(is_remote);
            request.fail(CopyFailure::new(CopyFailureKind::NotNow, "nobody listens"));
            return true;
        }
        let Request { ask, deadline, .. } = request;
        match ask {
            Ask::Row(key, waiting) => self.give_row(&key, waiting),
            Ask::Move(key, row, change, waiting) => self.move_copy((key, row), change, waiting),
            Ask::Page(stream, page, waiting) => {
                self.network.pages.push((stream, page, waiting));
                self.look_at_page(self.network.pages.len() - 1);
            }
            Ask::Append(_, batch, waiting) => self.take_call(&batch, deadline, waiting),
        }
        true
    }

    /// The network loses a request, or breaks it off in the middle; or brings it once more. Whether
    /// it does not come whole.
    fn is_lost(&mut self, request: &Request) -> bool {
        let random = &self.machine.random;
        if random.below(1_000) < self.plan.network.lost {
            self.counts.requests_lost += 1;
            let ends = match &request.ask {
                Ask::Append(_, batch, _) => lines_of(&batch.body).count() as u64,
                _ => 0,
            };
            let breaks_off = ends > 1 && random.chance(1, 2);
            let lines = if breaks_off { 1 + random.below(ends - 1) } else { 0 };
            if let Ask::Append(_, batch, _) = &request.ask
                && lines > 0
                && self.arrives(batch)
            {
                self.counts.requests_broken_off += 1;
                let _nobody_waits = self.hand_in(lines_of(&batch.body).take(lines as usize));
            }
            return true;
        }
        if random.below(1_000) < self.plan.network.twice
            && let Some(again) = request.again()
        {
            self.counts.requests_twice += 1;
            self.network.travelling.push(again);
        }
        false
    }

    fn give_row(&mut self, key: &CopyKey, waiting: Waiting<Result<StreamCopy, Problem>>) {
        let Some(context) = self.nodes[EDGE].users().context() else { return };
        let row = context.streams.copy_row(&*context.kernel.store, key);
        self.nodes[EDGE].users_mut().was_read();
        tell(waiting, row);
    }

    fn move_copy(
        &mut self,
        (key, row): (CopyKey, Box<StreamCopy>),
        change: CopyMove,
        waiting: Waiting<Result<CopyProgress, Problem>>,
    ) {
        self.machine.trace.note(format_args!("{key:?} {change:?}"));
        let (reply, outcome) = Reply::new();
        let CopyKey { stream, copy } = key;
        let call = MoveCopyCall { stream, copy, row, change, reply };
        if self.nodes[EDGE].users_mut().tell_streams(StreamsInput::MoveCopy(Box::new(call))) {
            self.network.moves.push(TakenMove { waiting, outcome });
        } else {
            tell(waiting, Err(not_accepting()));
        }
    }

    /// Gives a page, if there is something in it, or nobody waits for that. Whether it did.
    fn look_at_page(&mut self, index: usize) -> bool {
        let Some((stream, ask, _)) = self.network.pages.get(index) else { return false };
        let Some(context) = self.nodes[EDGE].users().context() else { return false };
        let query = ask.query();
        let read = context.streams.durable_page(&*context.kernel.store, stream, &query);
        let waits_on = read.as_ref().is_ok_and(|read| {
            // What is behind what was asked for, and has no message, a crash left out.
            let is_news = !read.page.items.is_empty() || read.page.next_after > ask.after;
            ask.waits && !is_news && read.page.is_end
        });
        self.nodes[EDGE].users_mut().was_read();
        if waits_on {
            return false;
        }
        let (_, _, waiting) = self.network.pages.swap_remove(index);
        tell(waiting, read.map(page_of_reports).map_err(CopyFailure::from));
        true
    }

    /// Whoever moves the copy is told that it is done.
    pub(super) fn take_moves(&mut self) {
        for TakenMove { waiting, mut outcome } in std::mem::take(&mut self.network.moves) {
            match outcome.try_recv() {
                Err(TryRecvError::Empty) => self.network.moves.push(TakenMove { waiting, outcome }),
                // Nobody answers: whoever waits is told so.
                Err(TryRecvError::Closed) => drop(waiting),
                Ok(progress) => {
                    self.counts.moves += u64::from(matches!(progress, Ok(CopyProgress::Moved)));
                    tell(waiting, progress);
                }
            }
        }
    }

    fn bring_answer(&mut self, index: usize) -> bool {
        if self.network.is_cut {
            return false;
        }
        let AnswerOnItsWay { waiting, answer, .. } = self.network.answers.swap_remove(index);
        if !self.is_quiet && self.machine.random.below(1_000) < self.plan.network.answer_lost {
            self.counts.answers_lost += 1;
        } else {
            tell(waiting, answer);
        }
        true
    }
}
