//! Where the effects of partitions of streams go: answers, the ends of streams that readers see,
//! files of blocks, and figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{LogLimit, PartitionId};
use records::Batch;
use store::{BlockStorages, Store};

use super::block_queue::BlockQueue;
use super::effect::StreamsEffect;
use super::holds::ReaderHolds;
use super::index_cache::IndexCache;
use super::look_ups::LookUpTurns;
use super::machine::StreamPartition;
use super::node_identity::NodeIdentity;
use super::pushes::PushedSubscriptions;
use super::running_copies::RunningCopies;
use super::storage_watch::StorageWatch;
use super::stream_metrics::StreamMetrics;
use super::tails::OpenTails;
use crate::kernel::machine::MachineContext;
use crate::metrics::BatchMetrics;

/// What partitions of streams reach outside.
#[derive(Debug)]
pub struct StreamsContext {
    pub(crate) tails: OpenTails,
    pub(crate) blocks: BlockQueue,
    /// Beside the local one.
    pub(super) storages: BlockStorages,
    pub(crate) watch: StorageWatch,
    pub(crate) counts: StreamMetrics,
    pub(crate) pushes: PushedSubscriptions,
    pub(crate) copies: RunningCopies,
    node_name: Option<Box<str>>,
    pub(super) holds: ReaderHolds,
    pub(super) indexes: IndexCache,
    /// Turns to look something up for callers that wait.
    pub(super) look_ups: LookUpTurns,
    /// Runs of appends that were begun.
    runs: AtomicU64,
    /// Lines in the log about blocks that cannot be read.
    pub(super) unreadable: LogLimit<()>,
    /// The disk with the data has hardly any room left: for partitions that are loaded.
    is_disk_nearly_full: AtomicBool,
    metrics: Arc<BatchMetrics>,
}

impl StreamsContext {
    /// With so much memory for the ends of streams and what is known of their blocks, and these
    /// storages beside the local one.
    pub(crate) fn new(memory_bytes: usize, storages: BlockStorages, metrics: Arc<BatchMetrics>) -> Self {
        Self {
            tails: OpenTails::new(memory_bytes / 4),
            blocks: BlockQueue::new(storages.iter().map(|(name, _)| name)),
            storages,
            watch: StorageWatch::default(),
            counts: StreamMetrics::default(),
            pushes: PushedSubscriptions::default(),
            copies: RunningCopies::default(),
            node_name: None,
            holds: ReaderHolds::default(),
            indexes: IndexCache::new(memory_bytes / 4),
            look_ups: LookUpTurns::default(),
            runs: AtomicU64::new(0),
            unreadable: LogLimit::default(),
            is_disk_nearly_full: AtomicBool::new(false),
            metrics,
        }
    }

    /// The same on a node of this name.
    #[must_use]
    pub fn on_node(self, node_name: Option<Box<str>>) -> Self {
        Self { node_name, ..self }
    }

    /// The name of the node, if it was given one.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.node_name.as_deref()
    }

    /// What this node is called by others.
    pub(super) fn node(&self, store: &dyn Store) -> NodeIdentity {
        NodeIdentity::new(self.node_name.as_deref(), store.lineage())
    }

    /// Notes whether the disk with the data has hardly any room left, for partitions that are
    /// loaded from now on. Whether that is news: those that run are to be told.
    pub fn disk_is_nearly_full(&self, is_nearly_full: bool) -> bool {
        self.is_disk_nearly_full.swap(is_nearly_full, Ordering::Relaxed) != is_nearly_full
    }

    /// The number of a run that begins.
    pub(super) fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether it has, as far as it was told.
    #[must_use]
    pub fn is_disk_nearly_full(&self) -> bool {
        self.is_disk_nearly_full.load(Ordering::Relaxed)
    }

    /// A machine was loaded: readers see what is durable of its streams, and figures begin anew.
    pub fn partition_loaded(&self, id: PartitionId, partition: &StreamPartition) {
        self.tails.partition_loaded(id);
        self.pushes.partition_loaded(id, partition.pushed());
        self.copies.partition_loaded(id, partition.copies());
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
            StreamsEffect::CopyPut(reply, answer) => reply.send(answer),
            StreamsEffect::CopyMoved(reply, answer) => reply.send(answer),
            StreamsEffect::Copy(partition, change) => self.copies.change(partition, change),
            StreamsEffect::Tail(partition, name, change) => self.tails.change(partition, &name, change),
            StreamsEffect::Block(work) => self.blocks.add(work),
            StreamsEffect::BlockMoved(to, bytes) => self.watch.moved(&to, bytes),
            StreamsEffect::Counted(partition, counted) => self.counts.add(partition, &counted),
        }
    }

    fn batch_made(&self, _: PartitionId, _: &Batch) -> Option<()> {
        self.metrics.batch();
        None
    }
}
