//! The machine as an earlier process left it. What had begun goes on: every open pick is ensured,
//! and for some time devices are picked as they connect.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ::campaigns::{DeviceQuota, PickRate, Shares, TokenQuotas, TokenUse, VirtualClock, device_set};
use base::{PartitionId, Timestamp};
use records::{DevicePlace, Pick, PickShare, PickTerms, TaskRecord, TaskState};
use store::{Store, StoreError, View};

use super::campaigns::CampaignTable;
use super::ending::is_replaced;
use super::posts::TaskPosts;
use super::retention::Retention;
use super::running::{OpenPick, PickProgress, RunningTask};
use super::terms::TermsInUse;
use super::{CampaignMachine, CampaignsCounted, CampaignsStep};
use crate::campaigns::TrackedTask;
use crate::campaigns::fleet::FleetView;
use crate::campaigns::links::OrderKind;
use crate::kernel::machine::StepTime;
use crate::kernel::pending_writes::PendingWrites;
use crate::settings::EngineSettings;

/// Rows that are read at a time.
const LOADED_PER_READ: usize = 10_000;
/// Tasks of an earlier process that go on in a step.
const LOADED_PER_STEP: usize = 1_000;
const HOUR: Duration = Duration::from_secs(3_600);

impl CampaignMachine {
    /// Loads the partition of campaigns, which may happen again in a process that `began` long
    /// before. The partitions of devices must be loaded: `fleet` knows which devices there are.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(
        store: &dyn Store,
        settings: &Arc<EngineSettings>,
        fleet: Arc<dyn FleetView>,
        (began_at_wall, moment): (Timestamp, StepTime),
    ) -> Result<Self, StoreError> {
        let view = store.load(PartitionId::CAMPAIGNS)?;
        let head = view.head().clone();
        let now = moment.now.max(head.now);
        let shares = Shares::load(all_shares(&*view)?);
        let picked_lately = settings.campaigns.device_picks_per_hour.map(|per_hour| {
            let mut quota = DeviceQuota::new(per_hour);
            recent_picks(&*view, &shares, now).map(|picks| {
                picks.into_iter().for_each(|(at, place)| quota.count(place, at));
                quota
            })
        });
        let mut clock = view.pick_clock()?;
        let tokens = clock
            .as_mut()
            .map(|clock| TokenQuotas::load(clock.token_hour, std::mem::take(&mut clock.token_picks)));
        let mut machine = Self {
            settings: Arc::clone(settings),
            lineage: store.lineage(),
            clock: VirtualClock::new(clock, now),
            shares,
            terms: TermsInUse::default(),
            running: BTreeMap::new(),
            running_of: TokenUse::default(),
            running_ids: HashMap::new(),
            recovering: BTreeSet::new(),
            recalling: BTreeSet::new(),
            unwritten: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            ended: PendingWrites::default(),
            picks: PendingWrites::default(),
            open: BTreeMap::new(),
            open_picks: TokenUse::default(),
            rate: PickRate::new(settings.campaigns.rate.and_then(NonZeroU32::new), now),
            to_ensure: VecDeque::new(),
            busy: BTreeSet::new(),
            busy_until: None,
            tokens: tokens.unwrap_or_default(),
            warned_of_token: None,
            devices: picked_lately.transpose()?,
            campaigns: CampaignTable::default(),
            posts: TaskPosts::new(),
            retention: Retention::load(&*view)?,
            departed: VecDeque::new(),
            sweeping: Some(None),
            durable: head.seq,
            began_at_wall,
            loaded_at_wall: moment.wall,
            loaded: BTreeSet::new(),
            wanted: (false, false),
            counted: CampaignsCounted::default(),
            wall_ahead_ms: moment.wall.0.saturating_sub(now.0),
            fleet,
            head,
        };
        machine.load_campaigns(&*view)?;
        machine.load_running(&*view, now)?;
        machine.load_posts(&*view)?;
        machine.tell_who_is_mute();
        Ok(machine)
    }

    /// Whom an earlier machine freed in a batch that was lost may still be known as mute.
    fn tell_who_is_mute(&self) {
        let benched = self.shares.mute().benched();
        for place in device_set::places(&self.fleet.mute()) {
            if !device_set::contains(benched, place) {
                self.fleet.set_answering(place, true);
            }
        }
        for place in device_set::places(benched) {
            self.fleet.set_answering(place, false);
        }
    }

    fn load_campaigns(&mut self, view: &dyn View) -> Result<(), StoreError> {
        let mut after: Option<Box<str>> = None;
        loop {
            let campaigns = view.campaigns(after.as_deref(), LOADED_PER_READ)?;
            let Some((last, _)) = campaigns.last() else { return Ok(()) };
            after = Some(last.id.clone());
            for (campaign, state) in campaigns {
                let Some(terms) = self.load_terms(view, campaign.terms)? else { continue };
                let mut panel = Vec::new();
                if let Some(slot) = state.panel.filter(|_| campaign.is_panel) {
                    view.each_pick(slot, terms.count as usize, &mut |pick| panel.push(pick.place))?;
                }
                let slots = view.slots(campaign.incarnation, (Timestamp(0), Timestamp::MAX), None, 1)?;
                let newest = slots.first().and_then(|(task, _)| Some(task.slot?.due_at));
                self.campaigns.add((campaign, state, newest), terms, panel);
            }
        }
    }

    fn load_terms(
        &mut self,
        view: &dyn View,
        terms: base::Incarnation,
    ) -> Result<Option<Arc<PickTerms>>, StoreError> {
        let known = match self.terms.get(terms) {
            Some(known) => Some(known),
            None => view.pick_terms(terms)?.map(Arc::new),
        };
        Ok(known.map(|terms| self.terms.hold(terms)))
    }

    fn load_running(&mut self, view: &dyn View, now: Timestamp) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let states = view.running_tasks(after, LOADED_PER_READ)?;
            let Some(last) = states.last() else { return Ok(()) };
            after = Some(last.task);
            for state in states {
                let Some(task) = view.task(state.task)? else { continue };
                let Some(terms) = self.load_terms(view, task.terms)? else { continue };
                self.go_on_with(view, (task, state), terms, now)?;
            }
        }
    }

    /// A task goes on. Until its time is over, counted anew, it picks devices as they come.
    fn go_on_with(
        &mut self,
        view: &dyn View,
        (task, state): (TaskRecord, TaskState),
        terms: Arc<PickTerms>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let incarnation = task.incarnation;
        let mut running = RunningTask::with(task, terms, state);
        running.campaign = running.task.slot.and_then(|slot| self.campaigns.name(slot.campaign));
        let deadline = Duration::from_millis(running.task.deadline_ms);
        (running.state.replaced_until, running.is_changed) = (now.after(deadline), true);
        let mut go_on = |pick| self.go_on_with_pick(&mut running, pick);
        view.each_pick(incarnation, usize::MAX, &mut go_on)?;
        if running.is_running() {
            running.is_recovering = true;
            running.missing = still_wanted(&running);
            let counts = &running.state.counts;
            running.replacing = counts.expired.saturating_sub(counts.replaced).min(running.missing);
            running.look();
        } else {
            running.call_off(records::PickOutcome::Cancelled);
        }
        if running.task.slot.is_none() {
            self.running_ids.insert(running.task.id, incarnation);
        }
        self.deadlines.insert((running.state.replaced_until, incarnation));
        self.running_of.add(running.terms.token.as_deref(), 1);
        self.running.insert(incarnation, running);
        self.loaded.insert(incarnation);
        Ok(())
    }

    fn go_on_with_pick(&mut self, running: &mut RunningTask, pick: Pick) {
        device_set::insert(&mut running.taken, pick.place);
        if let Some(end) = &pick.end {
            if is_replaced(end.outcome) {
                device_set::insert(&mut running.dropped, pick.place);
            }
            return;
        }
        let key = (pick.task, pick.number);
        self.open.entry(pick.place).or_default().push(key);
        self.open_picks.add(running.terms.token.as_deref(), 1);
        let progress = if self.settings.campaigns.rate.is_some() && running.is_running() && !pick.was_sent {
            running.to_order.push_back(pick.number);
            self.rate.add(pick.task, running.terms.class, running.due_at(), 1);
            PickProgress::WaitsForRate(OrderKind::Ensure)
        } else {
            self.to_ensure.push_back(key);
            PickProgress::Ordered
        };
        running.open.insert(pick.number, OpenPick { pick, progress });
    }

    fn load_posts(&mut self, view: &dyn View) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let states = view.untold_tasks(after, LOADED_PER_READ)?;
            let Some(last) = states.last() else { return Ok(()) };
            after = Some(last.task);
            for state in states {
                let Some(task) = view.task(state.task)? else { continue };
                let Some(terms) = self.load_terms(view, task.terms)? else { continue };
                self.posts.add(TrackedTask { task: Arc::new(task), state, receiver: None }, &terms);
            }
        }
    }
}

impl CampaignMachine {
    /// Goes on with tasks of an earlier process, some at a time.
    pub(super) fn go_on_with_loaded(&mut self, step: &mut CampaignsStep<'_>) {
        for _ in 0..LOADED_PER_STEP {
            let Some(task) = self.loaded.pop_first() else { return };
            step.own.touched.insert(task);
        }
        step.own.is_behind = true;
    }
}

/// How many devices a task would still pick: as many as it wants, but for those that are asked or
/// have answered. It picks no more replacements than it may have.
fn still_wanted(running: &RunningTask) -> u32 {
    let counts = &running.state.counts;
    let open = u32::try_from(running.open.len()).unwrap_or(u32::MAX);
    let has = open.saturating_add(counts.answered).saturating_add(counts.failed);
    let most = running.task.wanted.saturating_mul(2).saturating_sub(counts.picked);
    running.task.wanted.saturating_sub(has).min(most)
}

fn all_shares(view: &dyn View) -> Result<Vec<PickShare>, StoreError> {
    let mut shares: Vec<PickShare> = Vec::new();
    loop {
        let after = shares.last().map(|share| share.place);
        let read = view.pick_shares(after, LOADED_PER_READ)?;
        if read.is_empty() {
            return Ok(shares);
        }
        shares.extend(read);
    }
}

/// The picks of the last hour, the oldest first.
fn recent_picks(
    view: &dyn View,
    shares: &Shares,
    now: Timestamp,
) -> Result<Vec<(Timestamp, DevicePlace)>, StoreError> {
    let since = now.before(HOUR);
    let mut picks = Vec::new();
    for place in device_set::places(shares.known()) {
        if shares.share(place).is_some_and(|share| share.last_picked_at >= since) {
            let of_device = view.picks_since(place, since, LOADED_PER_READ)?;
            picks.extend(of_device.into_iter().map(|(at, _)| (at, place)));
        }
    }
    picks.sort_unstable();
    Ok(picks)
}
