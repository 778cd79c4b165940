//! Tasks and slots that have ended are kept for some time; then they are forgotten with their
//! picks, some at a time.

use std::time::Duration;

use base::{Incarnation, Timestamp};
use records::Op;
use store::{StoreError, View};

use super::{CampaignMachine, CampaignsStep};
use crate::settings::CampaignSettings;

/// How long a task is kept after its end, with its results.
const TASKS_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// Picks that are forgotten in a step.
const FORGOTTEN_PER_STEP: usize = 500;
/// Tasks that are forgotten in a step.
const TASKS_PER_STEP: usize = 100;
/// A task that a panel goes by, or whose end is to be told, is kept beyond its time. After so long
/// such tasks are looked at again.
const LOOKED_AT_AGAIN: Duration = Duration::from_secs(3_600);

/// When tasks and slots are to be forgotten.
#[derive(Debug)]
pub(super) struct Retention {
    /// Tasks, and slots.
    lists: [EndedList; 2],
    /// It goes on once this batch is durable: what is read is what is there.
    from_seq: u64,
}

/// Tasks, or slots, that have ended, by when they did.
#[derive(Clone, Copy, Debug, Default)]
struct EndedList {
    /// When the oldest of those that are not passed by has ended, or earlier.
    oldest: Option<Timestamp>,
    /// All up to this one are passed by: they are gone, or kept beyond their time.
    passed: Option<(Timestamp, Incarnation)>,
    /// When those that are kept are looked at again.
    again_at: Option<Timestamp>,
}

impl Retention {
    pub(super) fn load(view: &dyn View) -> Result<Self, StoreError> {
        let mut lists = [EndedList::default(); 2];
        for is_slot in [false, true] {
            lists[usize::from(is_slot)].oldest = oldest_ended(view, is_slot, None)?;
        }
        Ok(Self { lists, from_seq: 0 })
    }

    /// A task, or a slot, has ended.
    pub(super) fn ended(&mut self, is_slot: bool, now: Timestamp) {
        self.lists[usize::from(is_slot)].oldest.get_or_insert(now);
    }

    pub(super) fn next_wakeup(&self, settings: &CampaignSettings, durable: u64) -> Option<Timestamp> {
        let due = |is_slot: bool| {
            let list = self.lists[usize::from(is_slot)];
            list.oldest.map(|oldest| oldest.after(kept(settings, is_slot))).into_iter().chain(list.again_at)
        };
        if self.from_seq > durable { None } else { due(false).chain(due(true)).min() }
    }
}

/// When the first that is not passed by has ended.
fn oldest_ended(
    view: &dyn View,
    is_slot: bool,
    passed: Option<(Timestamp, Incarnation)>,
) -> Result<Option<Timestamp>, StoreError> {
    let first = view.tasks_ended(is_slot, passed, Timestamp::MAX, 1)?;
    Ok(first.first().and_then(|state| state.ended_at))
}

fn kept(settings: &CampaignSettings, is_slot: bool) -> Duration {
    if is_slot { settings.results } else { TASKS_KEPT }
}

impl CampaignMachine {
    /// Forgets some of what is kept no longer.
    pub(super) fn retain(&mut self, step: &mut CampaignsStep<'_>) -> Result<(), StoreError> {
        if self.retention.from_seq > self.durable {
            return Ok(());
        }
        for is_slot in [false, true] {
            let kept = kept(&self.settings.campaigns, is_slot);
            let list = &mut self.retention.lists[usize::from(is_slot)];
            if list.again_at.is_some_and(|at| at <= step.now) {
                *list = EndedList { oldest: Some(step.now.before(kept)), ..EndedList::default() };
            }
            if list.oldest.is_some_and(|oldest| oldest.after(kept) <= step.now) && step.has_room() {
                self.forget_tasks(is_slot, kept, step)?;
            }
        }
        Ok(())
    }

    /// Forgets tasks, or slots, from where it was left on.
    fn forget_tasks(
        &mut self,
        is_slot: bool,
        kept: Duration,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        let panels = self.campaigns.panel_tasks();
        let end = Timestamp(step.now.before(kept).0.saturating_add(1));
        let view = step.fetch.view()?;
        let mut list = self.retention.lists[usize::from(is_slot)];
        let due = view.tasks_ended(is_slot, list.passed, end, TASKS_PER_STEP)?;
        let (mut is_last, mut has_written) = (due.len() < TASKS_PER_STEP, false);
        let mut left = FORGOTTEN_PER_STEP;
        for state in due {
            let place = state.ended_at.map(|at| (at, state.task));
            if panels.contains(&state.task) || state.post.is_some() {
                list.again_at.get_or_insert(step.now.after(LOOKED_AT_AGAIN));
                list.passed = place;
                continue;
            }
            has_written = true;
            let picks = view.picks(state.task, None, left)?;
            left -= picks.len();
            for pick in picks {
                // A late answer finds it gone, also before that is durable.
                self.picks.put(step.seq, (pick.task, pick.number), None);
                step.push(Op::DeletePick(Box::new(pick.key())));
            }
            if left == 0 {
                // It goes on with this one.
                is_last = false;
                break;
            }
            if let Some(task) = view.task(state.task)? {
                step.push(Op::DeleteTask(Box::new(task), Box::new(state)));
            }
            list.passed = place;
        }
        if has_written {
            self.retention.from_seq = step.seq;
        }
        if is_last {
            // Ends that are not durable yet are not seen.
            let unseen = (self.ended.len() > 0).then_some(step.now);
            list.oldest = oldest_ended(view, is_slot, list.passed)?.or(unseen);
        }
        self.retention.lists[usize::from(is_slot)] = list;
        Ok(())
    }
}
