//! What an answer of one crate tells the one that sends it, beside its bytes: kept with the answer,
//! and never sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the answer hands over goes back when it is not sent: it may be left out without harm.
#[derive(Clone, Copy, Debug)]
pub struct DroppableAnswer;

/// From what an answer takes memory until it is sent: the share of its caller, and what all have.
#[derive(Clone, Debug)]
pub struct TakenFrom(pub [Wanted; 2]);

impl TakenFrom {
    /// Whether others wait for it.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.iter().any(|wanted| wanted.waiting() > 0)
    }
}

/// How many wait for something.
#[derive(Clone, Debug, Default)]
pub struct Wanted(Arc<AtomicUsize>);

/// Somebody waits as long as this lives.
#[derive(Debug)]
pub struct CountedWait(Wanted);

impl Wanted {
    /// One more waits.
    #[must_use]
    pub fn wait(&self) -> CountedWait {
        self.0.fetch_add(1, Ordering::Relaxed);
        CountedWait(self.clone())
    }

    /// How many wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for CountedWait {
    fn drop(&mut self) {
        let Self(Wanted(waiting)) = self;
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
