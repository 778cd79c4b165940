//! Copies of streams, and the nodes that they go to or come from.

use base::Incarnation;
use records::{PeerNode, StreamCopy};

use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};

impl dyn View + '_ {
    /// A copy.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn stream_copy(&self, stream: Incarnation, name: &str) -> Result<Option<StreamCopy>, StoreError> {
        self.record(&key::subscription(stream, name))
    }

    /// The copies of a stream behind the one of that name, in order of name.
    pub fn copies_of(
        &self,
        stream: Incarnation,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StreamCopy>, StoreError> {
        let after = after.map(|name| key::subscription(stream, name));
        let range = KeyRange::of(&key::incarnation(stream)).after(after);
        if limit == 0 || range.is_empty() {
            return Ok(Vec::new());
        }
        self.records(range, true)?.take(limit).collect()
    }

    /// Copies of any stream, in order of stream and name.
    pub fn stream_copies(&self, limit: usize) -> Result<Vec<StreamCopy>, StoreError> {
        self.records(KeyRange::all(), true)?.take(limit).collect()
    }

    /// Nodes in order of name; registry partition only.
    pub fn peer_nodes(&self, limit: usize) -> Result<Vec<PeerNode>, StoreError> {
        self.records(KeyRange::all(), true)?.take(limit).collect()
    }
}
