//! Work on files of blocks that waits, by storage. What is done in one storage is done in order, so
//! that of two files of one name the later one stays.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

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
            BlockWork::Store(_) => LOCAL_STORAGE,
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
