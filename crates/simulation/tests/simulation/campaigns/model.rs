//! The naive model: every campaign, slot, task and pick, as the machine's batches tell it.
//!
//! It does not say what comes next: it looks at each change and says whether it may be.

mod choosing;
mod quotas;
mod slots;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::{Incarnation, Timestamp};
use engine::settings::CampaignSettings;
use records::{
    Batch, CampaignRecord, CampaignState, DevicePlace, Op, Pick, PickOutcome, PickShare, PickTerms,
    TaskRecord, TaskStanding, TaskState,
};

use super::counts::Counts;
use super::plan::{CampaignsPlan, GROUPS_MAX};
use crate::harness::violation::{Checked, Invariant, unreadable};
use crate::harness::workload::Stored;
use quotas::QuotaUse;

/// Rows that are read at a time.
const READ_AT_ONCE: usize = 1_000;

/// The machine of campaigns.
#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) terms: BTreeMap<Incarnation, Rc<PickTerms>>,
    pub(crate) tasks: BTreeMap<Incarnation, Rc<TrackedTask>>,
    /// Tasks that were kept for as long as tasks are.
    pub(crate) deleted: BTreeSet<Incarnation>,
    pub(crate) campaigns: BTreeMap<Box<str>, Rc<TrackedCampaign>>,
    /// Every slot that was begun or skipped, also of campaigns and tasks that are gone.
    slots: BTreeSet<(Incarnation, Timestamp)>,
    shares: BTreeMap<DevicePlace, PickShare>,
    /// All picks that there ever were, by device.
    pub(crate) picks_of: BTreeMap<DevicePlace, u64>,
    /// Of each group of the devices, picks that could not take others of it: their task had picked
    /// these in an earlier batch.
    again: [u64; GROUPS_MAX],
    /// Devices that are deleted by now.
    pub(crate) gone: Rc<BTreeSet<DevicePlace>>,
    rules: Rc<Rules>,
    quotas: QuotaUse,
    pub(crate) counts: Counts,
}

/// What a run keeps to.
#[derive(Debug, Default)]
struct Rules {
    quotas: CampaignSettings,
    groups: u32,
    /// All devices are there whenever the process is, and none is left out for its quota.
    finds_all: bool,
    devices: u32,
}

/// A task with its picks.
#[derive(Clone, Debug)]
pub(crate) struct TrackedTask {
    pub(crate) task: TaskRecord,
    pub(crate) state: Option<TaskState>,
    pub(crate) picks: BTreeMap<u32, Pick>,
    /// The batch in which each pick was made, and the one in which the task ended.
    pub(crate) made_in: BTreeMap<u32, u64>,
    pub(crate) ended_in: Option<u64>,
    /// The life of the process in which it began.
    began_in: u64,
}

/// A campaign, and how far it has come.
#[derive(Clone, Debug)]
pub(crate) struct TrackedCampaign {
    pub(crate) campaign: CampaignRecord,
    pub(crate) state: Option<CampaignState>,
}

/// When a batch was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) seq: u64,
    pub(crate) wall: Timestamp,
    pub(crate) process: u64,
}

impl TrackedTask {
    pub(crate) fn has_ended(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.ended_at.is_some())
    }
}

impl Model {
    pub(crate) fn new(plan: &CampaignsPlan) -> Self {
        let rules = Rules {
            quotas: plan.settings.campaigns.clone(),
            groups: plan.groups(),
            finds_all: plan.all_stay() && !plan.bounds_devices(),
            devices: plan.devices as u32,
        };
        Self { rules: Rc::new(rules), ..Self::default() }
    }

    /// The machine made a batch.
    pub(crate) fn made(&mut self, batch: &Batch, made: Made) -> Checked {
        let mut touched = BTreeSet::new();
        let before = self.campaigns.clone();
        for op in &batch.ops {
            match op {
                Op::PutPickTerms(terms) => {
                    drop(self.terms.insert(terms.incarnation, Rc::new((**terms).clone())));
                }
                Op::DeletePickTerms(terms) => drop(self.terms.remove(terms)),
                Op::PutTask(task) => self.task_began(task, made)?,
                Op::PutTaskState(state) => {
                    self.task_went_on(state, made);
                    touched.insert(state.task);
                }
                Op::DeleteTask(task, _) => {
                    self.tasks.remove(&task.incarnation);
                    self.deleted.insert(task.incarnation);
                }
                Op::PutPick(pick) => {
                    self.picked(pick, made)?;
                    touched.insert(pick.task);
                }
                Op::DeletePick(pick) => self.change(pick.task, |task| drop(task.picks.remove(&pick.number))),
                Op::PutPickShare(share) => self.shared(share),
                Op::DeletePickShare(place) => drop(self.shares.remove(place)),
                Op::PutCampaign(campaign) => self.campaign_put(campaign),
                Op::PutCampaignState(state) => self.campaign_went_on(state),
                Op::DeleteCampaign(id) => {
                    self.counts.campaigns_removed += 1;
                    self.campaigns.remove(id);
                }
                _ => {}
            }
        }
        touched.iter().try_for_each(|task| self.check_task(*task))?;
        self.check_chosen(&before, &touched, made)?;
        self.check_passed(&before, made.wall)
    }

    /// Picks of devices that are always in the same selections differ by at most 1. The bound grows
    /// by the picks made again for tasks that had some of them.
    pub(crate) fn check_fair(&self, group: u32, devices: &[DevicePlace]) -> Checked {
        let picks = devices.iter().map(|place| self.picks_of.get(place).copied().unwrap_or(0));
        let apart = picks.clone().max().unwrap_or(0) - picks.min().unwrap_or(0);
        let again = self.again[group as usize];
        Invariant::PICKS_ARE_FAIR.check(apart <= 1 + again, || {
            format!("{apart} picks apart, {again} picked again: {:?}", self.picks_of)
        })
    }

    fn change(&mut self, task: Incarnation, change: impl FnOnce(&mut TrackedTask)) {
        if let Some(tracked) = self.tasks.get_mut(&task) {
            change(Rc::make_mut(tracked));
        }
    }

    fn task_began(&mut self, task: &TaskRecord, made: Made) -> Checked {
        self.counts.tasks += u64::from(task.slot.is_none());
        self.counts.of_gone_token += u64::from(self.is_of_gone_token(task));
        let tracked = TrackedTask {
            task: task.clone(),
            state: None,
            picks: BTreeMap::new(),
            made_in: BTreeMap::new(),
            ended_in: None,
            began_in: made.process,
        };
        let before = self.tasks.insert(task.incarnation, Rc::new(tracked));
        Invariant::ONE_EFFECT_PER_CAUSE.check(before.is_none(), || format!("{task:?} begins again"))?;
        if let Some(slot) = task.slot {
            self.slot_began(task, slot, made)?;
        }
        Ok(())
    }

    fn task_went_on(&mut self, state: &TaskState, made: Made) {
        let Some(tracked) = self.tasks.get(&state.task) else { return };
        let (is_slot, was) = (tracked.task.slot.is_some(), tracked.state.clone());
        if let Some(slot) = tracked.task.slot.filter(|_| was.is_none() && !state.was_skipped) {
            self.counts.slots_begun += 1;
            self.counts.slots_caught_up += u64::from(slots::is_late(slot.due_at, made.wall));
        }
        let has_ended = was.is_none_or(|was| was.ended_at.is_none()) && state.ended_at.is_some();
        self.counts.slots_skipped += u64::from(has_ended && state.was_skipped);
        self.counts.tasks_done += u64::from(has_ended && !is_slot && state.standing == TaskStanding::Done);
        self.counts.tasks_cancelled +=
            u64::from(has_ended && !is_slot && state.standing == TaskStanding::Cancelled);
        let replaced = self.tasks[&state.task].state.as_ref().map_or(0, |state| state.counts.replaced);
        self.counts.replaced += u64::from(state.counts.replaced.saturating_sub(replaced));
        self.change(state.task, |task| {
            task.state = Some(state.clone());
            task.ended_in = task.ended_in.or(has_ended.then_some(made.seq));
        });
    }

    fn picked(&mut self, pick: &Pick, made: Made) -> Checked {
        let tracked = self.tasks.get(&pick.task);
        let Some(tracked) = tracked else {
            return Err(Invariant::AS_THE_MODEL.broken(format!("a pick of no task: {pick:?}")));
        };
        match tracked.picks.get(&pick.number) {
            None => {
                let is_next = tracked.picks.len() as u32 == pick.number && pick.end.is_none();
                Invariant::ONE_EFFECT_PER_CAUSE.check(is_next, || format!("{pick:?} is not the next"))?;
                let is_twice = tracked.picks.values().any(|other| other.place == pick.place);
                Invariant::NOT_BEYOND_ITS_COUNT.check(!is_twice, || format!("{pick:?} is there twice"))?;
                self.counts.picks_after_a_start += u64::from(tracked.began_in != made.process);
                self.counts.picks += 1;
                let is_gone = self.gone.contains(&pick.place);
                Invariant::GONE_DEVICES_ARE_FORGOTTEN.check(!is_gone, || format!("{pick:?} is made"))?;
                let group = |place: DevicePlace| (place.slot.0 % self.rules.groups) as usize;
                let mut earlier = tracked.made_in.iter().filter(|(_, seq)| **seq < made.seq);
                let is_again = earlier.any(|(number, _)| {
                    tracked.picks.get(number).is_some_and(|other| group(other.place) == group(pick.place))
                });
                self.again[group(pick.place)] += u64::from(is_again);
                let terms = tracked.task.terms;
                self.check_quotas(pick, terms)?;
                *self.picks_of.entry(pick.place).or_default() += 1;
            }
            Some(before) => {
                let same = (&before.device, before.place, before.picked_at, before.slot)
                    == (&pick.device, pick.place, pick.picked_at, pick.slot);
                let ended_once = before.end.is_none() || before.end == pick.end;
                Invariant::ONE_EFFECT_PER_CAUSE
                    .check(same && ended_once, || format!("{pick:?} after {before:?}"))?;
                let (ends, late) = (before.end.is_none(), before.late.is_none() && pick.late.is_some());
                if let Some(end) = pick.end.as_ref().filter(|_| ends) {
                    self.count_end(end.outcome);
                }
                self.counts.late += u64::from(late);
            }
        }
        self.change(pick.task, |task| {
            task.picks.insert(pick.number, pick.clone());
            task.made_in.entry(pick.number).or_insert(made.seq);
        });
        Ok(())
    }

    fn count_end(&mut self, outcome: PickOutcome) {
        let counts = &mut self.counts;
        let count = match outcome {
            PickOutcome::Answered => &mut counts.answered,
            PickOutcome::Refused => &mut counts.refused,
            PickOutcome::NoAnswer => &mut counts.no_answer,
            PickOutcome::WentAway => &mut counts.went_away,
            PickOutcome::NotSent | PickOutcome::Cancelled => &mut counts.not_sent,
        };
        *count += 1;
    }

    fn shared(&mut self, share: &PickShare) {
        let was = self.shares.insert(share.place, *share).and_then(|share| share.benched_until);
        self.counts.benched += u64::from(was.is_none() && share.benched_until.is_some());
    }

    /// A task has what its state says, and no more than it wants.
    fn check_task(&self, task: Incarnation) -> Checked {
        let Some(tracked) = self.tasks.get(&task) else { return Ok(()) };
        let Some(state) = &tracked.state else {
            return Err(Invariant::AS_THE_MODEL.broken(format!("no state of {tracked:?}")));
        };
        let (picks, wanted) = (&tracked.picks, tracked.task.wanted);
        let of = |is: fn(PickOutcome) -> bool| {
            let ends = picks.values().filter_map(|pick| pick.end.as_ref());
            ends.filter(|end| is(end.outcome)).count() as u32
        };
        let open = picks.values().filter(|pick| pick.end.is_none()).count() as u32;
        let (answered, refused) =
            (of(|end| end == PickOutcome::Answered), of(|end| end == PickOutcome::Refused));
        let ended = picks.len() as u32 - open;
        let counts = (state.counts.picked, state.counts.answered, state.counts.failed, state.ended);
        Invariant::AS_THE_MODEL.same(
            format!("the counts of {state:?}"),
            &counts,
            &(picks.len() as u32, answered, refused, ended),
        )?;
        let holds = open + answered + refused <= wanted
            && state.counts.replaced <= wanted
            && state.counts.picked <= 2 * wanted
            && (!state.was_skipped || picks.is_empty());
        Invariant::NOT_BEYOND_ITS_COUNT.check(holds, || format!("{wanted} wanted: {state:?}, {picks:?}"))?;
        Invariant::AS_THE_MODEL
            .check(state.ended_at.is_none() || open == 0, || format!("ended too early: {tracked:?}"))
    }

    /// No share is kept of a device that was deleted.
    pub(crate) fn check_gone_are_forgotten(&self) -> Checked {
        let kept: Vec<_> = self.shares.keys().filter(|place| self.gone.contains(place)).collect();
        Invariant::GONE_DEVICES_ARE_FORGOTTEN.check(kept.is_empty(), || format!("shares of {kept:?}"))
    }

    /// Whether a device is asked for something, and has not answered.
    pub(crate) fn is_asked(&self, place: DevicePlace) -> bool {
        let picks = self.tasks.values().flat_map(|tracked| tracked.picks.values());
        picks.filter(|pick| pick.end.is_none()).any(|pick| pick.place == place)
    }

    /// What a reader sees is what the batches said.
    pub(crate) fn check_stored(&self, stored: &Stored) -> Checked {
        let view = &*stored.view;
        let campaigns = view.campaigns(None, READ_AT_ONCE).map_err(unreadable)?;
        let expected = self
            .campaigns
            .values()
            .filter_map(|tracked| Some((tracked.campaign.clone(), tracked.state.clone()?)));
        Invariant::AS_THE_MODEL.same("campaigns", &campaigns, &expected.collect())?;
        let shares = view.pick_shares(None, READ_AT_ONCE).map_err(unreadable)?;
        Invariant::AS_THE_MODEL.same("shares", &shares, &self.shares.values().copied().collect())?;
        for (task, tracked) in &self.tasks {
            let stored = view.task(*task).map_err(unreadable)?;
            Invariant::AS_THE_MODEL.same("a task", &stored, &Some(tracked.task.clone()))?;
            let state = view.task_state(*task).map_err(unreadable)?;
            Invariant::AS_THE_MODEL.same("the state of a task", &state, &tracked.state)?;
            let picks = view.picks(*task, None, READ_AT_ONCE).map_err(unreadable)?;
            Invariant::AS_THE_MODEL.same("picks", &picks, &tracked.picks.values().cloned().collect())?;
        }
        Ok(())
    }
}
