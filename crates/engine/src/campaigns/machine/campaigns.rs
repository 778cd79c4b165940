//! The campaigns that there are, and what is asked of them.

mod calls;

pub use calls::unknown_campaign;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::campaigns::slots::SLOTS_OF_PERIOD;
use ::campaigns::{PhaseWheel, Slot, SlotPlan, SlotStep, TokenUse};
use base::{Incarnation, Problem, Timestamp};
use records::{CampaignPace, CampaignRecord, CampaignState, DevicePlace, MissedSlots, Op, PickTerms};

use super::CampaignsStep;
use super::token_shares::{CAMPAIGNS, Requested, SLOTS_PER_HOUR};
use crate::campaigns::TrackedCampaign;

/// Campaigns that there may be.
pub(super) const CAMPAIGNS_MAX: usize = 10_000;
/// Slots of all campaigns in an hour: 6,000 a minute.
pub(super) const SLOTS_PER_HOUR_MAX: usize = 6_000 * 60;

/// All campaigns.
#[derive(Debug, Default)]
pub(super) struct CampaignTable {
    campaigns: BTreeMap<Incarnation, ActiveCampaign>,
    ids: BTreeMap<Box<str>, Incarnation>,
    /// How many each token has.
    owned: TokenUse,
    /// When slots are due; on the wall clock.
    due: BTreeSet<(Timestamp, Incarnation)>,
    wheel: PhaseWheel,
}

/// A campaign.
#[derive(Debug)]
pub(super) struct ActiveCampaign {
    pub(super) campaign: Arc<CampaignRecord>,
    /// Its id.
    pub(super) name: Arc<str>,
    pub(super) terms: Arc<PickTerms>,
    state: CampaignState,
    /// The devices of its panel, if it has one and has picked.
    panel: Vec<DevicePlace>,
    /// When its next slot is due, or is to be looked for.
    due: Option<Timestamp>,
    /// When the newest slot that was begun or skipped was due, at whatever pace. In memory only: a
    /// load reads it from the slots.
    newest_slot_at: Option<Timestamp>,
}

impl ActiveCampaign {
    pub(super) fn plan(&self) -> SlotPlan {
        SlotPlan::of(&self.campaign, self.terms.count)
    }

    /// The token for which it counts, if there are tokens.
    fn owner(&self) -> Option<&str> {
        self.terms.token.as_deref()
    }

    fn slots_per_hour(&self) -> usize {
        slots_per_hour(self.campaign.pace, self.terms.count)
    }

    fn tracked(&self) -> TrackedCampaign {
        TrackedCampaign {
            campaign: Arc::clone(&self.campaign),
            terms: Arc::clone(&self.terms),
            state: self.state.clone(),
        }
    }
}

impl CampaignTable {
    /// A campaign comes to those that there are; its next slot is looked for.
    pub(super) fn add(
        &mut self,
        (campaign, state, newest_slot_at): (CampaignRecord, CampaignState, Option<Timestamp>),
        terms: Arc<PickTerms>,
        panel: Vec<DevicePlace>,
    ) {
        let incarnation = campaign.incarnation;
        self.wheel.add(campaign.pace, terms.count, campaign.phase_ms);
        self.ids.insert(campaign.id.clone(), incarnation);
        self.owned.add(terms.token.as_deref(), 1);
        let name = Arc::from(&*campaign.id);
        let active = ActiveCampaign {
            campaign: Arc::new(campaign),
            name,
            terms,
            state,
            panel,
            due: None,
            newest_slot_at,
        };
        self.campaigns.insert(incarnation, active);
        self.put_off(incarnation, Timestamp(i64::MIN));
    }

    pub(super) fn get(&self, campaign: Incarnation) -> Option<&ActiveCampaign> {
        self.campaigns.get(&campaign)
    }

    /// The id of a campaign, unless it was removed.
    pub(super) fn name(&self, campaign: Incarnation) -> Option<Arc<str>> {
        self.campaigns.get(&campaign).map(|active| Arc::clone(&active.name))
    }

    /// Whether there is room for a campaign of that token, in place of another.
    ///
    /// # Errors
    /// 409 `too_many_campaigns`, or 429 when the token has its share.
    fn check_room(
        &self,
        token: Option<&str>,
        (pace, count): (CampaignPace, u32),
        instead_of: Option<&ActiveCampaign>,
    ) -> Result<(), Problem> {
        let requested = Requested::Campaign;
        match instead_of {
            None => CAMPAIGNS.check(&self.owned, (token, 1), requested)?,
            Some(before) if before.owner() != token => {
                CAMPAIGNS.check_share(&self.owned, (token, 1), requested)?;
            }
            Some(_) => {}
        }
        let wanted = slots_per_hour(pace, count);
        if instead_of.is_some_and(|before| before.owner() == token && wanted <= before.slots_per_hour()) {
            return Ok(());
        }
        let mut slots = TokenUse::default();
        let replaced = instead_of.map(|before| before.campaign.incarnation);
        for (_, other) in self.campaigns.iter().filter(|(campaign, _)| Some(**campaign) != replaced) {
            slots.add(other.owner(), other.slots_per_hour());
        }
        if instead_of.is_some_and(|before| wanted <= before.slots_per_hour()) {
            return SLOTS_PER_HOUR.check_share(&slots, (token, wanted), requested);
        }
        SLOTS_PER_HOUR.check(&slots, (token, wanted), requested)
    }

    /// When the next slot of any is due; on the wall clock.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A campaign that has something to do now.
    pub(super) fn take_due(&mut self, wall: Timestamp) -> Option<Incarnation> {
        let (at, campaign) = self.due.first().copied().filter(|(at, _)| *at <= wall)?;
        self.due.remove(&(at, campaign));
        if let Some(active) = self.campaigns.get_mut(&campaign) {
            active.due = None;
        }
        Some(campaign)
    }

    /// A campaign has something to do then; not while it is paused.
    pub(super) fn put_off(&mut self, campaign: Incarnation, at: Timestamp) {
        let Some(active) = self.campaigns.get_mut(&campaign) else { return };
        if let Some(due) = active.due.take() {
            self.due.remove(&(due, campaign));
        }
        if !active.state.is_paused {
            active.due = Some(at);
            self.due.insert((at, campaign));
        }
    }

    /// What a campaign does now, unless it is paused.
    pub(super) fn step(&self, campaign: Incarnation, wall: Timestamp) -> Option<SlotStep> {
        let active = self.campaigns.get(&campaign).filter(|active| !active.state.is_paused)?;
        Some(active.plan().step(active.state.passed, active.campaign.missed, wall))
    }

    /// Whether missed slots of a campaign are skipped.
    pub(super) fn skips_missed(&self, campaign: Incarnation) -> bool {
        let active = self.campaigns.get(&campaign);
        active.is_some_and(|active| active.campaign.missed == MissedSlots::Skip)
    }

    /// A campaign has begun or skipped this slot.
    pub(super) fn passed(&mut self, campaign: Incarnation, slot: Slot, step: &mut CampaignsStep<'_>) {
        if let Some(active) = self.campaigns.get_mut(&campaign) {
            active.state.passed = Some(slot.number);
            active.newest_slot_at = active.newest_slot_at.max(Some(slot.due_at));
            step.push(Op::PutCampaignState(Box::new(active.state.clone())));
        }
    }

    /// The devices of a panel; none of a campaign that is no panel, or has not picked.
    pub(super) fn panel(&self, campaign: Incarnation) -> &[DevicePlace] {
        let active = self.campaigns.get(&campaign).filter(|active| active.campaign.is_panel);
        active.map_or(&[], |active| &active.panel)
    }

    /// Whether a campaign has a panel, and that of another slot.
    pub(super) fn has_panel_of_other(&self, campaign: Incarnation, slot: Incarnation) -> bool {
        let active = self.campaigns.get(&campaign).filter(|active| active.campaign.is_panel);
        active.is_some_and(|active| active.state.panel.is_some_and(|of| of != slot))
    }

    /// A slot has picked these: the first picks of a slot are the panel of the next one.
    pub(super) fn note_panel(
        &mut self,
        campaign: Incarnation,
        slot: Incarnation,
        picked: &[DevicePlace],
        step: &mut CampaignsStep<'_>,
    ) {
        let Some(active) = self.campaigns.get_mut(&campaign).filter(|active| active.campaign.is_panel) else {
            return;
        };
        if picked.is_empty() || active.state.panel.is_some_and(|latest| latest > slot) {
            return;
        }
        if active.state.panel != Some(slot) {
            active.panel.clear();
            active.state.panel = Some(slot);
            step.push(Op::PutCampaignState(Box::new(active.state.clone())));
        }
        let room = (active.terms.count as usize).saturating_sub(active.panel.len());
        active.panel.extend(picked.iter().take(room));
    }

    /// The slots that panels go by.
    pub(super) fn panel_tasks(&self) -> BTreeSet<Incarnation> {
        let panels = self.campaigns.values().filter(|active| active.campaign.is_panel);
        panels.filter_map(|active| active.state.panel).collect()
    }
}

/// How many slots a campaign has in an hour, rounded up.
fn slots_per_hour(pace: CampaignPace, count: u32) -> usize {
    let (slots, interval_ms) = match pace {
        CampaignPace::Every(ms) => (1, ms),
        CampaignPace::Over(ms) => (u64::from(count).min(SLOTS_OF_PERIOD), ms),
    };
    usize::try_from((slots * 3_600_000).div_ceil(interval_ms.max(1))).unwrap_or(usize::MAX)
}
