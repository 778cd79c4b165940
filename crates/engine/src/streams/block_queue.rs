//! Work on files of blocks that waits, by storage. What is done in one storage is done in order, so
//! that of two files of one name the later one stays.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ::streams::BlockName;
use base::locks::locked;
use records::LOCAL_STORAGE;
use tokio::sync::Notify;

use super::block_worker::{BlockFile, BlockWork};

/// Work that waits. Of each stream in memory one block is being stored, and one moved, at most.
#[derive(Debug)]
pub(crate) struct BlockQueue {
    local: StorageQueue,
    elsewhere: BTreeMap<Box<str>, StorageQueue>,
    /// Files that were brought to another storage and whose rows are not durable.
    unsettled: Mutex<BTreeSet<BlockFile>>,
}

/// What waits for one storage.
#[derive(Debug, Default)]
struct StorageQueue {
    waiting: Mutex<VecDeque<BlockWork>>,
    added: Notify,
    /// Files may be left that no row has.
    needs_sweep: AtomicBool,
}

impl BlockQueue {
    /// For the local storage and these.
    pub(super) fn new<'a>(storages: impl Iterator<Item = &'a str>) -> Self {
        let queue = || StorageQueue { needs_sweep: AtomicBool::new(true), ..StorageQueue::default() };
        let elsewhere = storages.map(|name| (name.into(), queue())).collect();
        Self { local: StorageQueue::default(), elsewhere, unsettled: Mutex::default() }
    }

    pub(super) fn add(&self, work: BlockWork) {
        let work = match work {
            BlockWork::Moved { from, to } => {
                self.settle(&to);
                BlockWork::Delete(from)
            }
            work => work,
        };
        let queue = self.of(match &work {
            BlockWork::Store(_) | BlockWork::Sweep => LOCAL_STORAGE,
            BlockWork::Move(block) => &block.to,
            BlockWork::Delete(file) | BlockWork::Moved { from: file, .. } => &file.storage,
        });
        locked(&queue.waiting).push_back(work);
        queue.added.notify_one();
    }

    /// The next thing to be done, in any storage.
    pub(super) fn take(&self) -> Option<BlockWork> {
        let all = [&self.local].into_iter().chain(self.elsewhere.values());
        all.into_iter().find_map(StorageQueue::take)
    }

    /// The next thing to be done in a storage.
    pub(super) async fn next(&self, storage: &str) -> BlockWork {
        let queue = self.of(storage);
        loop {
            let added = queue.added.notified();
            if let Some(work) = queue.take() {
                return work;
            }
            added.await;
        }
    }

    /// A file is brought to a storage: until its row is durable it is no leftover.
    pub(super) fn begin(&self, file: &BlockFile) {
        locked(&self.unsettled).insert(file.clone());
    }

    /// The row of a file is durable, or it will have none.
    pub(super) fn settle(&self, file: &BlockFile) {
        locked(&self.unsettled).remove(file);
    }

    pub(super) fn is_unsettled(&self, file: &BlockFile) -> bool {
        locked(&self.unsettled).contains(file)
    }

    /// A block has no row any more: files of it that were brought to other storages get none.
    pub(super) fn block_gone(&self, block: BlockName) {
        let is_of_it = |file: &&BlockFile| file.block_name() == block;
        let files: Vec<_> = locked(&self.unsettled).iter().filter(is_of_it).cloned().collect();
        files.into_iter().for_each(|file| self.add(BlockWork::Delete(file)));
    }

    /// A partition was loaded. If it was before, batches were lost, and with them what they were to
    /// delete: every storage is swept.
    pub(super) fn partition_loaded(&self) {
        let mut waiting = locked(&self.local.waiting);
        if waiting.front() != Some(&BlockWork::Sweep) {
            waiting.push_front(BlockWork::Sweep);
        }
        drop(waiting);
        self.local.added.notify_one();
        self.elsewhere.values().for_each(|queue| queue.needs_sweep.store(true, Ordering::SeqCst));
    }

    /// The local storage is swept now, for all partitions that were loaded until then.
    pub(super) fn begin_sweep(&self) {
        let _done = locked(&self.local.waiting).pop_front_if(|work| *work == BlockWork::Sweep);
    }

    /// Notes whether files may be left in a storage that no row has. Whether that was noted before.
    pub(super) fn needs_sweep(&self, storage: &str, needs: bool) -> bool {
        self.of(storage).needs_sweep.swap(needs, Ordering::SeqCst)
    }

    /// What a storage that is not known should do fails: whoever has time finds that out.
    fn of(&self, storage: &str) -> &StorageQueue {
        self.elsewhere.get(storage).unwrap_or(&self.local)
    }
}

impl StorageQueue {
    fn take(&self) -> Option<BlockWork> {
        locked(&self.waiting).pop_front()
    }
}
