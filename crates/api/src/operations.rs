//! Operations: one action on everything that a list shows.
//!
//! The lists themselves read which rows are meant ([`rows`]). An action ([`act`]) makes the same
//! calls as the route for one row, and is refused as that route is. What a token may do
//! ([`rights`]) is asked for each chunk and each row. The engine keeps how far an operation has
//! come; the [`worker`] goes on with it, a [`task`] for each.

mod act;
mod lane;
mod request;
mod rights;
mod row;
mod rows;
mod task;
#[cfg(test)]
mod tests;
pub(crate) mod worker;

use std::sync::Arc;

use access::Scope;
use base::{ClientId, Problem, Timestamp};
use engine::queues::QueueName;
use engine::records::{Delivery, OperationAction};
use engine::{Queries, TrackedOperation};
use net::shares::SenderKey;

pub(crate) use request::{LABELS_BYTES_MAX, OperationRequest, new_operation_schema};
pub(crate) use rights::check_may_cancel;
pub(crate) use rows::FILTER_BYTES_MAX;

use crate::ApiState;
use crate::shape::DryRunShape;
use act::ActionArguments;
use rights::AllowedRows;
use rows::OperationRowSource;

/// Rows that a dry run looks at; of more it says that there may be more.
const COUNTED_MAX: u64 = 20_000;
/// Rows that a dry run reads at a time.
const READ_AT_A_TIME: usize = 1_000;

/// Dry runs of one token at a time.
pub(crate) const DRY_RUNS_SHARE: usize = 2;

/// What an operation does, in a form to work with.
pub(crate) struct OperationPlan {
    action: OperationAction,
    rows: OperationRowSource,
    arguments: ActionArguments,
    /// The queue that its rows are of.
    queue: Option<QueueName>,
    /// What its token may do; without tokens everybody may do everything.
    scopes: Option<Vec<Scope>>,
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

    /// Whether a delivery may be acted on. Where only those of some clients may, it has to be to
    /// one of these clients as it is now. A former client of the same id does not count.
    fn is_own(&self, queries: &Queries, delivery: &Delivery) -> bool {
        let Some(own) = &self.own else { return true };
        let client = queries.client(&delivery.client_id);
        own.contains(&delivery.client_id) && client.is_some_and(|now| now.incarnation == delivery.client)
    }
}

/// Counts the rows that a plan means, as far as a dry run looks, a turn among the lists at a time.
///
/// # Errors
/// 503 `busy`, or what the list says.
pub(crate) async fn counted(
    api: &ApiState,
    plan: OperationPlan,
    whose: &SenderKey,
) -> Result<DryRunShape, Problem> {
    let share = api.shared.dry_runs.of(whose).try_take(1);
    let _share = share.ok_or_else(|| {
        let detail = format!("{DRY_RUNS_SHARE} dry runs of this caller are under way; wait for one");
        Problem::new(503, "busy", detail)
    })?;
    let place = api.shared.lists.enter_as(whose)?;
    let (plan, mut next) = (Arc::new(plan), Some(Box::default()));
    let mut counted = DryRunShape { matched: 0, looked_at: 0, complete: false };
    while let Some(after) = next.filter(|_| counted.looked_at < COUNTED_MAX) {
        let _held = {
            let bytes = plan.rows.bytes_max(READ_AT_A_TIME);
            let held = api.shared.memory_of_pages.take_soon(whose, bytes).await?;
            held.counted_by(&api.shared.metrics.page_held_bytes)
        };
        let reader = Arc::clone(&plan);
        let read = move || reader.rows.read(&after, READ_AT_A_TIME, reader.until);
        let found = place.run(read).await?;
        counted.looked_at += found.looked_at;
        counted.matched += match plan.rows.is_named() {
            true => present(api, &plan, &found.rows).await?,
            false => found.rows.len() as u64,
        };
        counted.complete = found.next.is_none();
        next = found.next;
    }
    Ok(counted)
}

/// How many of these rows are there, and may be acted on.
async fn present(api: &ApiState, plan: &Arc<OperationPlan>, ids: &[Box<str>]) -> Result<u64, Problem> {
    let mut present = 0;
    for id in ids {
        present += u64::from(row::find(api, plan, id).await?.is_some());
    }
    Ok(present)
}

impl AllowedRows {
    fn own(self) -> Option<Vec<ClientId>> {
        match self {
            Self::All => None,
            Self::Own(clients) => Some(clients),
        }
    }
}
