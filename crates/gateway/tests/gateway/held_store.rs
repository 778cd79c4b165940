//! A store in memory whose commits wait until the test lets them through: so a test knows that
//! something is not durable yet. Reads of other threads can be held too.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};

use base::{Lineage, PartitionId, Timestamp};
use engine::records::Batch;
use store::{BlockStorage, CommitDone, MemoryStore, Planned, Store, StoreError, StoreMetric, View};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::PATIENCE;

pub(crate) struct HeldStore {
    inner: MemoryStore,
    gate: Mutex<Gate>,
    waiting: watch::Sender<usize>,
    reads: Mutex<Option<HeldReads>>,
    reads_go_on: Condvar,
    reads_waiting: watch::Sender<usize>,
}

#[derive(Default)]
struct Gate {
    held: bool,
    waiting: Vec<(Batch, CommitDone)>,
}

/// Which reads wait.
#[derive(Clone, Copy)]
struct HeldReads {
    partition: PartitionId,
    /// Nothing waits here: it is the thread of the test, which serves all sockets.
    except: ThreadId,
}

impl Gate {
    /// How many of those that wait write rows.
    fn of_rows(&self) -> usize {
        self.waiting.iter().filter(|(batch, _)| has_rows(batch)).count()
    }
}

fn has_rows(batch: &Batch) -> bool {
    !batch.ops.is_empty()
}

impl HeldStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(Lineage(7), 4),
            gate: Mutex::default(),
            waiting: watch::Sender::new(0),
            reads: Mutex::default(),
            reads_go_on: Condvar::new(),
            reads_waiting: watch::Sender::new(0),
        })
    }

    /// From now on reads of this partition wait, unless the thread that calls this makes them.
    pub(crate) fn hold_reads_of(&self, partition: PartitionId) {
        let held = HeldReads { partition, except: thread::current().id() };
        *self.reads.lock().expect("no panic") = Some(held);
    }

    /// Waits until a read does.
    pub(crate) async fn holds_a_read(&self) {
        let mut waiting = self.reads_waiting.subscribe();
        let one = timeout(PATIENCE, waiting.wait_for(|waiting| *waiting > 0)).await;
        one.expect("in time").expect("a sender");
    }

    /// Lets all reads go on.
    pub(crate) fn release_reads(&self) {
        *self.reads.lock().expect("no panic") = None;
        self.reads_go_on.notify_all();
    }

    fn wait_to_read(&self, partition: PartitionId) {
        let is_held = |reads: &mut Option<HeldReads>| {
            reads.is_some_and(|held| held.partition == partition && held.except != thread::current().id())
        };
        let mut reads = self.reads.lock().expect("no panic");
        if is_held(&mut reads) {
            self.reads_waiting.send_modify(|waiting| *waiting += 1);
            let (_reads, waited) =
                self.reads_go_on.wait_timeout_while(reads, PATIENCE, is_held).expect("no panic");
            assert!(!waited.timed_out(), "the test lets reads go on");
        }
    }

    /// From now on commits wait.
    pub(crate) fn hold(&self) {
        self.gate.lock().expect("no panic").held = true;
    }

    /// Waits until so many commits of rows do. An idle partition records by itself how long it has
    /// listened, and that is not what a test waits for.
    pub(crate) async fn holds(&self, commits: usize) {
        let mut waiting = self.waiting.subscribe();
        let enough = timeout(PATIENCE, waiting.wait_for(|waiting| *waiting >= commits)).await;
        enough.expect("in time").expect("a sender");
    }

    /// Lets the partition through whose rows came last; the others wait on.
    pub(crate) fn release_last(&self) {
        let released = {
            let mut gate = self.gate.lock().expect("no panic");
            let last = gate.waiting.iter().rfind(|(batch, _)| has_rows(batch)).expect("a commit waits");
            let partition = last.0.partition;
            let released: Vec<_> =
                gate.waiting.extract_if(.., |(batch, _)| batch.partition == partition).collect();
            self.waiting.send_replace(gate.of_rows());
            released
        };
        for (batch, done) in released {
            self.inner.commit(batch, done);
        }
    }

    /// Lets everything through, and commits no longer wait.
    pub(crate) fn release(&self) {
        let waiting = {
            let mut gate = self.gate.lock().expect("no panic");
            gate.held = false;
            self.waiting.send_replace(0);
            std::mem::take(&mut gate.waiting)
        };
        for (batch, done) in waiting {
            self.inner.commit(batch, done);
        }
    }

    /// The next commit of every partition fails, and the store with it.
    pub(crate) fn fail(&self) {
        for partition in 0..self.inner.partitions() {
            self.inner.plan(PartitionId(partition), Planned::Failed);
        }
    }
}

impl Store for HeldStore {
    fn lineage(&self) -> Lineage {
        self.inner.lineage()
    }

    fn partitions(&self) -> u16 {
        self.inner.partitions()
    }

    fn recorded_now(&self) -> Timestamp {
        self.inner.recorded_now()
    }

    fn commit(&self, batch: Batch, done: CommitDone) {
        let mut gate = self.gate.lock().expect("no panic");
        if gate.held {
            gate.waiting.push((batch, done));
            self.waiting.send_replace(gate.of_rows());
        } else {
            drop(gate);
            self.inner.commit(batch, done);
        }
    }

    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        self.wait_to_read(partition);
        self.inner.view(partition)
    }

    fn blocks(&self) -> Arc<dyn BlockStorage> {
        self.inner.blocks()
    }

    fn failure(&self) -> Option<Arc<StoreError>> {
        self.inner.failure()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        self.inner.metrics()
    }
}
