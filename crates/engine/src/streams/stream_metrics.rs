//! Figures of streams.

use std::sync::Mutex;
use std::sync::atomic::AtomicI64;

use base::PartitionId;
use base::locks::locked;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::kernel::hashed::HashMap;

/// What a step did, and how a partition stands after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamsCounted {
    /// Messages that were appended.
    pub appended: u64,
    /// Bytes of these.
    pub appended_bytes: u64,
    /// Messages that were there before.
    pub duplicates: u64,
    /// Blocks that were stored.
    pub blocks_stored: u64,
    /// Blocks that could not be stored.
    pub blocks_failed: u64,
    /// Messages that went for their age, or for want of room.
    pub dropped: u64,
    /// How the partition stands.
    pub now: StreamsNow,
}

/// How a partition stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamsNow {
    /// Streams that there are.
    pub streams: usize,
    /// Streams in memory.
    pub loaded: usize,
    /// Bytes that are not durable yet.
    pub unsaved_bytes: usize,
    /// Bytes of memory of sets of external ids.
    pub external_id_bytes: usize,
}

/// The figures of streams.
#[derive(Debug, Default)]
pub(crate) struct StreamMetrics {
    appended: Counter,
    appended_bytes: Counter,
    duplicates: Counter,
    conflicts: Counter,
    blocks_stored: Counter,
    blocks_failed: Counter,
    dropped: Counter,
    streams: Gauge<i64, AtomicI64>,
    loaded: Gauge<i64, AtomicI64>,
    unsaved_bytes: Gauge<i64, AtomicI64>,
    external_id_bytes: Gauge<i64, AtomicI64>,
    partitions: Mutex<HashMap<PartitionId, StreamsNow>>,
}

impl StreamMetrics {
    pub(super) fn add(&self, partition: PartitionId, counted: &StreamsCounted) {
        self.appended.inc_by(counted.appended);
        self.appended_bytes.inc_by(counted.appended_bytes);
        self.duplicates.inc_by(counted.duplicates);
        self.blocks_stored.inc_by(counted.blocks_stored);
        self.blocks_failed.inc_by(counted.blocks_failed);
        self.dropped.inc_by(counted.dropped);
        self.stands(partition, counted.now);
    }

    /// A partition stands like this.
    pub(super) fn stands(&self, partition: PartitionId, now: StreamsNow) {
        let mut partitions = locked(&self.partitions);
        let before = partitions.insert(partition, now).unwrap_or_default();
        drop(partitions);
        let moved = |gauge: &Gauge<i64, AtomicI64>, before: usize, now: usize| {
            let whole = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
            gauge.inc_by(whole(now) - whole(before));
        };
        moved(&self.streams, before.streams, now.streams);
        moved(&self.loaded, before.loaded, now.loaded);
        moved(&self.unsaved_bytes, before.unsaved_bytes, now.unsaved_bytes);
        moved(&self.external_id_bytes, before.external_id_bytes, now.external_id_bytes);
    }

    /// How many streams there are.
    pub(super) fn streams(&self) -> usize {
        usize::try_from(self.streams.get()).unwrap_or(0)
    }

    /// Duplicates whose first messages carry something else.
    pub(super) fn conflicts(&self, count: u64) {
        self.conflicts.inc_by(count);
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("fieldpost_streams_messages_appended", "Messages appended to streams", &self.appended),
            ("fieldpost_streams_bytes_appended", "Bytes of messages appended", &self.appended_bytes),
            ("fieldpost_streams_duplicates", "Messages that a stream had before", &self.duplicates),
            ("fieldpost_streams_conflicts", "Duplicates with another payload", &self.conflicts),
            ("fieldpost_streams_blocks_stored", "Blocks written to their storage", &self.blocks_stored),
            ("fieldpost_streams_blocks_failed", "Blocks that could not be stored", &self.blocks_failed),
            ("fieldpost_streams_messages_dropped", "Messages gone for age or room", &self.dropped),
        ] {
            registry.register(name, help, counter.clone());
        }
        for (name, help, gauge) in [
            ("fieldpost_streams_present", "Streams", &self.streams),
            ("fieldpost_streams_loaded", "Streams in memory", &self.loaded),
            ("fieldpost_streams_unsaved_bytes", "Bytes of messages not durable yet", &self.unsaved_bytes),
            (
                "fieldpost_streams_external_id_bytes",
                "Bytes of memory of sets of external ids",
                &self.external_id_bytes,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
    }
}
