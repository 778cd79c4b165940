//! Room for the reports of all NDJSON bodies together: each body has limits of its own, but there are many of them.
//!
//! A body sets room aside before it takes the first line of a slice, gives back what the slice turns out not to need, and the rest
//! when the slice is settled.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for all of them, in bytes.
const BYTES_MAX: usize = 128 * 1_024 * 1_024;
/// Room is counted in these, in bytes.
const UNIT_BYTES: usize = 1_024;

/// The room.
#[derive(Debug)]
pub(super) struct Room {
    units: Arc<Semaphore>,
    held: Gauge,
}

/// What is set aside of it; given back when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    units: OwnedSemaphorePermit,
    held: Gauge,
}

impl Room {
    /// All of it; how much is set aside is shown by the gauge.
    pub(super) fn new(held: Gauge) -> Self {
        Self { units: Arc::new(Semaphore::new(BYTES_MAX / UNIT_BYTES)), held }
    }

    /// So much of it, if that is there.
    pub(super) fn try_take(&self, bytes: usize) -> Option<Share> {
        let units = Arc::clone(&self.units).try_acquire_many_owned(units(bytes)).ok()?;
        Some(Share::new(units, &self.held))
    }

    /// So much of it, once that is there. Who waits for it must hold nothing: it could be what others wait for.
    pub(super) async fn take(&self, bytes: usize) -> Share {
        let units = Arc::clone(&self.units).acquire_many_owned(units(bytes)).await;
        Share::new(units.expect("the room is never closed"), &self.held)
    }
}

impl Share {
    fn new(units: OwnedSemaphorePermit, held: &Gauge) -> Self {
        let share = Self { units, held: held.clone() };
        share.held.inc_by(share.bytes());
        share
    }

    /// Gives back what is more than this.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let spare = self.units.num_permits().saturating_sub(units(bytes) as usize);
        if let Some(spare) = self.units.split(spare) {
            self.held.dec_by((spare.num_permits() * UNIT_BYTES) as i64);
        }
    }

    fn bytes(&self) -> i64 {
        (self.units.num_permits() * UNIT_BYTES) as i64
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.dec_by(self.bytes());
    }
}

fn units(bytes: usize) -> u32 {
    bytes.div_ceil(UNIT_BYTES).min(BYTES_MAX / UNIT_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_needed_is_there_for_others() {
        let (held, quarter) = (Gauge::default(), BYTES_MAX / 4);
        let room = Room::new(held.clone());
        let mut shares: Vec<_> = (0..4).filter_map(|_| room.try_take(quarter)).collect();
        assert_eq!((shares.len(), held.get()), (4, BYTES_MAX as i64));
        assert!(room.try_take(1).is_none());
        shares[0].shrink(quarter / 2);
        assert!(room.try_take(quarter / 2 + 1).is_none());
        let other = room.take(quarter / 2).await;
        drop((shares, other));
        assert_eq!(held.get(), 0);
    }
}
