//! Campaigns.

use records::{CampaignRecord, CampaignState};

use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};
use crate::table::Table;

impl dyn View + '_ {
    /// A campaign.
    pub fn campaign(&self, id: &str) -> Result<Option<CampaignRecord>, StoreError> {
        self.record(&key::campaign(id))
    }

    /// How far a campaign has come.
    pub fn campaign_state(&self, id: &str) -> Result<Option<CampaignState>, StoreError> {
        self.record(&key::campaign(id))
    }

    /// Campaigns, in order of id.
    pub fn campaigns(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(CampaignRecord, CampaignState)>, StoreError> {
        let range = KeyRange::of(&[]).after(after.map(key::campaign));
        let with_state = |campaign: CampaignRecord| {
            let key = key::campaign(&campaign.id);
            let missing = || self.damaged(Table::Campaigns, &key, "its state is missing".to_owned());
            let state = self.campaign_state(&campaign.id)?.ok_or_else(missing)?;
            Ok((campaign, state))
        };
        self.records(range, true)?.take(limit).map(|campaign| campaign.and_then(with_state)).collect()
    }
}
