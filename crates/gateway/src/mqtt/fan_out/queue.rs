//! The copies that wait for one subscribed connection.
//!
//! The connection matches them against its own subscriptions, which it keeps anyway. So an idle
//! subscriber costs little more than any other connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use futures_util::task::AtomicWaker;

use crate::mqtt::labels::LabelOf;
use crate::mqtt::limits::{MIRROR_ALL_COPIES_BYTES_MAX, MIRROR_COPIES_BYTES_MAX};
use crate::mqtt::rights::Rights;

/// A report that was accepted.
#[derive(Debug)]
pub(in crate::mqtt) struct ReportCopy {
    pub(in crate::mqtt) topic: Box<str>,
    pub(in crate::mqtt) payload: Box<[u8]>,
    /// The connection that it came over; 0 if that is not told.
    pub(in crate::mqtt) source: u64,
}

impl ReportCopy {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.topic.len() + self.payload.len()
    }
}

/// A connection that watches.
pub(in crate::mqtt) struct Watcher {
    label: Option<Box<LabelOf>>,
    copies: Mutex<CopyQueue>,
    waker: AtomicWaker,
    /// It took something since it was last looked at.
    moves: AtomicBool,
    /// It is among the [`Slow`].
    listed: AtomicBool,
}

enum CopyQueue {
    /// An idle connection holds no buffer.
    Empty,
    Waiting(Box<Waiting>),
    /// Nobody takes any more.
    Closed,
}

#[derive(Default)]
struct Waiting {
    reports: VecDeque<Arc<ReportCopy>>,
    bytes: usize,
}

/// Connections for which something waits, those first that have taken nothing for longest: theirs
/// is dropped where there is no room for anything of others. For the one thread that puts.
#[derive(Default)]
pub(in crate::mqtt) struct Slow {
    connections: VecDeque<Weak<Watcher>>,
    /// Those who have taken everything are forgotten at this many.
    tidied_at: usize,
}

impl Slow {
    const FEW: usize = 64;

    fn add(&mut self, watcher: &Arc<Watcher>) {
        if watcher.listed.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.connections.len() >= self.tidied_at.max(Self::FEW) {
            self.connections.retain(|known| known.upgrade().is_some_and(|known| known.stays_listed()));
            self.tidied_at = 2 * self.connections.len();
        }
        self.connections.push_back(Arc::downgrade(watcher));
    }

    /// Drops what waits for those who take nothing until there is room for so much: how many
    /// reports.
    pub(in crate::mqtt) fn make_room(&mut self, bytes: usize, all_waiting_bytes: &AtomicUsize) -> usize {
        let mut dropped = 0;
        // Twice round: whoever took something meanwhile is passed over once.
        for _ in 0..2 * self.connections.len() {
            if all_waiting_bytes.load(Ordering::Relaxed) + bytes <= MIRROR_ALL_COPIES_BYTES_MAX {
                break;
            }
            let Some(first) = self.connections.pop_front() else { break };
            let Some(watcher) = first.upgrade() else { continue };
            if watcher.moves.swap(false, Ordering::Relaxed) {
                self.connections.push_back(first);
            } else {
                watcher.listed.store(false, Ordering::Relaxed);
                dropped += watcher.give_up(all_waiting_bytes);
            }
        }
        dropped
    }
}

impl Watcher {
    pub(in crate::mqtt) fn new(access: &Rights) -> Self {
        let label = access.label().map(Box::new);
        Self {
            label,
            copies: Mutex::new(CopyQueue::Empty),
            waker: AtomicWaker::new(),
            moves: AtomicBool::new(false),
            listed: AtomicBool::new(false),
        }
    }

    /// Who is woken when there is something.
    pub(in crate::mqtt) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(in crate::mqtt) fn label(&self) -> Option<&LabelOf> {
        self.label.as_deref()
    }

    /// Puts a report where the connection takes it: how many were dropped, this one or those of a
    /// connection that takes nothing.
    pub(in crate::mqtt) fn put(
        self: &Arc<Self>,
        shown: &Arc<ReportCopy>,
        slow: &mut Slow,
        all_waiting_bytes: &AtomicUsize,
    ) -> usize {
        let bytes = shown.bytes();
        let dropped = slow.make_room(bytes, all_waiting_bytes);
        {
            let mut copies = self.copies();
            let waiting = match &mut *copies {
                CopyQueue::Closed => return dropped,
                CopyQueue::Waiting(waiting) => waiting,
                empty @ CopyQueue::Empty => {
                    *empty = CopyQueue::Waiting(Box::default());
                    let CopyQueue::Waiting(waiting) = empty else { return dropped + 1 };
                    waiting
                }
            };
            let of_all = all_waiting_bytes.load(Ordering::Relaxed) + bytes;
            if waiting.bytes + bytes > MIRROR_COPIES_BYTES_MAX || of_all > MIRROR_ALL_COPIES_BYTES_MAX {
                if waiting.reports.is_empty() {
                    *copies = CopyQueue::Empty;
                }
                return dropped + 1;
            }
            all_waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            waiting.bytes += bytes;
            waiting.reports.push_back(Arc::clone(shown));
        }
        slow.add(self);
        self.waker.wake();
        dropped
    }

    /// Whether something waits for it; it is listed again when something does.
    fn stays_listed(&self) -> bool {
        let waits = matches!(&*self.copies(), CopyQueue::Waiting(_));
        self.listed.store(waits, Ordering::Relaxed);
        waits
    }

    /// Drops what waits: how many reports.
    fn give_up(&self, all_waiting_bytes: &AtomicUsize) -> usize {
        let mut copies = self.copies();
        let CopyQueue::Waiting(waiting) = &mut *copies else { return 0 };
        let reports = waiting.reports.len();
        all_waiting_bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
        *copies = CopyQueue::Empty;
        reports
    }

    /// The next report that waits.
    pub(in crate::mqtt) fn take(&self, all_waiting_bytes: &AtomicUsize) -> Option<Arc<ReportCopy>> {
        let mut copies = self.copies();
        let CopyQueue::Waiting(waiting) = &mut *copies else { return None };
        let shown = waiting.reports.pop_front();
        if let Some(shown) = &shown {
            self.moves.store(true, Ordering::Relaxed);
            waiting.bytes -= shown.bytes();
            all_waiting_bytes.fetch_sub(shown.bytes(), Ordering::Relaxed);
        }
        if waiting.reports.is_empty() {
            *copies = CopyQueue::Empty;
        }
        shown
    }

    /// Throws away what waits, and what comes yet.
    pub(in crate::mqtt) fn close(&self, all_waiting_bytes: &AtomicUsize) {
        if let CopyQueue::Waiting(waiting) = std::mem::replace(&mut *self.copies(), CopyQueue::Closed) {
            all_waiting_bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
        }
    }

    fn copies(&self) -> MutexGuard<'_, CopyQueue> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::KnownAs;

    fn watcher() -> Arc<Watcher> {
        Arc::new(Watcher::new(&Rights::new(Arc::new(KnownAs::anybody()))))
    }

    fn shown(bytes: usize) -> Arc<ReportCopy> {
        let payload = vec![b'1'; bytes - size_of::<ReportCopy>() - 1].into();
        Arc::new(ReportCopy { topic: "t".into(), payload, source: 0 })
    }

    #[test]
    fn what_a_slow_connection_does_not_take_is_dropped() {
        let (watcher, all, mut slow) = (watcher(), AtomicUsize::new(0), Slow::default());
        let quarter = shown(MIRROR_COPIES_BYTES_MAX / 4);
        let mut put = || watcher.put(&quarter, &mut slow, &all);
        assert_eq!([(); 6].map(|()| put()), [0, 0, 0, 0, 1, 1]);
        assert!(watcher.take(&all).is_some() && watcher.take(&all).is_some());
        assert_eq!(put(), 0);
        assert_eq!(all.load(Ordering::Relaxed), MIRROR_COPIES_BYTES_MAX / 4 * 3);
        watcher.close(&all);
        assert_eq!(put(), 0, "it is nobody's");
        assert!(watcher.take(&all).is_none());
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_all_connections_do_not_take_is_dropped() {
        let (all, mut slow) = (AtomicUsize::new(MIRROR_ALL_COPIES_BYTES_MAX - 100), Slow::default());
        let empty = watcher();
        assert_eq!(watcher().put(&shown(100), &mut slow, &all), 0);
        assert_eq!(empty.put(&shown(100), &mut slow, &all), 1);
        assert!(matches!(&*empty.copies(), CopyQueue::Empty), "it holds no buffer");
    }

    #[test]
    fn those_who_take_nothing_lose_their_copies_to_those_who_do() {
        let (all, mut slow) = (AtomicUsize::new(0), Slow::default());
        let fill = shown(MIRROR_COPIES_BYTES_MAX);
        let stuck: Vec<_> =
            (0..MIRROR_ALL_COPIES_BYTES_MAX / MIRROR_COPIES_BYTES_MAX).map(|_| watcher()).collect();
        let busy = Arc::clone(&stuck[0]);
        for watcher in &stuck {
            assert_eq!(watcher.put(&fill, &mut slow, &all), 0);
        }
        assert!(busy.take(&all).is_some());
        assert_eq!(busy.put(&fill, &mut slow, &all), 0);
        let honest = watcher();
        assert_eq!(honest.put(&shown(100), &mut slow, &all), 1, "that of the first who took nothing");
        assert!(honest.take(&all).is_some() && busy.take(&all).is_some());
        assert!(stuck[1].take(&all).is_none() && stuck[2].take(&all).is_some());
    }

    #[test]
    fn who_takes_everything_is_forgotten() {
        let (all, mut slow) = (AtomicUsize::new(0), Slow::default());
        let watchers: Vec<_> = (0..10 * Slow::FEW).map(|_| watcher()).collect();
        for watcher in watchers.iter().chain(&watchers) {
            watcher.put(&shown(100), &mut slow, &all);
            assert!(watcher.take(&all).is_some());
        }
        assert!(slow.connections.len() <= Slow::FEW);
    }
}
