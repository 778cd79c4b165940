//! `/v1/rollouts`: one command to many devices.

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::{DeviceId, Problem};
use engine::queries::BoundedPage;
use engine::queues::IdempotencyKey;
use engine::records::{MemberStatus, RolloutMember, RolloutWork};
use engine::rollouts::{NewRollout, check_rollout_id};
use engine::{Queries, RolloutCall, TrackedRollout};
use net::problem::{Refused, quoted};

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::check_receiver;
use crate::body::Text;
use crate::cursor::NameKey;
use crate::idempotency::Creation;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{Coded, OF_A_COMMAND, OF_A_READ};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::IdInPath;
use crate::shape::{self, NewRolloutShape, RolloutDeviceShape, RolloutShape};

const BY_ID: &str = "/v1/rollouts/{id}";
const UNKNOWN_ROLLOUT: Coded = (404, "unknown_rollout");
const OF_A_ROLLOUT: &[Coded] = &[
    (409, "too_many_rollouts"),
    (422, "bad_place"),
    (422, "bad_selector"),
    (422, "invalid_id"),
    (422, "invalid_schedule"),
    (422, "invalid_stages"),
    (422, "too_many_devices"),
];

pub(super) fn routes() -> Routes {
    let begun = Call::new("Begins a rollout: a command to each of the devices that are meant")
        .once()
        .takes(shape::new_rollout_schema())
        .gives::<NewRolloutShape<'_>>(201, "the rollout; its devices may still be looked for")
        .refuses(OF_A_COMMAND)
        .refuses(OF_A_ROLLOUT);
    let put = Call::new("Begins a rollout under this id; the same body again is the same rollout")
        .takes(shape::new_rollout_schema())
        .gives::<RolloutShape<'_>>(200, "the rollout that is there")
        .gives::<NewRolloutShape<'_>>(201, "the rollout")
        .refuses(&[(409, "exists")])
        .refuses(OF_A_COMMAND)
        .refuses(OF_A_ROLLOUT);
    let listed = Call::new("Rollouts in order of id").lists::<RolloutShape<'_>>();
    let shown = Call::new("A rollout, with its devices counted by status")
        .gives::<RolloutShape<'_>>(200, "the rollout")
        .refuses(&[UNKNOWN_ROLLOUT])
        .refuses(OF_A_READ);
    let devices = Call::new("The devices of a rollout, in the order of their turns")
        .query("status", words::rollout_device_status())
        .lists::<RolloutDeviceShape<'_>>()
        .refuses(&[UNKNOWN_ROLLOUT]);
    let done = |about, done| {
        Call::new(about).gives_nothing(204, done).refuses(&[UNKNOWN_ROLLOUT, (409, "finished")])
    };
    let cancelled = done("Cancels a rollout: what was not sent is cancelled", "nothing more is sent");
    let paused = done("Pauses a rollout", "nothing more goes out that did not go out before");
    let resumed = done("Goes on with a rollout that was paused, or has stopped", "it goes on");
    let approved = done("Approves the present stage", "it goes on once it has soaked")
        .refuses(&[(409, "nothing_to_approve")]);
    Routes::default()
        .post("/v1/rollouts", create, begun)
        .get("/v1/rollouts", list, listed)
        .put(BY_ID, put_one, put)
        .get(BY_ID, show, shown)
        .delete(BY_ID, cancel, cancelled)
        .post("/v1/rollouts/{id}/pause", pause, paused)
        .post("/v1/rollouts/{id}/resume", resume, resumed)
        .post("/v1/rollouts/{id}/approve", approve, approved)
        .get("/v1/rollouts/{id}/devices", list_devices, devices)
}

async fn create(State(api): State<ApiState>, creation: Creation) -> Result<ApiAnswer, Refused> {
    let caller = creation.caller();
    let create = async move |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
        let new = allowed(&body, &api, caller.as_ref())?;
        let _held = body.into_memory();
        let begun = api.engine().rollouts().create(new, idempotency).await?;
        Ok(ApiAnswer::created(&NewRolloutShape::from(&begun)))
    };
    creation.once(&api, create).await
}

async fn put_one(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    caller: Option<Extension<Caller>>,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    check_rollout_id(&id)?;
    let new = allowed(&body, &api, caller.as_deref())?;
    let _held = body.into_memory();
    let (rollout, is_new) = api.engine().rollouts().put(&id, new).await?;
    Ok(match is_new {
        true => ApiAnswer::created(&NewRolloutShape::from(&rollout)),
        false => ApiAnswer::ok(&RolloutShape::from(&rollout)),
    })
}

/// A rollout that the caller may have, as one of its token.
fn allowed(body: &str, api: &ApiState, caller: Option<&Caller>) -> Result<NewRollout, Problem> {
    let mut new = shape::new_rollout(body, api.engine())?;
    check_receiver(caller, new.receiver())?;
    new.token = token_of(caller);
    Ok(new)
}

/// The token whose share of all rollouts one counts for.
pub(super) fn token_of(caller: Option<&Caller>) -> Option<Box<str>> {
    caller.map(|caller| caller.name().into())
}

struct RolloutList(Queries);

impl List for RolloutList {
    type Key = NameKey;
    type Found = TrackedRollout;
    type Shown<'a> = RolloutShape<'a>;

    const READ_MAX: usize = 32;
    const ITEM_BYTES_MAX: usize = base::limits::COMMAND_PAYLOAD_BYTES_MAX;

    fn look(&self, after: Option<&NameKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let (found, stopped) = self.0.rollouts(after.map(|NameKey(name)| &**name), limit)?;
        Ok(BoundedPage { found, next: stopped.map(NameKey), looked_at: None, cost: 0 })
    }

    fn key(found: &TrackedRollout) -> NameKey {
        NameKey(found.rollout.id.clone())
    }

    fn show(found: &TrackedRollout) -> RolloutShape<'_> {
        found.into()
    }
}

async fn list(State(api): State<ApiState>, params: Params) -> Result<Response, Refused> {
    list::answer(&api, params.page()?, RolloutList(api.queries())).await
}

async fn show(State(api): State<ApiState>, IdInPath(id): IdInPath) -> Result<ApiAnswer, Refused> {
    let found = present(&api, id, ROLLOUTS).await?;
    Ok(ApiAnswer::ok(&RolloutShape::from(&found)))
}

const ROLLOUTS: (&str, fn(&RolloutWork) -> bool) =
    ("rollout", |work| matches!(work, RolloutWork::Command(_)));

/// A rollout of that work, which people call so.
pub(super) async fn present(
    api: &ApiState,
    id: String,
    (what, is_meant): (&'static str, fn(&RolloutWork) -> bool),
) -> Result<TrackedRollout, Problem> {
    let queries = api.queries();
    let found = api.shared.lookups.run(move || {
        let found = queries.rollout(&id)?.filter(|found| is_meant(&found.rollout.work));
        found
            .ok_or_else(|| Problem::unknown("unknown_rollout", format!("there is no {what} {}", quoted(&id))))
    });
    found.await
}

async fn call(api: &ApiState, id: String, call: RolloutCall) -> Result<ApiAnswer, Refused> {
    let found = present(api, id, ROLLOUTS).await?;
    api.engine().rollouts().call(&found.rollout.id, call).await?;
    Ok(ApiAnswer::nothing())
}

async fn cancel(State(api): State<ApiState>, IdInPath(id): IdInPath) -> Result<ApiAnswer, Refused> {
    call(&api, id, RolloutCall::Cancel).await
}

async fn pause(State(api): State<ApiState>, IdInPath(id): IdInPath) -> Result<ApiAnswer, Refused> {
    call(&api, id, RolloutCall::Pause).await
}

async fn resume(State(api): State<ApiState>, IdInPath(id): IdInPath) -> Result<ApiAnswer, Refused> {
    call(&api, id, RolloutCall::Resume).await
}

async fn approve(State(api): State<ApiState>, IdInPath(id): IdInPath) -> Result<ApiAnswer, Refused> {
    call(&api, id, RolloutCall::Approve).await
}

struct RolloutDeviceList {
    queries: Queries,
    rollout: String,
    status: Option<MemberStatus>,
}

impl List for RolloutDeviceList {
    type Key = DeviceId;
    type Found = RolloutMember;
    type Shown<'a> = RolloutDeviceShape<'a>;

    const ITEM_BYTES_MAX: usize = 512;

    fn look(&self, after: Option<&DeviceId>, limit: usize, _: usize) -> PageOfList<Self> {
        self.queries.rollout_devices(&self.rollout, self.status, after, limit).map(BoundedPage::indexed)
    }

    fn key(found: &RolloutMember) -> DeviceId {
        found.place.device.clone()
    }

    fn show(found: &RolloutMember) -> RolloutDeviceShape<'_> {
        found.into()
    }
}

async fn list_devices(
    State(api): State<ApiState>,
    IdInPath(rollout): IdInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let status = params.word("status", &MemberStatus::ALL, MemberStatus::as_str)?;
    let page = params.page()?;
    let found = present(&api, rollout, ROLLOUTS).await?;
    let devices = RolloutDeviceList { queries: api.queries(), rollout: found.rollout.id.to_string(), status };
    list::answer(&api, page, devices).await
}
