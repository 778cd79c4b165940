//! Whom a task picks of the devices that were found, and the orders that follow.

use std::time::Duration;

use ::campaigns::spread::{self, Stratum};
use ::campaigns::{DeviceSet, device_set};
use base::{Incarnation, PartitionId, Timestamp};
use records::{DevicePlace, DeviceSlot, Op, Pick, PickOutcome};
use roaring::RoaringBitmap;

use super::running::{DeviceSearch, OpenPick, PickProgress, PlannedPick, RunningTask};
use super::token_quotas::per_hour;
use super::token_shares::OPEN_PICKS;
use super::{CampaignMachine, CampaignsStep};
use crate::campaigns::effect::CampaignsEffect;
use crate::campaigns::links::{OrderKind, PickOrder};
use crate::campaigns::search::{FoundDevices, PickSearch, all_of};

/// Picks whose commands are given in a step. The batch bounds how many are new in one.
const RELEASED_PER_STEP: u32 = 10_000;
/// Picks that are ensured in a step.
const ENSURED_PER_STEP: usize = 1_000;
/// So long after there was no room for results of picks, such are ordered again.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Shares that are looked at in a step, for devices that are gone.
const SWEPT_PER_STEP: usize = 1_000;

impl CampaignMachine {
    /// These devices may be picked: picks as many as the task wants. Who was not found now is not
    /// awaited, but by a task that goes on after a start.
    pub(super) fn found(&mut self, task: Incarnation, found: &FoundDevices, step: &mut CampaignsStep<'_>) {
        let Some(running) = self.running.get_mut(&task) else { return };
        step.own.touched.insert(task);
        running.search = match running.search {
            DeviceSearch::UnderWay { again: true } => DeviceSearch::Wanted,
            _ => DeviceSearch::Idle,
        };
        if !running.is_running() || running.missing == 0 {
            return;
        }
        if step.now >= running.state.replaced_until {
            running.stop_picking();
            return;
        }
        let picked = self.pick(task, found, step);
        let Some(running) = self.running.get_mut(&task) else { return };
        running.missing -= picked;
        if !running.is_recovering && running.search == DeviceSearch::Idle {
            (running.missing, running.replacing) = (0, 0);
        }
    }

    /// Picks devices, and says how many. Their picks are written in this step and, of very many, in
    /// those that follow.
    fn pick(&mut self, task: Incarnation, found: &FoundDevices, step: &mut CampaignsStep<'_>) -> u32 {
        let wanted = self.may_pick(task, step.now);
        self.warn_of_token(task, step.now);
        let used_up = self.devices.as_mut().map_or_else(DeviceSet::new, |all| all.used_up(step.now).to_vec());
        let Some(running) = self.running.get(&task) else { return 0 };
        let places = self.choose((running, wanted), found, &used_up, step.now);
        let (reads, picked) = (self.clock.reads(step.now), u32::try_from(places.len()).unwrap_or(u32::MAX));
        self.shares.picked(&places, reads, step.now);
        self.clock.picked(picked, step.now);
        if let Some(devices) = &mut self.devices {
            places.iter().for_each(|place| devices.count(*place, step.now));
        }
        let Some(running) = self.running.get_mut(&task) else { return 0 };
        self.open_picks.add(running.terms.token.as_deref(), places.len());
        if let Some(token) = running.terms.token.as_deref()
            && per_hour(&self.settings, token).is_some()
        {
            self.tokens.count(token, picked, step.now);
        }
        for place in &places {
            device_set::insert(&mut running.taken, *place);
        }
        // The seats of those that dropped out came last.
        let first = running.missing.saturating_sub(running.replacing);
        let planned =
            (0..).zip(&places).map(|(at, place)| PlannedPick { place: *place, is_replacement: at >= first });
        running.planned.extend(planned);
        running.replacing -= picked.saturating_sub(first);
        if let Some(slot) = running.task.slot
            && !self.keeps_panel(task)
        {
            self.campaigns.note_panel(slot.campaign, task, &places, step);
        }
        picked
    }

    /// Whether a slot picks none but the panel of the slot before: after a start the panel comes
    /// back one by one.
    fn keeps_panel(&self, task: Incarnation) -> bool {
        let running = self.running.get(&task).filter(|running| running.is_recovering);
        let slot = running.and_then(|running| running.task.slot);
        slot.is_some_and(|slot| self.campaigns.has_panel_of_other(slot.campaign, task))
    }

    /// How many devices a task may pick now of those that it would pick.
    fn may_pick(&self, task: Incarnation, now: Timestamp) -> u32 {
        let Some(running) = self.running.get(&task) else { return 0 };
        let token = running.terms.token.as_deref();
        let room = OPEN_PICKS.room(&self.open_picks, token);
        let left = token.and_then(|token| self.left_of_token(token, now));
        let most = u64::min(room as u64, left.unwrap_or(u64::MAX));
        u32::try_from(most).unwrap_or(u32::MAX).min(running.missing)
    }

    /// The devices that are picked. If the slot is of a panel, those of the slot before come first.
    /// Then come those that have had least. None is picked twice. None is picked that has had all
    /// that it may have in an hour, is set aside, or was deleted since it was found.
    fn choose(
        &self,
        (running, wanted): (&RunningTask, u32),
        found: &FoundDevices,
        used_up: &DeviceSet,
        now: Timestamp,
    ) -> Vec<DevicePlace> {
        let mut strata = found.strata.clone();
        let has = has_of_each(running, &strata);
        for stratum in &mut strata {
            device_set::subtract(stratum, &running.taken);
            device_set::subtract(stratum, used_up);
        }
        let (seed, keeps_panel) = (running.task.incarnation.0, self.keeps_panel(running.task.incarnation));
        loop {
            let all = all_of(&strata);
            let panel = running.task.slot.map_or(&[][..], |slot| self.campaigns.panel(slot.campaign));
            let mut chosen = spread::panel(panel, &all, wanted);
            let mut aside = self.shares.mute().aside(&all, now);
            device_set::unite(&mut aside, device_set::of_places(chosen.iter().copied()));
            let chosen_len = u32::try_from(chosen.len()).unwrap_or(wanted);
            let rest = if keeps_panel { 0 } else { wanted - chosen_len };
            let stratum = |(candidates, has): (&DeviceSet, &u32)| {
                let mut candidates = candidates.clone();
                device_set::subtract(&mut candidates, &aside);
                Stratum { candidates, has: *has }
            };
            let strata_left: Vec<_> = strata.iter().zip(&has).map(stratum).collect();
            chosen.extend(spread::spread(&self.shares, strata_left, rest, seed));
            let gone: Vec<_> =
                chosen.iter().copied().filter(|place| self.fleet.device_id(*place).is_none()).collect();
            if gone.is_empty() {
                return chosen;
            }
            // Fewer are left each time.
            let gone = device_set::of_places(gone);
            strata.iter_mut().for_each(|stratum| device_set::subtract(stratum, &gone));
        }
    }

    /// Writes picks that are planned, and has them carried out.
    pub(super) fn write_planned(&mut self, step: &mut CampaignsStep<'_>) {
        let touched: Vec<_> = step.own.touched.iter().copied().collect();
        for task in touched.into_iter().chain(std::mem::take(&mut self.unwritten)) {
            while let Some(planned) =
                self.running.get_mut(&task).and_then(|running| running.planned.pop_front())
            {
                self.write_pick(task, planned, step);
                if !step.has_room() {
                    break;
                }
            }
            if self.running.get(&task).is_some_and(|running| !running.planned.is_empty()) {
                self.unwritten.insert(task);
                step.own.is_behind = true;
            }
        }
    }

    fn write_pick(
        &mut self,
        task: Incarnation,
        PlannedPick { place, is_replacement }: PlannedPick,
        step: &mut CampaignsStep<'_>,
    ) {
        let Some(running) = self.running.get_mut(&task) else { return };
        step.own.touched.insert(task);
        let Some(device) = self.fleet.device_id(place) else {
            // It was deleted since: its seat is another's.
            self.open_picks.release(running.terms.token.as_deref(), 1);
            if running.stopped(step.now).is_none() {
                running.missing += 1;
                running.replacing += u32::from(is_replacement);
                running.look();
            }
            return;
        };
        let counts = &mut running.state.counts;
        let number = counts.picked;
        counts.picked += 1;
        counts.replaced += u32::from(is_replacement);
        running.is_changed = true;
        let pick = Pick {
            task,
            number,
            slot: running.task.slot,
            device,
            place,
            picked_at: step.now,
            command: None,
            was_sent: false,
            end: None,
            late: None,
        };
        step.own.counted.picked += 1;
        step.push(Op::PutPick(Box::new(pick.clone())));
        if let Some(share) = self.shares.share(place) {
            step.push(Op::PutPickShare(share));
        }
        self.open.entry(place).or_default().push((task, number));
        running.open.insert(number, OpenPick { pick, progress: PickProgress::WaitsForRate(OrderKind::Give) });
        if let Some(outcome) = running.stopped(step.now) {
            self.call_off((task, number), outcome, step);
            return;
        }
        running.to_order.push_back(number);
        self.rate.add(task, running.terms.class, running.due_at(), 1);
    }

    /// Has picks carried out whose turn it is.
    pub(super) fn release_by_rate(&mut self, step: &mut CampaignsStep<'_>) {
        for (task, picks) in self.rate.take(RELEASED_PER_STEP, step.now) {
            let Some(running) = self.running.get_mut(&task) else { continue };
            let mut left = picks;
            while left > 0
                && let Some(number) = running.to_order.pop_front()
            {
                let Some(open) = running.open.get_mut(&number) else { continue };
                if let PickProgress::WaitsForRate(what) = open.progress {
                    left -= 1;
                    open.progress = PickProgress::Ordered;
                    order(running, number, what, step);
                }
            }
        }
    }

    /// A pick was given no command, for want of room for its result: all such are ordered again
    /// after a pause.
    pub(super) fn try_again_later(&mut self, key: (Incarnation, u32), now: Timestamp) {
        self.busy.insert(key);
        self.busy_until.get_or_insert(now.after(BUSY_PAUSE));
    }

    /// Has picks ensured that may have been lost, and those for which there was no room.
    pub(super) fn ensure_some(&mut self, step: &mut CampaignsStep<'_>) {
        if self.busy_until.is_some_and(|until| until <= step.now) {
            self.busy_until = None;
            self.to_ensure.extend(std::mem::take(&mut self.busy));
        }
        for _ in 0..ENSURED_PER_STEP {
            let Some((task, number)) = self.to_ensure.pop_front() else { return };
            let Some(running) = self.running.get_mut(&task) else { continue };
            let Some(open) = running.open.get(&number) else { continue };
            match open.progress {
                PickProgress::WaitsForRate(_) => {}
                PickProgress::Ordered | PickProgress::Sent => order(running, number, OrderKind::Ensure, step),
                PickProgress::CalledOff(_) => order(running, number, OrderKind::TakeBack, step),
            }
        }
        step.own.is_behind |= !self.to_ensure.is_empty();
    }

    /// Goes on with tasks that something happened to: looks for devices, answers, ends.
    pub(super) fn go_on_with_touched(&mut self, step: &mut CampaignsStep<'_>) {
        for task in step.own.touched.clone() {
            let Some(running) = self.running.get_mut(&task) else { continue };
            if running.wants_who_come() {
                self.recovering.insert(task);
            } else {
                self.recovering.remove(&task);
            }
            if running.search == DeviceSearch::Wanted && running.missing > 0 {
                running.search = DeviceSearch::UnderWay { again: false };
                let terms = std::sync::Arc::clone(&running.terms);
                step.emit(CampaignsEffect::Search(PickSearch { task, terms }));
            } else if running.search == DeviceSearch::Wanted {
                running.search = DeviceSearch::Idle;
            }
            if running.planned.is_empty()
                && let Some(creator) = running.creator.take()
            {
                step.emit(CampaignsEffect::Task(creator, Ok(Box::new(running.tracked()))));
            }
            if !running.quiet_waiters.is_empty() && running.is_quiet() {
                for waiter in std::mem::take(&mut running.quiet_waiters) {
                    step.emit(CampaignsEffect::Done(waiter, Ok(())));
                }
            }
            if running.is_over() {
                self.end_task(task, step);
            }
        }
    }

    /// Forgets shares of devices that are gone, some at a time.
    pub(super) fn sweep_shares(&mut self, step: &mut CampaignsStep<'_>) {
        let Some(after) = self.sweeping.take() else { return };
        let places = places_behind(self.shares.known(), after);
        let Some(last) = places.last().copied() else { return };
        for place in places {
            if self.fleet.device_id(place).is_none() {
                self.forget_device(place, step);
            }
        }
        self.sweeping = Some(Some(last));
        step.own.is_behind = true;
    }

    /// A device is gone.
    pub(super) fn forget_device(&mut self, place: DevicePlace, step: &mut CampaignsStep<'_>) {
        if self.shares.forget(place) {
            step.push(Op::DeletePickShare(place));
        }
    }
}

/// How many devices a task has of each value, but for those that dropped out.
fn has_of_each(running: &RunningTask, strata: &[DeviceSet]) -> Vec<u32> {
    let mut has = running.taken.clone();
    device_set::subtract(&mut has, &running.dropped);
    let has_of = |stratum: &DeviceSet| device_set::len(&device_set::intersection(stratum, &has));
    strata.iter().map(|stratum| u32::try_from(has_of(stratum)).unwrap_or(u32::MAX)).collect()
}

/// The first places of a set behind one.
fn places_behind(known: &[(PartitionId, RoaringBitmap)], after: Option<DevicePlace>) -> Vec<DevicePlace> {
    let mut found = Vec::new();
    for (partition, slots) in known {
        let first = match after {
            Some(after) if after.partition > *partition => continue,
            Some(after) if after.partition == *partition => after.slot.0.saturating_add(1),
            _ => 0,
        };
        let left = SWEPT_PER_STEP - found.len();
        let place = |slot| DevicePlace { partition: *partition, slot: DeviceSlot(slot) };
        found.extend(slots.range(first..).take(left).map(place));
    }
    found
}

/// Has a device's partition do this for a pick.
pub(super) fn order(running: &RunningTask, number: u32, what: OrderKind, step: &mut CampaignsStep<'_>) {
    let Some(OpenPick { pick, progress }) = running.open.get(&number) else { return };
    step.emit(CampaignsEffect::Order(PickOrder {
        task: pick.task,
        id: running.task.id,
        number,
        device: pick.device.clone(),
        place: pick.place,
        terms: std::sync::Arc::clone(&running.terms),
        slot: running.campaign.clone().zip(running.task.slot),
        picked_at: pick.picked_at,
        command: pick.command,
        why: match progress {
            PickProgress::CalledOff(outcome) => *outcome,
            _ => PickOutcome::NotSent,
        },
        what,
    }));
}
