//! How reports cross from a way in to the partitions: in slices, with one counter for the whole slice.
//!
//! A slice is split by partition and handed over; its [`Pending`] resolves when everything in it is durable. The number of
//! slices that wait in a partition's inbox is bounded: [`Intake::submit`] waits for room, and so slows the sender.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{DeviceId, Kind, Problem, Timestamp, Value, WayIn};
use tokio::sync::Notify;

/// One message from a device, decoded and checked by its way in.
#[derive(Clone, Debug)]
pub struct Report {
    /// Who it is from.
    pub device: DeviceId,
    /// The kind that the sender claims; refused if the device is of another.
    pub kind: Option<Kind>,
    /// What it says.
    pub said: Said,
}

/// What a report says.
#[derive(Clone, Debug)]
pub enum Said {
    /// A value.
    Value {
        /// In canonical form.
        value: Value,
        /// When the device says it was so.
        ts: Option<Timestamp>,
    },
    /// Only "alive": a heartbeat.
    Alive,
    /// Something that the way in refuses. If the device is registered it is still a sign of life.
    Refused(Box<Problem>),
}

/// A report that was not accepted, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its place in the slice, from 0.
    pub index: u32,
    /// Why.
    pub problem: Problem,
}

/// What became of a slice; all that was accepted is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Reports accepted.
    pub accepted: u32,
    /// The others, in order of `index`.
    pub rejected: Vec<Rejection>,
}

/// The server does not accept anything now: it is stopping, or its store has failed. Nothing is known of what was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server is not accepting now")]
pub struct NotAccepting;

impl From<NotAccepting> for Problem {
    fn from(not: NotAccepting) -> Self {
        Self::unavailable(not.to_string())
    }
}

/// A way in's door to the partitions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Intake {
    engine: crate::Engine,
    way: WayIn,
}

impl Intake {
    pub(crate) fn new(engine: crate::Engine, way: WayIn) -> Self {
        Self { engine, way }
    }

    /// The way in.
    #[must_use]
    pub fn way(&self) -> WayIn {
        self.way
    }

    /// Hands in a slice of at most [`base::limits::SLICE_REPORTS_MAX`] reports, in order. Waits while an inbox is full. Reports of
    /// one device keep their order within a slice and from one `submit` to the next.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn submit(&self, reports: Vec<Report>) -> Result<Pending, NotAccepting> {
        self.engine.submit(self.way, reports).await
    }

    /// Tells that the way in listens from now on, or no longer. Silence counts only while it does.
    pub async fn attend(&self, attended: bool) {
        self.engine.attend(self.way, attended).await;
    }
}

/// A slice under way.
#[derive(Debug)]
pub struct Pending {
    shared: Arc<Slice>,
}

impl Pending {
    /// Waits until everything that was accepted is durable.
    ///
    /// # Errors
    /// When the server stopped accepting before that.
    pub async fn durable(self) -> Result<Outcome, NotAccepting> {
        let done = self.shared.done.notified();
        tokio::pin!(done);
        done.as_mut().enable();
        if self.shared.left.load(Ordering::Acquire) != 0 {
            done.await;
        }
        if self.shared.dropped.load(Ordering::Acquire) {
            return Err(NotAccepting);
        }
        let mut rejected =
            std::mem::take(&mut *self.shared.rejected.lock().unwrap_or_else(PoisonError::into_inner));
        rejected.sort_unstable_by_key(|rejection| rejection.index);
        let accepted = self.shared.reports - rejected.len() as u32;
        Ok(Outcome { accepted, rejected })
    }

    /// Whether [`Pending::durable`] would answer at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.left.load(Ordering::Acquire) == 0
    }
}

/// The counter that the parts of one slice share.
#[derive(Debug)]
struct Slice {
    reports: u32,
    /// Parts whose outcome is not known yet.
    left: AtomicUsize,
    /// A part was dropped without an outcome.
    dropped: AtomicBool,
    rejected: Mutex<Vec<Rejection>>,
    done: Notify,
}

/// One partition's share of a slice's completion. Dropping it unfinished tells the sender that the outcome is unknown.
#[derive(Debug)]
pub struct SlicePart {
    shared: Arc<Slice>,
    rejected: Vec<Rejection>,
    finished: bool,
}

impl SlicePart {
    /// The completion of a slice of `reports` in `parts` parts. [`Intake`] does this; the simulation drives partitions without one.
    pub fn split(reports: u32, parts: usize) -> (Pending, impl Iterator<Item = Self>) {
        let shared = Arc::new(Slice {
            reports,
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
        (Pending { shared }, parts)
    }

    pub(crate) fn reject(&mut self, index: u32, problem: Problem) {
        self.rejected.push(Rejection { index, problem });
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
            let mut all = self.shared.rejected.lock().unwrap_or_else(PoisonError::into_inner);
            all.append(&mut self.rejected);
        }
        if self.shared.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.done.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slice_is_done_when_every_part_is() {
        let (pending, parts) = SlicePart::split(10, 2);
        let mut parts: Vec<_> = parts.collect();
        let mut second = parts.pop().expect("two parts");
        second.reject(7, Problem::unreadable("x"));
        second.reject(3, Problem::unreadable("y"));
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
