//! Operations: one action on everything that a list shows.
//!
//! Which rows are meant ([`rows`]) is read by the lists themselves; an action ([`act`]) makes the
//! same calls as the route for one row, and is refused as that is; what a token may do ([`rights`])
//! is asked for each chunk and each row. The engine keeps how far an operation has come; the
//! [`worker`] goes on with it.

mod act;
mod request;
mod rights;
mod rows;
pub(crate) mod worker;

use base::{ClientId, Problem, Timestamp};
use engine::TrackedOperation;
use engine::queues::QueueName;
use engine::records::OperationAction;

pub(crate) use request::{OperationRequest, new_operation_schema};
pub(crate) use rows::NAMED_MAX;

use crate::ApiState;
use crate::shape::DryRunShape;
use act::ActionArguments;
use rights::AllowedRows;
use rows::RowSource;

/// Rows that a dry run looks at; of more it says that there may be more.
const COUNTED_MAX: u64 = 20_000;
/// Rows that a dry run reads at a time.
const READ_AT_A_TIME: usize = 1_000;

/// What an operation does, in a form to work with.
pub(crate) struct OperationPlan {
    action: OperationAction,
    rows: RowSource,
    arguments: ActionArguments,
    /// The queue that its rows are of.
    queue: Option<QueueName>,
    /// Only deliveries to these clients.
    own: Option<Vec<ClientId>>,
    /// Rows that came later are left out.
    until: Timestamp,
}

impl OperationPlan {
    /// What a stored operation does. It was checked when it was asked for; since then a setting or
    /// a registration may have changed.
    fn of_stored(
        api: &ApiState,
        TrackedOperation { operation, .. }: &TrackedOperation,
    ) -> Result<Self, Problem> {
        let scopes = operation.by.as_ref().map(|_| rights::parsed(&operation.scopes));
        let request = OperationRequest {
            action: operation.action,
            filter: operation.filter.to_string(),
            arguments: operation.arguments.to_string(),
            rate: Some(operation.rate),
            dry_run: false,
        };
        request.plan(api, scopes.as_deref(), operation.until)
    }

    /// Whether a delivery to this client may be acted on.
    fn is_own(&self, client: &ClientId) -> bool {
        self.own.as_ref().is_none_or(|own| own.contains(client))
    }
}

/// Counts the rows that a plan means, as far as a dry run looks.
pub(crate) async fn counted(api: &ApiState, plan: OperationPlan) -> Result<DryRunShape, Problem> {
    let count = move || {
        let mut counted = DryRunShape { matched: 0, looked_at: 0, complete: false };
        let mut next: Box<[u8]> = Box::default();
        while counted.looked_at < COUNTED_MAX {
            let found = plan.rows.read(&next, READ_AT_A_TIME, plan.until)?;
            counted.matched += found.rows.len() as u64;
            counted.looked_at += found.looked_at;
            match found.next {
                Some(behind) => next = behind,
                None => {
                    counted.complete = true;
                    break;
                }
            }
        }
        Ok(counted)
    };
    api.shared.lists.run(count).await
}

impl AllowedRows {
    fn own(self) -> Option<Vec<ClientId>> {
        match self {
            Self::All => None,
            Self::Own(clients) => Some(clients),
        }
    }
}
