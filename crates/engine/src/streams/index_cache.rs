//! Indexes of blocks that were read lately, in bounded memory and for a bounded time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::streams::{BlockIndex, BlockName};

use base::Incarnation;
use base::locks::locked;
use tokio::sync::Notify;

use super::handler_log::UnloadedBlocks;
use crate::kernel::hashed::HashMap;

/// Indexes of blocks, each with when it was used last.
#[derive(Debug)]
pub(super) struct IndexCache {
    bytes_max: usize,
    kept: Mutex<KeptIndexes>,
    /// Told when an index is kept.
    pub(super) added: Notify,
}

#[derive(Debug, Default)]
struct KeptIndexes {
    indexes: HashMap<BlockName, KeptIndex>,
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct KeptIndex {
    /// Which use of any was the last one.
    use_number: u64,
    used_at: Instant,
    index: Arc<BlockIndex>,
}

impl IndexCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default(), added: Notify::new() }
    }

    pub(super) fn get(&self, name: BlockName) -> Option<Arc<BlockIndex>> {
        let mut kept = locked(&self.kept);
        kept.uses += 1;
        let use_number = kept.uses;
        let found = kept.indexes.get_mut(&name)?;
        (found.use_number, found.used_at) = (use_number, Instant::now());
        Some(Arc::clone(&found.index))
    }

    /// Whether the index of a block is in memory.
    pub(super) fn has(&self, name: BlockName) -> bool {
        locked(&self.kept).indexes.contains_key(&name)
    }

    /// Keeps an index. Where there is no room, half of the others go: those used longest ago.
    pub(super) fn keep(&self, name: BlockName, index: &Arc<BlockIndex>) {
        let bytes = index.bytes();
        if bytes > self.bytes_max / 2 {
            return;
        }
        let mut kept = locked(&self.kept);
        if kept.bytes + bytes > self.bytes_max {
            let mut uses: Vec<u64> = kept.indexes.values().map(|kept| kept.use_number).collect();
            uses.sort_unstable();
            let middle = uses.get(uses.len() / 2).copied().unwrap_or(0);
            kept.indexes.retain(|_, kept| kept.use_number > middle);
            kept.bytes = kept.indexes.values().map(|kept| kept.index.bytes()).sum();
        }
        kept.uses += 1;
        let (use_number, index) = (kept.uses, Arc::clone(index));
        let new = KeptIndex { use_number, used_at: Instant::now(), index };
        if let Some(before) = kept.indexes.insert(name, new) {
            kept.bytes -= before.index.bytes();
        }
        kept.bytes += bytes;
        drop(kept);
        self.added.notify_one();
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.kept).indexes.is_empty()
    }

    /// The streams of which there are indexes.
    pub(super) fn streams(&self) -> BTreeSet<Incarnation> {
        locked(&self.kept).indexes.keys().map(|name| name.stream).collect()
    }

    /// Lets go of the indexes of streams that were not used for as long as `kept_for` says of their
    /// stream. What went of each.
    pub(super) fn unload(
        &self,
        now: Instant,
        mut kept_for: impl FnMut(Incarnation) -> Duration,
    ) -> Vec<(Incarnation, UnloadedBlocks)> {
        let mut gone: HashMap<Incarnation, UnloadedBlocks> = HashMap::default();
        let mut kept = locked(&self.kept);
        let mut freed = 0;
        kept.indexes.retain(|name, kept| {
            let stays = now.saturating_duration_since(kept.used_at) < kept_for(name.stream);
            if !stays {
                freed += kept.index.bytes();
                gone.entry(name.stream).or_default().add(kept.index.bytes() as u64);
            }
            stays
        });
        kept.bytes -= freed;
        gone.into_iter().collect()
    }
}
