//! Ends of tasks on their way to those who asked to be told.
//!
//! An end that is to be told is kept with its task, in the commit that ends it. It stays until its
//! receiver has taken it or no attempt is left. A lease is in memory alone: after a crash the end
//! is due again. The sender, `notify`, leases some, tells them, and reports the result of each.

use base::{EntityId, Incarnation};
use records::{AnswerKey, OutcomeReceiver};
use tokio::sync::Notify;

use super::input::{CampaignsInput, TaskCall};
use super::{TASK_ID_PREFIX, TrackedTask};
use crate::Engine;
use crate::kernel::idempotency::IdempotencyKey;
use crate::kernel::partition_handle::NotAccepting;
use crate::outcomes::SendResult;
use crate::streams::OwnedExternalId;

/// The end of a task, to be told now.
#[derive(Clone, Debug)]
pub struct TaskEndDue {
    /// The task.
    pub tracked: TrackedTask,
    /// Who is told.
    pub receiver: OutcomeReceiver,
}

impl TaskEndDue {
    /// The task's id: that of the message, too.
    #[must_use]
    pub fn id(&self) -> EntityId {
        self.tracked.task.id
    }

    /// The mark under which its job is published, so that telling it again publishes none.
    #[must_use]
    pub fn idempotency_key(&self) -> IdempotencyKey {
        let bytes = self.id().to_bytes();
        let half = |seed: u64| u128::from(base::hash::derived(seed, &bytes));
        IdempotencyKey { key: AnswerKey(half(12) << 64 | half(14)), body: half(16) }
    }

    /// The source and the external id of its message in a stream, so that telling it again appends
    /// none.
    #[must_use]
    pub fn origin(&self) -> (Box<str>, OwnedExternalId) {
        ("tasks".into(), OwnedExternalId::Text(self.id().to_text(TASK_ID_PREFIX).into()))
    }
}

/// Says when ends of tasks are due.
#[derive(Debug, Default)]
pub(crate) struct DueTaskEnds {
    due: Notify,
}

impl DueTaskEnds {
    pub(super) fn mark_due(&self) {
        self.due.notify_one();
    }
}

impl Engine {
    /// Resolves when ends of tasks may be due to be told; at once if they came due since this was
    /// last asked.
    pub async fn task_ends_due(&self) {
        self.context().campaigns.ends.due.notified().await;
    }

    /// Leases up to `max` ends of tasks that are due.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn lease_task_ends(&self, max: usize) -> Result<Vec<TaskEndDue>, NotAccepting> {
        let lease = |reply| CampaignsInput::Task(TaskCall::LeaseEnds { max, reply });
        self.campaigns_partition().ask(lease).await
    }

    /// Records what came of telling the end of a task.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn task_end_told(&self, task: Incarnation, result: SendResult) -> Result<(), NotAccepting> {
        let told = |reply| CampaignsInput::Task(TaskCall::EndTold { task, result, reply });
        self.campaigns_partition().ask(told).await
    }
}
