//! Streams of one of several nodes: what others do with them goes around the callers of this one.

use engine::context::EngineContext;
use engine::streams::StreamsInput;

use super::{MeantInput, World, partition};
use crate::harness::track::{AnyTrack, Track};
use crate::streams::model::Model;

impl World {
    /// What the process shares, while it is up.
    pub(crate) fn context(&self) -> Option<&EngineContext> {
        self.server.as_ref().map(|server| &server.context)
    }

    /// Whether an input would be taken now.
    pub(crate) fn takes_input(&self) -> bool {
        self.has_room()
    }

    /// Hands in an input whose answer is somebody else's affair. Whether it was taken.
    pub(crate) fn tell(&mut self, input: StreamsInput) -> bool {
        self.hand_in(input, MeantInput::Told)
    }

    pub(crate) fn model(&self) -> &Track<Model> {
        &self.model
    }

    /// What is on the disk is that of a backup.
    pub(crate) fn begin_with(&mut self, seq: u64, model: Model) {
        self.model = Track::at_batch(seq, model);
    }

    /// Somebody has read what is stored: it must stay from now on.
    pub(crate) fn was_read(&mut self) {
        let Some(server) = self.server.as_ref() else { return };
        if let Ok(view) = server.context.kernel.store.view(partition()) {
            self.model.shown(view.head().seq);
        }
    }
}
