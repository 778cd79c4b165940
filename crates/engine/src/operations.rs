//! Operations: one action on every row of a list, some rows at a time, durably.
//!
//! An operation and its state are rows of the registry's partition; its [`table`] knows which go
//! on. The worker on an operation knows which rows a filter means, what an action does to one, and
//! who may do it. It takes what [`OperationCalls::running`] shows, does a chunk at a time, and
//! tells [`OperationCalls::progress`] what came of it.

mod ended;
pub mod rule;
mod table;

use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Problem, Timestamp};
use records::{Operation, OperationAction, OperationState};
use tokio::sync::watch;

use crate::Engine;
use crate::kernel::idempotency::IdempotencyKey;
use crate::kernel::reply::{Answered, Reply};
use crate::registry::RegistryInput;

pub use rule::{ChunkOutcome, NextChunk, OperationProgress};
pub(crate) use table::{OperationChanges, OperationEffect, OperationTable};

/// The least time between two stamps.
const STAMP: Duration = Duration::from_millis(1);
/// What the text of an operation's id begins with.
pub const OPERATION_ID_PREFIX: &str = "op_";

/// An operation as a caller asks for it, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOperation {
    /// The name of the caller's token.
    pub by: Option<Box<str>>,
    /// What that token may do.
    pub scopes: Vec<Box<str>>,
    /// What is done to each row.
    pub action: OperationAction,
    /// Which rows: a JSON object.
    pub filter: Box<str>,
    /// What the action needs besides: a JSON object.
    pub arguments: Box<str>,
    /// Rows in a second.
    pub rate: u32,
}

/// An operation, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedOperation {
    /// As it was asked for.
    pub operation: Arc<Operation>,
    /// How far it has come.
    pub state: OperationState,
}

/// An input about operations to the registry.
#[derive(Debug)]
pub enum OperationInput {
    /// Begin an operation.
    Create {
        /// Unique; a repeated request has the same id but for its time.
        id: EntityId,
        /// As asked for.
        new: Box<NewOperation>,
        /// Only rows before that time belong to it.
        until: Timestamp,
        /// Gets the operation.
        reply: Reply<Answered<Box<TrackedOperation>>>,
    },
    /// Call an operation off.
    Cancel {
        /// The operation.
        id: EntityId,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// What the worker of an operation did.
    Progress {
        /// The operation.
        id: EntityId,
        /// What it did.
        progress: Box<OperationProgress>,
        /// Gets the state after it.
        reply: Reply<Answered<Box<OperationState>>>,
    },
}

/// The calls about operations. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OperationCalls {
    engine: Engine,
}

impl OperationCalls {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Begins an operation. A request that comes again under its key is the operation that it
    /// began.
    ///
    /// # Errors
    /// 409 `too_many_operations`; 503 when not accepting, here and for every call below.
    pub async fn create(
        &self,
        new: NewOperation,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<TrackedOperation, Problem> {
        let now = self.engine.clock().now();
        let (id, new) = (made_id(now, idempotency)?, Box::new(new));
        // Whoever reads where feeds end pushes all later stamps behind it.
        let end = self.engine.feed_end();
        let until = end.max(self.engine.latest_stamp().max(now).after(STAMP));
        let input = |reply| RegistryInput::Operations(OperationInput::Create { id, new, until, reply });
        Ok(*self.engine.registry().ask(input).await??)
    }

    /// Calls an operation off. Rows of the chunk that is under way may still have their turn.
    ///
    /// # Errors
    /// 404 `unknown_operation`; 409 `finished`.
    pub async fn cancel(&self, id: EntityId) -> Result<(), Problem> {
        let input = |reply| RegistryInput::Operations(OperationInput::Cancel { id, reply });
        self.engine.registry().ask(input).await?
    }

    /// The worker tells what it did; the state after it.
    ///
    /// # Errors
    /// 404 `unknown_operation`; 409 `finished` when it was called off meanwhile. The outcome of
    /// another chunk than the present one is no error: it has no effect, nor has what is told with
    /// it.
    pub async fn progress(
        &self,
        id: EntityId,
        progress: OperationProgress,
    ) -> Result<OperationState, Problem> {
        let progress = Box::new(progress);
        let input = |reply| RegistryInput::Operations(OperationInput::Progress { id, progress, reply });
        Ok(*self.engine.registry().ask(input).await??)
    }

    /// Those that go on, the newest first.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub fn running(&self) -> Result<Vec<TrackedOperation>, Problem> {
        self.engine.queries().running_operations()
    }

    /// Marked changed when anything about an operation is: also with each of its chunks.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.engine.operation_changes().rows.subscribe()
    }

    /// Marked changed when an operation begins or is called off.
    #[must_use]
    pub fn work_changes(&self) -> watch::Receiver<()> {
        self.engine.operation_changes().work.subscribe()
    }

    /// Returns when feeds show all rows that belong to an operation.
    pub async fn shown(&self, operation: &Operation) {
        self.engine.shown(operation.until.before(STAMP)).await;
    }
}

/// An id that nobody has, but for the same request under the same key: then all but its time is the
/// same.
fn made_id(now: Timestamp, idempotency: Option<IdempotencyKey>) -> Result<EntityId, Problem> {
    let bytes = IdempotencyKey::id_bytes(idempotency, 4)?;
    Ok(EntityId { routing: 0, at: now, ..EntityId::from_bytes(&bytes) })
}

pub(crate) fn unknown_operation(id: EntityId) -> Problem {
    let detail = format!("there is no operation {}", id.to_text(OPERATION_ID_PREFIX));
    Problem::unknown("unknown_operation", detail)
}
