//! How partitions stand, for figures only: each tells when it has changed, so that asking costs a sum and no look at a device.

use std::sync::{Mutex, PoisonError};

use base::PartitionId;

/// How a partition of devices stands, or all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStanding {
    /// Devices that never gave a sign of life, and are not missed yet.
    pub never_seen: u64,
    /// Devices that were heard of recently enough.
    pub online: u64,
    /// Devices that have been silent for too long.
    pub lost: u64,
    /// Notifications that wait for an attempt, or are under way.
    pub pending: u64,
}

/// How all partitions of devices stand.
#[derive(Debug, Default)]
pub(crate) struct DeviceStandings(Mutex<Vec<DeviceStanding>>);

impl DeviceStandings {
    pub(crate) fn set(&self, partition: PartitionId, standing: DeviceStanding) {
        let index = usize::from(partition.0);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= index {
            all.resize(index + 1, DeviceStanding::default());
        }
        all[index] = standing;
    }

    /// All together.
    pub(crate) fn sum(&self) -> DeviceStanding {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().fold(DeviceStanding::default(), |sum, one| DeviceStanding {
            never_seen: sum.never_seen + one.never_seen,
            online: sum.online + one.online,
            lost: sum.lost + one.lost,
            pending: sum.pending + one.pending,
        })
    }
}
