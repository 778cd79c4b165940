//! `/v1/desired`: the same desired entries for many devices.

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use base::Problem;
use engine::queries::BoundedPage;
use engine::records::RolloutWork;
use engine::rollouts::{NewRollout, request_hash};
use engine::{Queries, RolloutCall, TrackedRollout, queues::IdempotencyKey};
use net::problem::Refused;

use super::Routes;
use super::rollouts::{present, token_of};
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::cursor::NameKey;
use crate::idempotency::Creation;
use crate::list::{self, List, PageOfList};
use crate::openapi::Call;
use crate::openapi::refusals::OF_A_READ;
use crate::params::Params;
use crate::path::IdInPath;
use crate::shape::{self, BulkShape, NewBulkShape};

const BY_ID: &str = "/v1/desired/{id}";

pub(super) fn routes() -> Routes {
    let begun = Call::new("Sets desired entries of all devices of selector or place, one line per entry")
        .once()
        .selection()
        .takes_lines(&shape::bulk_entry_schema())
        .gives::<NewBulkShape<'_>>(202, "the assignment; its devices may still be looked for")
        .refuses(&[
            (400, "unreadable"),
            (409, "too_many_rollouts"),
            (422, "invalid_key"),
            (422, "invalid_name"),
            (422, "line_too_long"),
            (422, "missing_field"),
            (422, "not_an_object"),
            (422, "too_many_devices"),
            (422, "too_many_lines"),
            (422, "unknown_field"),
            (422, "wrong_type"),
            (422, "unknown_parameter"),
            (422, "value_not_allowed"),
            (422, "value_too_deep"),
            (422, "value_too_large"),
        ]);
    let listed = Call::new("Bulk assignments in order of id").lists::<BulkShape<'_>>();
    let shown = Call::new("The progress of a bulk assignment")
        .gives::<BulkShape<'_>>(200, "the assignment")
        .refuses(&[(404, "unknown_rollout")])
        .refuses(OF_A_READ);
    let cancelled = Call::new("Cancels what was not sent of a bulk assignment")
        .gives_nothing(204, "nothing more is sent")
        .refuses(&[(404, "unknown_rollout"), (409, "finished")]);
    Routes::default()
        .post("/v1/desired", assign, begun)
        .get("/v1/desired", list, listed)
        .get(BY_ID, show, shown)
        .delete(BY_ID, cancel, cancelled)
}

async fn assign(
    State(api): State<ApiState>,
    mut params: Params,
    caller: Option<Extension<Caller>>,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let selection = params.selection(api.engine())?;
    params.end()?;
    let selection = selection.ok_or_else(nobody_meant)?;
    let assign = async move |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
        let desired = shape::bulk_entries(&body)?;
        let entries = desired.len() as u64;
        let request = request_hash(format!("{selection}\n{}", &*body).as_bytes());
        let mut new = NewRollout::of(RolloutWork::Entries(desired), request);
        (new.selection, new.token) = (Some(selection), token_of(caller.as_deref()));
        let _held = body.into_memory();
        let begun = api.engine().rollouts().create(new, idempotency).await?;
        let mut answer = ApiAnswer::ok(&NewBulkShape::of(&begun, entries));
        answer.status = StatusCode::ACCEPTED;
        Ok(answer)
    };
    creation.once(&api, assign).await
}

/// A forgotten selection must not mean every device.
fn nobody_meant() -> Problem {
    let detail = "a bulk assignment needs selector or place; the empty ?selector= means every device";
    Problem::not_allowed("missing_field", detail)
}

struct BulkList(Queries);

impl List for BulkList {
    type Key = NameKey;
    type Found = TrackedRollout;
    type Shown<'a> = BulkShape<'a>;

    fn look(&self, after: Option<&NameKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let (found, stopped) = self.0.bulk_assignments(after.map(|NameKey(name)| &**name), limit)?;
        Ok(BoundedPage { found, next: stopped.map(NameKey), looked_at: None, cost: 0 })
    }

    fn key(found: &TrackedRollout) -> NameKey {
        NameKey(found.rollout.id.clone())
    }

    fn show(found: &TrackedRollout) -> BulkShape<'_> {
        found.into()
    }
}

async fn list(State(api): State<ApiState>, params: Params) -> Result<Response, Refused> {
    list::answer(&api, params.page()?, BulkList(api.queries())).await
}

const ASSIGNMENTS: (&str, fn(&RolloutWork) -> bool) =
    ("bulk assignment", |work| matches!(work, RolloutWork::Entries(_)));

async fn show(State(api): State<ApiState>, IdInPath(id): IdInPath) -> Result<ApiAnswer, Refused> {
    let found = present(&api, id, ASSIGNMENTS).await?;
    Ok(ApiAnswer::ok(&BulkShape::from(&found)))
}

async fn cancel(State(api): State<ApiState>, IdInPath(id): IdInPath) -> Result<ApiAnswer, Refused> {
    let found = present(&api, id, ASSIGNMENTS).await?;
    api.engine().rollouts().call(&found.rollout.id, RolloutCall::Cancel).await?;
    Ok(ApiAnswer::nothing())
}
