//! Campaigns and their slots: which begin, which are skipped, and that none is forgotten.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::Timestamp;
use campaigns::slots::SKIPPED_MAX;
use records::{CampaignPace, CampaignRecord, CampaignSlot, CampaignState, TaskRecord};

use super::{Made, Model, TrackedCampaign};
use crate::harness::violation::{Checked, Invariant};

/// Slots of a period.
const SLOTS: u64 = 60;
/// A slot that begins later than this is done late.
const ON_TIME_MS: u64 = 60_000;

/// When a slot is due, and how many devices it wants, by the contract's words.
fn slot(campaign: &CampaignRecord, count: u32, number: u64) -> (Timestamp, u64) {
    let count = u64::from(count);
    let (ms, wanted) = match campaign.pace {
        CampaignPace::Every(ms) => (number * ms, count),
        CampaignPace::Over(ms) => {
            let index = number % SLOTS;
            (number * ms / SLOTS, (index + 1) * count / SLOTS - index * count / SLOTS)
        }
    };
    (Timestamp((ms + campaign.phase_ms).cast_signed()), wanted)
}

/// The newest slot that is due, from one on that is.
fn newest_due(campaign: &CampaignRecord, from: u64, wall: Timestamp) -> u64 {
    let is_due = |number: &u64| {
        let due_at = slot(campaign, 0, *number).0;
        due_at <= wall && campaign.until.is_none_or(|until| due_at < until)
    };
    (from..).take_while(is_due).last().unwrap_or(from)
}

/// Whether a slot that begins now was missed.
pub(super) fn is_late(due_at: Timestamp, wall: Timestamp) -> bool {
    wall.since(due_at).as_millis() >= u128::from(ON_TIME_MS)
}

impl Model {
    pub(super) fn slot_began(&mut self, task: &TaskRecord, began: CampaignSlot, made: Made) -> Checked {
        let is_new = self.slots.insert((began.campaign, began.due_at));
        Invariant::SLOTS_BEGIN_ONCE.check(is_new, || format!("{task:?} begins again"))?;
        Invariant::SLOTS_BEGIN_ONCE
            .check(began.due_at <= made.wall, || format!("{task:?} begins early, at {:?}", made.wall))?;
        let tracked = self.campaigns.values().find(|one| one.campaign.incarnation == began.campaign);
        let Some(campaign) = tracked.map(|tracked| &tracked.campaign) else {
            return Err(Invariant::AS_THE_MODEL.broken(format!("{task:?} is of no campaign")));
        };
        let Some(count) = self.terms.get(&task.terms).map(|terms| terms.count) else {
            return Err(Invariant::AS_THE_MODEL.broken(format!("{task:?} has no terms")));
        };
        let (due_at, wanted) = slot(campaign, count, began.number);
        let found = (began.due_at, u64::from(task.wanted));
        Invariant::NOT_BEYOND_ITS_COUNT.same("a slot as it is planned", &found, &(due_at, wanted))?;
        let is_within = campaign.from.is_none_or(|from| from <= due_at)
            && campaign.until.is_none_or(|until| due_at < until);
        Invariant::SLOTS_BEGIN_ONCE.check(is_within, || format!("{task:?} is outside of its time"))?;
        Ok(())
    }

    pub(super) fn campaign_put(&mut self, campaign: &CampaignRecord) {
        let before = self.campaigns.get(&campaign.id);
        let is_known = before.is_some_and(|known| known.campaign.incarnation == campaign.incarnation);
        self.counts.campaigns += u64::from(!is_known);
        self.counts.campaigns_changed += u64::from(is_known);
        let state = before.filter(|_| is_known).and_then(|known| known.state.clone());
        let tracked = TrackedCampaign { campaign: campaign.clone(), state };
        self.campaigns.insert(campaign.id.clone(), Rc::new(tracked));
    }

    pub(super) fn campaign_went_on(&mut self, state: &CampaignState) {
        if let Some(tracked) = self.campaigns.get_mut(&state.id) {
            let was_paused = tracked.state.as_ref().is_some_and(|state| state.is_paused);
            self.counts.campaigns_resumed += u64::from(was_paused && !state.is_paused);
            Rc::make_mut(tracked).state = Some(state.clone());
        }
    }

    /// Slots that a campaign has passed in this batch were begun or skipped, and all that were due
    /// when it was paused. Those of a pause or of another pace need not be, and of very many only
    /// the newest.
    pub(super) fn check_passed(
        &self,
        before: &BTreeMap<Box<str>, Rc<TrackedCampaign>>,
        wall: Timestamp,
    ) -> Checked {
        for (id, tracked) in &self.campaigns {
            let Some(was) = before.get(id) else { continue };
            let (Some(old), Some(new)) = (&was.state, &tracked.state) else { continue };
            let is_as_before = was.campaign == tracked.campaign && !old.is_paused;
            let (Some(from), Some(to)) = (old.passed, new.passed) else { continue };
            if !is_as_before || (from == to && !new.is_paused) {
                continue;
            }
            Invariant::SLOTS_BEGIN_ONCE
                .check(from <= to, || format!("{id} goes back from {from} to {to}"))?;
            let newest = newest_due(&tracked.campaign, to, wall);
            let first = (from + 1).max(newest.saturating_sub(SKIPPED_MAX));
            let last = if new.is_paused { newest } else { to };
            self.check_not_forgotten(&tracked.campaign, first, last)?;
        }
        Ok(())
    }

    fn check_not_forgotten(&self, campaign: &CampaignRecord, from: u64, to: u64) -> Checked {
        let Some(count) = self.terms.get(&campaign.terms).map(|terms| terms.count) else { return Ok(()) };
        for number in from..=to {
            let (due_at, wanted) = slot(campaign, count, number);
            let is_within = campaign.from.is_none_or(|from| from <= due_at)
                && campaign.until.is_none_or(|until| due_at < until);
            let is_known = self.slots.contains(&(campaign.incarnation, due_at));
            Invariant::SLOTS_ARE_NOT_FORGOTTEN
                .check(wanted == 0 || !is_within || is_known, || format!("{number} of {campaign:?}"))?;
        }
        Ok(())
    }

    /// No campaign is behind its slots.
    pub(crate) fn check_up_to_date(&self, wall: Timestamp) -> Checked {
        for tracked in self.campaigns.values() {
            let (campaign, Some(state)) = (&tracked.campaign, &tracked.state) else { continue };
            let Some(passed) = state.passed.filter(|_| !state.is_paused) else { continue };
            let newest = (passed + 1..).take_while(|number| slot(campaign, 0, *number).0 <= wall);
            // A slot that was passed over has told why: the others are looked for one by one.
            if let Some(newest) = newest.take(10 * SKIPPED_MAX as usize).last() {
                self.check_not_forgotten(campaign, passed + 1, newest)?;
            }
        }
        Ok(())
    }
}
