//! Which copies of kind `reports` there are, and how many accepted reports wait for their streams.
//!
//! A partition of devices writes what such a copy wants in the batch of the reports themselves
//! (`devices/partition/gathering.rs`). Whoever runs copies takes it from there, in order, appends
//! it to the stream of the copy, and says so. Until then the rows stay, so a crash at any point
//! repeats an append, whose messages are duplicates.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{Incarnation, PartitionId, Timestamp};
use fleet::Selection;
use tokio::sync::{Notify, watch};

use crate::streams::{CopyKey, StreamName};

/// Bytes of gathered reports that a partition may have waiting for their streams, about. Beyond
/// that its reports wait: more than the seconds that a busy stream takes, and small beside the
/// overlay that holds them.
pub const GATHERED_BYTES_MAX: usize = 4 << 20;

/// All copies of kind `reports`.
pub type GatheringList = Arc<[Gathering]>;

/// A copy of kind `reports`, as partitions of devices see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Names its gathered reports.
    pub gather: Incarnation,
    /// The copy.
    pub key: CopyKey,
    /// The devices that it wants; all if there is none.
    pub selection: Option<Selection>,
}

/// What partitions of devices, whoever runs copies, and the ways in share of gathering.
#[derive(Debug)]
pub(crate) struct Gatherings {
    list: watch::Sender<GatheringList>,
    partitions: Box<[GatheredInPartition]>,
    /// Reports that were gathered since the start.
    gathered: AtomicU64,
    /// Slices that had to wait because too much was gathered.
    backpressured: AtomicU64,
}

#[derive(Debug, Default)]
struct GatheredInPartition {
    bytes: AtomicUsize,
    reports: AtomicU64,
    /// What waits of each copy. Read when somebody looks at one.
    by_copy: Mutex<Box<[CopyBacklog]>>,
    /// Told when there are rows to be taken.
    more: Notify,
    /// Told when less is waiting.
    less: Notify,
}

/// What a partition has gathered and not given to streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatheredBacklog {
    /// Reports that wait.
    pub reports: u64,
    /// Their bytes, about.
    pub bytes: usize,
}

/// What a partition, or all of them, gathered for one copy and did not give to its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyBacklog {
    /// Names the gathered reports of the copy.
    pub gather: Incarnation,
    /// Reports that wait.
    pub reports: u64,
    /// When the oldest of them was received.
    pub oldest_at: Timestamp,
}

/// The same of all copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionBacklog {
    /// Together.
    pub all: GatheredBacklog,
    /// Of each copy for which something waits.
    pub by_copy: Box<[CopyBacklog]>,
}

/// Figures of gathering, of all partitions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatheringCounts {
    /// Copies of kind `reports`.
    pub copies: usize,
    /// What waits.
    pub waiting: GatheredBacklog,
    /// Reports that were gathered since the start.
    pub gathered: u64,
    /// Slices of reports that had to wait because too much was waiting.
    pub backpressured: u64,
}

impl Gatherings {
    pub(crate) fn new(partitions: u16) -> Self {
        Self {
            list: watch::Sender::new(Arc::from([])),
            partitions: (0..partitions).map(|_| GatheredInPartition::default()).collect(),
            gathered: AtomicU64::new(0),
            backpressured: AtomicU64::new(0),
        }
    }

    /// These copies are there from now on, and no others.
    pub(crate) fn set(&self, list: Vec<Gathering>) {
        self.list.send_if_modified(|known| {
            let is_other = **known != *list;
            if is_other {
                *known = list.into();
            }
            is_other
        });
    }

    /// The copies, for whoever follows them.
    pub(crate) fn follow(&self) -> watch::Receiver<GatheringList> {
        self.list.subscribe()
    }

    /// Whether the reports of some copy are gathered in this stream.
    pub(crate) fn gathers_in(&self, stream: &StreamName) -> bool {
        self.list.borrow().iter().any(|gathering| gathering.key.stream == *stream)
    }

    /// A partition has this waiting; so many reports came in addition.
    pub(crate) fn set_backlog(&self, partition: PartitionId, backlog: PartitionBacklog, added: u64) {
        let PartitionBacklog { all: backlog, by_copy } = backlog;
        let Some(of) = self.of(partition) else { return };
        self.gathered.fetch_add(added, Ordering::Relaxed);
        *locked(&of.by_copy) = by_copy;
        of.reports.store(backlog.reports, Ordering::Relaxed);
        let before = of.bytes.swap(backlog.bytes, Ordering::AcqRel);
        if backlog.reports > 0 {
            of.more.notify_one();
        }
        if backlog.bytes < before {
            of.less.notify_waiters();
        }
    }

    /// What waits for the streams of copies, by copy.
    pub(crate) fn waiting(&self) -> BTreeMap<Incarnation, CopyBacklog> {
        let mut waiting: BTreeMap<_, CopyBacklog> = BTreeMap::new();
        for of in &self.partitions {
            for backlog in &*locked(&of.by_copy) {
                let together =
                    waiting.entry(backlog.gather).or_insert(CopyBacklog { reports: 0, ..*backlog });
                together.reports += backlog.reports;
                together.oldest_at = together.oldest_at.min(backlog.oldest_at);
            }
        }
        waiting
    }

    /// Whether a partition may take no more reports now.
    pub(crate) fn is_full(&self, partition: PartitionId) -> bool {
        self.of(partition).is_some_and(|of| of.bytes.load(Ordering::Acquire) >= GATHERED_BYTES_MAX)
    }

    /// Returns when a partition may take more reports.
    pub(crate) async fn room(&self, partition: PartitionId) {
        let Some(of) = self.of(partition) else { return };
        let mut has_waited = false;
        loop {
            let less = of.less.notified();
            tokio::pin!(less);
            less.as_mut().enable();
            if of.bytes.load(Ordering::Acquire) < GATHERED_BYTES_MAX {
                return;
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.backpressured.fetch_add(1, Ordering::Relaxed);
            }
            less.await;
        }
    }

    /// Returns when a partition may have reports to be taken. For one caller a partition.
    pub(crate) async fn more(&self, partition: PartitionId) {
        if let Some(of) = self.of(partition) {
            of.more.notified().await;
        }
    }

    pub(crate) fn counts(&self) -> GatheringCounts {
        let mut waiting = GatheredBacklog::default();
        for of in &self.partitions {
            waiting.reports += of.reports.load(Ordering::Relaxed);
            waiting.bytes += of.bytes.load(Ordering::Relaxed);
        }
        GatheringCounts {
            copies: self.list.borrow().len(),
            waiting,
            gathered: self.gathered.load(Ordering::Relaxed),
            backpressured: self.backpressured.load(Ordering::Relaxed),
        }
    }

    fn of(&self, partition: PartitionId) -> Option<&GatheredInPartition> {
        self.partitions.get(usize::from(partition.0))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_waits_of_a_copy_is_that_of_all_partitions() {
        let gatherings = Gatherings::new(3);
        let of = |gather, reports, at| CopyBacklog {
            gather: Incarnation(gather),
            reports,
            oldest_at: Timestamp(at),
        };
        for (partition, by_copy) in [(0, vec![of(7, 2, 50)]), (2, vec![of(7, 3, 40), of(8, 1, 60)])] {
            let all = GatheredBacklog { reports: 1, bytes: 1 };
            let backlog = PartitionBacklog { all, by_copy: by_copy.into() };
            gatherings.set_backlog(PartitionId(partition), backlog, 0);
        }
        let waiting: Vec<_> = gatherings.waiting().into_values().collect();
        assert_eq!(waiting, [of(7, 5, 40), of(8, 1, 60)]);
    }

    #[test]
    fn reports_wait_while_too_much_is_gathered() {
        let gatherings = Gatherings::new(2);
        let set_backlog = |bytes| {
            let all = GatheredBacklog { reports: 1, bytes };
            gatherings.set_backlog(PartitionId(1), PartitionBacklog { all, by_copy: Box::default() }, 0);
        };
        let mut room = Box::pin(gatherings.room(PartitionId(1)));
        assert!((&mut room).now_or_never().is_some(), "nothing waits");
        set_backlog(GATHERED_BYTES_MAX);
        let mut room = Box::pin(gatherings.room(PartitionId(1)));
        assert!((&mut room).now_or_never().is_none());
        assert!(gatherings.room(PartitionId(0)).now_or_never().is_some(), "another partition has room");
        set_backlog(GATHERED_BYTES_MAX - 1);
        assert!((&mut room).now_or_never().is_some());
        assert_eq!(gatherings.counts().backpressured, 1);
    }
}
