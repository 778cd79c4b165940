//! Slots of campaigns: they begin when the wall clock says so. A slot is planned durably before any
//! device is picked for it.

use std::sync::Arc;
use std::time::Duration;

use ::campaigns::{Slot, SlotStep};
use base::{EntityId, Incarnation, Timestamp};
use records::{CampaignSlot, Op, TaskRecord};

use super::running::RunningTask;
use super::token_shares::RUNNING;
use super::{CampaignMachine, CampaignsStep};
use crate::campaigns::effect::{CampaignWarning, CampaignsEffect};

/// The wall clock may be put forward, and not every machine tells when. So while campaigns wait for
/// a time of it, it is looked at this often.
pub(super) const WALL_LOOKED_AT_EVERY: Duration = Duration::from_secs(10);

impl CampaignMachine {
    /// Begins and skips the slots that are due.
    pub(super) fn begin_slots(&mut self, step: &mut CampaignsStep<'_>) {
        while let Some(campaign) = self.campaigns.take_due(step.wall) {
            if !step.has_room() {
                self.campaigns.put_off(campaign, step.wall);
                step.own.is_behind = true;
                return;
            }
            if let Some(due) = self.pass_slot(campaign, step) {
                self.campaigns.put_off(campaign, due);
            }
        }
    }

    /// Begins or skips all slots that are due, before the campaign is paused or changed: they keep
    /// its earlier terms. They are at most [`SKIPPED_MAX`](::campaigns::slots::SKIPPED_MAX) and one
    /// more.
    pub(super) fn pass_due_slots(&mut self, campaign: Incarnation, step: &mut CampaignsStep<'_>) {
        while self.pass_slot(campaign, step).is_some_and(|due| due <= step.wall) {}
    }

    /// Begins or skips the next slot if it is due. Returns when to look again; `None` if the
    /// campaign is paused or over.
    fn pass_slot(&mut self, campaign: Incarnation, step: &mut CampaignsStep<'_>) -> Option<Timestamp> {
        let (slot, begins) = match self.campaigns.step(campaign, step.wall)? {
            SlotStep::Begin(slot) => (slot, !self.was_missed(campaign, slot)),
            SlotStep::Skip(slot) => (slot, false),
            SlotStep::Wait(slot) => return Some(slot.due_at),
            SlotStep::Over => return None,
        };
        if begins {
            self.begin(campaign, slot, step);
        } else {
            self.skip(campaign, slot, step);
        }
        self.campaigns.passed(campaign, slot, step);
        Some(step.wall)
    }

    /// Whether a slot was due while the server was down, and is not to be made up for. While its
    /// machine is loaded again, a server is not down.
    fn was_missed(&self, campaign: Incarnation, slot: Slot) -> bool {
        slot.due_at <= self.began_at_wall && self.campaigns.skips_missed(campaign)
    }

    fn begin(&mut self, campaign: Incarnation, slot: Slot, step: &mut CampaignsStep<'_>) {
        let token = self.campaigns.get(campaign).and_then(|active| active.terms.token.clone());
        if RUNNING.room(&self.running_of, token.as_deref()) == 0 {
            let campaign_id = self.campaigns.name(campaign);
            let warning = CampaignWarning::NoRoomForSlot { campaign: campaign_id, token };
            step.emit(CampaignsEffect::Warn(warning));
            self.skip(campaign, slot, step);
            return;
        }
        let Some(mut running) = self.planned_slot(campaign, slot, step) else { return };
        running.missing = slot.wanted;
        // What was due before the load is done late: after a start nobody is connected yet.
        running.is_recovering = slot.due_at <= self.loaded_at_wall;
        running.look();
        step.own.counted.slots_begun += 1;
        self.clock.task_began(step.now);
        self.terms.hold(Arc::clone(&running.terms));
        self.enter(running, step);
    }

    /// Keeps a slot that is not done.
    fn skip(&mut self, campaign: Incarnation, slot: Slot, step: &mut CampaignsStep<'_>) {
        let Some(mut running) = self.planned_slot(campaign, slot, step) else { return };
        running.state.was_skipped = true;
        running.state.standing = records::TaskStanding::Done;
        running.state.ended_at = Some(step.now);
        step.push(Op::PutTaskState(Box::new(running.state)));
        self.retention.ended(true, step.now);
        step.own.counted.slots_skipped += 1;
    }

    /// A slot as a task of its own.
    fn planned_slot(
        &mut self,
        campaign: Incarnation,
        slot: Slot,
        step: &mut CampaignsStep<'_>,
    ) -> Option<RunningTask> {
        let incarnation = self.next_incarnation();
        let active = self.campaigns.get(campaign)?;
        let terms = Arc::clone(&active.terms);
        let replaced_for = active.plan().replaced_for(Duration::from_millis(terms.answer_timeout_ms));
        let id = EntityId::derive(self.lineage, 0, incarnation, step.now, slot.number as u32, &[slot.number]);
        let task = TaskRecord {
            id,
            incarnation,
            terms: terms.incarnation,
            created_at: step.now,
            wanted: slot.wanted,
            deadline_ms: u64::try_from(replaced_for.as_millis()).unwrap_or(u64::MAX),
            slot: Some(CampaignSlot { campaign, number: slot.number, due_at: slot.due_at }),
            request: None,
        };
        step.push(Op::PutTask(Box::new(task.clone())));
        let mut running = RunningTask::new(task, terms, step.now.after(replaced_for));
        running.campaign = Some(Arc::clone(&active.name));
        Some(running)
    }
}
