//! What this node is called by others, and what its streams are.

use ::streams::own_origins::{begin_origin, own_source};
use base::{Incarnation, Lineage};
use records::{Stream, StreamOrigin, StreamTail};

/// What this node is called by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeIdentity {
    pub(super) name: Box<str>,
    lineage: Lineage,
}

impl NodeIdentity {
    /// By its name, or by the lineage of its data.
    pub(super) fn new(name: Option<&str>, lineage: Lineage) -> Self {
        let name = name.map_or_else(|| format!("{:016x}", lineage.0).into(), Box::from);
        Self { name, lineage }
    }

    /// What a stream is called, and the source of messages that were given none from now on.
    pub(super) fn source(&self, stream: Incarnation) -> Box<str> {
        own_source(&self.name, self.lineage, stream)
    }

    /// The origins of a stream of which this is durable, with that of its next message.
    pub(super) fn origins(&self, stream: &Stream, tail: &StreamTail) -> Vec<StreamOrigin> {
        let mut origins = stream.origins.clone();
        begin_origin(&mut origins, &self.source(stream.incarnation), tail.next);
        origins
    }
}
