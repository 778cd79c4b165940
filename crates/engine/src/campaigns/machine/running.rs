//! A task that goes on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ::campaigns::DeviceSet;
use base::Timestamp;
use records::{DevicePlace, Pick, PickCounts, PickOutcome, PickTerms, TaskRecord, TaskStanding, TaskState};

use crate::campaigns::TrackedTask;
use crate::campaigns::links::OrderKind;
use crate::kernel::reply::{Answered, Reply};

/// Who waits for a task that was begun.
pub(super) type TaskReply = Reply<Answered<Box<TrackedTask>>>;

/// A task that goes on.
#[derive(Debug)]
pub(super) struct RunningTask {
    pub(super) task: Arc<TaskRecord>,
    pub(super) terms: Arc<PickTerms>,
    pub(super) state: TaskState,
    /// The campaign whose slot it is.
    pub(super) campaign: Option<Arc<str>>,
    /// The state is to be written.
    pub(super) is_changed: bool,
    /// The devices that it has picked: none is picked again.
    pub(super) taken: DeviceSet,
    /// Of them those that dropped out: others take their places.
    pub(super) dropped: DeviceSet,
    /// Devices that are picked, and whose picks are not written yet.
    pub(super) planned: VecDeque<PlannedPick>,
    /// Picks whose commands are to be given, in order; some of them may have ended.
    pub(super) to_order: VecDeque<u32>,
    /// Picks that have not ended, by number.
    pub(super) open: BTreeMap<u32, OpenPick>,
    /// Devices that it would still pick.
    pub(super) missing: u32,
    /// Of them those that take the place of one that dropped out.
    pub(super) replacing: u32,
    pub(super) search: DeviceSearch,
    /// It went on after a start: until its time is over, it picks devices as they come, and none
    /// counts as gone away.
    pub(super) is_recovering: bool,
    /// What did not go out is called off, from this pick on.
    pub(super) recall: Option<Recall>,
    /// Gets the task once its devices are picked.
    pub(super) creator: Option<TaskReply>,
    /// Who waits for its end.
    pub(super) end_waiters: Vec<Reply<()>>,
    /// Who waits until nothing more of it goes out.
    pub(super) quiet_waiters: Vec<Reply<Answered<()>>>,
}

/// A device that is picked, and whose pick is not written yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedPick {
    pub(super) place: DevicePlace,
    /// It takes the place of one that dropped out.
    pub(super) is_replacement: bool,
}

/// A pick that has not ended.
#[derive(Debug)]
pub(super) struct OpenPick {
    pub(super) pick: Pick,
    pub(super) progress: PickProgress,
}

/// How far the order of a pick has come, as far as the machine was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PickProgress {
    /// It waits for the rate, to be given, or to be ensured where it may have been given before.
    WaitsForRate(OrderKind),
    /// The device's partition is to give the command, or has it.
    Ordered,
    /// The command is to be called off, for this reason.
    CalledOff(PickOutcome),
    /// It went out.
    Sent,
}

/// The search for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceSearch {
    /// None is under way.
    Idle,
    /// One is to begin.
    Wanted,
    /// One is under way; whether another is to follow.
    UnderWay {
        /// There is reason to look again.
        again: bool,
    },
}

/// A walk over the open picks that calls off what did not go out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recall {
    /// The next pick.
    pub(super) from: u32,
    /// Why.
    pub(super) outcome: PickOutcome,
}

impl RunningTask {
    pub(super) fn new(task: TaskRecord, terms: Arc<PickTerms>, replaced_until: Timestamp) -> Self {
        let state = TaskState {
            task: task.incarnation,
            is_slot: task.slot.is_some(),
            standing: TaskStanding::Running,
            replaced_until,
            counts: PickCounts::default(),
            ended: 0,
            was_skipped: false,
            ended_at: None,
            post: None,
        };
        Self { is_changed: true, ..Self::with(task, terms, state) }
    }

    /// A task with that state, of which nothing else is known.
    pub(super) fn with(task: TaskRecord, terms: Arc<PickTerms>, state: TaskState) -> Self {
        Self {
            task: Arc::new(task),
            terms,
            state,
            campaign: None,
            is_changed: false,
            taken: DeviceSet::new(),
            dropped: DeviceSet::new(),
            planned: VecDeque::new(),
            to_order: VecDeque::new(),
            open: BTreeMap::new(),
            missing: 0,
            replacing: 0,
            search: DeviceSearch::Idle,
            is_recovering: false,
            recall: None,
            creator: None,
            end_waiters: Vec::new(),
            quiet_waiters: Vec::new(),
        }
    }

    pub(super) fn tracked(&self) -> TrackedTask {
        let receiver = self.terms.receiver.clone();
        TrackedTask { task: Arc::clone(&self.task), state: self.state.clone(), receiver }
    }

    /// When its picks were due: it says who goes first where they wait.
    pub(super) fn due_at(&self) -> Timestamp {
        self.task.created_at
    }

    pub(super) fn is_running(&self) -> bool {
        self.state.standing == TaskStanding::Running
    }

    /// Whether devices that come are picked.
    pub(super) fn wants_who_come(&self) -> bool {
        self.is_recovering && self.missing > 0 && self.is_running()
    }

    /// Whether another device may take the place of one that dropped out.
    pub(super) fn may_replace(&self, now: Timestamp) -> bool {
        let under_way = self.missing + self.planned.len() as u32;
        let to_be_replaced = self.state.counts.replaced.saturating_add(under_way);
        self.is_running() && now < self.state.replaced_until && to_be_replaced < self.task.wanted
    }

    /// Looks for devices; once more if a search is under way, which may not have seen all.
    pub(super) fn look(&mut self) {
        self.search = match self.search {
            DeviceSearch::Idle | DeviceSearch::Wanted => DeviceSearch::Wanted,
            DeviceSearch::UnderWay { .. } => DeviceSearch::UnderWay { again: true },
        };
    }

    /// No more devices are picked. Devices that are picked already were charged for it: their picks
    /// are written, and called off.
    pub(super) fn stop_picking(&mut self) {
        (self.missing, self.replacing, self.is_recovering) = (0, 0, false);
    }

    /// Why picks that are written now are called off at once.
    pub(super) fn stopped(&self, now: Timestamp) -> Option<PickOutcome> {
        match self.state.standing {
            TaskStanding::Cancelled => Some(PickOutcome::Cancelled),
            TaskStanding::Running | TaskStanding::Done => {
                (now >= self.state.replaced_until).then_some(PickOutcome::NotSent)
            }
        }
    }

    /// Calls off what did not go out, and why.
    pub(super) fn call_off(&mut self, outcome: PickOutcome) {
        self.recall = Some(Recall { from: 0, outcome });
    }

    /// Whether nothing goes out any more that did not go out before.
    pub(super) fn is_quiet(&self) -> bool {
        let is_sent = |open: &OpenPick| open.progress == PickProgress::Sent;
        self.recall.is_none() && self.planned.is_empty() && self.open.values().all(is_sent)
    }

    /// Whether nothing more comes of it.
    pub(super) fn is_over(&self) -> bool {
        let picks = self.missing > 0 && (self.search != DeviceSearch::Idle || self.is_recovering);
        self.open.is_empty() && self.planned.is_empty() && !picks
    }
}
