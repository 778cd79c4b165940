//! What the edge and the centre do with the requests of the copy.

use base::Timestamp;
use copies::reports::page_of_reports;
use copies::{CopyBatch, CopyFailure, SinkAnswer};
use engine::PendingSlice;
use engine::streams::{CopyKey, CopyMove, StreamName};

use super::World;
use super::centre::lines_of;
use crate::nodes::exchange::{Ask, Request, WaitingForEnd, tell};
use crate::nodes::network::{Network, NodesWorld};
use crate::nodes::reports::{CENTRE, EDGE};
use crate::streams::world::as_node::StreamsNode;

impl NodesWorld for World {
    type Taken = Option<PendingSlice>;

    fn network(&self) -> &Network<Option<PendingSlice>> {
        &self.network
    }

    fn network_mut(&mut self) -> &mut Network<Option<PendingSlice>> {
        &mut self.network
    }

    fn streams(&self, node: usize) -> &dyn StreamsNode {
        self.nodes[node].users()
    }

    fn streams_mut(&mut self, node: usize) -> &mut dyn StreamsNode {
        self.nodes[node].users_mut()
    }

    fn pass(&mut self, ms: i64) {
        self.nodes.iter_mut().for_each(|node| node.pass(ms));
    }

    fn note_move(&self, _: usize, key: &CopyKey, change: &CopyMove) {
        self.machine.trace.note(format_args!("{key:?} {change:?}"));
    }

    fn take_batch(
        &mut self,
        (_, _, deadline): (usize, usize, Option<Timestamp>),
        _: StreamName,
        batch: &CopyBatch,
        waiting: WaitingForEnd<SinkAnswer>,
    ) {
        self.take_call(batch, deadline, waiting);
    }

    /// Some of its lines may come before it breaks off.
    fn break_off(&mut self, request: &Request) {
        let random = &self.machine.random;
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
    }

    /// Gives a page, if there is something in it, or nobody waits for that. Whether it did.
    fn look_at_page(&mut self, index: usize) -> bool {
        let Some(page) = self.network.pages.get(index) else { return false };
        let Ask::Page(stream, ask, _) = &page.request.ask else { return false };
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
        let page = self.network.pages.swap_remove(index);
        if let Ask::Page(_, _, waiting) = page.request.ask {
            tell(waiting, read.map(page_of_reports).map_err(CopyFailure::from));
        }
        true
    }

    fn bring_answer(&mut self, index: usize) -> bool {
        if self.network.is_cut(EDGE, CENTRE) {
            return false;
        }
        let on_its_way = self.network.answers.swap_remove(index);
        self.network.give(on_its_way.answer);
        true
    }

    fn bring_answers(&mut self) -> bool {
        let mut any = false;
        for index in (0..self.network.answers.len()).rev() {
            any |= self.bring_answer(index);
        }
        any
    }
}
