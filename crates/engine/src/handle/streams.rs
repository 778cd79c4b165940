//! Streams.

use std::time::Duration;

use super::Engine;
use crate::StreamCalls;
use crate::kernel::partition_handle::PartitionHandle;
use crate::retry_delay::delay_after;
use crate::streams::StreamsInput;

impl Engine {
    /// The calls about streams.
    #[must_use]
    pub fn streams(&self) -> StreamCalls {
        StreamCalls::new(self.clone())
    }

    /// How long to wait after failed post `n`, by the delays of `[notify]`, or as long as the
    /// receiver asks for. `chance` spreads those that fail together.
    #[must_use]
    pub fn retry_delay(&self, n: u32, patience: Option<Duration>, chance: u64) -> Duration {
        delay_after(&self.settings().retry, n, patience, chance)
    }

    pub(crate) fn stream_partitions(&self) -> &[PartitionHandle<StreamsInput>] {
        &self.shared.streams
    }
}
