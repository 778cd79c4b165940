//! The registry's part of operations: which go on, how far each has come, and how long those that
//! ended are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{EntityId, PartitionId, Problem, Timestamp};
use records::{Op, Operation, OperationState, OperationStatus};
use store::{Store, StoreError};
use tokio::sync::watch;

use super::ended::EndedOperations;
use super::rule::{self, NotTaken};
use super::{NewOperation, OperationInput, TrackedOperation, unknown_operation};
use crate::kernel::reply::{Answered, InputFailure, Reply, answered};
use crate::registry::{RegistryEffect, RegistryStep};
use crate::settings::OperationSettings;

/// States that are read at a time when the registry is loaded.
const LOADED_PER_READ: usize = 100;
/// Operations that are forgotten in a step.
const FORGOTTEN_PER_STEP: usize = 100;

/// What the outside may see of operations once it is durable.
#[derive(Debug)]
pub enum OperationEffect {
    /// An operation was asked for, or that was refused.
    Begun(Reply<Answered<Box<TrackedOperation>>>, Answered<Box<TrackedOperation>>),
    /// The worker's account was taken, or refused.
    Progressed(Reply<Answered<Box<OperationState>>>, Answered<Box<OperationState>>),
    /// One was called off, or that was refused.
    Cancelled(Reply<Answered<()>>, Answered<()>),
    /// Some that had ended are kept no longer.
    Forgotten,
}

/// What is marked changed for those who wait for changes of operations.
#[derive(Debug, Default)]
pub(crate) struct OperationChanges {
    /// With every change of one.
    pub(crate) rows: watch::Sender<()>,
    /// When one begins or is called off.
    pub(crate) work: watch::Sender<()>,
}

impl OperationEffect {
    /// Changes are told before the caller is answered.
    pub(crate) fn release(self, changes: &OperationChanges) {
        let (is_change, is_progress) = match &self {
            Self::Begun(_, begun) => (begun.is_ok(), false),
            Self::Progressed(_, progressed) => (progressed.is_ok(), true),
            Self::Cancelled(_, cancelled) => (cancelled.is_ok(), false),
            Self::Forgotten => (true, true),
        };
        if is_change {
            changes.rows.send_replace(());
        }
        if is_change && !is_progress {
            changes.work.send_replace(());
        }
        match self {
            Self::Begun(reply, answer) => reply.send(answer),
            Self::Progressed(reply, answer) => reply.send(answer),
            Self::Cancelled(reply, answer) => reply.send(answer),
            Self::Forgotten => {}
        }
    }
}

/// All operations.
#[derive(Debug)]
pub(crate) struct OperationTable {
    settings: OperationSettings,
    /// Those that go on, and those called off whose last chunk is under way.
    live: BTreeMap<EntityId, TrackedOperation>,
    /// Those that have ended.
    ended: EndedOperations,
}

impl OperationTable {
    /// What the store has.
    pub(crate) fn load(store: &dyn Store, settings: OperationSettings) -> Result<Self, StoreError> {
        let mut table = Self { settings, live: BTreeMap::new(), ended: EndedOperations::default() };
        let view = store.view(PartitionId::REGISTRY)?;
        let mut after = None;
        loop {
            let states = view.operation_states(after, LOADED_PER_READ)?;
            let Some(last) = states.last() else { return Ok(table) };
            after = Some(last.id);
            for state in states {
                let Some(operation) = view.operation(state.id)? else { continue };
                if let Some(at) = state.ended_at {
                    table.ended.insert((at, state.id), operation.by);
                    continue;
                }
                table.live.insert(state.id, TrackedOperation { operation: Arc::new(operation), state });
            }
        }
    }

    pub(crate) fn apply(
        &mut self,
        input: OperationInput,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let effect = match input {
            OperationInput::Create { id, new, until, reply } => {
                let begun = answered(self.create(id, *new, until, step))?;
                OperationEffect::Begun(reply, begun.map(Box::new))
            }
            OperationInput::Cancel { id, reply } => {
                let answer = self.change(id, step, |tracked, now| rule::cancel(&mut tracked.state, now));
                OperationEffect::Cancelled(reply, answer.map(drop))
            }
            OperationInput::Progress { id, progress, reply } => {
                let answer = self.change(id, step, |TrackedOperation { operation, state }, now| {
                    rule::progressed(operation, state, *progress, now)
                });
                OperationEffect::Progressed(reply, answer.map(Box::new))
            }
        };
        step.emit(RegistryEffect::Operations(effect));
        Ok(())
    }

    fn create(
        &mut self,
        id: EntityId,
        new: NewOperation,
        until: Timestamp,
        step: &mut RegistryStep<'_>,
    ) -> Result<TrackedOperation, InputFailure> {
        if let Some(begun) = self.begun_as(id, step)? {
            return Ok(begun);
        }
        self.check_room(new.by.as_deref())?;
        let NewOperation { action, filter, arguments, rate, by, scopes } = new;
        let created_at = step.now;
        let operation = Operation { id, action, filter, arguments, rate, by, scopes, created_at, until };
        let state = rule::begin(&operation);
        step.push(Op::PutOperation(Box::new(operation.clone())));
        step.push(Op::PutOperationState(Box::new(state.clone())));
        let tracked = TrackedOperation { operation: Arc::new(operation), state };
        self.live.insert(id, tracked.clone());
        Ok(tracked)
    }

    /// Whether another operation of a token may go on. One token leaves half of the places to
    /// others.
    fn check_room(&self, by: Option<&str>) -> Result<(), Problem> {
        let most = self.settings.running_max;
        let running = || self.live.values().filter(|tracked| !tracked.state.status.has_ended());
        let (all, share) = (running().count(), (most / 2).max(1));
        let own = running().filter(|tracked| tracked.operation.by.as_deref() == by).count();
        let detail = match by {
            _ if all >= most => format!(
                "{all} operations go on, as many as the setting operations.max_running allows; wait, or cancel one"
            ),
            Some(by) if own >= share => format!(
                "{own} operations of token {by:?} go on; one token may have half of the {most} that the setting operations.max_running allows; wait, or cancel one"
            ),
            _ => return Ok(()),
        };
        Err(Problem::conflict("too_many_operations", detail))
    }

    /// The operation that the same request began before.
    fn begun_as(
        &self,
        id: EntityId,
        step: &RegistryStep<'_>,
    ) -> Result<Option<TrackedOperation>, StoreError> {
        let is_same = |known: &&EntityId| (known.number, known.tag) == (id.number, id.tag);
        if let Some(live) = self.live.keys().find(is_same) {
            return Ok(self.live.get(live).cloned());
        }
        let Some(ended) = self.ended.ids().find(|ended| is_same(&ended)) else { return Ok(None) };
        let view = step.fetch.view()?;
        let found = view.operation(ended)?.zip(view.operation_state(ended)?);
        Ok(found.map(|(operation, state)| TrackedOperation { operation: Arc::new(operation), state }))
    }

    /// Changes how far an operation has come, and writes it; the state after it.
    fn change(
        &mut self,
        id: EntityId,
        step: &mut RegistryStep<'_>,
        change: impl FnOnce(&mut TrackedOperation, Timestamp) -> Result<(), NotTaken>,
    ) -> Result<OperationState, Problem> {
        let Some(tracked) = self.live.get_mut(&id) else {
            let is_kept = self.ended.ids().any(|ended| ended == id);
            return Err(if is_kept { finished(None) } else { unknown_operation(id) });
        };
        match change(tracked, step.now) {
            Ok(()) => {}
            Err(NotTaken::HasEnded(status)) => return Err(finished(Some(status))),
            // Whoever told it sees where the operation stands.
            Err(NotTaken::OtherChunk) => return Ok(tracked.state.clone()),
        }
        let state = tracked.state.clone();
        step.push(Op::PutOperationState(Box::new(state.clone())));
        if let Some(at) = state.ended_at {
            self.ended.insert((at, id), tracked.operation.by.clone());
            if state.chunk.is_empty() {
                self.live.remove(&id);
            }
        }
        Ok(state)
    }

    /// When the next operation is kept no longer.
    pub(crate) fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        self.ended.next_due(self.settings.keep, now)
    }

    /// Forgets operations that ended long ago. Whether there may be more of them.
    pub(crate) fn forget(&mut self, step: &mut RegistryStep<'_>) -> bool {
        let keep = self.settings.keep;
        let mut forgotten = 0;
        while forgotten < FORGOTTEN_PER_STEP
            && let Some((at, id)) = self.ended.due(keep, step.now)
        {
            self.ended.remove((at, id));
            self.live.remove(&id);
            step.push(Op::DeleteOperation(id));
            forgotten += 1;
        }
        if forgotten > 0 {
            step.emit(RegistryEffect::Operations(OperationEffect::Forgotten));
        }
        forgotten == FORGOTTEN_PER_STEP
    }
}

fn finished(status: Option<OperationStatus>) -> Problem {
    let detail = match status {
        Some(status) => format!("the operation has ended: it is {}", status.as_str()),
        None => "the operation has ended".to_owned(),
    };
    Problem::conflict("finished", detail)
}
