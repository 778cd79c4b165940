//! What waits for one subscribed connection: copies of reports, or commands.
//!
//! The connection matches it against its own subscriptions, which it keeps anyway. So an idle
//! subscriber costs little more than any other connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use base::locks::locked;
use futures_util::task::AtomicWaker;

use crate::mqtt::labels::LabelOf;
use crate::mqtt::rights::Rights;

/// Something that waits for connections.
pub(in crate::mqtt) trait Queued {
    /// Most of it that waits for one connection, in bytes. Beyond it, one is dropped.
    const CONNECTION_BYTES_MAX: usize;
    /// Most of it that waits for all of them, in bytes.
    const ALL_BYTES_MAX: usize;

    /// What it takes in memory.
    fn bytes(&self) -> usize;
}

/// A connection that watches.
pub(in crate::mqtt) struct Watcher<T> {
    label: Option<Box<LabelOf>>,
    queue: Mutex<ItemQueue<T>>,
    waker: AtomicWaker,
    /// It took something since it was last looked at.
    moves: AtomicBool,
    /// It is among the [`Slow`].
    listed: AtomicBool,
}

enum ItemQueue<T> {
    /// An idle connection holds no buffer.
    Empty,
    Waiting(Box<WaitingItems<T>>),
    /// Nobody takes any more.
    Closed,
}

struct WaitingItems<T> {
    items: VecDeque<Arc<T>>,
    bytes: usize,
}

/// Connections for which something waits, those first that have taken nothing for longest: theirs
/// is dropped where there is no room for anything of others. For whoever puts, one at a time.
pub(in crate::mqtt) struct Slow<T> {
    connections: VecDeque<Weak<Watcher<T>>>,
    /// Those who have taken everything are forgotten at this many.
    tidied_at: usize,
}

impl<T> Default for Slow<T> {
    fn default() -> Self {
        Self { connections: VecDeque::new(), tidied_at: 0 }
    }
}

impl<T: Queued> Slow<T> {
    const FEW: usize = 64;

    fn add(&mut self, watcher: &Arc<Watcher<T>>) {
        if watcher.listed.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.connections.len() >= self.tidied_at.max(Self::FEW) {
            self.connections.retain(|known| known.upgrade().is_some_and(|known| known.stays_listed()));
            self.tidied_at = 2 * self.connections.len();
        }
        self.connections.push_back(Arc::downgrade(watcher));
    }

    /// Drops what waits for those who take nothing until there is room for so much: how many items.
    pub(in crate::mqtt) fn make_room(&mut self, bytes: usize, all_waiting_bytes: &AtomicUsize) -> usize {
        let mut dropped = 0;
        // Twice round: whoever took something meanwhile is passed over once.
        for _ in 0..2 * self.connections.len() {
            if all_waiting_bytes.load(Ordering::Relaxed) + bytes <= T::ALL_BYTES_MAX {
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

impl<T: Queued> Watcher<T> {
    pub(in crate::mqtt) fn new(access: &Rights) -> Self {
        let label = access.label().map(Box::new);
        Self {
            label,
            queue: Mutex::new(ItemQueue::Empty),
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

    /// Puts an item where the connection takes it: how many were dropped, this one or those of a
    /// connection that takes nothing.
    pub(in crate::mqtt) fn put(
        self: &Arc<Self>,
        item: &Arc<T>,
        slow: &mut Slow<T>,
        all_waiting_bytes: &AtomicUsize,
    ) -> usize {
        let bytes = item.bytes();
        let dropped = slow.make_room(bytes, all_waiting_bytes);
        {
            let mut queue = locked(&self.queue);
            let waiting = match &mut *queue {
                ItemQueue::Closed => return dropped,
                ItemQueue::Waiting(waiting) => waiting,
                empty @ ItemQueue::Empty => {
                    *empty = ItemQueue::Waiting(Box::new(WaitingItems { items: VecDeque::new(), bytes: 0 }));
                    let ItemQueue::Waiting(waiting) = empty else { return dropped + 1 };
                    waiting
                }
            };
            let of_all = all_waiting_bytes.load(Ordering::Relaxed) + bytes;
            if waiting.bytes + bytes > T::CONNECTION_BYTES_MAX || of_all > T::ALL_BYTES_MAX {
                if waiting.items.is_empty() {
                    *queue = ItemQueue::Empty;
                }
                return dropped + 1;
            }
            all_waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            waiting.bytes += bytes;
            waiting.items.push_back(Arc::clone(item));
        }
        slow.add(self);
        self.waker.wake();
        dropped
    }

    /// Whether something waits for it; it is listed again when something does.
    fn stays_listed(&self) -> bool {
        let waits = matches!(&*locked(&self.queue), ItemQueue::Waiting(_));
        self.listed.store(waits, Ordering::Relaxed);
        waits
    }

    /// Drops what waits: how many items.
    fn give_up(&self, all_waiting_bytes: &AtomicUsize) -> usize {
        let mut queue = locked(&self.queue);
        let ItemQueue::Waiting(waiting) = &mut *queue else { return 0 };
        let items = waiting.items.len();
        all_waiting_bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
        *queue = ItemQueue::Empty;
        items
    }

    /// The next item that waits.
    pub(in crate::mqtt) fn take(&self, all_waiting_bytes: &AtomicUsize) -> Option<Arc<T>> {
        let item = self.take_counted()?;
        all_waiting_bytes.fetch_sub(item.bytes(), Ordering::Relaxed);
        Some(item)
    }

    /// The next item that waits. Its bytes still count among those of all connections.
    pub(in crate::mqtt) fn take_counted(&self) -> Option<Arc<T>> {
        let mut queue = locked(&self.queue);
        let ItemQueue::Waiting(waiting) = &mut *queue else { return None };
        let item = waiting.items.pop_front();
        if let Some(item) = &item {
            self.moves.store(true, Ordering::Relaxed);
            waiting.bytes -= item.bytes();
        }
        if waiting.items.is_empty() {
            *queue = ItemQueue::Empty;
        }
        item
    }

    /// Throws away what waits, and what comes yet.
    pub(in crate::mqtt) fn close(&self, all_waiting_bytes: &AtomicUsize) {
        if let ItemQueue::Waiting(waiting) = std::mem::replace(&mut *locked(&self.queue), ItemQueue::Closed) {
            all_waiting_bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::limits::{MIRROR_ALL_COPIES_BYTES_MAX, MIRROR_COPIES_BYTES_MAX};
    use crate::mqtt::mirror::ReportCopy;
    use access::Principal;

    fn watcher() -> Arc<Watcher<ReportCopy>> {
        Arc::new(Watcher::new(&Rights::new(Arc::new(Principal::anybody()))))
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
        assert!(matches!(&*locked(&empty.queue), ItemQueue::Empty), "it holds no buffer");
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
        const FEW: usize = Slow::<ReportCopy>::FEW;
        let (all, mut slow) = (AtomicUsize::new(0), Slow::default());
        let watchers: Vec<_> = (0..10 * FEW).map(|_| watcher()).collect();
        for watcher in watchers.iter().chain(&watchers) {
            watcher.put(&shown(100), &mut slow, &all);
            assert!(watcher.take(&all).is_some());
        }
        assert!(slow.connections.len() <= FEW);
    }
}
