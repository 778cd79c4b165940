//! Indexes of blocks that were read lately, in bounded memory.

use std::sync::{Arc, Mutex, PoisonError};

use ::streams::{BlockIndex, BlockName};

use crate::kernel::hashed::HashMap;

/// Indexes of blocks, each with when it was used last.
#[derive(Debug)]
pub(super) struct IndexCache {
    bytes_max: usize,
    kept: Mutex<KeptIndexes>,
}

#[derive(Debug, Default)]
struct KeptIndexes {
    indexes: HashMap<BlockName, (u64, Arc<BlockIndex>)>,
    bytes: usize,
    uses: u64,
}

impl IndexCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    pub(super) fn get(&self, name: BlockName) -> Option<Arc<BlockIndex>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let uses = kept.uses;
        let (used, index) = kept.indexes.get_mut(&name)?;
        *used = uses;
        Some(Arc::clone(index))
    }

    /// Whether the index of a block is in memory.
    pub(super) fn has(&self, name: BlockName) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).indexes.contains_key(&name)
    }

    /// Keeps an index. Where there is no room, half of the others go: those used longest ago.
    pub(super) fn keep(&self, name: BlockName, index: &Arc<BlockIndex>) {
        let bytes = index.bytes();
        if bytes > self.bytes_max / 2 {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + bytes > self.bytes_max {
            let mut uses: Vec<u64> = kept.indexes.values().map(|(used, _)| *used).collect();
            uses.sort_unstable();
            let middle = uses.get(uses.len() / 2).copied().unwrap_or(0);
            kept.indexes.retain(|_, (used, _)| *used > middle);
            kept.bytes = kept.indexes.values().map(|(_, index)| index.bytes()).sum();
        }
        kept.uses += 1;
        let uses = kept.uses;
        if let Some((_, before)) = kept.indexes.insert(name, (uses, Arc::clone(index))) {
            kept.bytes -= before.bytes();
        }
        kept.bytes += bytes;
    }
}
