//! The copies that wait for one subscribed connection.
//!
//! The connection matches them against its own subscriptions, which it keeps anyway. So an idle
//! subscriber costs little more than any other connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures_util::task::AtomicWaker;

use crate::mqtt::access::Access;
use crate::mqtt::labels::LabelOf;
use crate::mqtt::limits::{MIRROR_MAIL_BYTES_MAX, MIRROR_MAILS_BYTES_MAX};

/// A report that was accepted.
#[derive(Debug)]
pub(in crate::mqtt) struct Shown {
    pub(in crate::mqtt) topic: Box<str>,
    pub(in crate::mqtt) payload: Box<[u8]>,
    /// The connection that it came over; 0 if that is not told.
    pub(in crate::mqtt) source: u64,
}

impl Shown {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.topic.len() + self.payload.len()
    }
}

/// A connection that watches.
pub(in crate::mqtt) struct Watcher {
    label: Option<Box<LabelOf>>,
    mail: Mutex<Mail>,
    waker: AtomicWaker,
}

enum Mail {
    /// An idle connection holds no buffer.
    Empty,
    Waiting(Box<Waiting>),
    /// Nobody takes any more.
    Closed,
}

#[derive(Default)]
struct Waiting {
    reports: VecDeque<Arc<Shown>>,
    bytes: usize,
}

impl Watcher {
    pub(in crate::mqtt) fn new(access: &Access) -> Self {
        let label = access.label().map(Box::new);
        Self { label, mail: Mutex::new(Mail::Empty), waker: AtomicWaker::new() }
    }

    /// Who is woken when there is something.
    pub(in crate::mqtt) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(super) fn label(&self) -> Option<&LabelOf> {
        self.label.as_deref()
    }

    /// Puts a report where the connection takes it: whether there was room.
    pub(super) fn put(&self, shown: &Arc<Shown>, all_waiting_bytes: &AtomicUsize) -> bool {
        let bytes = shown.bytes();
        {
            let mut mail = self.mail();
            let waiting = match &mut *mail {
                Mail::Closed => return true,
                Mail::Waiting(waiting) => waiting,
                empty @ Mail::Empty => {
                    *empty = Mail::Waiting(Box::default());
                    let Mail::Waiting(waiting) = empty else { return false };
                    waiting
                }
            };
            let of_all = all_waiting_bytes.load(Ordering::Relaxed) + bytes;
            if waiting.bytes + bytes > MIRROR_MAIL_BYTES_MAX || of_all > MIRROR_MAILS_BYTES_MAX {
                return false;
            }
            all_waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            waiting.bytes += bytes;
            waiting.reports.push_back(Arc::clone(shown));
        }
        self.waker.wake();
        true
    }

    /// The next report that waits.
    pub(super) fn take(&self, all_waiting_bytes: &AtomicUsize) -> Option<Arc<Shown>> {
        let mut mail = self.mail();
        let Mail::Waiting(waiting) = &mut *mail else { return None };
        let shown = waiting.reports.pop_front();
        if let Some(shown) = &shown {
            waiting.bytes -= shown.bytes();
            all_waiting_bytes.fetch_sub(shown.bytes(), Ordering::Relaxed);
        }
        if waiting.reports.is_empty() {
            *mail = Mail::Empty;
        }
        shown
    }

    /// Throws away what waits, and what comes yet.
    pub(super) fn close(&self, all_waiting_bytes: &AtomicUsize) {
        if let Mail::Waiting(waiting) = std::mem::replace(&mut *self.mail(), Mail::Closed) {
            all_waiting_bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
        }
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::logins::KnownAs;

    fn watcher() -> Watcher {
        Watcher::new(&Access::new(Arc::new(KnownAs::anybody())))
    }

    fn shown(bytes: usize) -> Arc<Shown> {
        let payload = vec![b'1'; bytes - size_of::<Shown>() - 1].into();
        Arc::new(Shown { topic: "t".into(), payload, source: 0 })
    }

    #[test]
    fn what_a_slow_connection_does_not_take_is_dropped() {
        let (watcher, all) = (watcher(), AtomicUsize::new(0));
        let quarter = shown(MIRROR_MAIL_BYTES_MAX / 4);
        let put: Vec<_> = (0..6).map(|_| watcher.put(&quarter, &all)).collect();
        assert_eq!(put, [true, true, true, true, false, false]);
        assert!(watcher.take(&all).is_some() && watcher.take(&all).is_some());
        assert!(watcher.put(&quarter, &all));
        assert_eq!(all.load(Ordering::Relaxed), MIRROR_MAIL_BYTES_MAX / 4 * 3);
        watcher.close(&all);
        assert!(watcher.put(&quarter, &all), "it is nobody's");
        assert!(watcher.take(&all).is_none());
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_all_connections_do_not_take_is_dropped() {
        let all = AtomicUsize::new(MIRROR_MAILS_BYTES_MAX - 100);
        assert!(watcher().put(&shown(100), &all));
        assert!(!watcher().put(&shown(100), &all));
    }
}
