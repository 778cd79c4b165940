//! Where the effects of partitions of streams go: answers, the ends of streams that readers see,
//! files of blocks, and figures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ::streams::FreeSpace;
use base::locks::locked;
use base::{LogLimit, PartitionId};
use records::Batch;
use store::{BlockStorages, Store};

use super::block_queue::BlockQueue;
use super::effect::StreamsEffect;
use super::growth::StreamGrowth;
use super::holds::ReaderHolds;
use super::index_cache::IndexCache;
use super::look_ups::LookUpLimiter;
use super::machine::StreamPartition;
use super::node_identity::NodeIdentity;
use super::peer_asks::PeerAsks;
use super::pushes::PushedSubscriptions;
use super::running_copies::RunningCopies;
use super::storage_watch::StorageWatch;
use super::stream_metrics::StreamMetrics;
use super::tails::OpenTails;
use crate::gathering::Gatherings;
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
    pub(super) peer_asks: PeerAsks,
    node_name: Option<Box<str>>,
    mark: Option<u64>,
    pub(super) holds: ReaderHolds,
    pub(super) indexes: IndexCache,
    /// Bounds how many callers look something up at a time.
    pub(super) look_ups: LookUpLimiter,
    /// Runs of appends that were begun.
    runs: AtomicU64,
    /// Lines in the log about blocks that cannot be read.
    pub(super) unreadable: LogLimit<()>,
    /// What the disk with the data has left: for partitions that are loaded.
    free_space: Mutex<FreeSpace>,
    pub(super) growth: StreamGrowth,
    metrics: Arc<BatchMetrics>,
}

impl StreamsContext {
    /// With so much memory for the ends of streams and what is known of their blocks, and these
    /// storages beside the local one. Whoever gathers reports is told which copies want some.
    pub(crate) fn new(
        memory_bytes: usize,
        storages: BlockStorages,
        gatherings: Arc<Gatherings>,
        metrics: Arc<BatchMetrics>,
    ) -> Self {
        Self {
            tails: OpenTails::new(memory_bytes / 4),
            blocks: BlockQueue::new(storages.iter().map(|(name, _)| name)),
            storages,
            watch: StorageWatch::default(),
            counts: StreamMetrics::default(),
            pushes: PushedSubscriptions::default(),
            copies: RunningCopies::new(gatherings),
            peer_asks: PeerAsks::default(),
            node_name: None,
            mark: None,
            holds: ReaderHolds::default(),
            indexes: IndexCache::new(memory_bytes / 4),
            look_ups: LookUpLimiter::default(),
            runs: AtomicU64::new(0),
            unreadable: LogLimit::default(),
            free_space: Mutex::default(),
            growth: StreamGrowth::default(),
            metrics,
        }
    }

    /// The same on a node of this name.
    #[must_use]
    pub fn on_node(self, node_name: Option<Box<str>>) -> Self {
        Self { node_name, ..self }
    }

    /// The same with a data directory that was given this number.
    #[must_use]
    pub fn marked(self, mark: Option<u64>) -> Self {
        Self { mark, ..self }
    }

    /// The number of the data directory, if it was given one.
    #[must_use]
    pub fn mark(&self) -> Option<u64> {
        self.mark
    }

    /// The name of the node, if it was given one.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.node_name.as_deref()
    }

    /// What this node is called by others.
    pub(super) fn node(&self, store: &dyn Store) -> NodeIdentity {
        NodeIdentity::new(self.node_name.as_deref(), store.lineage()).marked(self.mark)
    }

    /// Notes what the disk with the data has left, for partitions that are loaded from now on.
    /// Whether that is news: those that run are to be told.
    pub fn disk_has(&self, room: FreeSpace) -> bool {
        std::mem::replace(&mut *locked(&self.free_space), room) != room
    }

    /// The number of a run that begins.
    pub(super) fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// What the disk has left, as far as it was told.
    #[must_use]
    pub fn free_space(&self) -> FreeSpace {
        *locked(&self.free_space)
    }

    /// A machine was loaded: readers see what is durable of its streams, and figures begin anew.
    /// What was to be done with files may be lost.
    pub fn partition_loaded(&self, id: PartitionId, partition: &StreamPartition) {
        self.tails.partition_loaded(id);
        self.blocks.partition_loaded();
        self.pushes.partition_loaded(id, partition.pushed());
        self.copies.partition_loaded(id, partition.copies());
        self.counts.stands(id, partition.stands());
    }
}

impl MachineContext for StreamsContext {
    type Effect = StreamsEffect;
    type Update = ();

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
            StreamsEffect::Counted(partition, counted) => {
                self.growth.add(counted.appended_bytes);
                self.counts.add(partition, &counted);
            }
        }
    }

    fn batch_made(&self, _: PartitionId, _: &Batch) -> Option<()> {
        self.metrics.batch();
        None
    }
}
