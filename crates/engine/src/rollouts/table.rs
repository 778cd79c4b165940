//! The registry's part of rollouts: which there are, how far each has come, and what is to be done.
//!
//! In memory are the rollouts that have not ended, with their counts, and for each a bounded number
//! of devices whose turn may come next. All devices of a rollout are rows.

mod advance;
mod calls;
mod looks;
mod members;
mod retention;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, PartitionId, Timestamp};
use records::{
    MemberPlace, MemberStatus, NoticeKind, Op, Rollout, RolloutCursor, RolloutMember, RolloutStanding,
    RolloutState,
};
use rollouts::StageBacklog;
use store::{Store, StoreError};

use super::links::{RolloutLinks, RolloutOrder, Search};
use super::windows::WindowState;
use super::{DoneReply, TrackedRollout, needs_reach};
use crate::kernel::hashed::{HashMap, HashSet};
use crate::kernel::pending_writes::PendingWrites;
use crate::kernel::reply::{Answered, Reply};
use crate::notices::{Condition, Detail, Signal, SignalTopic};
use crate::registry::{RegistryEffect, RegistryStep};
use looks::LookBacklog;

/// Rollouts that are read at a time when the registry is loaded.
const LOADED_PER_READ: usize = 100;

/// What the outside may see of rollouts once it is durable.
#[derive(Debug)]
pub enum RolloutEffect {
    /// A rollout was asked for, or that was refused.
    Begun(Reply<Answered<Box<(TrackedRollout, bool)>>>, Answered<Box<(TrackedRollout, bool)>>),
    /// Something was done, or refused.
    Done(DoneReply, Answered<()>),
    /// It is written, or known.
    Kept(Reply<()>),
    /// A device's partition is to do this.
    Order(RolloutOrder),
    /// This is to be looked for.
    Search(Search),
    /// Devices that come and change matter, or no longer.
    Wanted(bool),
    /// The state of some rollout has changed.
    Changed,
}

impl RolloutEffect {
    pub(crate) fn release(self, links: &RolloutLinks) {
        match self {
            Self::Begun(reply, answer) => reply.send(answer),
            Self::Done(reply, answer) => reply.send(answer),
            Self::Kept(reply) => reply.send(()),
            Self::Order(order) => links.order(order),
            Self::Search(search) => links.search(search),
            Self::Wanted(is) => links.want(is),
            Self::Changed => links.changed.tell(),
        }
    }
}

/// All rollouts.
#[derive(Debug)]
pub(crate) struct RolloutTable {
    keep: Duration,
    /// Every rollout that is kept.
    ids: BTreeMap<Box<str>, Incarnation>,
    by_incarnation: HashMap<Incarnation, Box<str>>,
    /// Those that have something to do.
    live: BTreeMap<Incarnation, ActiveRollout>,
    /// Those that have ended, by when: they are forgotten some time later.
    ended: BTreeSet<(Timestamp, Incarnation)>,
    /// Devices whose rows are not durable yet.
    members: PendingWrites<MemberPlace, RolloutMember>,
    /// Devices with an order under way.
    ordered: HashSet<MemberPlace>,
    /// All batches up to this one are durable.
    durable: u64,
    is_wanted: bool,
    /// Rollouts that were stopped and that nobody was told of yet.
    stopped: Vec<Signal>,
    /// Where forgetting a rollout's devices goes on.
    forgetting: Option<(Incarnation, Scan)>,
    looks: LookBacklog,
}

/// Which devices of the present stage wait, as the rows say.
#[derive(Debug, Clone, Copy)]
struct ReadBacklog {
    /// The latest batch that wrote a row, and where the stage ended.
    as_of: (u64, Option<u64>),
    found: StageBacklog,
}

/// A rollout that has something to do.
#[derive(Debug)]
struct ActiveRollout {
    rollout: Arc<Rollout>,
    state: RolloutState,
    /// The token that began it, since the registry was loaded.
    token: Option<Box<str>>,
    /// The state is to be written.
    is_changed: bool,
    /// That it was stopped was told.
    is_stop_told: bool,
    /// The latest batch that wrote it.
    written: u64,
    /// The latest batch that wrote where one of its devices stands.
    members_written: u64,
    backlog: Option<ReadBacklog>,
    /// That is to be read once the latest batch of its devices is durable.
    is_backlog_unread: bool,
    /// Devices whose turn may come next.
    candidates: VecDeque<MemberPlace>,
    /// The search for more of them.
    candidate_search: CandidateSearch,
    /// Devices that wait are looked up by that search, too: what was told of them may be lost.
    looks_up: bool,
    /// And once more when it is over: that was asked for in the middle.
    looks_up_again: bool,
    /// Devices, or a boundary, are looked for.
    is_searching: bool,
    /// Where looking for devices goes on that came to be meant while nobody noted it.
    looking_later: Option<RolloutCursor>,
    /// The windows by time zone, as of a moment before.
    windows: BTreeMap<Option<Box<str>>, WindowState>,
    /// When a window opens of a device that could have had its turn; on the wall clock.
    opens_at: Option<Timestamp>,
    /// When a window shuts in which something was handed out; on the wall clock.
    shuts_at: Option<Timestamp>,
    /// Nothing is handed out before that time: a partition of devices had no room.
    busy_until: Option<Timestamp>,
    /// Devices whose partition had no room wait. They are looked for once the search is over, and
    /// the time has passed.
    is_left_over: bool,
    /// Handed-out commands are taken back.
    taking_back: Option<Scan>,
    /// And once more when that is over, behind this batch: it was asked for in the middle.
    take_back_again: Option<u64>,
    /// What was handed out is asked for.
    reconciling: Option<(MemberStatus, Scan)>,
    /// Waiting devices are moved to this status.
    sweeping: Option<(MemberStatus, Scan)>,
    /// Who waits until nothing can go out any more.
    quiet_waiters: Vec<DoneReply>,
    /// Who waits until all devices are known.
    collected_waiters: Vec<Reply<()>>,
    /// When the rules have something to do next.
    wake_at: Option<Timestamp>,
}

/// The search for devices whose turn may come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CandidateSearch {
    /// All were seen: only those that come matter.
    Over,
    /// It goes on behind this one.
    Wanted(Option<MemberPlace>),
    /// It is under way; whether it is to begin anew then.
    UnderWay { again: bool },
}

/// A walk over rows of devices, once the batches up to one are durable.
#[derive(Clone, Debug)]
struct Scan {
    from_seq: u64,
    after: Option<MemberPlace>,
}

impl Scan {
    fn behind(seq: u64) -> Self {
        Self { from_seq: seq, after: None }
    }
}

impl ActiveRollout {
    fn new(rollout: Arc<Rollout>, state: RolloutState) -> Self {
        let is_stop_told = state.standing == RolloutStanding::Stopped;
        Self {
            rollout,
            state,
            token: None,
            is_changed: false,
            is_stop_told,
            written: 0,
            members_written: 0,
            backlog: None,
            is_backlog_unread: false,
            candidates: VecDeque::new(),
            candidate_search: CandidateSearch::Wanted(None),
            looks_up: false,
            looks_up_again: false,
            is_searching: false,
            looking_later: None,
            windows: BTreeMap::new(),
            opens_at: None,
            shuts_at: None,
            busy_until: None,
            is_left_over: false,
            taking_back: None,
            take_back_again: None,
            reconciling: None,
            sweeping: None,
            quiet_waiters: Vec::new(),
            collected_waiters: Vec::new(),
            wake_at: None,
        }
    }

    /// As it was left by an earlier process: what was under way goes on.
    fn loaded(rollout: Rollout, state: RolloutState, seq: u64) -> Self {
        let mut live = Self::new(Arc::new(rollout), state);
        live.reconciling = Some((MemberStatus::Scheduled, Scan::behind(seq)));
        if live.rollout.window.is_some() {
            // It may have shut meanwhile. When it shuts is noted again with what was handed out.
            live.take_back(seq);
        }
        live.go_on_with_end(seq);
        live.look_up_waiting();
        live.look_for_later_ones();
        live
    }

    /// Looks up all devices that wait, as the search for candidates comes by.
    fn look_up_waiting(&mut self) {
        if !needs_reach(&self.rollout) {
            return;
        }
        if self.looks_up && self.candidate_search != CandidateSearch::Over {
            // It is not begun anew before it came to its end: it might never come there.
            self.looks_up_again = true;
        } else {
            self.looks_up = true;
            self.look_again();
        }
    }

    /// Looks for all devices that came to be meant since the beginning, known or not.
    fn look_for_later_ones(&mut self) {
        if self.rollout.include_later && self.state.collecting.is_none() && !self.state.standing.has_ended() {
            self.looking_later = Some(RolloutCursor::Partition(0, None));
        }
    }

    /// What pausing, stopping and cancelling bring with them.
    fn go_on_with_end(&mut self, seq: u64) {
        if rollouts::takes_back(&self.state) {
            self.candidates.clear();
            (self.taking_back, self.take_back_again) = (Some(Scan::behind(seq)), None);
        }
        if self.state.standing == RolloutStanding::Cancelled {
            self.sweeping = Some((MemberStatus::Cancelled, Scan::behind(seq)));
        }
    }

    /// Whether devices are looked for that were meant from the beginning.
    fn is_collecting(&self) -> bool {
        self.state.collecting.is_some() && self.state.standing != RolloutStanding::Stopped
    }

    /// Whether nothing is left to do, whatever comes.
    fn is_over(&self) -> bool {
        let waits = self.state.counts.of(MemberStatus::Waiting) + rollouts::in_flight(&self.state);
        let idle = self.taking_back.is_none() && self.sweeping.is_none() && self.reconciling.is_none();
        self.state.standing.has_ended() && waits == 0 && idle && !self.is_changed
    }

    /// Devices that wait may have their turns once they come.
    fn wants_devices(&self) -> bool {
        let waits = self.state.counts.of(MemberStatus::Waiting) > 0 || rollouts::in_flight(&self.state) > 0;
        !self.state.standing.has_ended() && (waits || self.rollout.include_later)
    }

    /// The rules have something to do at that time, or before.
    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |wake| wake.min(at)));
    }

    fn look_again(&mut self) {
        match &mut self.candidate_search {
            CandidateSearch::UnderWay { again } => *again = true,
            search => *search = CandidateSearch::Wanted(None),
        }
    }

    /// Looks again for devices whose partition had no room, once all others had their chance.
    fn look_for_left_over(&mut self, now: Timestamp) {
        let is_busy = self.busy_until.is_some_and(|until| until > now);
        let is_over = self.candidate_search == CandidateSearch::Over && self.candidates.is_empty();
        if self.is_left_over && is_over && !is_busy {
            self.is_left_over = false;
            self.look_again();
        }
    }

    fn tracked(&self) -> TrackedRollout {
        TrackedRollout { rollout: Arc::clone(&self.rollout), state: self.state.clone() }
    }
}

impl RolloutTable {
    /// What the store has. `seq` is the registry's latest batch.
    pub(crate) fn load(store: &dyn Store, keep: Duration, seq: u64) -> Result<Self, StoreError> {
        let mut table = Self {
            keep,
            ids: BTreeMap::new(),
            by_incarnation: HashMap::default(),
            live: BTreeMap::new(),
            ended: BTreeSet::new(),
            members: PendingWrites::default(),
            ordered: HashSet::default(),
            durable: seq,
            is_wanted: false,
            stopped: Vec::new(),
            forgetting: None,
            looks: LookBacklog::default(),
        };
        let view = store.view(PartitionId::REGISTRY)?;
        let mut after: Option<Box<str>> = None;
        loop {
            let states = view.rollout_states(after.as_deref(), LOADED_PER_READ)?;
            let Some(last) = states.last() else { return Ok(table) };
            after = Some(last.id.clone());
            for state in states {
                let Some(rollout) = view.rollout(&state.id)? else { continue };
                table.ids.insert(rollout.id.clone(), rollout.incarnation);
                table.by_incarnation.insert(rollout.incarnation, rollout.id.clone());
                let incarnation = rollout.incarnation;
                let live = ActiveRollout::loaded(rollout, state, seq);
                let is_open =
                    live.state.counts.of(MemberStatus::Waiting) + rollouts::in_flight(&live.state) > 0;
                match live.state.ended_at {
                    Some(at) if !is_open => drop(table.ended.insert((at, incarnation))),
                    _ => drop(table.live.insert(incarnation, live)),
                }
            }
        }
    }

    /// All batches up to this one are durable.
    pub(crate) fn settle(&mut self, seq: u64) {
        self.durable = seq;
        self.members.settle(seq);
    }

    /// When the passing of time, or of batches, brings something next.
    pub(crate) fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        let scans = |live: &ActiveRollout| {
            let reconciling = live.reconciling.as_ref().map(|(_, scan)| scan);
            let sweeping = live.sweeping.as_ref().map(|(_, scan)| scan);
            let due = |scan: &Scan| scan.from_seq <= self.durable;
            let can_order = self.ordered.len() < advance::ORDERS_MAX;
            sweeping.is_some_and(due)
                || live.is_backlog_unread && live.members_written <= self.durable
                || (can_order && [live.taking_back.as_ref(), reconciling].into_iter().flatten().any(due))
        };
        let of_live =
            self.live.values().filter_map(|live| if scans(live) { Some(now) } else { live.wake_at });
        of_live.chain(self.next_forgotten().map(|at| at.max(now))).min()
    }

    /// What is to be told of rollouts that were stopped.
    pub(crate) fn take_stopped(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.stopped)
    }

    /// Notes whether a rollout was stopped, or goes on.
    fn note_stop(&mut self, incarnation: Incarnation) {
        let Some(live) = self.live.get_mut(&incarnation) else { return };
        let is_stopped = live.state.standing == RolloutStanding::Stopped;
        if std::mem::replace(&mut live.is_stop_told, is_stopped) || !is_stopped {
            return;
        }
        let (id, state) = (&live.rollout.id, &live.state);
        let detail = Detail::default().text("rollout_id", id);
        self.stopped.push(Signal {
            topic: SignalTopic::Rollout,
            subject: format!("rollout {id}").into(),
            condition: Condition::Occurred(NoticeKind::RolloutStopped),
            detail: detail.number("failed", state.failed).number("ended", state.ended),
        });
    }

    fn member(
        &self,
        place: &MemberPlace,
        step: &RegistryStep<'_>,
    ) -> Result<Option<RolloutMember>, StoreError> {
        self.members.get_or_read(place, || step.fetch.view()?.rollout_member(place))
    }

    /// Writes where a device stands now.
    fn put_member(&mut self, was: Option<MemberStatus>, member: RolloutMember, step: &mut RegistryStep<'_>) {
        if let Some(was) = was.filter(|was| *was != member.status) {
            step.push(Op::DeleteRolloutMember(Box::new(member.place.clone()), was));
        }
        if let Some(live) = self.live.get_mut(&member.place.rollout) {
            live.members_written = step.seq;
        }
        self.members.put(step.seq, member.place.clone(), Some(member.clone()));
        step.push(Op::PutRolloutMember(Box::new(member)));
    }

    /// A rollout that something happens to, also one that has ended.
    fn active(
        &mut self,
        incarnation: Incarnation,
        step: &RegistryStep<'_>,
    ) -> Result<Option<&mut ActiveRollout>, StoreError> {
        if !self.live.contains_key(&incarnation) {
            let Some(id) = self.by_incarnation.get(&incarnation) else { return Ok(None) };
            let view = step.fetch.view()?;
            let Some((rollout, state)) = view.rollout(id)?.zip(view.rollout_state(id)?) else {
                return Ok(None);
            };
            if let Some(at) = state.ended_at {
                self.ended.remove(&(at, incarnation));
            }
            self.live.insert(incarnation, ActiveRollout::new(Arc::new(rollout), state));
        }
        Ok(self.live.get_mut(&incarnation))
    }
}

fn emit(effect: RolloutEffect, step: &mut RegistryStep<'_>) {
    step.emit(RegistryEffect::Rollouts(effect));
}
