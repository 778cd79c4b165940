//! `/v1/locks`: held by one owner at a time, with a fence that rises.

use access::{Caller, Scope};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::coordination::{CoordinationName, LockStatus};
use engine::queries::BoundedPage;
use engine::queues::Locks;
use net::problem::Refused;
use tokio::runtime::Handle;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::OF_COORDINATION;
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::NameInPath;
use crate::shape::{self, HeldLockShape, ListedLockShape, LockShape};

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
    let listed = Call::new("Locks that are held, in order of namespace and name")
        .query("namespace", words::queue_name())
        .lists::<ListedLockShape<'_>>();
    Routes::default()
        .get("/v1/locks", list, listed)
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
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let wanted = shape::lock_wanted(&body)?;
    drop(body);
    let grant = api.engine().locks().acquire(&name, wanted).await?;
    Ok(ApiAnswer::ok(&HeldLockShape::from(&grant)))
}

async fn extend(
    State(api): State<ApiState>,
    NameInPath(name): NameInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let (owner, ttl) = shape::lock_extended(&body)?;
    let grant = api.engine().locks().extend(&name, owner, ttl).await?;
    Ok(ApiAnswer::ok(&HeldLockShape::from(&grant)))
}

async fn release(
    State(api): State<ApiState>,
    NameInPath(name): NameInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    api.engine().locks().release(&name, shape::lock_released(&body)?).await?;
    Ok(ApiAnswer::nothing())
}

async fn show(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    NameInPath(name): NameInPath,
) -> Result<ApiAnswer, Refused> {
    let shown = api.engine().locks().show(&name).await?;
    Ok(ApiAnswer::ok(&LockShape::of(&shown, sees_owner(caller.as_ref()))))
}

/// Without tokens everybody may do everything.
fn sees_owner(caller: Option<&Extension<Caller>>) -> bool {
    caller.is_none_or(|Extension(caller)| caller.scopes().contains(&Scope::Admin))
}

async fn list(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    mut params: Params,
) -> Result<Response, Refused> {
    let namespace = params.namespace()?;
    let page = params.page()?;
    let (locks, sees_owner) = (api.engine().locks(), sees_owner(caller.as_ref()));
    let list = HeldLocks { locks, namespace, sees_owner, executor: Handle::current() };
    list::answer(&api, page, list).await
}

/// Locks, asked for by a thread that may wait for them.
struct HeldLocks {
    locks: Locks,
    namespace: Option<String>,
    sees_owner: bool,
    executor: Handle,
}

impl List for HeldLocks {
    type Key = CoordinationName;
    type Found = (LockStatus, bool);
    type Shown<'a> = ListedLockShape<'a>;

    fn look(&self, after: Option<&CoordinationName>, limit: usize, _: usize) -> PageOfList<Self> {
        let found = self.executor.block_on(self.locks.list(self.namespace.as_deref(), after, limit))?;
        Ok(BoundedPage::indexed(found.into_iter().map(|lock| (lock, self.sees_owner)).collect()))
    }

    fn key((lock, _): &Self::Found) -> CoordinationName {
        lock.name.clone()
    }

    fn show((lock, sees_owner): &Self::Found) -> ListedLockShape<'_> {
        ListedLockShape::of(lock, *sees_owner)
    }
}
