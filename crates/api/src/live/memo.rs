//! What was just read of a feed, for all streams that stand at the same place: many pages that show
//! the same are one read.
//!
//! Streams look at the same moments, ten times a second. So what was read at one of them serves
//! whoever comes from the same place at the same one, and is forgotten with the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base::Problem;

use super::feed::Looked;

/// Results that are kept at a time, of at most 256 KiB and one item each.
const KEPT_MAX: usize = 64;

/// From where on something was read: of which feed, behind which place.
pub(super) type ReadFrom = (u64, Option<Box<[u8]>>);

/// The latest results.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    tick: u64,
    results: HashMap<ReadFrom, Arc<Looked>>,
}

impl Memo {
    /// What is there from that place on, at that moment; read by `read` if nobody did.
    ///
    /// # Errors
    /// What `read` says.
    pub(super) fn get_or_read(
        &self,
        tick: u64,
        from: ReadFrom,
        read: impl FnOnce() -> Result<Looked, Problem>,
    ) -> Result<Arc<Looked>, Problem> {
        {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if tick > kept.tick {
                kept.tick = tick;
                kept.results.clear();
            }
            if let Some(known) = kept.results.get(&from).filter(|_| tick == kept.tick) {
                return Ok(Arc::clone(known));
            }
        }
        // Not under the lock: others read other feeds.
        let looked = Arc::new(read()?);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.tick == tick && kept.results.len() < KEPT_MAX {
            kept.results.insert(from, Arc::clone(&looked));
        }
        Ok(looked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_from_the_same_place_at_the_same_moment_reads_nothing() {
        let memo = Memo::default();
        let mut reads = 0;
        let mut look = |tick, feed: u64, place: &[u8]| {
            let read = || {
                reads += 1;
                Ok(Looked::nothing())
            };
            memo.get_or_read(tick, (feed, Some(place.into())), read).expect("readable");
            reads
        };
        for (tick, feed, place, expect) in [
            (1, 1, b"a", 1),
            (1, 1, b"a", 1),
            (1, 2, b"a", 2),
            (1, 1, b"b", 3),
            (2, 1, b"a", 4),
            (2, 1, b"a", 4),
            // A late one finds nothing of its moment, and leaves nothing behind.
            (1, 1, b"b", 5),
            (2, 1, b"b", 6),
        ] {
            assert_eq!(look(tick, feed, place), expect, "{tick} {feed} {place:?}");
        }
    }
}
