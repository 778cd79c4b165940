//! Counts of devices and notifications, for metrics. Each partition says when its counts have
//! changed, so that asking costs a sum and no look at a device.

use std::sync::Mutex;

use base::PartitionId;
use base::locks::locked;

/// How many devices and notifications a partition has, or all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Devices that never gave a sign of life, and are not missed yet.
    pub never_seen: u64,
    /// Devices that were heard of recently enough.
    pub online: u64,
    /// Devices that have been silent for too long.
    pub lost: u64,
    /// Notifications that wait for an attempt, or are under way.
    pub pending: u64,
    /// Refused reports that are kept.
    pub quarantined: u64,
}

/// The latest counts of every partition of devices.
#[derive(Debug, Default)]
pub(crate) struct AllDeviceStats(Mutex<Vec<DeviceStats>>);

impl AllDeviceStats {
    pub(crate) fn set(&self, partition: PartitionId, stats: DeviceStats) {
        let index = usize::from(partition.0);
        let mut all = locked(&self.0);
        if all.len() <= index {
            all.resize(index + 1, DeviceStats::default());
        }
        all[index] = stats;
    }

    /// All together.
    pub(crate) fn sum(&self) -> DeviceStats {
        let all = locked(&self.0);
        all.iter().fold(DeviceStats::default(), |sum, one| DeviceStats {
            never_seen: sum.never_seen + one.never_seen,
            online: sum.online + one.online,
            lost: sum.lost + one.lost,
            pending: sum.pending + one.pending,
            quarantined: sum.quarantined + one.quarantined,
        })
    }
}
