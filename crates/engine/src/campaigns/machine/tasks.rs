//! What is asked of tasks: one is begun, awaited or called off.

use std::sync::Arc;

use ::campaigns::device_set;
use base::{EntityId, Incarnation, Problem};
use records::{Op, PickOutcome, TaskRecord, TaskStanding};
use store::StoreError;

use super::running::{DeviceSearch, RunningTask, TaskReply};
use super::token_shares::{OPEN_PICKS, RUNNING, Requested};
use super::{CampaignMachine, CampaignsStep};
use crate::campaigns::effect::CampaignsEffect;
use crate::campaigns::input::TaskCall;
use crate::campaigns::search::FoundDevices;
use crate::campaigns::{NewTask, TASK_ID_PREFIX, TrackedTask};
use crate::kernel::reply::{Answered, Reply};

/// Callers that wait for the end of one task.
const END_WAITERS_MAX: usize = 1_024;

impl CampaignMachine {
    pub(super) fn apply_to_tasks(
        &mut self,
        call: TaskCall,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        match call {
            TaskCall::Create { id, new, found, is_put, reply } => {
                if let Some(present) = self.tracked(id, step)? {
                    let answer = self.present_task(&present, &new, is_put, step)?;
                    step.emit(CampaignsEffect::Task(reply, answer.map(Box::new)));
                    return Ok(());
                }
                match self.check_room(&new, &found, step) {
                    Ok(()) => self.create(id, *new, &found, reply, step),
                    Err(problem) => step.emit(CampaignsEffect::Task(reply, Err(problem))),
                }
            }
            TaskCall::Cancel { id, reply } => self.cancel(id, reply, step)?,
            TaskCall::AwaitEnd { id, reply } => self.await_end(id, reply, step),
            TaskCall::LeaseEnds { max, reply } => {
                let due = self.posts.lease(max, self.settings.attempt_timeout, step.now);
                step.emit(CampaignsEffect::EndsLeased(reply, due));
            }
            TaskCall::EndTold { task, result, reply } => {
                self.end_told(task, result, step);
                step.emit(CampaignsEffect::Kept(reply));
            }
        }
        Ok(())
    }

    /// A task as it is, also one that has ended.
    pub(super) fn tracked(
        &self,
        id: EntityId,
        step: &CampaignsStep<'_>,
    ) -> Result<Option<TrackedTask>, StoreError> {
        if let Some(running) = self.running_ids.get(&id).and_then(|task| self.running.get(task)) {
            return Ok(Some(running.tracked()));
        }
        self.ended.get_or_read(&id, || {
            let view = step.fetch.view()?;
            let Some(task) = view.task_of(&id)? else { return Ok(None) };
            let state = view.task_state(task.incarnation)?;
            Ok(state.map(|state| TrackedTask { task: task.into(), state, receiver: None }))
        })
    }

    /// The same request again is the same task.
    fn present_task(
        &self,
        present: &TrackedTask,
        new: &NewTask,
        is_put: bool,
        step: &CampaignsStep<'_>,
    ) -> Result<Answered<TrackedTask>, StoreError> {
        let terms = match self.terms.get(present.task.terms) {
            Some(terms) => Some(terms),
            None => step.fetch.view()?.pick_terms(present.task.terms)?.map(Arc::new),
        };
        // The terms of a task go when it ends. If an earlier build stored it, its request is not
        // known then: what comes under its key is taken to be a repeat.
        let request = present.task.request.or(terms.as_ref().map(|terms| terms.request));
        if is_put && request.is_none_or(|request| request == new.request) {
            let receiver = terms.and_then(|terms| terms.receiver.clone());
            return Ok(Ok(TrackedTask { receiver, ..present.clone() }));
        }
        let detail = format!(
            "task {} is there already, with another body; give every request a key of its own",
            present.task.id.to_text(TASK_ID_PREFIX)
        );
        Ok(Err(Problem::conflict("exists", detail)))
    }

    fn check_room(
        &self,
        new: &NewTask,
        found: &FoundDevices,
        step: &CampaignsStep<'_>,
    ) -> Result<(), Problem> {
        let token = new.terms.token.as_deref();
        RUNNING.check(&self.running_of, (token, 1), Requested::Task)?;
        self.terms.check_room(token, &new.terms.payload, new.terms.devices.as_deref(), Requested::Task)?;
        let devices = found.strata.iter().map(|stratum| device_set::len(stratum)).sum::<u64>();
        let picks = usize::try_from(devices.min(new.terms.count.into())).unwrap_or(usize::MAX);
        OPEN_PICKS.check(&self.open_picks, (token, picks), Requested::Task)?;
        let Some(token) = token else { return Ok(()) };
        let left = self.left_of_token(token, step.now);
        if left.is_none_or(|left| left >= u64::from(new.terms.count)) {
            return Ok(());
        }
        let detail = format!(
            "this token may have {} more devices picked in this hour; ask fewer devices, or wait",
            left.unwrap_or(0)
        );
        Err(Problem::new(429, "picks_exhausted", detail))
    }

    fn create(
        &mut self,
        id: EntityId,
        new: NewTask,
        found: &FoundDevices,
        reply: TaskReply,
        step: &mut CampaignsStep<'_>,
    ) {
        let (terms, incarnation) = (self.next_incarnation(), self.next_incarnation());
        let wanted = new.terms.count;
        let terms = self.terms.put(new.terms.kept(terms, new.request), step);
        let deadline_ms = u64::try_from(new.deadline.as_millis()).unwrap_or(u64::MAX);
        let task = TaskRecord {
            id,
            incarnation,
            terms: terms.incarnation,
            created_at: step.now,
            wanted,
            deadline_ms,
            slot: None,
            request: Some(new.request),
        };
        step.push(Op::PutTask(Box::new(task.clone())));
        let mut running = RunningTask::new(task, terms, step.now.after(new.deadline));
        (running.creator, running.missing) = (Some(reply), wanted);
        self.running_ids.insert(id, incarnation);
        self.enter(running, step);
        self.clock.task_began(step.now);
        self.found(incarnation, found, step);
    }

    /// A task goes on from here.
    pub(super) fn enter(&mut self, running: RunningTask, step: &mut CampaignsStep<'_>) {
        let task = running.task.incarnation;
        self.deadlines.insert((running.state.replaced_until, task));
        self.running_of.add(running.terms.token.as_deref(), 1);
        self.running.insert(task, running);
        step.own.touched.insert(task);
    }

    pub(super) fn next_incarnation(&mut self) -> Incarnation {
        let next = Incarnation(self.head.next_incarnation);
        self.head.next_incarnation += 1;
        next
    }

    fn await_end(&mut self, id: EntityId, reply: Reply<()>, step: &mut CampaignsStep<'_>) {
        let task = self.running_ids.get(&id);
        let Some(running) = task.and_then(|task| self.running.get_mut(task)) else {
            step.emit(CampaignsEffect::Kept(reply));
            return;
        };
        if running.end_waiters.len() >= END_WAITERS_MAX {
            running.end_waiters.retain(|waiter| !waiter.is_closed());
        }
        if running.end_waiters.len() < END_WAITERS_MAX {
            running.end_waiters.push(reply);
        } else {
            // One too many sees the task as it is.
            step.emit(CampaignsEffect::Kept(reply));
        }
    }

    /// Calls a task off. Whoever asks is answered when nothing more of it goes out.
    fn cancel(
        &mut self,
        id: EntityId,
        reply: Reply<Answered<()>>,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        let task = self.running_ids.get(&id).copied();
        let Some(running) = task.and_then(|task| self.running.get_mut(&task)) else {
            let is_known = self.tracked(id, step)?.is_some_and(|present| present.task.slot.is_none());
            let answer = if is_known { Ok(()) } else { Err(unknown_task(id)) };
            step.emit(CampaignsEffect::Done(reply, answer));
            return Ok(());
        };
        running.quiet_waiters.push(reply);
        let task = running.task.incarnation;
        self.stop(task, step);
        Ok(())
    }

    /// Nothing more of a task goes out.
    pub(super) fn stop(&mut self, task: Incarnation, step: &mut CampaignsStep<'_>) {
        let Some(running) = self.running.get_mut(&task) else { return };
        step.own.touched.insert(task);
        if running.is_running() {
            running.state.standing = TaskStanding::Cancelled;
            running.is_changed = true;
            running.stop_picking();
            running.search = DeviceSearch::Idle;
            running.call_off(PickOutcome::Cancelled);
            self.rate.remove(task);
        }
    }
}

/// There is no task of that id: 404 `unknown_task`.
#[must_use]
pub fn unknown_task(id: EntityId) -> Problem {
    Problem::unknown("unknown_task", format!("there is no task {}", id.to_text(TASK_ID_PREFIX)))
}
