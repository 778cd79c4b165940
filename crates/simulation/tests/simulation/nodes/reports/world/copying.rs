//! The copy that runs on the edge: production's runner, from the edge's stream to the reports of
//! the centre.

use std::sync::Arc;

use bytes::Bytes;
use copies::{CopyBatch, CopyFailure, PageAsk, SinkAnswer, SourcePage, StreamEnd};
use engine::streams::PeerIdentity;

use super::World;
use crate::nodes::exchange::NodeEnd;
use crate::nodes::reports::{CENTRE, EDGE, centre_identity, copy_key};
use crate::nodes::sim_node::CopyTask;
use crate::streams::world::as_node::StreamsNode;

/// The reports of the centre, as `copies::reports::PeerReports` is them, but for HTTP.
struct ReportsEnd(NodeEnd);

impl StreamEnd for ReportsEnd {
    async fn page(&self, ask: PageAsk) -> Result<SourcePage, CopyFailure> {
        let (body, next_after, identity) = (Bytes::new(), ask.after, centre_identity());
        Ok(SourcePage { body, messages: 0, oldest_at: None, next_after, newest: 0, identity })
    }

    async fn append(&self, batch: CopyBatch) -> Result<SinkAnswer, CopyFailure> {
        self.0.append(batch).await
    }

    fn is_stop_and_wait(&self) -> bool {
        true
    }

    fn known_identity(&self) -> Option<PeerIdentity> {
        Some(centre_identity())
    }
}

impl World {
    /// Begins the copy if it is to run, and ends it if not.
    pub(super) fn tend_copy(&mut self) {
        let Some(context) = self.nodes[EDGE].users().context() else { return };
        let wanted = context.streams.running_copies().first().map(|target| target.generation);
        if self.copy.as_ref().is_some_and(|copy| wanted != Some(copy.generation)) {
            self.copy = None;
        }
        if let Some(generation) = wanted.filter(|_| self.copy.is_none()) {
            self.copy = Some(self.task(generation));
        }
    }

    fn task(&self, generation: u64) -> CopyTask {
        let (exchange, clock) = (&self.network.exchange, self.nodes[EDGE].clock());
        let home = exchange.home((EDGE, copy_key()), &clock, Arc::clone(&self.status));
        let end = |to| exchange.end((EDGE, to), copy_key().stream, &clock);
        CopyTask::begin(generation, home, (end(EDGE), ReportsEnd(end(CENTRE))))
    }
}
