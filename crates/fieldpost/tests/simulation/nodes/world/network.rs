//! Requests between nodes, and what becomes of them.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{Incarnation, Problem, Timestamp};
use copies::{CopyBatch, CopyFailure, CopyFailureKind, PageAsk, SinkAnswer, SourcePage};
use engine::kernel::reply::Reply;
use engine::streams::input::{AppendCall, AppendOutcome, MoveCopyCall};
use engine::streams::{
    CopyKey, CopyMove, CopyProgress, OriginPage, PeerIdentity, PlaceInRun, StreamName, StreamsInput,
    decode_transfer,
};
use net::transfer::is_json_line;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::World;
use crate::harness::violation::Checked;
use crate::nodes::exchange::{Ask, Request, Waiting, WaitingForEnd, not_accepting};
use crate::nodes::fault_injection::*;

/// How long a page waits for its first message on another node.
const WAIT: Duration = Duration::from_secs(3);
/// After so many messages of other segments a page that waits is given.
const LEFT_OUT: u64 = 10_000;
/// Requests that are on their way at most: those that nobody waits for are forgotten first.
const TRAVELLING_MAX: usize = 200;

/// All that is on its way.
#[derive(Default)]
pub(super) struct Network {
    travelling: Vec<Request>,
    pages: Vec<WaitingPage>,
    appends: Vec<TakenAppend>,
    moves: Vec<TakenMove>,
    answers: Vec<AnswerOnItsWay>,
    pub(super) cuts: BTreeSet<(usize, usize)>,
}

/// A page that waits for a message on its node.
struct WaitingPage {
    request: Request,
    began: u64,
    after: u64,
    until: Option<Timestamp>,
}

/// Messages that a node took and has not answered.
struct TakenAppend {
    from: usize,
    to: usize,
    deadline: Option<Timestamp>,
    waiting: WaitingForEnd<SinkAnswer>,
    messages: u64,
    taken_by: Arc<OnceLock<Incarnation>>,
    outcome: Receiver<Result<Vec<AppendOutcome>, Problem>>,
}

struct TakenMove {
    waiting: Waiting<Result<CopyProgress, Problem>>,
    outcome: Receiver<Result<CopyProgress, Problem>>,
}

struct AnswerOnItsWay {
    from: usize,
    to: usize,
    deadline: Option<Timestamp>,
    answer: Answer,
}

enum Answer {
    Page(WaitingForEnd<SourcePage>, Result<SourcePage, CopyFailure>),
    Append(WaitingForEnd<SinkAnswer>, Result<SinkAnswer, CopyFailure>),
}

impl Answer {
    fn give(self) {
        let _nobody_waits = match self {
            Self::Page(waiting, page) => waiting.is_none_or(|waiting| waiting.send(page).is_err()),
            Self::Append(waiting, answer) => waiting.is_none_or(|waiting| waiting.send(answer).is_err()),
        };
    }
}

fn line(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

fn is_over(deadline: Option<Timestamp>, now: Timestamp) -> bool {
    deadline.is_some_and(|deadline| deadline <= now)
}

impl Network {
    /// A node's process has ended: its connections with it.
    pub(super) fn process_ended(&mut self, node: usize) {
        self.travelling.retain(|request| request.to != node);
        self.pages.retain(|page| page.request.to != node);
        self.answers.retain(|answer| answer.to != node);
    }

    /// When somebody waits no more.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let travelling = self.travelling.iter().filter_map(|request| request.deadline);
        let pages = self.pages.iter().flat_map(|page| [page.until, page.request.deadline]).flatten();
        let appends = self.appends.iter().filter_map(|append| append.deadline);
        let answers = self.answers.iter().filter_map(|answer| answer.deadline);
        travelling.chain(pages).chain(appends).chain(answers).min()
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&line(one, other))
    }
}

impl World {
    /// What copies have asked for goes on its way.
    pub(super) fn take_up_requests(&mut self) {
        for request in self.exchange.take() {
            self.counts.requests += u64::from(request.is_remote());
            self.network.travelling.push(request);
        }
        while self.network.travelling.len() > TRAVELLING_MAX {
            self.network.travelling.remove(0);
        }
    }

    /// Whoever waited too long waits no more.
    pub(super) fn time_out(&mut self) {
        let now = self.now();
        for request in self.network.travelling.iter_mut().filter(|request| is_over(request.deadline, now)) {
            request.give_up();
            self.counts.requests_late += 1;
        }
        self.network.travelling.retain(|request| !request.is_abandoned());
        self.network.pages.retain(|page| !page.request.is_abandoned());
        let pages = self.network.pages.iter_mut().map(|page| &mut page.request);
        pages.filter(|request| is_over(request.deadline, now)).for_each(Request::give_up);
        for append in self.network.appends.iter_mut().filter(|append| is_over(append.deadline, now)) {
            (append.deadline, append.waiting) = (None, None);
        }
        self.network.answers.retain(|answer| !is_over(answer.deadline, now));
    }

    /// A request comes to where it goes, or a page or an answer goes on. Whether there was any.
    pub(super) fn bring_any(&mut self) -> Checked<bool> {
        let network = &self.network;
        let counts = [network.travelling.len(), network.pages.len(), network.answers.len()];
        let all = counts.iter().sum::<usize>();
        if all == 0 {
            return Ok(false);
        }
        let mut index = self.machine.random.below(all as u64) as usize;
        if index < counts[0] {
            return self.bring(index);
        }
        index -= counts[0];
        if index < counts[1] {
            return self.look_at_page(index);
        }
        self.bring_answer(index - counts[1]);
        Ok(true)
    }

    /// All that can be brought at this moment. Whether there was any.
    pub(super) fn bring_all(&mut self) -> Checked<bool> {
        let mut any = false;
        for index in (0..self.network.travelling.len()).rev() {
            any |= self.bring(index)?;
        }
        for index in (0..self.network.pages.len()).rev() {
            any |= self.look_at_page(index)?;
        }
        while !self.network.answers.is_empty() {
            self.bring_answer(0);
            any = true;
        }
        Ok(any)
    }

    fn bring(&mut self, index: usize) -> Checked<bool> {
        let request = &self.network.travelling[index];
        let (from, to, is_remote) = (request.from, request.to, request.is_remote());
        if is_remote && self.network.is_cut(from, to) {
            return Ok(false);
        }
        let takes = self.nodes[to].context().is_none() || self.nodes[to].node.users().takes_input();
        if !takes && !self.is_quiet {
            // It is under load: whoever asks waits.
            return Ok(false);
        }
        let mut request = self.network.travelling.remove(index);
        if is_remote && !self.is_quiet {
            let random = &self.machine.random;
            if random.below(1_000) < self.plan.network.lost {
                self.counts.requests_lost += 1;
                return Ok(true);
            }
            if random.below(1_000) < self.plan.network.twice
                && let Some(again) = request.again()
            {
                self.counts.requests_twice += 1;
                self.network.travelling.push(again);
            }
        }
        if self.nodes[to].context().is_none() {
            self.counts.requests_failed += 1;
            request.fail(CopyFailure::new(CopyFailureKind::NotNow, "nobody listens"));
            return Ok(true);
        }
        match &mut request.ask {
            Ask::Row(key, waiting) => {
                let (key, waiting) = (key.clone(), waiting.take());
                self.give_row(to, &key, waiting);
            }
            Ask::Move(key, row, change, waiting) => {
                let (key, row, change) = (key.clone(), row.clone(), change.clone());
                let waiting = waiting.take();
                self.move_copy(to, (key, row), change, waiting);
            }
            Ask::Page(_, page, _) => {
                let after = page.after;
                let until = is_remote.then(|| self.now().after(WAIT));
                self.network.pages.push(WaitingPage { request, began: after, after, until });
                return self.look_at_page(self.network.pages.len() - 1).map(|_| true);
            }
            Ask::Append(stream, batch, waiting) => {
                let (stream, batch, waiting) = (stream.clone(), batch.clone(), waiting.take());
                self.append_batch((from, to, request.deadline), stream, &batch, waiting);
            }
        }
        Ok(true)
    }

    fn give_row(
        &mut self,
        node: usize,
        key: &CopyKey,
        waiting: Waiting<Result<records::StreamCopy, Problem>>,
    ) {
        let Some(context) = self.nodes[node].context() else { return };
        let row = context.streams.copy_row(&*context.kernel.store, key);
        self.nodes[node].node.users_mut().was_read();
        if let Some(waiting) = waiting {
            let _nobody_waits = waiting.send(row).is_err();
        }
    }

    fn move_copy(
        &mut self,
        node: usize,
        (key, row): (CopyKey, Box<records::StreamCopy>),
        change: CopyMove,
        waiting: Waiting<Result<CopyProgress, Problem>>,
    ) {
        self.machine.trace.note(format_args!("n{node}: {key:?} {change:?}"));
        let (reply, outcome) = Reply::new();
        let CopyKey { stream, copy } = key;
        let call = MoveCopyCall { stream, copy, row, change, reply };
        if self.nodes[node].node.users_mut().tell(StreamsInput::MoveCopy(Box::new(call))) {
            self.network.moves.push(TakenMove { waiting, outcome });
        } else if let Some(waiting) = waiting {
            let _nobody_waits = waiting.send(Err(not_accepting())).is_err();
        }
    }

    /// Gives a page, if there is something in it, or nobody wants to wait longer. Whether it did.
    fn look_at_page(&mut self, index: usize) -> Checked<bool> {
        let page = &self.network.pages[index];
        let Ask::Page(stream, ask, _) = &page.request.ask else { return Ok(false) };
        let (to, ask) = (page.request.to, PageAsk { after: page.after, ..ask.clone() });
        let read = self.read_page(to, stream, &ask);
        self.nodes[to].node.users_mut().was_read();
        let page = &self.network.pages[index];
        let is_over = is_over(page.until, self.now());
        if let Ok(read) = &read {
            let goes_on = read.page.items.is_empty()
                && ask.waits
                && read.page.is_end
                && read.page.next_after <= page.began.saturating_add(LEFT_OUT);
            if goes_on && !is_over {
                self.network.pages[index].after = read.page.next_after;
                return Ok(false);
            }
        }
        let page = self.network.pages.swap_remove(index);
        let (from, deadline) = (page.request.from, page.request.deadline);
        let Ask::Page(_, _, waiting) = page.request.ask else { return Ok(false) };
        let read = read.map(|read| self.source_page(&read)).map_err(CopyFailure::from);
        self.counts.pages += u64::from(read.is_ok());
        self.answer((to, from, deadline), Answer::Page(waiting, read));
        Ok(true)
    }

    fn read_page(&self, node: usize, stream: &StreamName, ask: &PageAsk) -> Result<OriginPage, Problem> {
        let context = self.nodes[node].context().ok_or_else(not_accepting)?;
        let query = ask.query();
        let store = &*context.kernel.store;
        if self.machine.injects(UNSAVED_COPIED) {
            return context.streams.origin_page(store, stream, &query);
        }
        context.streams.durable_page(store, stream, &query)
    }

    fn source_page(&self, read: &OriginPage) -> SourcePage {
        let mut page = SourcePage::of(read);
        page.identity = self.called(page.identity);
        if self.machine.injects(UNSAVED_COPIED) {
            page.newest = page.newest.max(page.next_after);
        }
        page.next_after += u64::from(self.machine.injects(POSITION_FORGOTTEN) && page.messages > 1);
        page
    }

    fn called(&self, mut identity: PeerIdentity) -> PeerIdentity {
        if self.machine.injects(RESET_NOT_NOTICED) {
            identity.stream = identity.node.clone();
        }
        identity
    }

    fn append_batch(
        &mut self,
        (from, to, deadline): (usize, usize, Option<Timestamp>),
        stream: StreamName,
        batch: &CopyBatch,
        waiting: WaitingForEnd<SinkAnswer>,
    ) {
        let mut messages = match decode_transfer(&batch.body, is_json_line) {
            Ok(messages) => messages,
            Err(problem) => {
                return self.answer((to, from, deadline), Answer::Append(waiting, Err(problem.into())));
            }
        };
        if self.machine.injects(ORIGIN_NOT_SENT) {
            let is_own = |source: &str| source.starts_with('n');
            for message in messages.iter_mut().filter(|one| one.source.as_deref().is_some_and(is_own)) {
                (message.source, message.external_id) = (None, None);
            }
        }
        let (count, taken_by) = (messages.len() as u64, Arc::new(OnceLock::new()));
        let name = stream.clone();
        let expected = batch.expected.as_deref().filter(|_| self.nodes[to].context().is_some());
        if let Some(expected) = expected.filter(|_| !self.machine.injects(RESET_NOT_NOTICED)) {
            let Some(of) = self.stream_called(to, &name, expected) else {
                let failure = CopyFailure::new(CopyFailureKind::OtherStream, "another stream is there");
                return self.answer((to, from, deadline), Answer::Append(waiting, Err(failure)));
            };
            let _first = taken_by.set(of);
        }
        self.machine.trace.note(format_args!(
            "n{to}: {count} messages of n{from} for {name}, {}-{}",
            batch.run, batch.place
        ));
        let (reply, outcome) = Reply::new();
        let call = AppendCall {
            run: Some(PlaceInRun::of_sender(batch.run, batch.place)),
            is_durable: !self.machine.injects(NOT_ASKED_DURABLE),
            taken_by: Some(Arc::clone(&taken_by)),
            ..AppendCall::new(stream, messages, reply)
        };
        if !self.nodes[to].node.users_mut().tell(StreamsInput::Append(Box::new(call))) {
            let failure = CopyFailure::from(not_accepting());
            return self.answer((to, from, deadline), Answer::Append(waiting, Err(failure)));
        }
        if self.machine.injects(ANSWERED_WHEN_TAKEN)
            && let Some((of, _)) = self.nodes[to].present().named(name.stream())
        {
            let node = crate::nodes::plan::node_name(to).into();
            let identity = PeerIdentity { node, stream: self.nodes[to].identity_of(of) };
            let answer = SinkAnswer { appended: count, duplicates: 0, refused: 0, identity };
            return self.answer((to, from, deadline), Answer::Append(waiting, Ok(answer)));
        }
        self.network.appends.push(TakenAppend {
            from,
            to,
            deadline,
            waiting,
            messages: count,
            taken_by,
            outcome,
        });
    }

    /// The stream of a name on a node, if it is called so.
    fn stream_called(&self, node: usize, name: &StreamName, expected: &str) -> Option<Incarnation> {
        let (of, _) = self.nodes[node].present().named(name.stream())?;
        let context = self.nodes[node].context()?;
        let identity = context.streams.identity_of(&*context.kernel.store, of);
        (*identity.stream == *expected).then_some(of)
    }

    /// What nodes have answered goes on its way back.
    pub(super) fn take_answers_of_nodes(&mut self) -> Checked {
        for taken in std::mem::take(&mut self.network.moves) {
            let TakenMove { waiting, mut outcome } = taken;
            match outcome.try_recv() {
                Err(TryRecvError::Empty) => self.network.moves.push(TakenMove { waiting, outcome }),
                // Nobody answers: whoever waits is told so.
                Err(TryRecvError::Closed) => drop(waiting),
                Ok(progress) => {
                    self.counts.moves += u64::from(matches!(progress, Ok(CopyProgress::Moved)));
                    self.counts.resets += u64::from(matches!(progress, Ok(CopyProgress::Reset)));
                    if let Some(waiting) = waiting {
                        let _nobody_waits = waiting.send(progress).is_err();
                    }
                }
            }
        }
        for mut taken in std::mem::take(&mut self.network.appends) {
            let outcome = match taken.outcome.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.network.appends.push(taken);
                    continue;
                }
                Err(TryRecvError::Closed) => Err(CopyFailure::from(not_accepting())),
                Ok(outcome) => outcome.map_err(CopyFailure::from),
            };
            if let Err(failure) = &outcome {
                self.machine.trace.note(format_args!("n{} refuses: {}", taken.to, failure.error));
            }
            let answer = outcome.and_then(|outcomes| self.sink_answer(&taken, &outcomes));
            self.counts.batches += u64::from(answer.is_ok());
            let TakenAppend { from, to, deadline, waiting, .. } = taken;
            self.answer((to, from, deadline), Answer::Append(waiting, answer));
        }
        Ok(())
    }

    fn sink_answer(
        &self,
        taken: &TakenAppend,
        outcomes: &[AppendOutcome],
    ) -> Result<SinkAnswer, CopyFailure> {
        let is_new = |outcome: &&AppendOutcome| matches!(outcome, AppendOutcome::Appended(_));
        let appended = outcomes.iter().filter(is_new).count() as u64;
        let context = self.nodes[taken.to].context().ok_or_else(not_accepting)?;
        let of = taken.taken_by.get().ok_or_else(not_accepting)?;
        let identity = self.called(context.streams.identity_of(&*context.kernel.store, *of));
        Ok(SinkAnswer { appended, duplicates: taken.messages - appended, refused: 0, identity })
    }

    /// An answer goes from a node to another, or to itself.
    fn answer(&mut self, (from, to, deadline): (usize, usize, Option<Timestamp>), answer: Answer) {
        if from == to {
            return answer.give();
        }
        self.network.answers.push(AnswerOnItsWay { from, to, deadline, answer });
    }

    fn bring_answer(&mut self, index: usize) {
        let AnswerOnItsWay { from, to, answer, deadline } = self.network.answers.swap_remove(index);
        if self.network.is_cut(from, to) {
            let cut = AnswerOnItsWay { from, to, answer, deadline };
            // Without anybody who waits for it, nothing is kept.
            if cut.deadline.is_some() {
                self.network.answers.push(cut);
            }
            return;
        }
        if !self.is_quiet && self.machine.random.below(1_000) < self.plan.network.answer_lost {
            self.counts.answers_lost += 1;
            return;
        }
        answer.give();
    }
}
