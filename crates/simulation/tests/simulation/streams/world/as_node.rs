//! Streams of one of several nodes: what others do with them goes around the callers of this one.

use engine::context::EngineContext;
use engine::streams::StreamsInput;

use super::{MeantInput, World, partition};
use crate::harness::track::{AnyTrack, Track};
use crate::streams::model::Model;

/// A node with streams, as other nodes know it.
pub(crate) trait StreamsNode {
    /// What the process shares, while it is up.
    fn context(&self) -> Option<&EngineContext>;

    /// Whether inputs would be taken now.
    fn takes_input(&self) -> bool;

    /// Hands an input to the streams, whose answer is somebody else's affair. Whether it was taken.
    fn tell_streams(&mut self, input: StreamsInput) -> bool;

    /// Somebody has read what is stored: it must stay from now on.
    fn was_read(&mut self);
}

impl StreamsNode for World {
    fn context(&self) -> Option<&EngineContext> {
        self.server.as_ref().map(|server| &server.context)
    }

    fn takes_input(&self) -> bool {
        self.has_room()
    }

    fn tell_streams(&mut self, input: StreamsInput) -> bool {
        self.hand_in(input, MeantInput::Told)
    }

    fn was_read(&mut self) {
        let Some(server) = self.server.as_ref() else { return };
        if let Ok(view) = server.context.kernel.store.view(partition()) {
            self.model.shown(view.head().seq);
        }
    }
}

impl World {
    pub(crate) fn model(&self) -> &Track<Model> {
        &self.model
    }

    /// What is on the disk is that of a backup.
    pub(crate) fn begin_with(&mut self, seq: u64, model: Model) {
        self.model = Track::at_batch(seq, model);
    }
}
