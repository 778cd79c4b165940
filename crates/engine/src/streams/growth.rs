//! How much streams have grown since the disk was looked at: whoever watches it is woken before
//! what came in can have filled it.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Bytes that streams grew by.
#[derive(Debug, Default)]
pub(crate) struct StreamGrowth {
    /// Since the last look.
    grown_bytes: AtomicU64,
    /// Whoever watches is woken at so many.
    look_after_bytes: AtomicU64,
    is_due: Notify,
}

impl StreamGrowth {
    /// Messages of so many bytes were appended.
    pub(super) fn add(&self, bytes: u64) {
        let before = self.grown_bytes.fetch_add(bytes, Ordering::Relaxed);
        if bytes > 0 && before.saturating_add(bytes) >= self.look_after_bytes.load(Ordering::Relaxed) {
            self.is_due.notify_one();
        }
    }

    /// The disk is looked at: the next look is due after so many bytes.
    pub(super) fn begin_anew(&self, look_after_bytes: u64) {
        self.look_after_bytes.store(look_after_bytes, Ordering::Relaxed);
        self.grown_bytes.store(0, Ordering::Relaxed);
    }

    /// Returns when a look is due, at once if it was since the last call.
    pub(super) async fn look_is_due(&self) {
        self.is_due.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_look_is_due_once_streams_have_grown_by_so_much() {
        let growth = StreamGrowth::default();
        growth.begin_anew(100);
        growth.add(99);
        assert_eq!(growth.look_is_due().now_or_never(), None);
        growth.add(0);
        assert_eq!(growth.look_is_due().now_or_never(), None);
        growth.add(1);
        assert_eq!(growth.look_is_due().now_or_never(), Some(()));
        growth.begin_anew(100);
        growth.add(99);
        assert_eq!(growth.look_is_due().now_or_never(), None);
    }
}
