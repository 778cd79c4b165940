//! `/v1/operations`: one action on everything that matches.

use std::borrow::Cow;

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::Problem;
use engine::operations::OPERATION_ID_PREFIX;
use engine::queries::BoundedPage;
use engine::queues::IdempotencyKey;
use engine::{Queries, TrackedOperation};
use net::problem::Refused;
use serde::Deserialize;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::Visibility;
use crate::body::Text;
use crate::cursor::OperationKey;
use crate::idempotency::Creation;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{Coded, OF_A_READ, UNKNOWN_CLIENT, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::operations::{
    FILTER_BYTES_MAX, LABELS_BYTES_MAX, OperationRequest, check_may_cancel, counted, new_operation_schema,
};
use crate::params::Params;
use crate::path::{OperationInPath, unknown_operation};
use crate::shape::{DryRunShape, OperationShape};

const UNKNOWN_OPERATION: Coded = (404, "unknown_operation");
/// What is wrong with an operation.
const OF_AN_OPERATION: &[Coded] = &[
    (409, "too_many_operations"),
    (422, "bad_place"),
    (422, "bad_selector"),
    (422, "conflicting_fields"),
    (422, "invalid_id"),
    (422, "invalid_name"),
    (422, "invalid_number"),
    (422, "invalid_parameter"),
    (422, "missing_field"),
    (422, "reserved_name"),
    (422, "too_long"),
    (422, "too_many_ids"),
    (422, "too_many_labels"),
    (422, "unknown_parameter"),
    (422, "unknown_word"),
];

pub(super) fn routes() -> Routes {
    let begun = Call::new("Does one action to everything that matches; with dry_run only counts it")
        .once()
        .query("namespace", words::any_text())
        .takes(new_operation_schema())
        .gives::<DryRunShape>(200, "what was counted, for a dry run")
        .gives::<OperationShape<'_>>(201, "the operation, which goes on by itself")
        .refuses(OF_A_READ)
        .refuses(&[UNKNOWN_CLIENT, UNKNOWN_DEVICE])
        .refuses(OF_AN_OPERATION);
    let listed = Call::new("Operations, the newest first")
        .query("namespace", words::any_text())
        .lists::<OperationShape<'_>>();
    let shown = Call::new("An operation, and how far it has come")
        .query("namespace", words::any_text())
        .gives::<OperationShape<'_>>(200, "the operation")
        .refuses(&[UNKNOWN_OPERATION])
        .refuses(OF_A_READ);
    let cancelled = Call::new("Cancels an operation: what was done stays done")
        .query("namespace", words::any_text())
        .gives_nothing(204, "no further rows have their turn, but for the hundred that are under way")
        .refuses(&[UNKNOWN_OPERATION, (409, "finished")])
        .refuses(OF_A_READ);
    Routes::default()
        .post("/v1/operations", create, begun)
        .get("/v1/operations", list, listed)
        .get("/v1/operations/{id}", show, shown)
        .delete("/v1/operations/{id}", cancel, cancelled)
}

async fn create(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    mut params: Params,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    // Tokens for a namespace name it for authorization; the filter names it again.
    let _of_the_token = namespace(&mut params)?;
    let whose = params.whose();
    params.end()?;
    let create = move |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
        let request = OperationRequest::read(&body);
        // A dry run waits for the memory of its reads, or for the one that it repeats. So it has
        // none that others wait for.
        let needs_memory = request.as_ref().is_ok_and(|request| !request.dry_run);
        let held = body.into_memory().filter(|_| needs_memory);
        async move {
            let (request, _held) = (request?, held);
            let caller = caller.as_deref();
            let rate_max = api.engine().settings().operations.rate_max;
            let plan = request.plan_for(&api, caller)?;
            if request.dry_run {
                return Ok(ApiAnswer::ok(&counted(&api, plan, &whose).await?));
            }
            let new = request.new_operation(caller, rate_max)?;
            let begun = api.engine().operations().create(new, idempotency).await?;
            Ok(ApiAnswer::created(&OperationShape::from(&begun)))
        }
    };
    creation.once(&api, create).await
}

/// Which operations are shown to a caller.
pub(super) struct OperationVisibility {
    /// Only those that the token of this name began.
    by: Option<String>,
    /// Only those about queues of this namespace.
    namespace: Option<String>,
}

impl OperationVisibility {
    pub(super) fn to(caller: Option<&Caller>, namespace: Option<String>) -> Self {
        let narrow = caller.filter(|_| Visibility::of_caller(caller) == Visibility::ItsOwn);
        Self { by: narrow.map(|caller| caller.name().to_owned()), namespace }
    }

    pub(super) fn has(&self, TrackedOperation { operation, .. }: &TrackedOperation) -> bool {
        self.by.as_deref().is_none_or(|by| operation.by.as_deref() == Some(by))
            && self.namespace.as_deref().is_none_or(|namespace| is_about(&operation.filter, namespace))
    }
}

/// Whether a filter names a queue of that namespace.
fn is_about(filter: &str, namespace: &str) -> bool {
    #[derive(Deserialize)]
    struct OfQueue<'a> {
        queue: Option<Cow<'a, str>>,
    }
    let of: Option<OfQueue<'_>> = serde_json::from_str(filter).ok();
    let queue = of.and_then(|of| of.queue);
    queue.is_some_and(|queue| queue.split_once('/').is_some_and(|(of, _)| of == namespace))
}

/// What an operation has besides its filter and its labels, in bytes. That is the ids of a chunk,
/// the place of its list, the scopes of its token and its latest refusal.
const OTHER_BYTES_MAX: usize = 32 * 1_024;

struct OperationList {
    queries: Queries,
    shown: OperationVisibility,
}

impl List for OperationList {
    type Key = OperationKey;
    type Found = TrackedOperation;
    type Shown<'a> = OperationShape<'a>;

    const READ_MAX: usize = 32;
    const ITEM_BYTES_MAX: usize = FILTER_BYTES_MAX + LABELS_BYTES_MAX + OTHER_BYTES_MAX;

    fn look(&self, after: Option<&OperationKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let is_meant = |found: &TrackedOperation| self.shown.has(found);
        self.queries.operations(is_meant, after.map(|OperationKey(id)| *id), limit).map(BoundedPage::indexed)
    }

    fn bytes(TrackedOperation { operation, state }: &TrackedOperation) -> usize {
        operation.text_bytes() + state.text_bytes()
    }

    fn key(found: &TrackedOperation) -> OperationKey {
        OperationKey(found.operation.id)
    }

    fn show(found: &TrackedOperation) -> OperationShape<'_> {
        found.into()
    }
}

async fn list(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    mut params: Params,
) -> Result<Response, Refused> {
    let shown = OperationVisibility::to(caller.as_deref(), namespace(&mut params)?);
    list::answer(&api, params.page()?, OperationList { queries: api.queries(), shown }).await
}

fn namespace(params: &mut Params) -> Result<Option<String>, Problem> {
    params.take("namespace", "text", |text| Some(text.to_owned()))
}

/// An operation that the caller may know of.
async fn present(
    api: &ApiState,
    OperationInPath(id): OperationInPath,
    caller: Option<&Caller>,
    mut params: Params,
) -> Result<TrackedOperation, Problem> {
    let shown = OperationVisibility::to(caller, namespace(&mut params)?);
    params.end()?;
    let queries = api.queries();
    let find = move || {
        let found = queries.operation(id)?.filter(|found| shown.has(found));
        found.ok_or_else(|| unknown_operation(&id.to_text(OPERATION_ID_PREFIX)))
    };
    api.shared.lookups.run(find).await
}

async fn show(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    id: OperationInPath,
    params: Params,
) -> Result<ApiAnswer, Refused> {
    Ok(ApiAnswer::ok(&OperationShape::from(&present(&api, id, caller.as_deref(), params).await?)))
}

/// Whoever began an operation may cancel it, and whoever may do its action to all of its rows.
async fn cancel(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    id: OperationInPath,
    params: Params,
) -> Result<ApiAnswer, Refused> {
    let caller = caller.as_deref();
    let found = present(&api, id, caller, params).await?;
    check_may_cancel(caller, &found.operation)?;
    api.engine().operations().cancel(found.operation.id).await?;
    Ok(ApiAnswer::nothing())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{EntityId, Timestamp};
    use engine::operations::rule;
    use engine::records::{Operation, OperationAction};

    use super::*;

    #[test]
    fn a_page_weighs_what_an_operation_has_in_texts() {
        let operation = Operation {
            id: EntityId { routing: 0, at: Timestamp(0), number: 0, tag: 0 },
            action: OperationAction::DeleteDevice,
            filter: "f".repeat(FILTER_BYTES_MAX).into(),
            arguments: "a".repeat(LABELS_BYTES_MAX).into(),
            rate: 1,
            by: None,
            scopes: Vec::new(),
            created_at: Timestamp(0),
            until: Timestamp(1),
        };
        let state = rule::begin(&operation);
        let bytes = OperationList::bytes(&TrackedOperation { operation: Arc::new(operation), state });
        assert_eq!(bytes, FILTER_BYTES_MAX + LABELS_BYTES_MAX);
        assert!(bytes <= OperationList::ITEM_BYTES_MAX);
    }
}
