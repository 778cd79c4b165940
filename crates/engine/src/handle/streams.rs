//! Streams.

use super::Engine;
use crate::Streams;
use crate::kernel::partition_handle::PartitionHandle;
use crate::streams::StreamsInput;

impl Engine {
    /// The calls about streams.
    #[must_use]
    pub fn streams(&self) -> Streams {
        Streams::new(self.clone())
    }

    pub(crate) fn stream_partitions(&self) -> &[PartitionHandle<StreamsInput>] {
        &self.shared.streams
    }
}
