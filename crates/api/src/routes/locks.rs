//! `/v1/locks`: held by one owner at a time, with a fence that rises.

use access::{Caller, Scope};
use axum::Extension;
use axum::extract::State;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::Answer;
use crate::body::Text;
use crate::openapi::Call;
use crate::openapi::refusals::OF_COORDINATION;
use crate::path::NameInPath;
use crate::shape::{self, HeldLockShape, LockShape};

const LOCK: &str = "/v1/locks/{ns}/{name}";

pub(super) fn routes() -> Routes {
    let acquired = of_one("Holds a lock, or waits for it; its owner again has the same fence and a new ttl")
        .may_take(shape::lock_wanted_schema())
        .gives::<HeldLockShape<'_>>(200, "the caller holds it")
        .refuses(&[
            (409, "lock_held"),
            (422, "invalid_duration"),
            (422, "invalid_owner"),
            (422, "invalid_ttl"),
            (429, "too_many_locks"),
            (503, "too_many_waiting"),
        ]);
    let extended = of_one("Has a lock end so long from now")
        .takes(shape::lock_extended_schema())
        .gives::<HeldLockShape<'_>>(200, "the caller holds it until then")
        .refuses(&[
            (409, "not_owner"),
            (422, "invalid_duration"),
            (422, "invalid_ttl"),
            (422, "missing_field"),
        ]);
    let released = of_one("Lets a lock go; whoever waited longest holds it then")
        .takes(shape::lock_released_schema())
        .gives_nothing(204, "it is not the caller's any more")
        .refuses(&[(409, "not_owner"), (422, "missing_field")]);
    let shown = of_one("A lock as it stands").gives::<LockShape<'_>>(200, "the lock");
    Routes::default()
        .get(LOCK, show, shown)
        .post(LOCK, acquire, acquired)
        .post("/v1/locks/{ns}/{name}/extend", extend, extended)
        .post("/v1/locks/{ns}/{name}/release", release, released)
}

fn of_one(summary: &'static str) -> Call {
    Call::new(summary).refuses(OF_COORDINATION)
}

async fn acquire(
    State(api): State<ApiState>,
    NameInPath(name): NameInPath,
    Text(body): Text,
) -> Result<Answer, Refused> {
    let wanted = shape::lock_wanted(&body)?;
    drop(body);
    let grant = api.engine().locks().acquire(&name, wanted).await?;
    Ok(Answer::ok(&HeldLockShape::from(&grant)))
}

async fn extend(
    State(api): State<ApiState>,
    NameInPath(name): NameInPath,
    Text(body): Text,
) -> Result<Answer, Refused> {
    let (owner, ttl) = shape::lock_extended(&body)?;
    let grant = api.engine().locks().extend(&name, owner, ttl).await?;
    Ok(Answer::ok(&HeldLockShape::from(&grant)))
}

async fn release(
    State(api): State<ApiState>,
    NameInPath(name): NameInPath,
    Text(body): Text,
) -> Result<Answer, Refused> {
    api.engine().locks().release(&name, shape::lock_released(&body)?).await?;
    Ok(Answer::nothing())
}

async fn show(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    NameInPath(name): NameInPath,
) -> Result<Answer, Refused> {
    let shown = api.engine().locks().show(&name).await?;
    // Without tokens everybody may do everything.
    let sees_owner = caller.is_none_or(|Extension(caller)| caller.scopes().contains(&Scope::Admin));
    Ok(Answer::ok(&LockShape::of(&shown, sees_owner)))
}
