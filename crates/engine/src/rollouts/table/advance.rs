//! What rollouts do next: devices have their turns, commands are taken back, stages end.

use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, Timestamp};
use records::{MemberPlace, MemberStatus, Op, RolloutMember, RolloutStanding, RolloutWait};
use rollouts::{HandOutAllowance, StageBacklog, StageEnd};
use store::StoreError;

use super::{ActiveRollout, CandidateSearch, ReadBacklog, RolloutEffect, RolloutTable, Scan, emit};
use crate::device_orders::OrderKind;
use crate::registry::RegistryStep;
use crate::rollouts::links::{RolloutOrder, Search};
use crate::rollouts::ttl;
use crate::rollouts::windows::WindowState;

/// Orders that are under way at a time.
pub(super) const ORDERS_MAX: usize = 2_048;
/// Rows that a walk reads in a step.
const SCANNED_PER_STEP: usize = 500;
/// Devices that a rollout hands out in a step.
const TURNS_PER_STEP: usize = 500;

impl RolloutTable {
    /// What is to be done now. Whether there is more of it at once.
    pub(crate) fn advance(&mut self, step: &mut RegistryStep<'_>) -> Result<bool, StoreError> {
        let mut more = self.look_on(step)?;
        let incarnations: Vec<Incarnation> = self.live.keys().copied().collect();
        for incarnation in incarnations {
            if !step.has_room() {
                more = true;
                break;
            }
            self.scan(incarnation, step)?;
            more |= self.hand_out(incarnation, step)?;
            self.look_ahead(incarnation, step)?;
            self.note_stop(incarnation);
            self.write(incarnation, step);
        }
        let is_wanted = self.live.values().any(ActiveRollout::wants_devices);
        if std::mem::replace(&mut self.is_wanted, is_wanted) != is_wanted {
            emit(RolloutEffect::Wanted(is_wanted), step);
        }
        self.forget(step)?;
        Ok(more)
    }

    /// Devices have their turns, as many as may now.
    fn hand_out(
        &mut self,
        incarnation: Incarnation,
        step: &mut RegistryStep<'_>,
    ) -> Result<bool, StoreError> {
        let (wall, now) = (step.wall, step.now);
        let Some(live) = self.live.get_mut(&incarnation) else { return Ok(false) };
        live.wake_at = None;
        live.open_and_shut(now, wall, step.seq);
        if let Some(at) = live.busy_until.filter(|at| *at > now) {
            live.wake(at);
            return Ok(false);
        }
        for _ in 0..TURNS_PER_STEP {
            let Some(live) = self.live.get_mut(&incarnation) else { return Ok(false) };
            match rollouts::allowance(&live.rollout, &live.state, now) {
                HandOutAllowance::Now(_) if self.ordered.len() < ORDERS_MAX => {}
                HandOutAllowance::Now(_) | HandOutAllowance::None => return Ok(false),
                HandOutAllowance::At(at) => {
                    if !live.candidates.is_empty() {
                        live.wake(at);
                    }
                    return Ok(false);
                }
            }
            if !step.has_room() {
                return Ok(true);
            }
            let Some(place) = live.candidates.pop_front() else { return Ok(false) };
            self.have_turn(incarnation, &place, step)?;
        }
        Ok(true)
    }

    /// A device has its turn, if it waits for one and its window is open.
    fn have_turn(
        &mut self,
        incarnation: Incarnation,
        place: &MemberPlace,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let waiting = self.member(place, step)?.filter(|member| member.status == MemberStatus::Waiting);
        let Some(mut member) = waiting else { return Ok(()) };
        let Some(live) = self.live.get_mut(&incarnation) else { return Ok(()) };
        if !rollouts::may_have_turn(&live.rollout, &live.state, place.rank)
            || !live.is_open_for(member.tz.as_deref(), step.wall)
        {
            return Ok(());
        }
        let rollout = Arc::clone(&live.rollout);
        rollouts::handed_out(&rollout, &mut live.state, step.now);
        live.is_changed = true;
        member.status = MemberStatus::Scheduled;
        member.turn += 1;
        member.handed_at = Some(step.now);
        self.order(&member, OrderKind::Give, step);
        self.put_member(Some(MemberStatus::Waiting), member, step);
        Ok(())
    }

    /// Has a device's partition do something, unless it is at it.
    pub(super) fn order(&mut self, member: &RolloutMember, what: OrderKind, step: &mut RegistryStep<'_>) {
        let Some(live) = self.live.get(&member.place.rollout) else { return };
        if self.ordered.insert(member.place.clone()) {
            let order = RolloutOrder {
                rollout: Arc::clone(&live.rollout),
                place: member.place.clone(),
                turn: member.turn,
                handed_at: member.handed_at.unwrap_or(step.now),
                command: member.command,
                what,
            };
            emit(RolloutEffect::Order(order), step);
        }
    }

    /// Goes on with what concerns all devices that stand somewhere.
    fn scan(&mut self, incarnation: Incarnation, step: &mut RegistryStep<'_>) -> Result<(), StoreError> {
        self.sweep(incarnation, step)?;
        let Some(live) = self.live.get_mut(&incarnation) else { return Ok(()) };
        if self.ordered.len() < ORDERS_MAX
            && let Some(scan) = live.taking_back.take()
        {
            let scan = self.walk(incarnation, MemberStatus::Scheduled, scan, step, Self::take_back)?;
            if let Some(live) = self.live.get_mut(&incarnation) {
                live.taking_back = scan.or_else(|| live.take_back_again.take().map(Scan::behind));
            }
        }
        let Some(live) = self.live.get_mut(&incarnation) else { return Ok(()) };
        if self.ordered.len() < ORDERS_MAX
            && let Some((status, scan)) = live.reconciling.take()
        {
            let scan = self.walk(incarnation, status, scan, step, Self::ask)?;
            let next = (status == MemberStatus::Scheduled)
                .then(|| (MemberStatus::Published, Scan::behind(self.durable)));
            if let Some(live) = self.live.get_mut(&incarnation) {
                live.reconciling = scan.map(|scan| (status, scan)).or(next);
            }
        }
        Ok(())
    }

    /// Goes on with devices that wait, and will not have their turns. In a stage, only its devices
    /// expire.
    fn sweep(&mut self, incarnation: Incarnation, step: &mut RegistryStep<'_>) -> Result<(), StoreError> {
        let Some(live) = self.live.get_mut(&incarnation) else { return Ok(()) };
        let Some((to, scan)) = live.sweeping.take() else { return Ok(()) };
        let is_swept = |live: &ActiveRollout, rank: u64| {
            to != MemberStatus::Expired || rollouts::may_have_turn(&live.rollout, &live.state, rank)
        };
        let scan = self.walk(incarnation, MemberStatus::Waiting, scan, step, |table, mut member, step| {
            let live = table.live.get_mut(&incarnation);
            let Some(live) = live.filter(|live| is_swept(live, member.place.rank)) else { return };
            rollouts::count(&mut live.state, MemberStatus::Waiting, to);
            live.is_changed = true;
            member.status = to;
            table.put_member(Some(MemberStatus::Waiting), member, step);
        })?;
        let Some(live) = self.live.get_mut(&incarnation) else { return Ok(()) };
        let goes_on = |scan: &Scan| scan.after.as_ref().is_none_or(|after| is_swept(live, after.rank));
        live.sweeping = scan.filter(goes_on).map(|scan| (to, scan));
        let rollout = Arc::clone(&live.rollout);
        rollouts::end_if_over(&rollout, &mut live.state, step.now);
        Ok(())
    }

    /// Asks where a command stands. One that never came to its device is given now, unless nothing
    /// is to go out: then it is taken back.
    #[expect(clippy::needless_pass_by_value, reason = "as whatever a walk does")]
    fn ask(&mut self, member: RolloutMember, step: &mut RegistryStep<'_>) {
        if member.status != MemberStatus::Scheduled || !self.is_held(&member, step) {
            self.order(&member, OrderKind::Ensure, step);
        }
    }

    /// Calls a device's command off, unless it went out.
    fn take_back(&mut self, mut member: RolloutMember, step: &mut RegistryStep<'_>) {
        if !self.is_held(&member, step) {
            return;
        }
        // One that is just being given is called off when that is answered.
        member.is_recalled = true;
        self.order(&member, OrderKind::TakeBack, step);
        self.put_member(None, member, step);
    }

    /// Whether what a device was handed does not go out now: its window is shut, or nothing does.
    pub(super) fn is_held(&mut self, member: &RolloutMember, step: &RegistryStep<'_>) -> bool {
        self.live.get_mut(&member.place.rollout).is_some_and(|live| {
            // Asked first: it notes when the window shuts.
            let is_open = live.is_open_for(member.tz.as_deref(), step.wall);
            !is_open || rollouts::takes_back(&live.state)
        })
    }

    /// Some more rows of devices that stand somewhere; where to go on, if there are more.
    fn walk(
        &mut self,
        rollout: Incarnation,
        status: MemberStatus,
        scan: Scan,
        step: &mut RegistryStep<'_>,
        mut each: impl FnMut(&mut Self, RolloutMember, &mut RegistryStep<'_>),
    ) -> Result<Option<Scan>, StoreError> {
        if scan.from_seq > self.durable {
            return Ok(Some(scan));
        }
        let view = step.fetch.view()?;
        let found = view.rollout_members(rollout, Some(status), scan.after.as_ref(), SCANNED_PER_STEP)?;
        let is_whole = found.len() < SCANNED_PER_STEP;
        let after = found.last().map(|member| member.place.clone());
        for member in found {
            // As it is now, durable or not.
            let member = self.member(&member.place, step)?.filter(|member| member.status == status);
            if let Some(member) = member {
                each(self, member, step);
            }
        }
        Ok((!is_whole).then_some(Scan { after, ..scan }))
    }

    /// Looks for what is missing, and ends stages.
    fn look_ahead(
        &mut self,
        incarnation: Incarnation,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let (durable, has_orders) = (self.durable, !self.ordered.is_empty());
        let Some(live) = self.live.get_mut(&incarnation) else { return Ok(()) };
        live.look_for_left_over(step.now);
        if let Some(search) = live.next_search(step) {
            emit(RolloutEffect::Search(search), step);
        }
        live.end_stage((durable, has_orders), step)?;
        // One that was resumed meanwhile has nothing to wait for.
        if live.is_quiet() || live.state.standing == RolloutStanding::Running {
            for waiter in std::mem::take(&mut live.quiet_waiters) {
                emit(RolloutEffect::Done(waiter, Ok(())), step);
            }
        }
        Ok(())
    }

    /// Writes how far a rollout has come. One that is over is needed no longer.
    fn write(&mut self, incarnation: Incarnation, step: &mut RegistryStep<'_>) {
        let durable = self.durable;
        let Some(live) = self.live.get_mut(&incarnation) else { return };
        if std::mem::take(&mut live.is_changed) {
            live.written = step.seq;
            step.push(Op::PutRolloutState(Box::new(live.state.clone())));
            emit(RolloutEffect::Changed, step);
        }
        if live.is_over() && live.written <= durable {
            if let Some(at) = live.state.ended_at {
                self.ended.insert((at, incarnation));
            }
            self.live.remove(&incarnation);
        }
    }
}

impl ActiveRollout {
    /// What is to be looked for now.
    fn next_search(&mut self, step: &RegistryStep<'_>) -> Option<Search> {
        if self.state.standing.has_ended() || self.state.standing == RolloutStanding::Stopped {
            return None;
        }
        let rollout = || Arc::clone(&self.rollout);
        if self.is_searching {
            return None;
        }
        let cursor = self.state.collecting.clone().or_else(|| self.looking_later.clone());
        if let Some(cursor) = cursor {
            self.is_searching = true;
            return Some(Search::Devices(rollout(), cursor));
        }
        if self.state.standing != RolloutStanding::Running {
            return None;
        }
        let stage = self.rollout.stages.get(self.state.stage as usize);
        if let (Some(stage), None) = (stage, self.state.boundary) {
            self.is_searching = true;
            let devices = rollouts::stage_devices(stage, self.state.counts.total());
            return Some(Search::Boundary(rollout(), self.state.stage, devices));
        }
        let allowance = rollouts::allowance(&self.rollout, &self.state, step.now);
        let may_hand_out = allowance != HandOutAllowance::None;
        match &self.candidate_search {
            CandidateSearch::Wanted(after) if may_hand_out && self.candidates.is_empty() => {
                let (rollout, after) = (rollout(), after.clone());
                let (boundary, looks_up) = (self.state.boundary, self.looks_up);
                let search = Search::Candidates { rollout, after, boundary, looks_up };
                self.candidate_search = CandidateSearch::UnderWay { again: false };
                Some(search)
            }
            _ => None,
        }
    }

    /// Ends the present stage if its time has come, and notes what it waits for.
    fn end_stage(
        &mut self,
        (durable, has_orders): (u64, bool),
        step: &RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        self.is_backlog_unread = false;
        if self.state.standing != RolloutStanding::Running || self.state.collecting.is_some() {
            return Ok(());
        }
        let is_over = self.candidate_search == CandidateSearch::Over && !self.is_left_over;
        let is_idle = self.candidates.is_empty() && is_over && !has_orders;
        let backlog = if is_idle { self.stage_backlog(durable, step)? } else { StageBacklog::Due };
        let end = rollouts::stage_end(&self.rollout, &self.state, backlog, step.now);
        match end {
            StageEnd::Now if self.state.boundary.is_some() => {
                rollouts::next_stage(&mut self.state, step.now);
                (self.is_changed, self.sweeping) = (true, None);
                // What was lost of the devices of the next stage was not looked up so far.
                self.look_up_waiting();
                self.look_again();
                // There may be another stage, or devices, to look for at once.
                self.wake(step.now);
            }
            StageEnd::Soaks(at) => self.wake(at),
            StageEnd::None | StageEnd::Open => self.expire(end, backlog, step.now),
            StageEnd::NeedsApproval | StageEnd::Now => {}
        }
        self.note_wait(end);
        Ok(())
    }

    /// The devices up to the end of the present stage that wait, where none of them can be handed a
    /// command now. Their rows say so, and are read anew whenever one has changed.
    fn stage_backlog(&mut self, durable: u64, step: &RegistryStep<'_>) -> Result<StageBacklog, StoreError> {
        let (state, boundary) = (&self.state, self.state.boundary);
        // It makes no difference then: no row is read.
        if boundary.is_none() || state.stage_ended > 0 || rollouts::in_flight(state) > 0 {
            return Ok(StageBacklog::Absent);
        }
        if self.members_written > durable {
            self.is_backlog_unread = true;
            return Ok(StageBacklog::Due);
        }
        let as_of = (self.members_written, boundary);
        if let Some(known) = self.backlog.filter(|known| known.as_of == as_of) {
            return Ok(known.found);
        }
        let (rollout, waiting) = (self.rollout.incarnation, Some(MemberStatus::Waiting));
        let first = step.fetch.view()?.rollout_members(rollout, waiting, None, 1)?;
        let waits = |member: &RolloutMember| boundary.is_some_and(|boundary| member.place.rank <= boundary);
        let found = if first.first().is_some_and(waits) { StageBacklog::Absent } else { StageBacklog::Empty };
        self.backlog = Some(ReadBacklog { as_of, found });
        Ok(found)
    }

    /// Absent devices expire after the `ttl`, counted from when all others had their turns. While a
    /// stage waits for absent devices alone, that goes for its devices.
    fn expire(&mut self, end: StageEnd, backlog: StageBacklog, now: Timestamp) {
        let in_flight = rollouts::in_flight(&self.state);
        let (is_staged, is_absent) = (end == StageEnd::Open, backlog == StageBacklog::Absent);
        let is_passed = is_absent && self.opens_at.is_none() && (!is_staged || in_flight == 0);
        if is_passed && self.state.passed_at.is_none() {
            self.state.passed_at = Some(now);
            self.is_changed = true;
        }
        let passed_at = self.state.passed_at.filter(|_| is_passed || !is_staged);
        let expires_at = passed_at.zip(ttl(&self.rollout)).map(|(passed, ttl)| passed.after(ttl));
        let waits = self.state.counts.of(MemberStatus::Waiting) > 0;
        let may_expire = waits && !self.rollout.include_later && self.sweeping.is_none();
        match expires_at.filter(|_| may_expire) {
            Some(at) if at <= now => {
                self.sweeping = Some((MemberStatus::Expired, Scan::behind(self.written)));
            }
            Some(at) => self.wake(at),
            None => {}
        }
    }

    /// Notes what it waits for.
    fn note_wait(&mut self, end: StageEnd) {
        let waits = self.state.counts.of(MemberStatus::Waiting) > 0;
        let is_shut = self.candidates.is_empty() && self.opens_at.is_some();
        let waits_for = match end {
            _ if !waits => RolloutWait::Nothing,
            StageEnd::Soaks(_) => RolloutWait::Soak,
            StageEnd::NeedsApproval => RolloutWait::Approval,
            _ if is_shut => RolloutWait::Window,
            StageEnd::None | StageEnd::Open | StageEnd::Now => RolloutWait::Nothing,
        };
        self.is_changed |= std::mem::replace(&mut self.state.waits_for, waits_for) != waits_for;
    }

    /// Whether the window of devices in this time zone is open; when not, when it opens is noted.
    fn is_open_for(&mut self, tz: Option<&str>, wall: Timestamp) -> bool {
        let Some(window) = &self.rollout.window else { return true };
        let zone = tz.map(Box::from);
        let known = self.windows.get(&zone).copied().filter(|known| match known {
            WindowState::Open(until) => *until > wall,
            WindowState::Shut(opens) => opens.is_some_and(|opens| opens > wall),
        });
        let at = known.unwrap_or_else(|| WindowState::at(window, tz, wall));
        self.windows.insert(zone, at);
        let earliest =
            |one: Option<Timestamp>, other: Timestamp| Some(one.map_or(other, |one| one.min(other)));
        match at {
            WindowState::Open(until) => {
                self.shuts_at = earliest(self.shuts_at, until);
                true
            }
            WindowState::Shut(opens) => {
                if let Some(opens) = opens {
                    self.opens_at = earliest(self.opens_at, opens);
                }
                false
            }
        }
    }

    /// Windows open, and shut, as time passes.
    fn open_and_shut(&mut self, now: Timestamp, wall: Timestamp, seq: u64) {
        if self.rollout.window.is_none() {
            return;
        }
        if self.state.counts.total() == 0 || self.windows.is_empty() {
            let _known_from_the_begin = self.is_open_for(None, wall);
        }
        if self.opens_at.is_some_and(|opens| opens <= wall) {
            self.opens_at = None;
            self.look_again();
        }
        if self.shuts_at.is_some_and(|shuts| shuts <= wall) {
            self.shuts_at = None;
            self.take_back(seq);
            // The walk over the rows waits for this batch: there has to be one.
            self.is_changed = true;
            // Notes when it opens again.
            let _is_shut = self.is_open_for(None, wall);
        }
        let next = self.opens_at.into_iter().chain(self.shuts_at).min();
        if let Some(next) = next {
            self.wake(now.after(next.since(wall).max(Duration::from_millis(1))));
        }
    }
}
