//! Turns to look something up in the store, for callers that wait. Few have one at a time, and of
//! the streams of one namespace fewer. So whoever repeats much keeps only its own waiting.

use base::hash;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::StreamName;

/// Look-ups at a time.
const AT_ONCE: usize = 4;
/// Of namespaces that share a place.
const AT_ONCE_OF_PLACE: usize = 2;
/// Places among which namespaces are spread.
const PLACES: usize = 64;

/// Who looks something up.
#[derive(Debug)]
pub(super) struct LookUpTurns {
    all: Semaphore,
    places: [Semaphore; PLACES],
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct LookUpTurn<'a> {
    _permits: [Option<SemaphorePermit<'a>>; 2],
}

impl Default for LookUpTurns {
    fn default() -> Self {
        let places = std::array::from_fn(|_| Semaphore::new(AT_ONCE_OF_PLACE));
        Self { all: Semaphore::new(AT_ONCE), places }
    }
}

impl LookUpTurns {
    /// Waits for a turn for a stream; whoever waits for those of its namespace holds no other.
    pub(super) async fn of(&self, stream: &StreamName) -> LookUpTurn<'_> {
        let place = hash::derived(0, stream.namespace().as_bytes()) as usize % PLACES;
        // They are never closed.
        let own = self.places[place].acquire().await.ok();
        LookUpTurn { _permits: [own, self.all.acquire().await.ok()] }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_namespace_leaves_turns_for_others() {
        let turns = LookUpTurns::default();
        let name = |namespace: &str| StreamName::unchecked(namespace, "s");
        let (own, other) = (name("shop"), name("plant"));
        let held = [turns.of(&own).await, turns.of(&own).await];
        assert!(turns.of(&own).now_or_never().is_none());
        assert!(turns.of(&other).now_or_never().is_some());
        drop(held);
        assert!(turns.of(&own).now_or_never().is_some());
    }
}
