//! Operations, as far as they are durable.

use std::sync::Arc;

use base::{EntityId, PartitionId, Problem};
use records::OperationState;
use store::View;

use super::{Queries, unreadable};
use crate::operations::TrackedOperation;

/// States that are read at a time where those that go on are looked for.
const LOOKED_AT: usize = 200;

impl Queries {
    /// An operation.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn operation(&self, id: EntityId) -> Result<Option<TrackedOperation>, Problem> {
        let view = self.view(PartitionId::REGISTRY)?;
        let state = view.operation_state(id).map_err(unreadable)?;
        Ok(state.map(|state| tracked(&*view, state)).transpose()?.flatten())
    }

    /// Operations that are meant, the newest first.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn operations(
        &self,
        is_meant: impl Fn(&TrackedOperation) -> bool,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<TrackedOperation>, Problem> {
        self.operations_that(|_| true, is_meant, after, limit)
    }

    pub(crate) fn running_operations(&self) -> Result<Vec<TrackedOperation>, Problem> {
        self.operations_that(|state| !state.status.has_ended(), |_| true, None, usize::MAX)
    }

    /// Few are kept, so all of them may be looked at.
    fn operations_that(
        &self,
        may_be_meant: impl Fn(&OperationState) -> bool,
        is_meant: impl Fn(&TrackedOperation) -> bool,
        mut after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<TrackedOperation>, Problem> {
        let view = self.view(PartitionId::REGISTRY)?;
        let mut found = Vec::new();
        loop {
            let states = view.operation_states(after, LOOKED_AT).map_err(unreadable)?;
            let is_whole = states.len() < LOOKED_AT;
            after = states.last().map(|state| state.id);
            for state in states.into_iter().filter(&may_be_meant) {
                found.extend(tracked(&*view, state)?.filter(&is_meant));
                if found.len() == limit {
                    return Ok(found);
                }
            }
            if is_whole {
                return Ok(found);
            }
        }
    }
}

fn tracked(view: &dyn View, state: OperationState) -> Result<Option<TrackedOperation>, Problem> {
    let operation = view.operation(state.id).map_err(unreadable)?;
    Ok(operation.map(|operation| TrackedOperation { operation: Arc::new(operation), state }))
}
