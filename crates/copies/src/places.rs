//! Places for batches: what all copies together hold in memory.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Batches of all copies that are in memory at a time, each of about 1 MiB, or of one message that
/// is larger.
const BATCHES_MAX: usize = 64;

/// Places for batches. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BatchPlaces(Arc<Semaphore>);

/// A place, until it or the bytes that hold it are dropped.
#[derive(Debug)]
pub(crate) struct BatchPlace {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Bytes that hold their place.
struct PlacedBytes {
    bytes: Bytes,
    _place: BatchPlace,
}

impl AsRef<[u8]> for PlacedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for BatchPlaces {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BATCHES_MAX)))
    }
}

impl BatchPlaces {
    /// Waits for a place. Batches that have one are on their way, and do not wait for others.
    pub(crate) async fn take(&self) -> BatchPlace {
        // They are never closed.
        BatchPlace { _permit: Arc::clone(&self.0).acquire_owned().await.ok() }
    }
}

impl BatchPlace {
    /// Has the bytes hold the place, if there are any.
    pub(crate) fn held_by(self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() { bytes } else { Bytes::from_owner(PlacedBytes { bytes, _place: self }) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_place_is_free_once_the_bytes_are_gone() {
        let places = BatchPlaces::default();
        let mut held = Vec::new();
        for _ in 0..BATCHES_MAX {
            held.push(places.take().await.held_by(Bytes::from_static(b"x")));
        }
        assert!(places.take().now_or_never().is_none());
        let copy = held[0].clone();
        drop(held.remove(0));
        assert!(places.take().now_or_never().is_none(), "somebody has the bytes still");
        drop(copy);
        assert!(places.take().now_or_never().is_some());
    }
}
