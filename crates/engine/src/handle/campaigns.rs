//! Tasks and campaigns.

use super::Engine;
use crate::campaigns::{CampaignCalls, CampaignsInput, TaskCalls};
use crate::kernel::partition_handle::PartitionHandle;

impl Engine {
    /// The calls about tasks.
    #[must_use]
    pub fn tasks(&self) -> TaskCalls {
        TaskCalls::new(self.clone())
    }

    /// The calls about campaigns.
    #[must_use]
    pub fn campaigns(&self) -> CampaignCalls {
        CampaignCalls::new(self.clone())
    }

    pub(crate) fn campaigns_partition(&self) -> &PartitionHandle<CampaignsInput> {
        &self.shared.campaigns
    }
}
