//! How storages stand: which of them can be used, and how many blocks lie in each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::PartitionId;
use base::locks::locked;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use records::LOCAL_STORAGE;
use store::{BlockStorage, Store, StoreError};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::block_sweep::sweep_storage;
use super::context::StreamsContext;
use crate::kernel::context::KernelContext;

/// How often the blocks of all streams are counted.
const COUNTED_EVERY: Duration = Duration::from_secs(60);

/// A storage in figures.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StorageLabel {
    storage: String,
}

/// How storages stand.
#[derive(Debug, Default)]
pub(crate) struct StorageWatch {
    /// Why a storage cannot be used, as it was last looked at.
    away: Mutex<BTreeMap<Box<str>, Box<str>>>,
    /// Storages that blocks lie in and that are not among the settings.
    unknown: Mutex<BTreeMap<Box<str>, u64>>,
    reachable: Family<StorageLabel, Gauge<i64, AtomicI64>>,
    blocks: Family<StorageLabel, Gauge<i64, AtomicI64>>,
    bytes: Family<StorageLabel, Gauge<i64, AtomicI64>>,
    moved: Family<StorageLabel, Counter<u64, AtomicU64>>,
    moved_bytes: Family<StorageLabel, Counter<u64, AtomicU64>>,
    failed: Family<StorageLabel, Counter<u64, AtomicU64>>,
}

impl StorageWatch {
    /// Storages that cannot be used, and why; those with blocks that are not among the settings
    /// too.
    pub(super) fn all_away(&self) -> Vec<(Box<str>, Box<str>)> {
        let unknown = locked(&self.unknown);
        let unknown = unknown.iter().map(|(name, blocks)| {
            let why = format!("{blocks} blocks lie there, and it is not among the settings");
            (name.clone(), why.into_boxed_str())
        });
        let away: Vec<_> = locked(&self.away).iter().map(|(name, why)| (name.clone(), why.clone())).collect();
        away.into_iter().chain(unknown).collect()
    }

    /// A block went to a storage, or could not.
    pub(super) fn moved(&self, to: &str, bytes: Option<u64>) {
        let label = label(to);
        match bytes {
            Some(bytes) => {
                self.moved.get_or_create(&label).inc();
                self.moved_bytes.get_or_create(&label).inc_by(bytes);
            }
            None => drop(self.failed.get_or_create(&label).inc()),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Whether a storage of blocks can be used: 1, else 0";
        registry.register("fieldpost_streams_storage_reachable", help, self.reachable.clone());
        let help = "Stored blocks of all streams";
        registry.register("fieldpost_streams_storage_blocks", help, self.blocks.clone());
        registry.register("fieldpost_streams_storage_bytes", "Bytes of stored blocks", self.bytes.clone());
        let help = "Blocks that went to the storage";
        registry.register("fieldpost_streams_blocks_moved", help, self.moved.clone());
        let help = "Bytes of blocks that went to the storage";
        registry.register("fieldpost_streams_bytes_moved", help, self.moved_bytes.clone());
        let help = "Tries that brought no block to the storage";
        registry.register("fieldpost_streams_moves_failed", help, self.failed.clone());
    }

    /// A storage was looked at. Whether that is news.
    fn found(&self, storage: &str, problem: Option<&str>) {
        self.reachable.get_or_create(&label(storage)).set(i64::from(problem.is_none()));
        let mut away = locked(&self.away);
        let before = match problem {
            Some(problem) => away.insert(storage.into(), problem.into()),
            None => away.remove(storage),
        };
        drop(away);
        match (before, problem) {
            (None, Some(problem)) => warn!(storage, problem, "a storage of blocks cannot be used"),
            (Some(_), None) => info!(storage, "a storage of blocks can be used again"),
            _ => {}
        }
    }
}

fn label(storage: &str) -> StorageLabel {
    StorageLabel { storage: storage.to_owned() }
}

/// Counts the blocks of all streams by storage, now and then.
pub(crate) async fn count_blocks(kernel: Arc<KernelContext>, context: Arc<StreamsContext>) {
    loop {
        let (store, counting) = (Arc::clone(&kernel), Arc::clone(&context));
        match spawn_blocking(move || counting.count_blocks(&*store.store)).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) => warn!(%error, "blocks are not counted"),
        }
        sleep(COUNTED_EVERY).await;
    }
}

impl StreamsContext {
    /// The storage of a name, if it is among the settings.
    pub(super) fn storage(&self, store: &dyn Store, name: &str) -> Option<Arc<dyn BlockStorage>> {
        if name == LOCAL_STORAGE {
            return Some(store.blocks());
        }
        self.storages.get(name).cloned()
    }

    /// Whether there is a storage of that name.
    #[must_use]
    pub fn knows_storage(&self, name: &str) -> bool {
        name == LOCAL_STORAGE || self.storages.get(name).is_some()
    }

    /// Looks whether a storage can be used, and deletes what no row has there, if that was not done
    /// since it came back. Whether it can be used.
    pub fn look_at_storage(&self, store: &dyn Store, name: &str) -> bool {
        let Some(storage) = self.storages.get(name) else { return false };
        let mut result = storage.probe().map_err(|error| error.to_string());
        if result.is_ok() && self.blocks.needs_sweep(name, false) {
            result = sweep_storage(store, self, name).map_err(|error| error.to_string());
            if result.is_err() {
                self.blocks.needs_sweep(name, true);
            }
        }
        self.watch.found(name, result.as_ref().err().map(|text| &**text));
        result.is_ok()
    }

    /// Counts the blocks of all streams by storage.
    ///
    /// # Errors
    /// When the rows cannot be read.
    pub(crate) fn count_blocks(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut all: BTreeMap<Box<str>, (u64, u64)> = BTreeMap::new();
        all.extend(self.storages.iter().map(|(name, _)| (Box::from(name), (0, 0))));
        for index in 0..store.partitions() {
            let view = store.view(PartitionId::of_streams(index))?;
            view.each_stream_tail(&mut |tail| {
                for (name, blocks, bytes) in ::streams::tail::by_storage(&tail) {
                    let of_storage = all.entry(name).or_default();
                    *of_storage = (of_storage.0 + blocks, of_storage.1 + bytes);
                }
            })?;
        }
        let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut unknown = locked(&self.watch.unknown);
        unknown.retain(|name, _| all.get(name).is_some_and(|(blocks, _)| *blocks > 0));
        for (name, (blocks, bytes)) in &all {
            self.watch.blocks.get_or_create(&label(name)).set(whole(*blocks));
            self.watch.bytes.get_or_create(&label(name)).set(whole(*bytes));
            if !self.knows_storage(name) && unknown.insert(name.clone(), *blocks).is_none() {
                self.watch.reachable.get_or_create(&label(name)).set(0);
                error!(
                    storage = &**name,
                    blocks, "blocks lie in a storage that is not among the settings: they cannot be read"
                );
            }
        }
        Ok(())
    }
}
