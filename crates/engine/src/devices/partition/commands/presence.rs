//! Sessions of devices come and go: the books of them, and the lanes of commands that open and
//! close with them.

use std::collections::VecDeque;

use base::{DeviceId, Timestamp};
use commands::LaneChange;
use fleet::index::IndexChange;
use records::{CommandPhase, DeviceProfile, DeviceSession, DeviceSlot, DisconnectReason, Happening, Op};
use store::StoreError;

use super::super::{DevicePartition, DeviceStep};
use super::PublishPace;
use crate::devices::context::DeviceContext;
use crate::devices::effect::DeviceEffect;
use crate::devices::sessions::{PresenceChange, RelabelledSessions};
use crate::kernel::reply::Reply;
use crate::presence::Session;

/// Devices that a search looks at in a step.
const SWEPT_PER_STEP: usize = 256;

/// The search for devices with commands, after sessions reach other devices by wildcards than
/// before.
#[derive(Debug)]
pub(in crate::devices::partition) struct ReachSweep {
    /// Devices whose lanes were open because of wildcards when it began, and those with commands
    /// that were not durable then.
    pending: VecDeque<DeviceSlot>,
    /// Whether only those are looked at.
    is_partial: bool,
    /// Whether all devices with commands are looked at, also where no wildcard reaches any.
    everywhere: bool,
    phase: CommandPhase,
    after: Option<DeviceSlot>,
}

impl ReachSweep {
    fn new(mut pending: Vec<DeviceSlot>) -> Self {
        // In the same order each time: what a run of the simulation does depends on it.
        pending.sort_unstable();
        pending.dedup();
        Self {
            pending: pending.into(),
            is_partial: false,
            everywhere: false,
            phase: CommandPhase::Unanswered,
            after: None,
        }
    }
}

impl DevicePartition {
    pub(in crate::devices::partition) fn presence_changed(
        &mut self,
        change: &PresenceChange,
        reply: Reply<()>,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        match change {
            PresenceChange::Connected(device, _, session, _) => {
                self.bar_by_label(device, step)?;
                let (was_connected, was_own) =
                    (self.is_connected(device), self.has_own(device, session.number));
                self.commands.sessions.apply(change);
                self.bar_by_label(device, step)?;
                // It may be told again, with more kinds. After a load the books are not sure.
                let is_sure = self.commands.unsure_sessions.is_empty();
                if let Some(slot) = self.devices.slot_of(device)
                    && self.has_own(device, session.number)
                    && !(was_own && (is_sure || self.is_booked(slot, session.number, step)?))
                {
                    self.session_began(slot, was_connected, step)?;
                }
            }
            PresenceChange::Disconnected(device, number, reason) => {
                self.bar_by_label(device, step)?;
                let ended = self.own_sessions(device).find(|(session, _)| session.number == *number);
                let ended = ended.cloned();
                self.commands.sessions.apply(change);
                if let Some(slot) = self.devices.slot_of(device) {
                    if let Some((session, since)) = ended {
                        let (address, reason) = (session.address, *reason);
                        self.put_timeline(slot, Happening::Disconnected { reason, address, since }, step);
                        self.book_session(slot, step);
                    }
                    self.close_if_unreachable(slot, step)?;
                }
            }
            PresenceChange::Reaches(device, _, reach) => {
                self.commands.sessions.apply(change);
                if let Some(slot) = self.devices.slot_of(device) {
                    if reach.is_some() && self.is_subscribed_or_polls(slot, step)? {
                        // What went out before may have gone to another session.
                        self.commands.wide_open.remove(&slot);
                        self.reopen_lane(slot, step)?;
                    } else {
                        self.close_if_unreachable(slot, step)?;
                    }
                }
            }
            PresenceChange::ReachesWidely(..) => {
                self.commands.sessions.apply(change);
                let opened = std::mem::take(&mut self.commands.wide_open);
                let before = self.commands.sweep.take();
                let everywhere = before.as_ref().is_some_and(|sweep| sweep.everywhere);
                let left = before.map(|sweep| sweep.pending).unwrap_or_default();
                let fresh = self.commands.pending.slots();
                let pending = opened.into_iter().chain(left).chain(fresh).collect();
                self.commands.sweep = Some(ReachSweep { everywhere, ..ReachSweep::new(pending) });
            }
        }
        step.emit(DeviceEffect::Kept(reply));
        Ok(())
    }

    /// Goes on with the sessions that live now. The partition is loaded again: sessions may have
    /// begun or ended whose telling was lost.
    pub fn go_on_with_sessions(&mut self, context: &DeviceContext) {
        let sessions = context.sessions.sessions(self.id);
        let mut unsure = context.fleet.connected(self.id);
        unsure.extend(sessions.connected().filter_map(|device| self.devices.slot_of(device)));
        // In the same order each time: what a run of the simulation does depends on it.
        unsure.sort_unstable();
        unsure.dedup();
        self.commands.unsure_sessions = unsure;
        self.commands.sessions = sessions;
        self.commands.sweep = Some(ReachSweep { everywhere: true, ..ReachSweep::new(Vec::new()) });
    }

    /// Brings the books of some devices up to the sessions that live, where they are not sure after
    /// the partition was loaded again. Whether there are more.
    pub(in crate::devices::partition) fn check_sessions(
        &mut self,
        step: &mut DeviceStep<'_>,
    ) -> Result<bool, StoreError> {
        let unsure = &mut self.commands.unsure_sessions;
        for slot in unsure.split_off(unsure.len().saturating_sub(SWEPT_PER_STEP)) {
            self.check_session(slot, step)?;
        }
        Ok(!self.commands.unsure_sessions.is_empty())
    }

    fn check_session(&mut self, slot: DeviceSlot, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        let Some(id) = self.devices.get(slot).map(|device| device.id.clone()) else { return Ok(()) };
        self.bar_by_label(&id, step)?;
        let alive = self.own_sessions(&id).last().map(|(session, _)| session.number);
        let booked = self.booked_session(slot, step)?;
        if booked.as_ref().map(|session| session.number) == alive {
            step.own.indexed.push(IndexChange::Connected(slot, alive.is_some()));
            self.tell_tasks_who_is_there(slot, alive.is_some(), step);
            return Ok(());
        }
        if let Some(DeviceSession { address, since, .. }) = booked {
            // How it ended was told in vain.
            let reason = DisconnectReason::ConnectionLost;
            self.put_timeline(slot, Happening::Disconnected { reason, address, since }, step);
        }
        if alive.is_some() {
            self.note_connected(slot, step);
        } else {
            self.book_session(slot, step);
        }
        Ok(())
    }

    /// The session that stands in the books of a device.
    fn booked_session(
        &self,
        slot: DeviceSlot,
        step: &DeviceStep<'_>,
    ) -> Result<Option<DeviceSession>, StoreError> {
        self.commands.pending_sessions.get_or_read(&slot, || step.fetch.view()?.device_session(slot))
    }

    fn is_booked(&self, slot: DeviceSlot, number: u64, step: &DeviceStep<'_>) -> Result<bool, StoreError> {
        Ok(self.booked_session(slot, step)?.is_some_and(|session| session.number == number))
    }

    /// Whether the device has a live session of its own.
    pub(in crate::devices::partition) fn is_connected(&self, id: &DeviceId) -> bool {
        self.own_sessions(id).next().is_some()
    }

    /// Whether this is a live session of the device's own.
    fn has_own(&self, device: &DeviceId, number: u64) -> bool {
        self.own_sessions(device).any(|(own, _)| own.number == number)
    }

    /// The live sessions of a device's own, oldest first.
    fn own_sessions(&self, id: &DeviceId) -> impl Iterator<Item = &(Session, Timestamp)> {
        let device = self.devices.slot_of(id).and_then(|slot| self.devices.get(slot));
        self.commands.sessions.own(id, device.map(|device| self.devices.kind(device)))
    }

    /// A device that has sessions already is registered.
    pub(in crate::devices::partition) fn registered_with_sessions(
        &mut self,
        profile: &DeviceProfile,
        step: &mut DeviceStep<'_>,
    ) {
        self.commands.sessions.relabel(profile);
        if self.is_connected(&profile.id) {
            self.note_connected(profile.slot, step);
        }
    }

    /// A device has other labels. A login that is known by a label may speak for it no longer, or
    /// again: its sessions are the device's only while it does.
    pub(in crate::devices::partition) fn sessions_relabelled(
        &mut self,
        profile: &DeviceProfile,
        step: &mut DeviceStep<'_>,
    ) {
        let RelabelledSessions { barred, back } = self.commands.sessions.relabel(profile);
        let is_any_changed = !(barred.is_empty() && back.is_empty());
        for (Session { address, .. }, since) in barred {
            let reason = DisconnectReason::Kicked;
            self.put_timeline(profile.slot, Happening::Disconnected { reason, address, since }, step);
        }
        for (Session { address, .. }, _) in back {
            self.put_timeline(profile.slot, Happening::Connected { address }, step);
        }
        if is_any_changed {
            self.book_session(profile.slot, step);
        }
    }

    /// A session may be told of after the device lost the label of its login. A partition that was
    /// loaded again has not looked yet.
    fn bar_by_label(&mut self, device: &DeviceId, step: &DeviceStep<'_>) -> Result<(), StoreError> {
        if self.commands.sessions.has_labelled(device)
            && let Some(profile) = self.stored_profile(device, step)?
        {
            self.commands.sessions.relabel(&profile);
        }
        Ok(())
    }

    fn session_began(
        &mut self,
        slot: DeviceSlot,
        was_connected: bool,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        if !was_connected && let Some(session) = self.booked_session(slot, step)? {
            // Its end was never told: the process died before.
            let DeviceSession { address, since, .. } = session;
            let reason = DisconnectReason::ServerStopped;
            self.put_timeline(slot, Happening::Disconnected { reason, address, since }, step);
        }
        self.note_connected(slot, step);
        Ok(())
    }

    fn note_connected(&mut self, slot: DeviceSlot, step: &mut DeviceStep<'_>) {
        let newest = self.devices.get(slot).and_then(|device| self.own_sessions(&device.id).last());
        let address = newest.and_then(|(session, _)| session.address.clone());
        self.put_timeline(slot, Happening::Connected { address }, step);
        self.book_session(slot, step);
    }

    /// Brings the books up to the sessions that live: the newest of the device's own stands there.
    fn book_session(&mut self, slot: DeviceSlot, step: &mut DeviceStep<'_>) {
        let newest = self.devices.get(slot).and_then(|device| self.own_sessions(&device.id).last());
        let newest = newest.map(|(session, since)| DeviceSession {
            slot,
            number: session.number,
            since: *since,
            address: session.address.clone(),
        });
        step.own.indexed.push(IndexChange::Connected(slot, newest.is_some()));
        self.tell_tasks_who_is_there(slot, newest.is_some(), step);
        self.commands.pending_sessions.put(step.seq, slot, newest.clone());
        step.push(match newest {
            Some(session) => Op::PutDeviceSession(Box::new(session)),
            None => Op::DeleteDeviceSession(slot),
        });
    }

    /// Opens the lane of a device that can be reached, however that is.
    pub(super) fn open_if_reachable(
        &mut self,
        slot: DeviceSlot,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        if self.commands.lanes.is_open(slot) {
            return Ok(());
        }
        if self.is_subscribed_or_polls(slot, step)? {
            return self.open_lane(slot, step);
        }
        if self.is_reached_widely(slot, step)? {
            self.commands.wide_open.insert(slot);
            return self.open_lane(slot, step);
        }
        Ok(())
    }

    /// The same, if the step has room for what goes out then: else the search opens it.
    pub(super) fn open_with_room(
        &mut self,
        slot: DeviceSlot,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        if !self.commands.lanes.is_open(slot) && !step.has_room() {
            self.look_later(slot);
            return Ok(());
        }
        self.open_if_reachable(slot, step)
    }

    pub(super) fn open_lane(
        &mut self,
        slot: DeviceSlot,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let change = LaneChange::Open(self.pace_of_reach(slot, step)?);
        self.with_lanes(step, |lanes, now, store, moved| lanes.change(now, slot, change, store, moved))
    }

    fn reopen_lane(&mut self, slot: DeviceSlot, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        let change = LaneChange::Reopen(self.pace_of_reach(slot, step)?);
        self.with_lanes(step, |lanes, now, store, moved| lanes.change(now, slot, change, store, moved))
    }

    /// Commands go to the device at another pace, from now on.
    pub(in crate::devices::partition) fn pace_changed(
        &mut self,
        slot: DeviceSlot,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        if self.commands.lanes.is_open(slot) && !step.has_room() {
            self.look_later(slot);
            return Ok(());
        }
        self.set_pace(slot, step)
    }

    fn set_pace(&mut self, slot: DeviceSlot, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        let change = LaneChange::SetPace(self.pace_of_reach(slot, step)?);
        self.with_lanes(step, |lanes, now, store, moved| lanes.change(now, slot, change, store, moved))
    }

    /// Leaves a device to the search, for whose commands the step has no room.
    fn look_later(&mut self, slot: DeviceSlot) {
        let partial = || ReachSweep { is_partial: true, ..ReachSweep::new(Vec::new()) };
        self.commands.sweep.get_or_insert_with(partial).pending.push_back(slot);
    }

    /// A device that polls is given one command at a time.
    fn pace_of_reach(&self, slot: DeviceSlot, step: &DeviceStep<'_>) -> Result<PublishPace, StoreError> {
        let pace = self.pace(slot);
        let is_polled_only = self.commands.pollers.has(slot) && !self.is_subscribed(slot, step)?;
        Ok(if is_polled_only { PublishPace { in_flight: 1, ..pace } } else { pace })
    }

    /// Opens or closes the lane of a device that may be within reach no longer, or from now on.
    pub(in crate::devices::partition) fn reach_changed(
        &mut self,
        slot: DeviceSlot,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        if !self.commands.lanes.is_open(slot) && !step.has_room() {
            self.look_later(slot);
            return Ok(());
        }
        self.open_or_close(slot, step)
    }

    fn open_or_close(&mut self, slot: DeviceSlot, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        if self.commands.lanes.is_open(slot) {
            return self.close_if_unreachable(slot, step);
        }
        self.open_if_reachable(slot, step)?;
        self.close_if_wide(slot, step)
    }

    pub(super) fn close_if_unreachable(
        &mut self,
        slot: DeviceSlot,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        if self.is_subscribed_or_polls(slot, step)? {
            return self.pace_of_lane(slot, step);
        }
        if self.is_reached_widely(slot, step)? {
            self.commands.wide_open.insert(slot);
            self.pace_of_lane(slot, step)?;
            return self.close_if_wide(slot, step);
        }
        self.commands.wide_open.remove(&slot);
        self.commands.lanes.close(slot);
        Ok(())
    }

    /// A lane that goes on goes at the pace of those who reach its device now: who polled may have
    /// gone.
    fn pace_of_lane(&mut self, slot: DeviceSlot, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        if self.commands.lanes.is_open(slot) { self.set_pace(slot, step) } else { Ok(()) }
    }

    /// The lane of a device that is reached by wildcards alone takes memory only while it has work.
    pub(super) fn close_if_wide(
        &mut self,
        slot: DeviceSlot,
        step: &DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let is_wide = self.commands.wide_open.contains(&slot) && !self.is_subscribed_or_polls(slot, step)?;
        if is_wide && self.commands.lanes.forget_idle(slot) {
            self.commands.wide_open.remove(&slot);
        }
        Ok(())
    }

    /// Whether a session names the device, or the device polls.
    fn is_subscribed_or_polls(&self, slot: DeviceSlot, step: &DeviceStep<'_>) -> Result<bool, StoreError> {
        Ok(self.commands.pollers.has(slot) || self.is_subscribed(slot, step)?)
    }

    /// Whether a session names the device.
    fn is_subscribed(&self, slot: DeviceSlot, step: &DeviceStep<'_>) -> Result<bool, StoreError> {
        let Some(device) = self.devices.get(slot) else { return Ok(false) };
        let profile = || self.stored_profile(&device.id, step);
        self.commands.sessions.reaches(&device.id, self.devices.kind(device), profile)
    }

    fn is_reached_widely(&self, slot: DeviceSlot, step: &DeviceStep<'_>) -> Result<bool, StoreError> {
        if !self.commands.sessions.has_wide() {
            return Ok(false);
        }
        let Some(device) = self.devices.get(slot) else { return Ok(false) };
        let profile = || self.stored_profile(&device.id, step);
        self.commands.sessions.reaches_widely(&device.id, self.devices.kind(device), profile)
    }

    /// Goes on with the search for devices whose reach by wildcards has changed. Whether there are
    /// more.
    pub(in crate::devices::partition) fn sweep_reach(
        &mut self,
        step: &mut DeviceStep<'_>,
    ) -> Result<bool, StoreError> {
        let Some(mut sweep) = self.commands.sweep.take() else { return Ok(false) };
        let found = if sweep.pending.is_empty() {
            let found = step.fetch.view()?.slots_with_commands(sweep.phase, sweep.after, SWEPT_PER_STEP)?;
            sweep.after = found.last().copied();
            found
        } else {
            let most = sweep.pending.len().min(SWEPT_PER_STEP);
            sweep.pending.drain(..most).collect()
        };
        let is_phase_over = found.is_empty();
        // One device at least: inputs may fill every step.
        for (place, slot) in found.into_iter().enumerate() {
            if place == 0 || step.has_room() {
                self.open_or_close(slot, step)?;
            } else {
                sweep.pending.push_back(slot);
            }
        }
        let looks_on = !sweep.is_partial && (sweep.everywhere || self.commands.sessions.has_wide());
        let goes_on = looks_on || !sweep.pending.is_empty();
        self.commands.sweep = match (is_phase_over, sweep.phase) {
            (false, _) => Some(sweep),
            (true, CommandPhase::Unanswered) => {
                Some(ReachSweep { phase: CommandPhase::Waiting, after: None, ..sweep })
            }
            (true, CommandPhase::Waiting | CommandPhase::Held) => None,
        }
        .filter(|_| goes_on);
        Ok(self.commands.sweep.is_some())
    }
}
