//! What is asked of campaigns: one is made, changed, paused, resumed or removed.

use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, Problem, Timestamp};
use fleet::Selection;
use records::{CampaignRecord, CampaignState, Op, PickTerms};
use store::StoreError;

use super::super::token_shares::Requested;
use super::super::{CampaignMachine, CampaignsStep};
use crate::campaigns::effect::CampaignsEffect;
use crate::campaigns::input::{CampaignCall, PresentCampaign};
use crate::campaigns::{CampaignPatch, NewCampaign, NewPickTerms, TrackedCampaign};
use crate::kernel::reply::Answered;
use crate::{ObjectVersion, OnlyIf};

impl CampaignMachine {
    pub(in super::super) fn apply_to_campaigns(
        &mut self,
        call: CampaignCall,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        match call {
            CampaignCall::Create { id, new, present, reply } => {
                let begun = self.create_campaign(id, *new, &present, step);
                step.emit(CampaignsEffect::Begun(reply, begun.map(Box::new)));
            }
            CampaignCall::Patch { id, patch, reply } => {
                let patched = self.patch_campaign(&id, *patch, step);
                step.emit(CampaignsEffect::Campaign(reply, patched.map(Box::new)));
            }
            CampaignCall::SetPaused { id, is_paused, only_if, reply } => {
                let done = self.set_paused(&id, is_paused, &only_if, step);
                step.emit(CampaignsEffect::Done(reply, done));
            }
            CampaignCall::Delete { id, only_if, reply } => {
                let done = self.delete_campaign(&id, &only_if, step);
                step.emit(CampaignsEffect::Done(reply, done));
            }
        }
        Ok(())
    }

    fn known(&self, id: &str) -> Result<Incarnation, Problem> {
        self.campaigns.ids.get(id).copied().ok_or_else(|| unknown_campaign(id))
    }

    fn create_campaign(
        &mut self,
        id: Box<str>,
        new: NewCampaign,
        present: &PresentCampaign,
        step: &mut CampaignsStep<'_>,
    ) -> Answered<(TrackedCampaign, bool)> {
        if let Some(active) = self.campaigns.ids.get(&id).and_then(|there| self.campaigns.get(*there)) {
            return match present {
                PresentCampaign::IsReplaced(only_if) => {
                    only_if.check(ObjectVersion::of_campaign(&active.tracked()))?;
                    let campaign = active.campaign.incarnation;
                    self.replace(campaign, new, step).map(|replaced| (replaced, false))
                }
                PresentCampaign::IsTheSame if is_made_by(&active.terms, &new) => {
                    Ok((active.tracked(), false))
                }
                PresentCampaign::IsTheSame | PresentCampaign::Refuses => {
                    let detail = format!("campaign {id} is there already; PUT replaces it, PATCH changes it");
                    Err(Problem::conflict("exists", detail))
                }
            };
        }
        if let PresentCampaign::IsReplaced(only_if) = present {
            only_if.check_absent()?;
        }
        let token = new.terms.token.as_deref();
        self.campaigns.check_room(token, (new.pace, new.terms.count), None)?;
        let devices = new.terms.devices.as_deref();
        self.terms.check_room(token, &new.terms.payload, devices, Requested::Campaign)?;
        let (incarnation, terms) = (self.next_incarnation(), self.next_incarnation());
        let campaign = self.shaped(&new, (id.clone(), incarnation), (step.now, terms));
        let terms = self.terms.put(new.terms.kept(terms, new.request), step);
        let passed = ::campaigns::SlotPlan::of(&campaign, terms.count).newest_due(step.wall);
        let state = CampaignState { id, is_paused: false, passed, panel: None };
        step.push(Op::PutCampaign(Box::new(campaign.clone())));
        step.push(Op::PutCampaignState(Box::new(state.clone())));
        self.campaigns.add((campaign, state, None), terms, Vec::new());
        let made = self.campaigns.get(incarnation).map(super::ActiveCampaign::tracked);
        made.map(|made| (made, true)).ok_or_else(|| unknown_campaign(""))
    }

    /// The record of a campaign as it is asked for. The server chooses a phase where the caller
    /// does not.
    fn shaped(
        &self,
        new: &NewCampaign,
        (id, incarnation): (Box<str>, Incarnation),
        (created_at, terms): (Timestamp, Incarnation),
    ) -> CampaignRecord {
        let phase = new.phase.map(|phase| u64::try_from(phase.as_millis()).unwrap_or(0));
        CampaignRecord {
            id,
            incarnation,
            created_at,
            name: new.name.clone(),
            terms,
            pace: new.pace,
            phase_ms: phase.unwrap_or_else(|| self.campaigns.wheel.choose(new.pace, new.terms.count)),
            is_phase_fixed: phase.is_some(),
            from: new.from,
            until: new.until,
            missed: new.missed,
            is_panel: new.is_panel,
        }
    }

    /// A campaign becomes like this; effective with its next slot.
    fn replace(
        &mut self,
        incarnation: Incarnation,
        new: NewCampaign,
        step: &mut CampaignsStep<'_>,
    ) -> Answered<TrackedCampaign> {
        self.pass_due_slots(incarnation, step);
        let Some(active) = self.campaigns.campaigns.get(&incarnation) else {
            return Err(unknown_campaign(""));
        };
        let (was, before) = (Arc::clone(&active.campaign), Arc::clone(&active.terms));
        let old_plan = active.plan();
        let token = new.terms.token.as_deref();
        self.campaigns.check_room(token, (new.pace, new.terms.count), Some(active))?;
        if *new.terms.payload != *before.payload || new.terms.devices != before.devices {
            let devices = new.terms.devices.as_deref();
            self.terms.check_room(token, &new.terms.payload, devices, Requested::Campaign)?;
        } else if token != before.token.as_deref() {
            self.terms.check_share(token, &before, Requested::Campaign)?;
        }
        self.campaigns.owned.release(before.token.as_deref(), 1);
        self.campaigns.owned.add(token, 1);
        self.campaigns.wheel.remove(was.pace, before.count, was.phase_ms);
        let has_pace = was.pace == new.pace && before.count == new.terms.count;
        let mut campaign = self.shaped(&new, (was.id.clone(), incarnation), (was.created_at, was.terms));
        if has_pace && new.phase.is_none() && !was.is_phase_fixed {
            campaign.phase_ms = was.phase_ms;
        }
        let kept = new.terms.kept(before.incarnation, new.request);
        let terms = if kept == *before {
            before
        } else {
            campaign.terms = self.next_incarnation();
            let terms = self.terms.put(PickTerms { incarnation: campaign.terms, ..kept }, step);
            self.terms.release(before.incarnation, step);
            terms
        };
        self.campaigns.wheel.add(campaign.pace, terms.count, campaign.phase_ms);
        step.push(Op::PutCampaign(Box::new(campaign.clone())));
        let is_moved = (campaign.pace, campaign.phase_ms) != (was.pace, was.phase_ms);
        let Some(active) = self.campaigns.campaigns.get_mut(&incarnation) else {
            return Err(unknown_campaign(&was.id));
        };
        (active.campaign, active.terms) = (Arc::new(campaign), terms);
        if is_moved {
            // Slots are counted otherwise from now on. The wall clock may have been set back:
            // what was passed before stays so.
            let passed = active.state.passed.map(|passed| old_plan.slot(passed).due_at);
            let passed_until =
                passed.into_iter().chain(active.newest_slot_at).fold(step.wall, Timestamp::max);
            active.state.passed = active.plan().newest_due(passed_until);
        }
        if !active.campaign.is_panel {
            (active.state.panel, active.panel) = (None, Vec::new());
        }
        step.push(Op::PutCampaignState(Box::new(active.state.clone())));
        let tracked = active.tracked();
        self.campaigns.put_off(incarnation, Timestamp(i64::MIN));
        Ok(tracked)
    }

    fn patch_campaign(
        &mut self,
        id: &str,
        patch: CampaignPatch,
        step: &mut CampaignsStep<'_>,
    ) -> Answered<TrackedCampaign> {
        let incarnation = self.known(id)?;
        let active = self.campaigns.get(incarnation).ok_or_else(|| unknown_campaign(id))?;
        patch.only_if.check(ObjectVersion::of_campaign(&active.tracked()))?;
        if patch.checked.is_some_and(|checked| checked != active.terms.incarnation) {
            return Err(Problem::conflict("changed_meanwhile", format!("campaign {id} changes; try again")));
        }
        let patched = patched(active.tracked(), patch)?;
        patched.check()?;
        self.replace(incarnation, patched, step)
    }

    fn set_paused(
        &mut self,
        id: &str,
        is_paused: bool,
        only_if: &OnlyIf,
        step: &mut CampaignsStep<'_>,
    ) -> Answered<()> {
        let incarnation = self.known(id)?;
        let active = self.campaigns.get(incarnation).ok_or_else(|| unknown_campaign(id))?;
        only_if.check(ObjectVersion::of_campaign(&active.tracked()))?;
        self.pass_due_slots(incarnation, step);
        let active = self.campaigns.campaigns.get_mut(&incarnation).ok_or_else(|| unknown_campaign(id))?;
        if std::mem::replace(&mut active.state.is_paused, is_paused) == is_paused {
            return Ok(());
        }
        if !is_paused {
            // Slots of the pause are not made up for, and not told of.
            active.state.passed = active.plan().newest_due(step.wall).max(active.state.passed);
        }
        // A state alone is no news to followers: it changes with every slot.
        step.push(Op::PutCampaign(Box::new(CampaignRecord::clone(&active.campaign))));
        step.push(Op::PutCampaignState(Box::new(active.state.clone())));
        self.campaigns.put_off(incarnation, Timestamp(i64::MIN));
        Ok(())
    }

    fn delete_campaign(&mut self, id: &str, only_if: &OnlyIf, step: &mut CampaignsStep<'_>) -> Answered<()> {
        let incarnation = self.known(id)?;
        if let Some(active) = self.campaigns.get(incarnation) {
            only_if.check(ObjectVersion::of_campaign(&active.tracked()))?;
        }
        self.campaigns.ids.remove(id);
        if let Some(active) = self.campaigns.campaigns.remove(&incarnation) {
            if let Some(due) = active.due {
                self.campaigns.due.remove(&(due, incarnation));
            }
            let CampaignRecord { pace, phase_ms, .. } = *active.campaign;
            self.campaigns.wheel.remove(pace, active.terms.count, phase_ms);
            self.campaigns.owned.release(active.terms.token.as_deref(), 1);
            self.terms.release(active.terms.incarnation, step);
        }
        step.push(Op::DeleteCampaign(id.into()));
        let is_of = |slot: records::CampaignSlot| slot.campaign == incarnation;
        let slots = self.running.iter().filter(|(_, running)| running.task.slot.is_some_and(is_of));
        for slot in slots.map(|(slot, _)| *slot).collect::<Vec<_>>() {
            self.stop(slot, step);
        }
        Ok(())
    }
}

/// Whether it is still as this very request of this very token made it.
fn is_made_by(terms: &PickTerms, new: &NewCampaign) -> bool {
    terms.request == new.request && terms.token == new.terms.token
}

/// A campaign as it is asked for after a change. It is of whoever changes it, and of no request, so
/// that none is taken for a repeat of what made it.
fn patched(present: TrackedCampaign, patch: CampaignPatch) -> Result<NewCampaign, Problem> {
    let TrackedCampaign { campaign, terms, .. } = present;
    let read = |text: &Option<Box<str>>| text.as_deref().map(Selection::parse).transpose();
    let phase = campaign.is_phase_fixed.then(|| Duration::from_millis(campaign.phase_ms));
    let answer_timeout = Duration::from_millis(terms.answer_timeout_ms);
    Ok(NewCampaign {
        request: 0,
        id: None,
        name: patch.name.merged(&campaign.name),
        terms: NewPickTerms {
            payload: patch.payload.unwrap_or_else(|| Arc::clone(&terms.payload)),
            selection: patch.selection.merged(&read(&terms.selector)?),
            exclude: patch.exclude.merged(&read(&terms.exclude)?),
            devices: patch.devices.merged(&terms.devices),
            relation: patch.relation.merged(&terms.relation),
            spread_by: patch.spread_by.merged(&terms.spread_by),
            count: patch.count.unwrap_or(terms.count),
            answer_timeout: patch.answer_timeout.unwrap_or(answer_timeout),
            class: patch.class.unwrap_or(terms.class),
            receiver: patch.receiver.merged(&terms.receiver),
            token: patch.token,
        },
        pace: patch.pace.unwrap_or(campaign.pace),
        phase: patch.phase.merged(&phase),
        from: patch.from.merged(&campaign.from),
        until: patch.until.merged(&campaign.until),
        missed: patch.missed.unwrap_or(campaign.missed),
        is_panel: patch.is_panel.unwrap_or(campaign.is_panel),
    })
}

/// There is no campaign of that id: 404 `unknown_campaign`.
#[must_use]
pub fn unknown_campaign(id: &str) -> Problem {
    Problem::unknown("unknown_campaign", format!("there is no campaign {id}"))
}
