//! Devices of rollouts: they are found, and their commands move on.

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, Incarnation};
use records::{CommandStatus, MemberPlace, MemberStatus, Op, RolloutCursor, RolloutMember};
use store::StoreError;

use super::{ActiveRollout, CandidateSearch, RolloutEffect, RolloutTable, Scan, emit};
use crate::device_orders::OrderKind;
use crate::kernel::reply::Reply;
use crate::registry::RegistryStep;
use crate::rollouts::links::{CommandAt, DeviceNow, FoundDevice, OrderOutcome, OrderReport};
use crate::rollouts::{RolloutUpdate, entries};

/// Devices whose turn may come next, for each rollout.
pub(super) const CANDIDATES_MAX: usize = 1_024;

/// How long a rollout hands nothing out after a device's partition had no room.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Who says where a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusSource {
    /// The command, when it moved.
    Move,
    /// The answer to an order, which may be older than a move.
    Report,
}

impl RolloutTable {
    pub(super) fn take_update(
        &mut self,
        update: RolloutUpdate,
        reply: Reply<()>,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        match update {
            RolloutUpdate::Looks(looks) => {
                self.take_looks(looks, reply);
                return Ok(());
            }
            RolloutUpdate::Found(rollout, cursor, devices, next) => {
                self.found(rollout, &cursor, devices, next, step)?;
            }
            RolloutUpdate::Unreadable(rollout) => self.stop(rollout, step),
            RolloutUpdate::LookedUp(rollout, devices) => self.looked_up(rollout, devices, step)?,
            RolloutUpdate::Candidates(rollout, places, looked_up, after) => {
                self.looked_up(rollout, looked_up, step)?;
                self.candidates(rollout, places, after);
            }
            RolloutUpdate::Boundary(rollout, stage, rank) => {
                if let Some(live) = self.live.get_mut(&rollout) {
                    live.is_searching = false;
                    if live.state.stage == stage {
                        live.state.boundary = Some(rank.unwrap_or(u64::MAX));
                        live.is_changed = true;
                        live.look_again();
                    }
                }
            }
            RolloutUpdate::Moved(moves) => {
                for moved in moves {
                    self.stands(&moved.place, moved.turn, moved.command, StatusSource::Move, step)?;
                }
            }
            RolloutUpdate::Reported(reports) => {
                for report in reports {
                    self.reported(&report, step)?;
                }
            }
            RolloutUpdate::LookAgain => self.live.values_mut().for_each(ActiveRollout::look_again),
            RolloutUpdate::AskAgain => {
                let seq = step.latest_change();
                for live in self.live.values_mut() {
                    live.reconciling = Some((MemberStatus::Scheduled, Scan::behind(seq)));
                    live.look_up_waiting();
                    live.look_for_later_ones();
                }
            }
        }
        emit(RolloutEffect::Kept(reply), step);
        Ok(())
    }

    /// Devices that were looked for. What was found before is not counted twice: the cursor has
    /// gone on.
    fn found(
        &mut self,
        rollout: Incarnation,
        cursor: &RolloutCursor,
        devices: Vec<FoundDevice>,
        next: Option<RolloutCursor>,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(live) = self.live.get_mut(&rollout) else { return Ok(()) };
        live.is_searching = false;
        if live.looking_later.as_ref() == Some(cursor) {
            if self.add(rollout, devices, step)?
                && let Some(live) = self.live.get_mut(&rollout)
            {
                live.looking_later = next;
            }
            return Ok(());
        }
        if live.state.collecting.as_ref() != Some(cursor) {
            return Ok(());
        }
        if !self.add(rollout, devices, step)? {
            return Ok(());
        }
        if let RolloutCursor::Named(number) = cursor
            && next.as_ref() != Some(cursor)
        {
            step.push(Op::DeleteRolloutDevices(rollout, *number));
        }
        let Some(live) = self.live.get_mut(&rollout) else { return Ok(()) };
        live.is_changed = true;
        if next.is_some() {
            live.state.collecting = next;
            return Ok(());
        }
        let of = Arc::clone(&live.rollout);
        rollouts::collected(&of, &mut live.state, step.now);
        for waiter in std::mem::take(&mut live.collected_waiters) {
            emit(RolloutEffect::Kept(waiter), step);
        }
        Ok(())
    }

    /// Nothing more of a rollout is looked for or handed out until it is resumed.
    fn stop(&mut self, rollout: Incarnation, step: &mut RegistryStep<'_>) {
        let Some(live) = self.live.get_mut(&rollout) else { return };
        live.is_searching = false;
        if rollouts::stop(&mut live.state) {
            live.is_changed = true;
            live.go_on_with_end(step.seq);
        }
        for waiter in std::mem::take(&mut live.collected_waiters) {
            emit(RolloutEffect::Kept(waiter), step);
        }
    }

    /// Devices belong to a rollout from now on, unless they do. Whether there was room for all;
    /// without it the rollout stops.
    fn add(
        &mut self,
        rollout: Incarnation,
        devices: Vec<FoundDevice>,
        step: &mut RegistryStep<'_>,
    ) -> Result<bool, StoreError> {
        let Some(live) = self.live.get(&rollout) else { return Ok(true) };
        if live.state.standing.has_ended() {
            return Ok(true);
        }
        let entries = entries(&live.rollout);
        for (device, tz) in devices {
            for entry in 0..entries {
                let place = MemberPlace::of(rollout, &device, entry);
                if self.member(&place, step)?.is_none() && !self.add_member(place, tz.clone(), step) {
                    self.stop(rollout, step);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether there was room for it.
    fn add_member(&mut self, place: MemberPlace, tz: Option<Box<str>>, step: &mut RegistryStep<'_>) -> bool {
        let Some(live) = self.live.get_mut(&place.rollout) else { return true };
        if !rollouts::has_room(&live.state) {
            let (rollout, members_max) = (&live.rollout.id, rollouts::MEMBERS_MAX);
            tracing::warn!(%rollout, members_max, "a rollout stops: it would have too many members");
            return false;
        }
        rollouts::added(&mut live.state);
        live.is_changed = true;
        live.look_again();
        let member = RolloutMember {
            place,
            status: MemberStatus::Waiting,
            is_recalled: false,
            turn: 0,
            handed_at: None,
            command: None,
            tz,
        };
        self.put_member(None, member, step);
        true
    }

    /// Devices were looked up: some may be gone or changed, and others may be meant since.
    fn looked_up(
        &mut self,
        rollout: Incarnation,
        devices: Vec<(DeviceId, DeviceNow)>,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        for (device, now) in devices {
            let member = self.member(&MemberPlace::of(rollout, &device, 0), step)?;
            match (member, now) {
                (Some(member), now) => self.member_looked_up(member, now, step)?,
                (None, DeviceNow::Registered { tz, is_meant: true, .. }) => {
                    if !self.add(rollout, vec![(device, tz)], step)? {
                        return Ok(());
                    }
                }
                (None, DeviceNow::Registered { .. } | DeviceNow::Gone) => {}
            }
        }
        Ok(())
    }

    /// A device is gone: it has no turn any more. Or it is in another time zone: its window may be
    /// open, or shut.
    fn member_looked_up(
        &mut self,
        mut member: RolloutMember,
        now: DeviceNow,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let waits = member.status == MemberStatus::Waiting;
        let DeviceNow::Registered { tz, can_be_reached, .. } = now else {
            if waits {
                member.status = MemberStatus::Cancelled;
                self.moved(MemberStatus::Waiting, member, false, step)?;
            }
            return Ok(());
        };
        let Some(live) = self.live.get_mut(&member.place.rollout) else { return Ok(()) };
        if waits && can_be_reached {
            live.consider(member.place.clone());
        }
        let is_held_by_window = waits || member.status == MemberStatus::Scheduled;
        if member.tz == tz || live.rollout.window.is_none() || !is_held_by_window {
            return Ok(());
        }
        if !waits {
            live.take_back(step.seq);
        }
        member.tz = tz;
        self.put_member(None, member, step);
        Ok(())
    }

    fn candidates(&mut self, rollout: Incarnation, places: Vec<MemberPlace>, after: Option<MemberPlace>) {
        let Some(live) = self.live.get_mut(&rollout) else { return };
        live.candidates.extend(places);
        if !matches!(live.candidate_search, CandidateSearch::UnderWay { .. }) {
            // The search is one from before the registry was loaded again.
            return;
        }
        live.candidate_search = match (&live.candidate_search, after) {
            (CandidateSearch::UnderWay { again: true }, _) => CandidateSearch::Wanted(None),
            (_, Some(after)) => CandidateSearch::Wanted(Some(after)),
            (_, None) => CandidateSearch::Over,
        };
        if live.candidate_search == CandidateSearch::Over {
            live.looks_up = false;
            if std::mem::take(&mut live.looks_up_again) {
                live.look_up_waiting();
            }
        }
    }

    fn reported(&mut self, report: &OrderReport, step: &mut RegistryStep<'_>) -> Result<(), StoreError> {
        self.ordered.remove(&report.place);
        match report.outcome {
            OrderOutcome::Stands(command) => {
                self.stands(&report.place, report.turn, command, StatusSource::Report, step)
            }
            OrderOutcome::TakenBack => self.taken_back(&report.place, report.turn, step),
            OrderOutcome::Busy => {
                if let Some(live) = self.live.get_mut(&report.place.rollout) {
                    live.busy_until = Some(step.now.after(BUSY_PAUSE));
                    live.is_left_over = true;
                }
                self.taken_back(&report.place, report.turn, step)
            }
            OrderOutcome::Nobody => {
                let Some(mut member) = self.member(&report.place, step)? else { return Ok(()) };
                if member.turn != report.turn || member.status.has_ended() {
                    return Ok(());
                }
                let was = std::mem::replace(&mut member.status, MemberStatus::Cancelled);
                self.moved(was, member, false, step)
            }
        }
    }

    /// A device's command stands here.
    fn stands(
        &mut self,
        place: &MemberPlace,
        turn: u32,
        command: CommandAt,
        source: StatusSource,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(mut member) = self.member(place, step)? else { return Ok(()) };
        if member.turn != turn {
            return Ok(());
        }
        if member.status == MemberStatus::Waiting {
            return self.stands_late(member, command, step);
        }
        if member.is_recalled && command.status == CommandStatus::Cancelled {
            return self.taken_back(place, turn, step);
        }
        let (was, now) = (member.status, MemberStatus::from(command.status));
        let is_older = source == StatusSource::Report && (now < was || was.has_ended());
        if is_older && member.command.is_some() {
            return Ok(());
        }
        member.command = Some(command.id);
        if !is_older {
            member.status = now;
        }
        if member.status != MemberStatus::Scheduled {
            member.is_recalled = false;
        } else if member.is_recalled && self.is_held(&member, step) {
            // It was just being given when the walk came by.
            self.order(&member, OrderKind::TakeBack, step);
        }
        self.moved(was, member, command.was_published, step)
    }

    /// A device that waits has a command after all: the order to give it came later than the one to
    /// take it back.
    fn stands_late(
        &mut self,
        mut member: RolloutMember,
        command: CommandAt,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        match command.status {
            CommandStatus::Cancelled => Ok(()),
            CommandStatus::Scheduled => {
                member.command = Some(command.id);
                self.order(&member, OrderKind::TakeBack, step);
                Ok(())
            }
            status => {
                (member.status, member.command) = (status.into(), Some(command.id));
                self.moved(MemberStatus::Waiting, member, command.was_published, step)
            }
        }
    }

    /// Writes where a device stands now, and counts it.
    fn moved(
        &mut self,
        was: MemberStatus,
        member: RolloutMember,
        was_published: bool,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let (seq, now) = (step.seq, step.now);
        let to = member.status;
        if let Some(live) = self.active(member.place.rollout, step)?
            && was != to
        {
            let rollout = Arc::clone(&live.rollout);
            let standing = live.state.standing;
            rollouts::moved(&rollout, &mut live.state, now, (was, to), was_published);
            live.is_changed = true;
            if live.state.standing != standing {
                live.go_on_with_end(seq);
            }
        }
        self.put_member(Some(was), member, step);
        Ok(())
    }

    /// A command did not go out, and will not: its device waits again, or is called off.
    fn taken_back(
        &mut self,
        place: &MemberPlace,
        turn: u32,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(mut member) = self.member(place, step)? else { return Ok(()) };
        if member.turn != turn || member.status != MemberStatus::Scheduled {
            return Ok(());
        }
        let now = step.now;
        let Some(live) = self.active(place.rollout, step)? else { return Ok(()) };
        let rollout = Arc::clone(&live.rollout);
        member.status = rollouts::taken_back(&rollout, &mut live.state, now);
        live.is_changed = true;
        // With a partition that has no room, the search goes on to the others first.
        if member.status == MemberStatus::Waiting && !live.is_left_over {
            live.look_again();
        }
        (member.is_recalled, member.command) = (false, None);
        self.put_member(Some(MemberStatus::Scheduled), member, step);
        Ok(())
    }
}

impl ActiveRollout {
    /// A device may have its turn. With too many of them all are looked at later.
    pub(super) fn consider(&mut self, place: MemberPlace) {
        if self.candidates.len() < CANDIDATES_MAX {
            self.candidates.push_back(place);
        } else {
            self.look_again();
        }
    }
}
