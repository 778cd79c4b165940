//! How everything stands, from counters and sums that are kept in memory: no call looks at a
//! device, a job or a file.

use base::ClientId;

use crate::queues::{PartitionStats, TroubledQueue};
use crate::{DeviceStats, Engine, StoreMetric};

/// What was counted since the start; whoever wants rates looks twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterTotals {
    /// Messages of registered devices, refused ones included.
    pub reports: u64,
    /// Changes of devices.
    pub changes: u64,
    /// Devices that fell silent.
    pub losses: u64,
    /// Notifications that were made.
    pub deliveries: u64,
    /// Jobs that were published.
    pub jobs: u64,
    /// Commands that were given.
    pub commands: u64,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverviewCounts {
    /// Devices by connection, notifications, and refused reports.
    pub devices: DeviceStats,
    /// Devices with a live session of their own.
    pub connected: u64,
    /// Queues and their jobs.
    pub queues: PartitionStats,
}

impl Engine {
    /// What was counted since the start.
    #[must_use]
    pub fn totals(&self) -> CounterTotals {
        self.context().metrics.totals()
    }

    /// How many there are now.
    #[must_use]
    pub fn overview_counts(&self) -> OverviewCounts {
        let context = self.context();
        OverviewCounts {
            devices: context.devices.stats.sum(),
            connected: context.devices.fleet.connected_len(),
            queues: context.queues.stats.sum(),
        }
    }

    /// The figures of the store, as `/metrics` shows them.
    #[must_use]
    pub fn store_metrics(&self) -> Vec<StoreMetric> {
        self.store().metrics()
    }

    /// Some queues that are paused or have dead letters, at most so many, those with the most dead
    /// letters first.
    #[must_use]
    pub fn troubled_queues(&self, limit: usize) -> Vec<TroubledQueue> {
        self.context().queues.troubled.worst(limit)
    }

    /// Some clients with devices whose newest notification has failed for good, at most so many.
    #[must_use]
    pub fn stale_clients(&self, limit: usize) -> Vec<ClientId> {
        let stale = self.context().devices.stale.some(limit);
        let known = stale.into_iter().filter_map(|client| self.directory().get(client));
        known.map(|client| client.id.clone()).collect()
    }
}
