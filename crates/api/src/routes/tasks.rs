//! `/v1/tasks`: some devices of a selection are asked for something once.

use std::sync::Arc;
use std::time::Duration;

use access::Caller;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use base::limits::{COMMAND_RESULT_BYTES_MAX, COMMAND_WAIT_MAX, PAGE_ITEMS_MAX};
use base::{EntityId, Incarnation, Problem, Timestamp};
use engine::campaigns::{NewPickTerms, TASK_ID_PREFIX, TrackedTask};
use engine::followers::{Followed, FollowedFeed, Follower};
use engine::queries::BoundedPage;
use engine::queues::IdempotencyKey;
use engine::records::Pick;
use engine::{Engine, Queries};
use net::problem::{Code, Refused};
use net::shares::SenderKey;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Routes;
use super::rollouts::token_of;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::check_receiver;
use crate::body::Text;
use crate::cursor::ResultKey;
use crate::feed::{self, Followable};
use crate::idempotency::Creation;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{OF_A_READ, OF_PICKS, UNKNOWN_TASK};
use crate::openapi::{Call, words};
use crate::page::{FeedQuery, ListForm, PageOf, TimeOrder};
use crate::params::Params;
use crate::path::{IdInPath, TaskInPath, task_id, unknown_task};
use crate::shape::{self, NewTaskShape, TaskResultShape, TaskShape};

const BY_ID: &str = "/v1/tasks/{id}";
/// The code of a refusal: the token has made its picks of this hour.
const PICKS_EXHAUSTED: &str = "picks_exhausted";

pub(super) fn routes() -> Routes {
    let begun =
        Call::new("Asks some devices of a selection for something, each device as often as any other")
            .once()
            .query("wait", words::duration())
            .takes(shape::new_task_schema())
            .gives::<NewTaskShape>(201, "the task; with wait as it has ended, or as it stands then")
            .refuses(OF_PICKS)
            .refuses(OF_A_READ)
            .refuses(&[(409, "too_many_tasks"), (422, "too_many_values")])
            .refuses(&[(429, "too_many_tasks"), (503, "too_many_waiting")]);
    let shown = Call::new("A task, with its picks counted by what came of them")
        .query("wait", words::duration())
        .gives::<TaskShape>(200, "the task; with wait as it has ended, or as it stands then")
        .refuses(&[UNKNOWN_TASK, (503, "too_many_waiting")])
        .refuses(OF_A_READ);
    let cancelled =
        Call::new("Stops a task: what was not sent yet is cancelled, and nobody is picked any more")
            .gives_nothing(204, "it is stopped")
            .refuses(&[UNKNOWN_TASK]);
    let results = Call::new("What came of the picks of a task, by the order in which they ended")
        .query("order", words::order())
        .query("wait", words::duration())
        .lists::<TaskResultShape<'_>>()
        .refuses(&[UNKNOWN_TASK, (503, "too_many_waiting")]);
    Routes::default()
        .post("/v1/tasks", create, begun)
        .get(BY_ID, show, shown)
        .delete(BY_ID, cancel, cancelled)
        .get("/v1/tasks/{id}/results", list_results, results)
}

/// Whether a caller's tasks and campaigns may ask for this, and may have its outcome told so.
///
/// # Errors
/// 403 `forbidden`, `forbidden_class` or `count_too_large`.
pub(super) fn check_may_pick(caller: Option<&Caller>, terms: &NewPickTerms) -> Result<(), Problem> {
    check_receiver(caller, terms.receiver.as_ref())?;
    caller.map_or(Ok(()), |caller| caller.may_pick(terms.class.as_str(), terms.count))
}

async fn create(State(api): State<ApiState>, params: Params, creation: Creation) -> Response {
    let now = api.engine().clock().now();
    let mut response = begin(api, params, creation).await.into_response();
    if response.extensions().get::<Code>().is_some_and(|Code(code)| *code == PICKS_EXHAUSTED) {
        response.headers_mut().insert(RETRY_AFTER, seconds_of_hour_left(now).into());
    }
    response
}

/// Seconds until the picks of a token are counted anew.
fn seconds_of_hour_left(now: Timestamp) -> u64 {
    const HOUR_SECONDS: u64 = 3_600;
    HOUR_SECONDS - u64::try_from(now.0 / 1_000).unwrap_or(0) % HOUR_SECONDS
}

async fn begin(api: ApiState, params: Params, creation: Creation) -> Result<Response, Refused> {
    let caller = creation.caller();
    let whose = params.whose();
    let wait = params.wait_alone(COMMAND_WAIT_MAX)?;
    // Before anything is done: who is refused asks again.
    let _share = (!wait.is_zero()).then(|| api.shared.command_waits.try_take(&whose)).transpose()?;
    let create = async move |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
        let mut new = shape::new_task(&body, api.engine())?;
        let _held = body.into_memory();
        new.check()?;
        check_may_pick(caller.as_ref(), &new.terms)?;
        new.terms.token = token_of(caller.as_ref());
        let task = api.engine().tasks().create(new, idempotency).await?;
        Ok(ApiAnswer::created(&NewTaskShape::of(&task)))
    };
    let begun = creation.once(&api, create).await?;
    if begun.status != StatusCode::CREATED {
        return Ok(refused(begun));
    }
    if wait.is_zero() {
        return Ok(begun.into_response());
    }
    // The task was begun, whatever becomes of the wait.
    match awaited(&api, &begun, wait, whose).await {
        Ok(response) => Ok(response),
        Err(_) => Ok(begun.into_response()),
    }
}

/// A refusal, with its code as an extension where that says when to come back.
fn refused(answer: ApiAnswer) -> Response {
    #[derive(Deserialize)]
    struct Coded<'a> {
        code: &'a str,
    }
    let coded = serde_json::from_slice::<Coded<'_>>(&answer.body);
    let is_exhausted = coded.is_ok_and(|coded| coded.code == PICKS_EXHAUSTED);
    let mut response = answer.into_response();
    if is_exhausted {
        response.extensions_mut().insert(Code(PICKS_EXHAUSTED));
    }
    response
}

/// A task that was just begun once it has ended, or as it stands when the time is over, with its
/// first results.
async fn awaited(
    api: &ApiState,
    begun: &ApiAnswer,
    wait: Duration,
    whose: SenderKey,
) -> Result<Response, Problem> {
    #[derive(Deserialize)]
    struct Begun<'a> {
        id: &'a str,
        notify: Option<Box<RawValue>>,
    }
    #[derive(Deserialize)]
    struct Results {
        items: Box<RawValue>,
    }
    let lost = || Problem::new(500, "internal_error", "the task that was begun cannot be read");
    let sent: Begun<'_> = serde_json::from_slice(&begun.body).map_err(|_| lost())?;
    let id = EntityId::from_text(TASK_ID_PREFIX, sent.id).ok_or_else(lost)?;
    let task = ended(api, id, wait).await?;
    let page = PageOf {
        limit: Some(PAGE_ITEMS_MAX),
        after: None,
        fingerprint: 0,
        form: ListForm::Page,
        tail: false,
        gzip: false,
        whose,
        rights: None,
    };
    let results = TaskResults::of(api, &task, TimeOrder::Ascending);
    let (held, read) = list::read(api, &api.shared.lists, &Arc::new((page, results))).await?;
    let results: Results = serde_json::from_slice(&read.answer.body).map_err(|_| lost())?;
    let answer = ApiAnswer::created(&NewTaskShape::awaited(&task, sent.notify, results.items));
    Ok(held.until_sent(answer.into_response()))
}

/// The task once it has ended, or as it stands when the time is over or the server stops.
async fn ended(api: &ApiState, id: EntityId, wait: Duration) -> Result<TrackedTask, Problem> {
    let tasks = api.engine().tasks();
    tokio::select! {
        ended = tasks.ended(id, wait) => {
            if let Some(ended) = ended? {
                return Ok(ended);
            }
        }
        () = api.stopped() => {}
    }
    present(api, id).await
}

async fn present(api: &ApiState, id: EntityId) -> Result<TrackedTask, Problem> {
    let queries = api.queries();
    let unknown = move || unknown_task(&id.to_text(TASK_ID_PREFIX));
    api.shared.lookups.run(move || queries.task(&id)?.ok_or_else(unknown)).await
}

async fn show(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    params: Params,
) -> Result<ApiAnswer, Refused> {
    let whose = params.whose();
    let wait = params.wait_alone(COMMAND_WAIT_MAX)?;
    let id = task_id(&id)?;
    let _share = (!wait.is_zero()).then(|| api.shared.command_waits.try_take(&whose)).transpose()?;
    let mut task = present(&api, id).await?;
    if !wait.is_zero() {
        task = ended(&api, id, wait).await?;
    }
    Ok(ApiAnswer::ok(&TaskShape::from(&task)))
}

async fn cancel(State(api): State<ApiState>, TaskInPath(id): TaskInPath) -> Result<ApiAnswer, Refused> {
    api.engine().tasks().cancel(id).await?;
    Ok(ApiAnswer::nothing())
}

/// What came of the picks of a task.
struct TaskResults {
    engine: Engine,
    queries: Queries,
    task: Incarnation,
    order: TimeOrder,
}

impl TaskResults {
    fn of(api: &ApiState, TrackedTask { task, .. }: &TrackedTask, order: TimeOrder) -> Self {
        Self { engine: api.engine().clone(), queries: api.queries(), task: task.incarnation, order }
    }
}

impl List for TaskResults {
    type Key = ResultKey;
    type Found = Pick;
    type Shown<'a> = TaskResultShape<'a>;

    const READ_MAX: usize = 128;
    const ITEM_BYTES_MAX: usize = 1_024 + 2 * COMMAND_RESULT_BYTES_MAX;

    fn look(&self, after: Option<&ResultKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let after = after.and_then(|ResultKey(number)| *number);
        let is_descending = self.order == TimeOrder::Descending;
        self.queries.task_results(self.task, after, is_descending, limit).map(BoundedPage::indexed)
    }

    fn bytes(pick: &Pick) -> usize {
        result_bytes(pick)
    }

    fn key(pick: &Pick) -> ResultKey {
        ResultKey(pick.end.as_ref().map(|end| end.number))
    }

    fn show(pick: &Pick) -> TaskResultShape<'_> {
        TaskResultShape::of(pick)
    }
}

/// What a device said, in bytes.
pub(super) fn result_bytes(pick: &Pick) -> usize {
    let result = pick.end.as_ref().and_then(|end| end.result.as_deref());
    let late = pick.late.as_ref().and_then(|late| late.result.as_deref());
    [result, late].into_iter().flatten().map(str::len).sum()
}

impl Followable for TaskResults {
    fn follow(&self) -> Result<Follower, Problem> {
        let feed = FollowedFeed::TaskResults(self.task);
        self.engine.follow(Followed { feed, device: None })
    }
}

async fn list_results(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let (order, wait) = params.order_and_wait()?;
    let page = params.page()?;
    let task = present(&api, task_id(&id)?).await?;
    let results = TaskResults::of(&api, &task, order);
    feed::answer(&api, page, FeedQuery { from: None, to: None, order, wait }, results).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_made_its_picks_comes_back_when_the_hour_is_over() {
        for (now, expect) in [(0, 3_600), (999, 3_600), (1_000, 3_599), (3_599_999, 1), (3_600_000, 3_600)] {
            assert_eq!(seconds_of_hour_left(Timestamp(now)), expect, "{now}");
        }
    }
}
