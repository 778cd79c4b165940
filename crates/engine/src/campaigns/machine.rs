//! The machine of tasks and campaigns: which there are, whom each has picked, and what is to be
//! done.
//!
//! In memory are the tasks that go on, with their open picks, every campaign, and the share of
//! every device that was ever picked. Picks that have ended are rows.

mod campaigns;
mod cancelling;
mod ending;
mod loading;
mod pick_updates;
mod picking;
mod posts;
mod retention;
mod running;
mod slots;
mod tasks;
mod terms;
mod token_quotas;
mod token_shares;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use ::campaigns::{DeviceQuota, PickRate, Shares, TokenQuotas, TokenUse, VirtualClock, device_set};
use base::{EntityId, Incarnation, Lineage, PartitionId, Timestamp};
use records::{DevicePlace, Op, PartitionHead, Pick, PickClass, PickClock};
use store::StoreError;

pub use self::campaigns::unknown_campaign;
pub use self::tasks::unknown_task;

use self::campaigns::CampaignTable;
use self::pick_updates::DepartedDevice;
use self::posts::TaskPosts;
use self::retention::Retention;
use self::running::RunningTask;
use self::terms::TermsInUse;
use super::TrackedTask;
use super::campaign_metrics::CampaignsCounted;
use super::effect::{CampaignsContext, CampaignsEffect};
use super::fleet::FleetView;
use super::input::{CampaignsInput, ShareNow};
use crate::kernel::fetch::Fetch;
use crate::kernel::machine::{Machine, Step, StepTime};
use crate::kernel::pending_writes::PendingWrites;
use crate::kernel::step_context::StepContext;
use crate::settings::EngineSettings;

/// Tasks and slots that may go on.
const RUNNING_MAX: usize = 10_000;
/// Picks that may be open.
const OPEN_PICKS_MAX: usize = 200_000;
/// Benches that end in a step.
const BENCHES_PER_STEP: usize = 1_000;

/// A step of the machine.
type CampaignsStep<'a> = StepContext<'a, CampaignsEffect, CampaignsStepPart>;

/// What only this machine collects in a step.
#[derive(Default)]
struct CampaignsStepPart {
    /// Tasks that something happened to.
    touched: BTreeSet<Incarnation>,
    /// There is more to do than the step had room for.
    is_behind: bool,
    counted: CampaignsCounted,
}

/// The machine of tasks and campaigns.
pub struct CampaignMachine {
    settings: Arc<EngineSettings>,
    head: PartitionHead,
    lineage: Lineage,
    fleet: Arc<dyn FleetView>,
    clock: VirtualClock,
    shares: Shares,
    terms: TermsInUse,
    running: BTreeMap<Incarnation, RunningTask>,
    /// How many each token has of them.
    running_of: TokenUse,
    running_ids: HashMap<EntityId, Incarnation>,
    /// Of them those that pick devices as they come.
    recovering: BTreeSet<Incarnation>,
    /// Of them those of which picks may have to be called off.
    recalling: BTreeSet<Incarnation>,
    /// Of them those with picks that are planned and not written.
    unwritten: BTreeSet<Incarnation>,
    /// Of them those that go on after a start, until the first step.
    loaded: BTreeSet<Incarnation>,
    /// When tasks stop replacing devices that drop out.
    deadlines: BTreeSet<(Timestamp, Incarnation)>,
    /// Tasks that have ended, by id, until that is durable.
    ended: PendingWrites<EntityId, TrackedTask>,
    /// Picks that have ended, until that is durable.
    picks: PendingWrites<(Incarnation, u32), Pick>,
    /// The open picks of devices.
    open: BTreeMap<DevicePlace, Vec<(Incarnation, u32)>>,
    open_picks: TokenUse,
    /// Picks that wait for the rate.
    rate: PickRate,
    /// Picks whose commands are to be ensured.
    to_ensure: VecDeque<(Incarnation, u32)>,
    /// Picks for whose results there was no room, and when they are ordered again.
    busy: BTreeSet<(Incarnation, u32)>,
    busy_until: Option<Timestamp>,
    tokens: TokenQuotas,
    /// When it was warned that a token is gone.
    warned_of_token: Option<Timestamp>,
    devices: Option<DeviceQuota>,
    campaigns: CampaignTable,
    posts: TaskPosts,
    retention: Retention,
    /// Devices that have left and whose open picks were not looked at yet.
    departed: VecDeque<DepartedDevice>,
    /// Shares of devices that may be gone, from here on.
    sweeping: Option<Option<DevicePlace>>,
    /// All batches up to this one are durable.
    durable: u64,
    /// What the outside was told last of which sessions matter.
    wanted: (bool, bool),
    /// What was counted last.
    counted: CampaignsCounted,
    /// When the process began; on the wall clock.
    began_at_wall: Timestamp,
    /// When this was loaded; on the wall clock.
    loaded_at_wall: Timestamp,
    /// By how much the wall clock is ahead of the engine clock, in milliseconds.
    wall_ahead_ms: i64,
}

impl std::fmt::Debug for CampaignMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CampaignMachine").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

impl CampaignMachine {
    fn apply(&mut self, input: CampaignsInput, step: &mut CampaignsStep<'_>) -> Result<(), StoreError> {
        match input {
            CampaignsInput::Task(call) => self.apply_to_tasks(call, step)?,
            CampaignsInput::Campaign(call) => self.apply_to_campaigns(call, step)?,
            CampaignsInput::Update(update, reply) => {
                self.take_update(update, step)?;
                step.emit(CampaignsEffect::Kept(reply));
            }
            CampaignsInput::Shares { places, reply } => {
                let shares = places.into_iter().map(|place| self.share_now(place, step.now)).collect();
                step.emit(CampaignsEffect::Shares(reply, shares));
            }
            CampaignsInput::Fairness(reply) => {
                let fairness = self.clock.fairness(self.fleet.connected(), step.now);
                step.emit(CampaignsEffect::Fairness(reply, fairness));
            }
        }
        Ok(())
    }

    fn share_now(&self, place: DevicePlace, now: Timestamp) -> ShareNow {
        let share = self.shares.share(place);
        ShareNow {
            weight: self.clock.weight(share.map_or(0, |share| share.reached), now),
            last_picked_at: share.map(|share| share.last_picked_at),
            benched_until: share.and_then(|share| share.benched_until).filter(|until| *until > now),
        }
    }

    /// What the passing of time, and of batches, brings. Each part is bounded.
    fn advance(&mut self, step: &mut CampaignsStep<'_>) -> Result<(), StoreError> {
        if self.clock.due_at(step.now) <= step.now {
            self.clock.compute(self.fleet.connected(), step.now);
        }
        for place in self.shares.end_benches(step.now, BENCHES_PER_STEP) {
            step.emit(CampaignsEffect::Answering(place, true));
        }
        self.go_on_with_loaded(step);
        self.pass_deadlines(step);
        self.begin_slots(step);
        self.recall_some(step);
        self.write_planned(step);
        self.release_by_rate(step);
        self.ensure_some(step);
        self.sweep_shares(step);
        self.go_on_with_touched(step);
        self.retain(step)?;
        self.tell_due_posts(step);
        Ok(())
    }

    /// Writes how far tasks have come, and what time it is on the clock of picks.
    fn write_changes(&mut self, step: &mut CampaignsStep<'_>) {
        for task in std::mem::take(&mut step.own.touched) {
            let Some(running) = self.running.get_mut(&task) else { continue };
            if std::mem::take(&mut running.is_changed) {
                step.push(Op::PutTaskState(Box::new(running.state.clone())));
            }
        }
        // Whatever a token had picked, the clock has counted too.
        if let Some(clock) = self.clock.take_change() {
            let (token_hour, token_picks) = self.tokens.stored();
            step.push(Op::PutPickClock(Box::new(PickClock { token_hour, token_picks, ..clock })));
        }
    }

    fn tell_outside(&mut self, step: &mut CampaignsStep<'_>) {
        let benched = device_set::len(self.shares.mute().benched());
        let comers_matter = benched > 0 || !self.recovering.is_empty();
        let wanted = (self.open_picks.all() > 0, comers_matter);
        if std::mem::replace(&mut self.wanted, wanted) != wanted {
            let (has_open, who_come) = wanted;
            // In front of the orders: who goes away when it has one is told.
            step.effects.insert(0, CampaignsEffect::Wanted { has_open, who_come });
        }
        let counted = CampaignsCounted {
            running: self.running.len() as u64,
            open_picks: self.open_picks.all() as u64,
            picks_waiting: PickClass::ALL.into_iter().map(|class| self.rate.waiting(class)).sum(),
            benched,
            ..step.own.counted
        };
        let has_counted = step.own.counted != CampaignsCounted::default();
        if std::mem::replace(&mut self.counted, counted) != counted || has_counted {
            step.emit(CampaignsEffect::Counted(counted));
        }
    }

    /// When the engine clock will show what the wall clock shows then, as far as is known.
    fn at_wall(&self, wall: Timestamp) -> Timestamp {
        Timestamp(wall.0.saturating_sub(self.wall_ahead_ms))
    }
}

impl Machine for CampaignMachine {
    type Input = CampaignsInput;
    type Effect = CampaignsEffect;
    type Context = CampaignsContext;

    fn weight(input: &CampaignsInput) -> usize {
        input.weight()
    }

    fn step(
        &mut self,
        moment: StepTime,
        inputs: &mut dyn Iterator<Item = CampaignsInput>,
        fetch: &dyn Fetch,
    ) -> Result<Step<CampaignsEffect>, StoreError> {
        let own = CampaignsStepPart::default();
        let mut step = StepContext::new(PartitionId::CAMPAIGNS, &self.head, moment, fetch, own);
        self.wall_ahead_ms = step.wall.0.saturating_sub(step.now.0);
        self.let_leave(&mut step);
        // What the step before has left comes first. Otherwise at least one: whoever runs this has
        // taken it from its inbox.
        let mut takes_more = self.departed.is_empty();
        while takes_more && let Some(input) = inputs.next() {
            self.apply(input, &mut step)?;
            takes_more = step.has_room();
        }
        self.advance(&mut step)?;
        self.write_changes(&mut step);
        self.tell_outside(&mut step);
        let more = step.own.is_behind;
        let (batch, effects) = step.seal(&mut self.head, false, |_| {});
        Ok(Step { batch, effects, more })
    }

    fn settled(&mut self, seq: u64) {
        self.durable = seq;
        self.ended.settle(seq);
        self.picks.settle(seq);
    }

    fn has_unfinished(&self) -> bool {
        !self.departed.is_empty()
    }

    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        let computed = Some(self.clock.due_at(now));
        let benches = self.shares.mute().next_end();
        let deadlines = self.deadlines.first().map(|(at, _)| *at);
        let rate = self.rate.next_at(now);
        let slots = self
            .campaigns
            .next_due()
            .map(|wall| self.at_wall(wall).min(now.after(slots::WALL_LOOKED_AT_EVERY)));
        let kept = self.retention.next_wakeup(&self.settings.campaigns, self.durable);
        let posts = self.posts.next_wakeup();
        [computed, benches, deadlines, rate, slots, kept, posts, self.busy_until].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
