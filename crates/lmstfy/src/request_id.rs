//! The id of a request, which every answer shows: a ULID, as the real server makes them.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use base::Timestamp;
use engine::queues::id_text;
use engine::records::JobId;

/// Ids that no other process of the same moment makes.
#[derive(Debug)]
pub(crate) struct RequestIds {
    process: u16,
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        let random = RandomState::new().hash_one(());
        Self { process: random as u16, next: AtomicU64::new(random) }
    }
}

impl RequestIds {
    pub(crate) fn next(&self, now: Timestamp) -> String {
        let mut id = [0; 16];
        id[..6].copy_from_slice(&now.0.max(0).to_be_bytes()[2..]);
        id[6..8].copy_from_slice(&self.process.to_be_bytes());
        id[8..].copy_from_slice(&self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        id_text(JobId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_its_own() {
        let ids = RequestIds::default();
        let (one, two) = (ids.next(Timestamp(1_795_000_000_000)), ids.next(Timestamp(1_795_000_000_000)));
        assert_eq!((one.len(), two.len()), (26, 26));
        assert_ne!(one, two);
        assert_eq!(one[..13], two[..13]);
    }
}
