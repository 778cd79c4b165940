//! Coverage of a campaign: how often the devices that match now were picked for it.

use ::campaigns::{CoverageCount, CoverageStats};
use base::{Incarnation, PartitionId, Problem, Timestamp};
use fleet::selection::SelectionKey;
use store::View;

use super::TrackedCampaign;
use super::search::{WantedDevices, all_of, plain};
use crate::context::EngineContext;
use crate::queries::unreadable;

/// Slots and picks that are read for one coverage: a shorter period has fewer.
const ROWS_MAX: usize = 1_000_000;
/// Values that a coverage is split by.
const VALUES_MAX: usize = 1_000;
/// Slots that are read at a time.
const SLOTS_PER_READ: usize = 256;

/// The coverage of a campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignCoverage {
    /// Of all devices.
    pub all: CoverageStats,
    /// Of those of each value of a key, if it is asked for.
    pub items: Option<Vec<(Option<Box<str>>, CoverageStats)>>,
    /// There are more values.
    pub more: bool,
}

impl EngineContext {
    /// How often the devices that match a campaign now were picked, altogether and for each value
    /// of a key. Picks by its slots that were due from a time on count.
    ///
    /// # Errors
    /// 422 `invalid_parameter` for more picks than are counted; 503 when the store cannot be read.
    pub(crate) fn coverage(
        &self,
        campaign: &TrackedCampaign,
        due_from: Timestamp,
        by: Option<&SelectionKey>,
    ) -> Result<CampaignCoverage, Problem> {
        let picks = self.picks_of(campaign, due_from)?;
        let (eligible, _) = WantedDevices::kept(&campaign.terms)?.look(self).map_err(unreadable)?;
        let eligible = all_of(&eligible.strata);
        let all = picks.of(&eligible);
        let Some(key) = by else { return Ok(CampaignCoverage { all, items: None, more: false }) };
        let eligible = eligible.into_iter().collect();
        let (values, more) = self.devices.fleet.split_by_most(&eligible, key, VALUES_MAX);
        let items = values.into_iter().map(|(value, devices)| (value, picks.of(&plain(&devices))));
        Ok(CampaignCoverage { all, items: Some(items.collect()), more })
    }

    fn picks_of(&self, campaign: &TrackedCampaign, due_from: Timestamp) -> Result<CoverageCount, Problem> {
        let campaign = campaign.campaign.incarnation;
        let view = self.kernel.store.view(PartitionId::CAMPAIGNS).map_err(unreadable)?;
        let (mut count, mut left, mut after) = (CoverageCount::default(), ROWS_MAX, None);
        loop {
            let due = (due_from, Timestamp::MAX);
            let slots = view.slots(campaign, due, after, SLOTS_PER_READ).map_err(unreadable)?;
            for (slot, _) in &slots {
                count_slot(&*view, slot.incarnation, &mut count, &mut left)?;
            }
            let last = slots.last().filter(|_| slots.len() == SLOTS_PER_READ);
            after = last.and_then(|(task, _)| Some((task.slot?.due_at, task.incarnation)));
            if after.is_none() {
                return Ok(count);
            }
        }
    }
}

/// Counts the picks of a slot. Each row that is read, the slot's own too, is taken from what is
/// left.
fn count_slot(
    view: &dyn View,
    slot: Incarnation,
    count: &mut CoverageCount,
    left: &mut usize,
) -> Result<(), Problem> {
    let too_many = || {
        let detail = format!("the period has over {ROWS_MAX} slots and picks; ask for a shorter one");
        Problem::not_allowed("invalid_parameter", detail)
    };
    *left = left.checked_sub(1).ok_or_else(too_many)?;
    let picks = view.each_pick(slot, *left + 1, &mut |pick| count.add(pick.place)).map_err(unreadable)?;
    *left = left.checked_sub(picks).ok_or_else(too_many)?;
    Ok(())
}
