//! Callers: who begins tasks and cancels them, makes, changes, pauses, resumes and removes
//! campaigns.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, DeviceId, EntityId, Problem};
use engine::OnlyIf;
use engine::campaigns::{
    CampaignCall, CampaignPatch, CampaignsInput, NewCampaign, NewPickTerms, NewTask, PresentCampaign,
    TaskCall, TrackedTask,
};
use engine::kernel::reply::Reply;
use records::{CampaignPace, MissedSlots, PickClass, TaskStanding};

use super::fleet::device_id;
use super::{Answer, Then, World};
use crate::campaigns::plan::{GONE_TOKEN, HALVES, TOKEN, UNBOUND_TOKEN};
use crate::harness::calls::Waiting;
use crate::harness::track::AnyTrack;
use crate::harness::violation::{Checked, Invariant};

/// Lengths of slots, in milliseconds.
const EVERY_MS: [u64; 5] = [1_000, 7_000, 60_000, 300_000, 7_200_000];
/// Periods, in milliseconds.
const OVER_MS: [u64; 3] = [60_000, 100_000, 7_200_000];
/// Campaigns go on for so long at most: a day of short slots would be all that a run does.
const GOES_ON_MS: u64 = 1_800_000;

impl World {
    /// A task is begun, awaited or cancelled.
    pub(super) fn manage_tasks(&mut self) {
        let newest = self.accepted.len().saturating_sub(5);
        let known = self.accepted[newest..].to_vec();
        match self.machine.random.below(6) {
            0 if !known.is_empty() => {
                let id = self.machine.random.one_of(&known);
                let (reply, receiver) = Reply::new();
                let input = CampaignsInput::Task(TaskCall::Cancel { id, reply });
                self.ask(input, Waiting::on(receiver, Answer::Done), Then::Nothing);
            }
            1 if !known.is_empty() => {
                let id = self.machine.random.one_of(&known);
                let (reply, receiver) = Reply::new();
                let input = CampaignsInput::Task(TaskCall::AwaitEnd { id, reply });
                self.ask(input, Waiting::on(receiver, |()| Answer::Kept), Then::Ended(id));
            }
            _ => self.begin_task(),
        }
    }

    fn begin_task(&mut self) {
        self.last_number += 1;
        let id = EntityId { routing: 0, at: self.now(), number: self.last_number, tag: 1 };
        let terms = self.any_terms();
        let found = self.find(terms.devices.as_deref(), terms.spread_by.is_some());
        let deadline = Duration::from_millis(1_000 + self.machine.random.below(60_000));
        let new = Box::new(NewTask { request: u128::from(self.last_number), terms, deadline });
        let (reply, receiver) = Reply::new();
        let input = CampaignsInput::Task(TaskCall::Create { id, new, found, is_put: false, reply });
        self.ask(input, Waiting::on(receiver, Answer::Task), Then::Begun(id));
    }

    /// All devices, or one half of them: devices of a half are always in the same selections.
    fn any_terms(&mut self) -> NewPickTerms {
        let half = self.machine.random.below(4) as u32;
        let of_half = || self.fleet.every(HALVES, half).into_iter().map(|place| device_id(place.slot.0));
        // A half that is all deleted names nobody, which is refused.
        let devices = (half < HALVES).then(|| of_half().collect::<Vec<DeviceId>>());
        let devices = devices.filter(|devices| !devices.is_empty());
        let count = 1 + self.machine.random.below(self.plan.devices + 2) as u32;
        let answer_timeout = Duration::from_millis(1_000 + self.machine.random.below(20_000));
        let class = self.machine.random.one_of(&PickClass::ALL);
        let spreads = self.plan.spreads && self.machine.random.chance(1, 2);
        let spread_by = spreads.then(|| "site".into());
        let new = NewPickTerms::new(Arc::from(&b"{}"[..]), count);
        NewPickTerms { devices, answer_timeout, class, spread_by, token: self.any_token(), ..new }
    }

    /// One of the tokens, or one that is not configured, or none.
    fn any_token(&mut self) -> Option<Box<str>> {
        if self.plan.settings.campaigns.token_picks_per_hour.is_empty() {
            return None;
        }
        let tokens = [Some(TOKEN), Some(TOKEN), Some(TOKEN), Some(UNBOUND_TOKEN), Some(GONE_TOKEN), None];
        self.machine.random.one_of(&tokens).map(Box::from)
    }

    pub(super) fn begun(&mut self, id: EntityId, begun: Result<Box<TrackedTask>, Problem>) -> Checked {
        if begun.as_ref().is_err_and(|problem| problem.code == "picks_exhausted") {
            self.counts.tasks_refused += 1;
            return Ok(());
        }
        let tracked = begun.map_err(|problem| {
            Invariant::AS_THE_MODEL.broken(format!("refused without a reason: {problem:?}"))
        })?;
        Invariant::AS_THE_MODEL.same("the id of a task", &tracked.task.id, &id)?;
        self.accepted.push(id);
        Ok(())
    }

    /// Somebody was told that a task has ended.
    pub(super) fn check_ended(&mut self, id: EntityId) -> Checked {
        let mut tasks = self.model.present.tasks.values();
        let Some(found) = tasks.find(|tracked| tracked.task.id == id).cloned() else { return Ok(()) };
        let Some(ended_in) = found.ended_in else {
            let detail = format!("told of an end, and there is none: {found:?}");
            return Err(Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(detail));
        };
        self.model.shown(ended_in);
        Ok(())
    }

    /// A campaign is made, changed, paused, resumed or removed.
    pub(super) fn manage_campaigns(&mut self) {
        let id: Box<str> = format!("c{}", self.machine.random.below(self.plan.campaigns)).into();
        let is_known = self.model.present.campaigns.contains_key(&id);
        let (reply, receiver) = Reply::new();
        let done = |receiver| Waiting::on(receiver, Answer::Done);
        let call = match self.machine.random.below(8) {
            0 => CampaignCall::Delete { id, only_if: OnlyIf::default(), reply },
            1..=2 => CampaignCall::SetPaused { id, is_paused: true, only_if: OnlyIf::default(), reply },
            3..=4 => CampaignCall::SetPaused { id, is_paused: false, only_if: OnlyIf::default(), reply },
            5 if is_known => return self.patch_campaign(id),
            _ => return self.put_campaign(id),
        };
        self.ask(CampaignsInput::Campaign(call), done(receiver), Then::Nothing);
    }

    fn put_campaign(&mut self, id: Box<str>) {
        let random = &self.machine.random;
        let is_panel = self.plan.panels && random.chance(2, 3);
        let pace = match random.chance(1, 2) || is_panel {
            // Many slots of a panel follow each other while it is there.
            true if is_panel => CampaignPace::Every(random.one_of(&EVERY_MS[..3])),
            true => CampaignPace::Every(random.one_of(&EVERY_MS)),
            false => CampaignPace::Over(random.one_of(&OVER_MS)),
        };
        let phase = random.chance(1, 3).then(|| Duration::from_millis(random.below(5_000)));
        let missed = random.one_of(&MissedSlots::ALL);
        let wall = self.machine.clock.wall();
        let later = |ms: u64| wall.after(Duration::from_millis(ms));
        let from = random.chance(1, 5).then(|| later(random.below(600_000)));
        let is_short = campaigns::slots::period_ms(pace) < 300_000;
        let ends = is_short || random.chance(1, 5);
        let until = ends.then(|| later(300_000 + random.below(GOES_ON_MS)));
        let mut terms = self.any_terms();
        if is_panel {
            // Others can take the place of those that go.
            terms.count = 1 + terms.count / 4;
            terms.spread_by = None;
        }
        self.last_number += 1;
        let request = u128::from(self.last_number);
        let new = NewCampaign {
            request,
            id: Some(id.clone()),
            name: None,
            terms,
            pace,
            phase,
            from,
            until,
            missed,
            is_panel,
        };
        let (reply, receiver) = Reply::new();
        let present = match self.machine.random.chance(1, 2) {
            true => PresentCampaign::IsReplaced(OnlyIf::default()),
            false => PresentCampaign::Refuses,
        };
        let call = CampaignCall::Create { id, new: Box::new(new), present, reply };
        let answer =
            |begun: Result<Box<(_, bool)>, Problem>| Answer::Campaign(begun.map(|begun| Box::new(begun.0)));
        self.ask(CampaignsInput::Campaign(call), Waiting::on(receiver, answer), Then::Nothing);
    }

    fn patch_campaign(&mut self, id: Box<str>) {
        let count = Some(1 + self.machine.random.below(self.plan.devices + 2) as u32);
        let pace = self.machine.random.chance(1, 2);
        let pace = pace.then(|| CampaignPace::Every(self.machine.random.one_of(&EVERY_MS[3..])));
        let token = self.any_token();
        let patch = Box::new(CampaignPatch { count, pace, token, ..CampaignPatch::default() });
        let (reply, receiver) = Reply::new();
        let call = CampaignCall::Patch { id, patch, reply };
        self.ask(CampaignsInput::Campaign(call), Waiting::on(receiver, Answer::Campaign), Then::Nothing);
    }

    /// Removes the campaigns that are left. Whether there were any.
    pub(super) fn remove_campaigns(&mut self) -> bool {
        let left: Vec<_> = self.model.present.campaigns.keys().cloned().collect();
        for id in &left {
            let (reply, receiver) = Reply::new();
            let call = CampaignCall::Delete { id: id.clone(), only_if: OnlyIf::default(), reply };
            self.ask(CampaignsInput::Campaign(call), Waiting::on(receiver, Answer::Done), Then::Nothing);
        }
        !left.is_empty()
    }

    /// Every task has ended that was accepted, and nobody waits for anything.
    pub(super) fn check_all_ended(&self) -> Checked {
        for tracked in self.model.present.tasks.values() {
            let is_over = tracked.has_ended()
                && tracked.state.as_ref().is_some_and(|state| state.standing != TaskStanding::Running);
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED.check(is_over, || format!("no end of {tracked:?}"))?;
        }
        self.model.present.check_gone_are_forgotten()?;
        let waiting: Vec<_> = self.calls.waiting.iter().map(|call| call.id).collect();
        Invariant::BOUNDED.check(waiting.is_empty(), || format!("calls {waiting:?} are never answered"))
    }
}
