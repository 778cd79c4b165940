//! What whoever runs copies needs to bring gathered reports to their streams.

use base::{Incarnation, PartitionId, Problem};
use records::GatheredReports;
use tokio::sync::watch;

use super::Engine;
use crate::devices::input::{DeviceInput, GatheredInput};
use crate::gathering::{GatheringCounts, GatheringList};
use crate::queries::unreadable;

impl Engine {
    /// Partitions of devices: each gathers for itself.
    pub fn device_partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.store().partitions()).map(PartitionId)
    }

    /// The copies of kind `reports`, for whoever follows them.
    #[must_use]
    pub fn gatherings(&self) -> watch::Receiver<GatheringList> {
        self.context().devices.gatherings.follow()
    }

    /// Returns when a partition may have gathered reports to be taken. For one caller a partition.
    pub async fn gathered_more(&self, partition: PartitionId) {
        self.context().devices.gatherings.more(partition).await;
    }

    /// Durable reports that a partition has gathered for a copy, in order from the row `from` on.
    /// Gives some rows, which have `reports_max` reports or hardly more. Reads from disk.
    ///
    /// # Errors
    /// 503 only.
    pub fn gathered(
        &self,
        partition: PartitionId,
        (gather, from): (Incarnation, u64),
        reports_max: usize,
    ) -> Result<Vec<GatheredReports>, Problem> {
        let view = self.store().view(partition).map_err(unreadable)?;
        view.gathered_reports((gather, from), reports_max).map_err(unreadable)
    }

    /// The stream of the copy has the reports in front of number `next`: their rows are gone when
    /// this returns.
    ///
    /// # Errors
    /// 503 only.
    pub async fn gathered_taken(
        &self,
        partition: PartitionId,
        gather: Incarnation,
        next: u64,
    ) -> Result<(), Problem> {
        let Some(of) = self.shared.partitions.get(usize::from(partition.0)) else { return Ok(()) };
        Ok(of.ask(|reply| DeviceInput::Gathered(GatheredInput::Taken { gather, next, reply })).await?)
    }

    /// Deletes what a partition has gathered for copies that are gone.
    ///
    /// # Errors
    /// 503 only.
    pub async fn forget_gathered(&self, partition: PartitionId) -> Result<(), Problem> {
        let Some(of) = self.shared.partitions.get(usize::from(partition.0)) else { return Ok(()) };
        while of.ask(|reply| DeviceInput::Gathered(GatheredInput::Forget { reply })).await? {}
        Ok(())
    }

    /// Figures of gathering.
    #[must_use]
    pub fn gathering_counts(&self) -> GatheringCounts {
        self.context().devices.gatherings.counts()
    }
}
