//! What all connections together hold of what they received, in bytes, and who waits until it is
//! less.
//!
//! Each connection has limits of its own, but there are many of them. All may be behind at once:
//! the disk hangs, or far more comes than can be made durable. Then none reads on until others have
//! settled what they hold.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use base::locks::locked;
use prometheus_client::metrics::gauge::Gauge;

/// A number of bytes that many hold together.
#[derive(Debug)]
pub(super) struct ReceiveBudget {
    bytes: AtomicUsize,
    bytes_max: usize,
    gauge: Gauge,
    waiting: Mutex<Vec<Waker>>,
}

impl ReceiveBudget {
    /// Nothing yet; the gauge shows how much it is.
    pub(super) fn new(bytes_max: usize, gauge: Gauge) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max, gauge, waiting: Mutex::default() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) >= self.bytes_max
    }

    /// Ready while more may be held; otherwise wakes when it may. Who is ready may go beyond the
    /// limit by one read.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_full() {
            return Poll::Ready(());
        }
        let mut waiting = locked(&self.waiting);
        // Whoever gives back looks for waiting ones afterwards: so either it sees this one, or this
        // one sees the room. Being woken twice does no harm; being asked twice in a row is what
        // happens.
        if !waiting.last().is_some_and(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        if self.is_full() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Somebody holds `now` in place of `before`.
    pub(super) fn change(&self, before: usize, now: usize) {
        if now == before {
            return;
        }
        if now > before {
            self.bytes.fetch_add(now - before, Ordering::SeqCst);
            self.gauge.inc_by((now - before) as i64);
            return;
        }
        let was = self.bytes.fetch_sub(before - now, Ordering::SeqCst);
        self.gauge.dec_by((before - now) as i64);
        if was >= self.bytes_max && was - (before - now) < self.bytes_max {
            let all = std::mem::take(&mut *locked(&self.waiting));
            all.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn who_waits_goes_on_when_others_hold_less() {
        let held = Arc::new(ReceiveBudget::new(10, Gauge::default()));
        held.change(0, 9);
        poll_fn(|cx| held.poll_room(cx)).await;
        held.change(9, 12);
        assert!(held.is_full());
        let waiting = tokio::spawn({
            let held = Arc::clone(&held);
            async move { poll_fn(|cx| held.poll_room(cx)).await }
        });
        tokio::task::yield_now().await;
        held.change(12, 10);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        held.change(10, 9);
        waiting.await.expect("no panic");
        held.change(9, 0);
        assert_eq!(held.gauge.get(), 0);
    }
}
