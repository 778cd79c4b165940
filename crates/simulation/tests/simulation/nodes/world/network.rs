//! What nodes do with the requests that come to them.

use std::sync::{Arc, OnceLock};

use base::{Incarnation, Problem, Timestamp};
use copies::{CopyBatch, CopyFailure, CopyFailureKind, PageAsk, SinkAnswer, SourcePage};
use engine::kernel::reply::Reply;
use engine::streams::input::{AppendCall, AppendOutcome};
use engine::streams::{
    CopyKey, CopyMove, OriginPage, PeerIdentity, PlaceInRun, StreamName, StreamsInput, decode_transfer,
};
use net::transfer::is_json_line;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::World;
use crate::nodes::exchange::{Ask, WaitingForEnd, not_accepting};
use crate::nodes::fault_injection::*;
use crate::nodes::network::{Answer, AnswerOnItsWay, Network, NodesWorld, TakenBatch, is_over};
use crate::streams::world::as_node::StreamsNode;

/// After so many messages of other segments a page that waits is given.
const LEFT_OUT: u64 = 10_000;
/// Requests that are on their way at most: those that nobody waits for are forgotten first.
const TRAVELLING_MAX: usize = 200;

/// Messages that a node took and has not answered.
pub(in crate::nodes) struct TakenMessages {
    messages: u64,
    taken_by: Arc<OnceLock<Incarnation>>,
    outcome: Receiver<Result<Vec<AppendOutcome>, Problem>>,
}

impl NodesWorld for World {
    type Taken = TakenMessages;

    fn network(&self) -> &Network<TakenMessages> {
        &self.network
    }

    fn network_mut(&mut self) -> &mut Network<TakenMessages> {
        &mut self.network
    }

    fn streams(&self, node: usize) -> &dyn StreamsNode {
        self.nodes[node].node.users()
    }

    fn streams_mut(&mut self, node: usize) -> &mut dyn StreamsNode {
        self.nodes[node].node.users_mut()
    }

    fn pass(&mut self, ms: i64) {
        self.nodes.iter_mut().for_each(|node| node.node.pass(ms));
    }

    fn note_move(&self, node: usize, key: &CopyKey, change: &CopyMove) {
        self.machine.trace.note(format_args!("n{node}: {key:?} {change:?}"));
    }

    fn take_batch(
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
        if !self.nodes[to].node.users_mut().tell_streams(StreamsInput::Append(Box::new(call))) {
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
        let taken = TakenMessages { messages: count, taken_by, outcome };
        self.network.batches.push(TakenBatch { from, to, deadline, waiting, taken });
    }

    /// Gives a page, if there is something in it, or nobody wants to wait longer. Whether it did.
    fn look_at_page(&mut self, index: usize) -> bool {
        let page = &self.network.pages[index];
        let Ask::Page(stream, ask, _) = &page.request.ask else { return false };
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
                return false;
            }
        }
        let page = self.network.pages.swap_remove(index);
        let (from, deadline) = (page.request.from, page.request.deadline);
        let Ask::Page(_, _, waiting) = page.request.ask else { return false };
        let read = read.map(|read| self.source_page(&read)).map_err(CopyFailure::from);
        self.counts.pages += u64::from(read.is_ok());
        self.answer((to, from, deadline), Answer::Page(waiting, read));
        true
    }

    fn bring_answer(&mut self, index: usize) -> bool {
        let on_its_way = self.network.answers.swap_remove(index);
        if !self.network.is_cut(on_its_way.from, on_its_way.to) {
            self.network.give(on_its_way.answer);
        } else if on_its_way.deadline.is_some() {
            // Without anybody who waits for it, nothing is kept.
            self.network.answers.push(on_its_way);
        }
        true
    }

    fn bring_answers(&mut self) -> bool {
        let any = !self.network.answers.is_empty();
        while !self.network.answers.is_empty() {
            self.bring_answer(0);
        }
        any
    }
}

impl World {
    /// What copies have asked for goes on its way.
    pub(super) fn take_up_requests(&mut self) {
        self.network.take_up_requests();
        while self.network.travelling.len() > TRAVELLING_MAX {
            self.network.travelling.remove(0);
        }
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

    /// The stream of a name on a node, if it is called so.
    fn stream_called(&self, node: usize, name: &StreamName, expected: &str) -> Option<Incarnation> {
        let (of, _) = self.nodes[node].present().named(name.stream())?;
        let context = self.nodes[node].context()?;
        let identity = context.streams.identity_of(&*context.kernel.store, of);
        (*identity.stream == *expected).then_some(of)
    }

    /// What nodes have answered goes on its way back.
    pub(super) fn take_answers_of_nodes(&mut self) {
        self.counts.resets += self.network.take_moves();
        for mut batch in std::mem::take(&mut self.network.batches) {
            let outcome = match batch.taken.outcome.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.network.batches.push(batch);
                    continue;
                }
                Err(TryRecvError::Closed) => Err(CopyFailure::from(not_accepting())),
                Ok(outcome) => outcome.map_err(CopyFailure::from),
            };
            if let Err(failure) = &outcome {
                self.machine.trace.note(format_args!("n{} refuses: {}", batch.to, failure.error));
            }
            let answer = outcome.and_then(|outcomes| self.sink_answer(&batch, &outcomes));
            self.network.counts.batches += u64::from(answer.is_ok());
            let TakenBatch { from, to, deadline, waiting, .. } = batch;
            self.answer((to, from, deadline), Answer::Append(waiting, answer));
        }
    }

    fn sink_answer(
        &self,
        batch: &TakenBatch<TakenMessages>,
        outcomes: &[AppendOutcome],
    ) -> Result<SinkAnswer, CopyFailure> {
        let is_new = |outcome: &&AppendOutcome| matches!(outcome, AppendOutcome::Appended(_));
        let appended = outcomes.iter().filter(is_new).count() as u64;
        let context = self.nodes[batch.to].context().ok_or_else(not_accepting)?;
        let of = batch.taken.taken_by.get().ok_or_else(not_accepting)?;
        let identity = self.called(context.streams.identity_of(&*context.kernel.store, *of));
        Ok(SinkAnswer { appended, duplicates: batch.taken.messages - appended, refused: 0, identity })
    }

    /// An answer goes from a node to another, or to itself.
    fn answer(&mut self, (from, to, deadline): (usize, usize, Option<Timestamp>), answer: Answer) {
        if from == to {
            return answer.give();
        }
        self.network.answers.push(AnswerOnItsWay { from, to, deadline, answer });
    }
}
