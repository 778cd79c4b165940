//! What copies say of their streams, and of themselves.

use base::PartitionId;
use records::{PeerNode, Stream, StreamCopy};

use super::rows::{CheckedPartition, RowCheck};
use crate::codec::key;

impl RowCheck<'_, '_> {
    /// A copy belongs to a stream that is there, and its lane goes forward.
    pub(super) fn copies(&mut self, partition: PartitionId) {
        self.indexed(partition, |check, copy: &StreamCopy| {
            let of = copy.stream;
            let stream: Option<Stream> = check.record(partition, &key::incarnation(of))?;
            match stream {
                Some(stream) if !stream.deleted => {}
                Some(_) => return Err(format!("its stream {} is deleted", of.0)),
                None => return Err(format!("there is no stream {}", of.0)),
            }
            match copy.live {
                Some(live) if live.position < live.from => Err("its live lane goes backwards".to_owned()),
                _ => Ok(()),
            }
        });
    }

    /// Nodes have names.
    pub(super) fn nodes(&mut self, within: &CheckedPartition) {
        self.indexed(within.partition, |_, node: &PeerNode| match node.name.is_empty() {
            true => Err("it has no name".to_owned()),
            false => Ok(()),
        });
    }
}
