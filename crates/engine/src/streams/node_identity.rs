//! What this node is called by others, and what its streams are.

use ::streams::own_origins::{begin_origin, own_source};
use base::{Incarnation, Lineage};
use records::{Stream, StreamOrigin, StreamTail};

/// What this node is called by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeIdentity {
    pub(super) name: Box<str>,
    /// What tells its streams from those of other data directories.
    drawn: Lineage,
}

impl NodeIdentity {
    /// By its name, or by the lineage of its data.
    pub(super) fn new(name: Option<&str>, lineage: Lineage) -> Self {
        let name = name.map_or_else(|| format!("{:016x}", lineage.0).into(), Box::from);
        Self { name, drawn: lineage }
    }

    /// See [`Lineage::marked`].
    pub(super) fn marked(self, mark: Option<u64>) -> Self {
        Self { drawn: self.drawn.marked(mark), ..self }
    }

    /// What a stream is called, and the source of messages that were given none from now on.
    pub(super) fn source(&self, stream: Incarnation) -> Box<str> {
        own_source(&self.name, self.drawn, stream)
    }

    /// The origins of a stream of which this is durable, with that of its next message.
    pub(super) fn origins(&self, stream: &Stream, tail: &StreamTail) -> Vec<StreamOrigin> {
        let mut origins = stream.origins.clone();
        begin_origin(&mut origins, &self.source(stream.incarnation), tail.next);
        origins
    }
}
