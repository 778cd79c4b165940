//! Operations: one action on everything that a list shows.
//!
//! Which rows are meant ([`rows`]) is read by the lists themselves; an action ([`act`]) makes the
//! same calls as the route for one row, and is refused as that is; what a token may do ([`rights`])
//! is asked for each chunk and each row. The engine keeps how far an operation has come; the
//! [`worker`] goes on with it.

mod act;
mod asked;
mod rights;
mod rows;
pub(crate) mod worker;

use base::{ClientId, Problem, Timestamp};
use engine::TrackedOperation;
use engine::queues::QueueName;
use engine::records::OperationAction;

pub(crate) use asked::{Asked, new_operation_schema};
pub(crate) use rows::NAMED_MAX;

use crate::ApiState;
use crate::shape::DryRunShape;
use act::Given;
use rights::May;
use rows::Rows;

/// Rows that a dry run looks at; of more it says that there may be more.
const COUNTED_MAX: u64 = 20_000;
/// Rows that a dry run reads at a time.
const READ_AT_A_TIME: usize = 1_000;

/// What an operation does, in a form to work with.
pub(crate) struct Work {
    action: OperationAction,
    rows: Rows,
    given: Given,
    /// The queue that its rows are of.
    queue: Option<QueueName>,
    /// Only deliveries to these clients.
    own: Option<Vec<ClientId>>,
    /// Rows that came later are left out.
    until: Timestamp,
}

impl Work {
    /// What a stored operation does. It was checked when it was asked for; since then a setting or
    /// a registration may have changed.
    fn of(api: &ApiState, TrackedOperation { operation, .. }: &TrackedOperation) -> Result<Self, Problem> {
        let scopes = operation.by.as_ref().map(|_| rights::parsed(&operation.scopes));
        let asked = Asked {
            action: operation.action,
            filter: operation.filter.to_string(),
            given: operation.given.to_string(),
            rate: Some(operation.rate),
            dry_run: false,
        };
        asked.work(api, scopes.as_deref(), operation.until)
    }

    /// Whether a delivery to this client may be acted on.
    fn is_own(&self, client: &ClientId) -> bool {
        self.own.as_ref().is_none_or(|own| own.contains(client))
    }
}

/// Counts the rows that a work means, as far as a dry run looks.
pub(crate) async fn counted(api: &ApiState, work: Work) -> Result<DryRunShape, Problem> {
    let count = move || {
        let mut counted = DryRunShape { matched: 0, looked_at: 0, complete: false };
        let mut next: Box<[u8]> = Box::default();
        while counted.looked_at < COUNTED_MAX {
            let found = work.rows.read(&next, READ_AT_A_TIME, work.until)?;
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

impl May {
    fn own(self) -> Option<Vec<ClientId>> {
        match self {
            Self::All => None,
            Self::Own(clients) => Some(clients),
        }
    }
}
