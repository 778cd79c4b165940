//! What subscriptions say of their streams.

use base::PartitionId;
use records::{Stream, StreamSubscription};

use super::rows::RowCheck;
use crate::codec::key;

impl RowCheck<'_, '_> {
    /// A subscription belongs to a stream that is there: it goes with it, in one batch.
    pub(super) fn subscriptions(&mut self, partition: PartitionId) {
        self.indexed(partition, |check, subscription: &StreamSubscription| {
            let of = subscription.stream;
            let stream: Option<Stream> = check.record(partition, &key::incarnation(of))?;
            match stream {
                Some(stream) if !stream.deleted => Ok(()),
                Some(_) => Err(format!("its stream {} is deleted", of.0)),
                None => Err(format!("there is no stream {}", of.0)),
            }
        });
    }
}
