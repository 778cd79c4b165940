//! Where the effects of partitions of streams go: answers, the ends of streams that readers see,
//! files of blocks, and figures.

use std::sync::Arc;

use base::{LogLimit, PartitionId};
use records::Batch;
use tokio::sync::Semaphore;

use super::block_worker::BlockQueue;
use super::effect::StreamsEffect;
use super::holds::ReaderHolds;
use super::index_cache::IndexCache;
use super::machine::StreamPartition;
use super::pushes::PushedSubscriptions;
use super::stream_metrics::StreamMetrics;
use super::tails::OpenTails;
use crate::kernel::machine::MachineContext;
use crate::metrics::BatchMetrics;

/// Look-ups of first messages, for callers that appended duplicates, at a time.
const LOOK_UPS_AT_ONCE: usize = 4;

/// What partitions of streams reach outside.
#[derive(Debug)]
pub struct StreamsContext {
    pub(crate) tails: OpenTails,
    pub(crate) blocks: BlockQueue,
    pub(crate) counts: StreamMetrics,
    pub(crate) pushes: PushedSubscriptions,
    pub(super) holds: ReaderHolds,
    pub(super) indexes: IndexCache,
    /// Turns to look up first messages.
    pub(super) look_ups: Semaphore,
    /// Lines in the log about blocks that cannot be read.
    pub(super) unreadable: LogLimit<()>,
    metrics: Arc<BatchMetrics>,
}

impl StreamsContext {
    /// With so much memory for the ends of streams and what is known of their blocks.
    pub(crate) fn new(memory_bytes: usize, metrics: Arc<BatchMetrics>) -> Self {
        Self {
            tails: OpenTails::new(memory_bytes / 4),
            blocks: BlockQueue::default(),
            counts: StreamMetrics::default(),
            pushes: PushedSubscriptions::default(),
            holds: ReaderHolds::default(),
            indexes: IndexCache::new(memory_bytes / 4),
            look_ups: Semaphore::new(LOOK_UPS_AT_ONCE),
            unreadable: LogLimit::default(),
            metrics,
        }
    }

    /// A machine was loaded: readers see what is durable of its streams, and figures begin anew.
    pub fn partition_loaded(&self, id: PartitionId, partition: &StreamPartition) {
        self.tails.partition_loaded(id);
        self.pushes.partition_loaded(id, partition.pushed());
        self.counts.stands(id, partition.stands());
    }
}

impl MachineContext for StreamsContext {
    type Effect = StreamsEffect;
    type News = ();

    fn release(&self, effect: StreamsEffect) {
        match effect {
            StreamsEffect::Appended(reply, answer) => reply.send(answer),
            StreamsEffect::Done(reply, answer) => reply.send(answer),
            StreamsEffect::SubscriptionPut(reply, answer) => reply.send(answer),
            StreamsEffect::Pushed(partition, change) => self.pushes.change(partition, change),
            StreamsEffect::Tail(partition, name, change) => self.tails.change(partition, &name, change),
            StreamsEffect::Block(work) => self.blocks.add(work),
            StreamsEffect::Counted(partition, counted) => self.counts.add(partition, &counted),
        }
    }

    fn batch_made(&self, _: PartitionId, _: &Batch) -> Option<()> {
        self.metrics.batch();
        None
    }
}
