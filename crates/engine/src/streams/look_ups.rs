//! Bounds how many waiting callers look something up in the store at a time: few of all, and of the
//! streams of one namespace fewer. So whoever repeats much keeps only its own waiting.

use base::hash;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::StreamName;

/// Look-ups at a time.
const AT_ONCE: usize = 4;
/// Of namespaces that share a place.
const AT_ONCE_OF_PLACE: usize = 2;
/// Places among which namespaces are spread.
const PLACES: usize = 64;

/// Permits to look something up, of all callers and of those that share a place.
#[derive(Debug)]
pub(super) struct LookUpLimiter {
    all: Semaphore,
    places: [Semaphore; PLACES],
}

/// A look-up that may go on, until it is dropped.
#[derive(Debug)]
pub(super) struct LookUpPermit<'a> {
    _permits: [Option<SemaphorePermit<'a>>; 2],
}

impl Default for LookUpLimiter {
    fn default() -> Self {
        let places = std::array::from_fn(|_| Semaphore::new(AT_ONCE_OF_PLACE));
        Self { all: Semaphore::new(AT_ONCE), places }
    }
}

impl LookUpLimiter {
    /// Waits until a stream may be looked up. While a caller waits for its namespace, it holds none
    /// of the permits that all share.
    pub(super) async fn acquire(&self, stream: &StreamName) -> LookUpPermit<'_> {
        let place = hash::derived(0, stream.namespace().as_bytes()) as usize % PLACES;
        // They are never closed.
        let own = self.places[place].acquire().await.ok();
        LookUpPermit { _permits: [own, self.all.acquire().await.ok()] }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_namespace_leaves_permits_for_others() {
        let limiter = LookUpLimiter::default();
        let name = |namespace: &str| StreamName::unchecked(namespace, "s");
        let (own, other) = (name("shop"), name("plant"));
        let held = [limiter.acquire(&own).await, limiter.acquire(&own).await];
        assert!(limiter.acquire(&own).now_or_never().is_none());
        assert!(limiter.acquire(&other).now_or_never().is_some());
        drop(held);
        assert!(limiter.acquire(&own).now_or_never().is_some());
    }
}
