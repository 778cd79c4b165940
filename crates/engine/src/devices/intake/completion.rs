//! When a slice is done: one counter that its parts count down, and what is left to do for what
//! they refused.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{DeviceId, Problem};
use tokio::sync::Notify;

use super::{Intake, NotAccepting, ReceivedMessages, Rejection, SliceOutcome};

/// A slice under way.
#[derive(Debug)]
pub struct PendingSlice {
    shared: Arc<Completion>,
    /// Where refused messages go, as they were received. The simulation, which drives partitions
    /// itself, has none.
    quarantine: Option<(Intake, ReceivedMessages)>,
}

impl PendingSlice {
    /// Keeps what is refused: `refused` before the slice was split, and what its parts refuse.
    pub(crate) fn keeping(
        mut self,
        refused: Vec<Rejection>,
        intake: Intake,
        received: ReceivedMessages,
    ) -> Self {
        locked(&self.shared.rejected).extend(refused);
        self.quarantine = Some((intake, received));
        self
    }

    /// Keeps nothing of what is refused: whoever handed it in has it already.
    #[must_use]
    pub fn without_quarantine(self) -> Self {
        Self { quarantine: None, ..self }
    }

    /// Waits until everything that was accepted is durable, and everything that was refused is in
    /// the quarantine.
    ///
    /// # Errors
    /// When the server stopped accepting before that.
    pub async fn durable(self) -> Result<SliceOutcome, NotAccepting> {
        let done = self.shared.done.notified();
        tokio::pin!(done);
        done.as_mut().enable();
        if self.shared.left.load(Ordering::Acquire) != 0 {
            done.await;
        }
        if self.shared.dropped.load(Ordering::Acquire) {
            return Err(NotAccepting);
        }
        let mut rejected = std::mem::take(&mut *locked(&self.shared.rejected));
        rejected.sort_unstable_by_key(|rejection| rejection.index);
        if let Some((intake, received)) = self.quarantine {
            intake.mirror(&rejected, &received);
            if !rejected.is_empty() {
                intake.quarantine(&rejected, &received).await?;
            }
        }
        let accepted = self.shared.messages - rejected.len() as u32;
        Ok(SliceOutcome { accepted, rejected })
    }

    /// Whether [`PendingSlice::durable`] would answer at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.left.load(Ordering::Acquire) == 0
    }
}

/// The counter that the parts of one slice share.
#[derive(Debug)]
struct Completion {
    messages: u32,
    /// Parts whose outcome is not known yet.
    left: AtomicUsize,
    /// A part was dropped without an outcome.
    dropped: AtomicBool,
    rejected: Mutex<Vec<Rejection>>,
    done: Notify,
}

/// One partition's share of a slice's completion. Dropping it unfinished tells the sender that the
/// outcome is unknown.
#[derive(Debug)]
pub struct SlicePart {
    shared: Arc<Completion>,
    rejected: Vec<Rejection>,
    finished: bool,
}

impl SlicePart {
    /// The completion of a slice of `messages` in `parts` parts. [`Intake`] does this; the
    /// simulation drives partitions without one.
    pub fn split(messages: u32, parts: usize) -> (PendingSlice, impl Iterator<Item = Self>) {
        let shared = Arc::new(Completion {
            messages,
            left: AtomicUsize::new(parts),
            dropped: AtomicBool::new(false),
            rejected: Mutex::new(Vec::new()),
            done: Notify::new(),
        });
        let for_parts = Arc::clone(&shared);
        let parts = (0..parts).map(move |_| Self {
            shared: Arc::clone(&for_parts),
            rejected: Vec::new(),
            finished: false,
        });
        (PendingSlice { shared, quarantine: None }, parts)
    }

    pub(crate) fn reject(&mut self, index: u32, device: DeviceId, problem: Problem) {
        self.rejected.push(Rejection { index, device: Some(device), problem });
    }

    /// Everything accepted of this part is durable.
    pub(crate) fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for SlicePart {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.dropped.store(true, Ordering::Release);
        } else if !self.rejected.is_empty() {
            locked(&self.shared.rejected).append(&mut self.rejected);
        }
        if self.shared.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.done.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> DeviceId {
        DeviceId::new("0xA").expect("an id")
    }

    #[tokio::test]
    async fn a_slice_is_done_when_every_part_is() {
        let (pending, parts) = SlicePart::split(10, 2);
        let mut parts: Vec<_> = parts.collect();
        let mut second = parts.pop().expect("two parts");
        second.reject(7, id(), Problem::unreadable("x"));
        second.reject(3, id(), Problem::unreadable("y"));
        second.finish();
        assert!(!pending.is_ready());
        let first = parts.pop().expect("two parts");
        let waiter = tokio::spawn(pending.durable());
        first.finish();
        let outcome = waiter.await.expect("no panic").expect("finished");
        assert_eq!(outcome.accepted, 8);
        assert_eq!(outcome.rejected.iter().map(|r| r.index).collect::<Vec<_>>(), [3, 7]);
    }

    #[tokio::test]
    async fn a_dropped_part_leaves_the_outcome_unknown() {
        let (pending, mut parts) = SlicePart::split(1, 1);
        drop(parts.next());
        assert_eq!(pending.durable().await, Err(NotAccepting));
    }
}
