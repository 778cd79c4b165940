//! Metrics of log, checkpoints and tables for `/metrics`.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use base::Timestamp;

use super::EmbeddedStore;
use super::checkpoint::MergeCounters;
use crate::port::StoreMetric;

/// What was counted since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Counters {
    frames: AtomicU64,
    frame_bytes: AtomicU64,
    syncs: AtomicU64,
    synced_batches: AtomicU64,
    sync_nanos: AtomicU64,
    pub(super) paced_nanos: AtomicU64,
    /// Syncs that took no longer than the bound of [`SYNC_BOUNDS`] at the same place.
    syncs_within: [AtomicU64; SYNC_BOUNDS.len()],
    checkpoints: AtomicU64,
    checkpoint_nanos: AtomicU64,
    checkpoint_bytes: AtomicU64,
    /// The engine time of the last one; 0 before the first.
    checkpoint_at: AtomicI64,
    expired_rows: AtomicU64,
    pub(super) merging: MergeCounters,
}

/// Bounds of sync durations, each with the name of its metric.
const SYNC_BOUNDS: [(Duration, &str); 6] = [
    (Duration::from_micros(300), "fieldpost_store_syncs_within_300us_total"),
    (Duration::from_millis(1), "fieldpost_store_syncs_within_1ms_total"),
    (Duration::from_millis(3), "fieldpost_store_syncs_within_3ms_total"),
    (Duration::from_millis(10), "fieldpost_store_syncs_within_10ms_total"),
    (Duration::from_millis(100), "fieldpost_store_syncs_within_100ms_total"),
    (Duration::from_secs(1), "fieldpost_store_syncs_within_1s_total"),
];

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn frame(&self, bytes: usize) {
        add(&self.frames, 1);
        add(&self.frame_bytes, bytes as u64);
    }

    pub(super) fn sync(&self, took: Duration, batches: usize) {
        add(&self.syncs, 1);
        add(&self.synced_batches, batches as u64);
        add(&self.sync_nanos, nanos(took));
        for ((bound, _), counter) in SYNC_BOUNDS.iter().zip(&self.syncs_within) {
            add(counter, u64::from(took <= *bound));
        }
    }

    pub(super) fn paced(&self, took: Duration) {
        add(&self.paced_nanos, nanos(took));
    }

    pub(super) fn expired(&self, rows: u64) {
        add(&self.expired_rows, rows);
    }

    pub(super) fn checkpoint(&self, now: Timestamp, took: Duration, bytes: u64) {
        self.checkpoint_at.store(now.0, Ordering::Relaxed);
        add(&self.checkpoints, 1);
        add(&self.checkpoint_nanos, nanos(took));
        add(&self.checkpoint_bytes, bytes);
    }
}

pub(super) fn metrics(store: &EmbeddedStore) -> Vec<StoreMetric> {
    let within = SYNC_BOUNDS.iter().zip(&store.counters.syncs_within);
    let within = within.map(|((_, name), syncs)| {
        let value = syncs.load(Ordering::Relaxed) as f64;
        StoreMetric { name, help: "Syncs of the log that took no longer", counter: true, value }
    });
    gauges(store)
        .into_iter()
        .chain(last_checkpoint(&store.counters))
        .chain(totals(&store.counters))
        .chain(within)
        .chain(store.merge_metrics())
        .collect()
}

fn gauges(store: &EmbeddedStore) -> [StoreMetric; 6] {
    let sizes = store.partitions.iter().map(super::Partition::overlay_size);
    let (records, readings) = sizes.fold((0, 0), |all, size| (all.0 + size.0, all.1 + size.1));
    let log_bytes = store.log_bytes.load(Ordering::Relaxed);
    let table_bytes = store.tables.file_bytes().unwrap_or(0);
    let synced = store.synced.load(Ordering::Acquire);
    let unsynced = store.written.load(Ordering::Acquire).saturating_sub(synced);
    let failed = u8::from(store.health.failure().is_some());
    [
        ("fieldpost_store_failed", "1 once the store accepts nothing more", f64::from(failed)),
        ("fieldpost_store_log_bytes", "Bytes of the log that no checkpoint covers", log_bytes as f64),
        ("fieldpost_store_unsynced_batches", "Batches that the power going out would take", unsynced as f64),
        ("fieldpost_store_overlay_records", "Rows that no checkpoint wrote yet", records as f64),
        (
            "fieldpost_store_overlay_readings_bytes",
            "Memory of readings that no checkpoint wrote yet",
            readings as f64,
        ),
        ("fieldpost_store_tables_bytes", "Bytes of the file of the tables", table_bytes as f64),
    ]
    .map(|(name, help, value)| StoreMetric { name, help, counter: false, value })
}

fn last_checkpoint(counters: &Counters) -> Option<StoreMetric> {
    let at = counters.checkpoint_at.load(Ordering::Relaxed);
    let (name, help) = ("fieldpost_store_last_checkpoint_seconds", "When the last checkpoint was made");
    (at > 0).then_some(StoreMetric { name, help, counter: false, value: at as f64 / 1e3 })
}

fn totals(counters: &Counters) -> [StoreMetric; 10] {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let seconds = |counter: &AtomicU64| count(counter) / 1e9;
    [
        ("fieldpost_store_frames_total", "Batches written to the log", count(&counters.frames)),
        ("fieldpost_store_frame_bytes_total", "Bytes of these", count(&counters.frame_bytes)),
        ("fieldpost_store_syncs_total", "Syncs of the log", count(&counters.syncs)),
        (
            "fieldpost_store_synced_batches_total",
            "Batches made durable by syncs",
            count(&counters.synced_batches),
        ),
        ("fieldpost_store_sync_seconds_total", "Time that syncs took", seconds(&counters.sync_nanos)),
        (
            "fieldpost_store_paced_seconds_total",
            "Time that commits waited for checkpoints",
            seconds(&counters.paced_nanos),
        ),
        ("fieldpost_store_checkpoints_total", "Checkpoints of a partition", count(&counters.checkpoints)),
        (
            "fieldpost_store_checkpoint_seconds_total",
            "Time that checkpoints took",
            seconds(&counters.checkpoint_nanos),
        ),
        (
            "fieldpost_store_checkpoint_bytes_total",
            "Keys and values written by checkpoints",
            count(&counters.checkpoint_bytes),
        ),
        ("fieldpost_store_expired_rows_total", "Rows removed for their age", count(&counters.expired_rows)),
    ]
    .map(|(name, help, value)| StoreMetric { name, help, counter: true, value })
}
