//! Campaigns, their slots and results, as far as they are durable.

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, Incarnation, PartitionId, Problem, Timestamp};
use fleet::selection::SelectionKey;
use records::{CampaignRecord, CampaignState, Pick};
use store::{Page, ResultPage, View};

use super::{Queries, unreadable};
use crate::campaigns::{CampaignCoverage, CampaignResultKey, TrackedCampaign, TrackedTask};

impl Queries {
    /// A campaign.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn campaign(&self, id: &str) -> Result<Option<TrackedCampaign>, Problem> {
        let view = self.view(PartitionId::CAMPAIGNS)?;
        let campaign = view.campaign(id).map_err(unreadable)?;
        let state = view.campaign_state(id).map_err(unreadable)?;
        match campaign.zip(state) {
            Some(found) => tracked(&*view, found),
            None => Ok(None),
        }
    }

    /// Campaigns in order of id.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn campaigns(&self, after: Option<&str>, limit: usize) -> Result<Vec<TrackedCampaign>, Problem> {
        let view = self.view(PartitionId::CAMPAIGNS)?;
        let found = view.campaigns(after, limit).map_err(unreadable)?;
        found.into_iter().filter_map(|found| tracked(&*view, found).transpose()).collect()
    }

    /// Slots of a campaign that were due from a time until before another, the latest first.
    /// `after` is when the last one of the page before was due, and its task.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn slots(
        &self,
        campaign: Incarnation,
        due: (Timestamp, Timestamp),
        after: Option<(Timestamp, Incarnation)>,
        limit: usize,
    ) -> Result<Vec<TrackedTask>, Problem> {
        let view = self.view(PartitionId::CAMPAIGNS)?;
        let found = view.slots(campaign, due, after, limit).map_err(unreadable)?;
        Ok(found
            .into_iter()
            .map(|(task, state)| TrackedTask { task: Arc::new(task), state, receiver: None })
            .collect())
    }

    /// How often the devices that match a campaign now were picked, altogether and for each value
    /// of a key. Picks by its slots of a period that ends now count.
    ///
    /// # Errors
    /// 422 `invalid_parameter` for a period with too many picks; see [`Queries::device`].
    pub fn coverage(
        &self,
        campaign: &TrackedCampaign,
        period: Duration,
        by: Option<&SelectionKey>,
    ) -> Result<CampaignCoverage, Problem> {
        let due_from = self.engine.clock().wall().before(period);
        self.engine.context().coverage(campaign, due_from, by)
    }

    /// Picks of a campaign that have ended by when they did, of one device or of all.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn campaign_results(
        &self,
        campaign: Incarnation,
        device: Option<&DeviceId>,
        page: &Page<CampaignResultKey>,
    ) -> Result<Vec<Pick>, Problem> {
        let view = self.view(PartitionId::CAMPAIGNS)?;
        let page = ResultPage {
            from: page.from,
            until: page.to,
            device,
            after: page.after.map(|CampaignResultKey { at, task, number }| (at, task, number)),
            is_descending: !page.ascending,
            limit: page.limit,
        };
        view.campaign_results(campaign, page).map_err(unreadable)
    }
}

/// The campaign with what it asks for now; `None` while it is being removed.
fn tracked(
    view: &dyn View,
    (campaign, state): (CampaignRecord, CampaignState),
) -> Result<Option<TrackedCampaign>, Problem> {
    let terms = view.pick_terms(campaign.terms).map_err(unreadable)?;
    Ok(terms.map(|terms| TrackedCampaign { campaign: Arc::new(campaign), terms: Arc::new(terms), state }))
}
