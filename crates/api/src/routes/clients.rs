//! `/v1/clients`: the applications that are told.

use std::sync::Arc;

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::{ClientId, Problem, Timestamp};
use engine::fleet::check_url_of_portal;
use engine::queries::BoundedPage;
use engine::queues::IdempotencyKey;
use engine::records::Client;
use engine::{AnswerForm, ClientPatch, ObjectVersion, Patch, Queries};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::ResendOfPortal;
use crate::body::Text;
use crate::etag::{IfMatch, Tagged};
use crate::idempotency::Creation;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{OF_A_CLIENT, OF_A_CREATION, OF_A_PATCH, UNKNOWN_CLIENT};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::{ClientInPath, unknown_client};
use crate::shape::{self, AttemptShape, ClientShape, NewClientShape, SecretShape};

pub(super) fn routes() -> Routes {
    let created = Call::new("Registers a client; its secret is shown only here")
        .once()
        .takes(shape::new_client_schema())
        .gives::<NewClientShape<'_>>(201, "the client with its secret")
        .refuses(OF_A_CREATION)
        .refuses(OF_A_CLIENT)
        .refuses(&[(422, "invalid_secret")]);
    let listed = Call::new("Clients in order of id")
        .query("failing", words::flag())
        .query("stale_for", words::duration())
        .query("id_prefix", words::any_text())
        .lists::<ClientShape<'_>>();
    let shown =
        Call::new("A client").gives::<ClientShape<'_>>(200, "the client").tagged().refuses(&[UNKNOWN_CLIENT]);
    let changed = Call::new("Changes what the merge patch names")
        .only_if()
        .takes(shape::client_changes_schema())
        .gives::<ClientShape<'_>>(200, "the client as it is now")
        .tagged()
        .refuses(OF_A_PATCH)
        .refuses(OF_A_CLIENT)
        .refuses(&[UNKNOWN_CLIENT]);
    let rotated = Call::new("Gives the client another secret; for 24 hours the one before signs too")
        .once()
        .gives::<SecretShape>(200, "the new secret, which is shown only here")
        .refuses(&[UNKNOWN_CLIENT]);
    let tested = Call::new("Sends one client.test, which is not repeated")
        .once()
        .gives::<AttemptShape>(200, "how it went")
        .refuses(&[UNKNOWN_CLIENT]);
    let told_again = Call::new("Tells the client again of each of its devices that has events")
        .once()
        .gives_nothing(202, "they are on their way")
        .refuses(&[UNKNOWN_CLIENT]);
    let removed = Call::new("Removes a client; nothing more goes out to it")
        .only_if()
        .gives_nothing(204, "it is gone")
        .refuses(&[UNKNOWN_CLIENT]);
    Routes::default()
        .get("/v1/clients", list, listed)
        .post("/v1/clients", create, created)
        .get("/v1/clients/{id}", show, shown)
        .patch("/v1/clients/{id}", change, changed)
        .delete("/v1/clients/{id}", remove, removed)
        .post("/v1/clients/{id}/rotate-secret", rotate_secret, rotated)
        .post("/v1/clients/{id}/test", test, tested)
        .post("/v1/clients/{id}/resend", resend, told_again)
}

async fn create(State(api): State<ApiState>, creation: Creation) -> Result<ApiAnswer, Refused> {
    let create = async |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
        let write = |made: &_| {
            ApiAnswer::of(made, |client| ApiAnswer::created(&NewClientShape::from(client))).stored()
        };
        let form = AnswerForm { idempotency, write };
        ApiAnswer::kept(&api.engine().create_client_as(shape::new_client(&body)?, form).await?)
    };
    creation.once(&api, create).await
}

/// Clients by how they stand.
struct Clients {
    queries: Queries,
    /// With devices whose newest notification has failed for good, or without.
    failing: Option<bool>,
    /// Failing since that time at least.
    stale_since: Option<Timestamp>,
    /// With an id that begins so.
    id_prefix: Option<String>,
}

impl Clients {
    fn is_meant(&self, client: &Client) -> bool {
        let since = self.queries.stale_since(client);
        self.failing.is_none_or(|failing| since.is_some() == failing)
            && self.stale_since.is_none_or(|latest| since.is_some_and(|since| since <= latest))
            && self.id_prefix.as_ref().is_none_or(|prefix| client.id.as_str().starts_with(prefix.as_str()))
    }
}

impl List for Clients {
    type Key = ClientId;
    type Found = Arc<Client>;
    type Shown<'a> = ClientShape<'a>;

    fn look(&self, after: Option<&ClientId>, limit: usize, cost_max: usize) -> PageOfList<Self> {
        if self.failing.is_none() && self.stale_since.is_none() && self.id_prefix.is_none() {
            return Ok(BoundedPage::indexed(self.queries.clients(after, limit)));
        }
        let mut found = self.queries.clients(after, cost_max);
        let last = found.last().filter(|_| found.len() == cost_max).map(|client| client.id.clone());
        let (cost, looked_at) = (found.len(), Some(found.len() as u64));
        found.retain(|client| self.is_meant(client));
        let next = last.filter(|_| found.len() < limit);
        found.truncate(limit);
        Ok(BoundedPage { found, next, looked_at, cost })
    }

    fn key(client: &Arc<Client>) -> ClientId {
        client.id.clone()
    }

    fn show(client: &Arc<Client>) -> ClientShape<'_> {
        ClientShape::from(&**client)
    }
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Response, Refused> {
    let now = api.engine().clock().now();
    let clients = Clients {
        queries: api.queries(),
        failing: params.flag("failing")?,
        stale_since: params.duration("stale_for")?.map(|span| now.before(span)),
        id_prefix: params.id_prefix()?,
    };
    list::answer(&api, params.page()?, clients).await
}

async fn show(State(api): State<ApiState>, ClientInPath(id): ClientInPath) -> Result<Tagged, Refused> {
    let client = api.queries().client(&id).ok_or_else(|| unknown_client(id.as_str()))?;
    Ok(Tagged(ApiAnswer::ok(&ClientShape::from(&*client)), ObjectVersion::of_client(&client)))
}

async fn change(
    State(api): State<ApiState>,
    ClientInPath(id): ClientInPath,
    IfMatch(only_if): IfMatch,
    caller: Option<Extension<Caller>>,
    body: Text,
) -> Result<Tagged, Refused> {
    let patch = shape::change_of_client(&body)?;
    if let Some(caller) = caller.as_deref().filter(|caller| caller.portal().is_some()) {
        check_change_of_portal(&api, caller, &id, &patch)?;
    }
    let client = api.engine().patch_client(id, patch, only_if).await?;
    Ok(Tagged(ApiAnswer::ok(&ClientShape::from(&client)), ObjectVersion::of_client(&client)))
}

/// A portal may change where its client is told, and nothing else of it. And it learns nothing of
/// the network that the server is in.
fn check_change_of_portal(
    api: &ApiState,
    caller: &Caller,
    id: &ClientId,
    patch: &ClientPatch,
) -> Result<(), Problem> {
    let url_alone = ClientPatch { url: patch.url.clone(), ..ClientPatch::default() };
    if *patch != url_alone {
        return Err(caller.may_not("admin"));
    }
    let Patch::Set(url) = &patch.url else { return Ok(()) };
    let client = api.queries().client(id).ok_or_else(|| unknown_client(id.as_str()))?;
    check_url_of_portal(url, &client.url, api.engine().settings().allow_private)
}

async fn remove(
    State(api): State<ApiState>,
    ClientInPath(id): ClientInPath,
    IfMatch(only_if): IfMatch,
) -> Result<ApiAnswer, Refused> {
    api.engine().delete_client(id, only_if).await?;
    Ok(ApiAnswer::nothing())
}

async fn rotate_secret(
    State(api): State<ApiState>,
    ClientInPath(id): ClientInPath,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let rotate = async move |api: ApiState, idempotency: Option<IdempotencyKey>| {
        let write =
            |made: &_| ApiAnswer::of(made, |client| ApiAnswer::ok(&SecretShape::from(client))).stored();
        let form = AnswerForm { idempotency, write };
        ApiAnswer::kept(&api.engine().rotate_secret_as(id, form).await?)
    };
    creation.once_without_body(&api, rotate).await
}

/// A test goes out also to a client that is disabled: that is when one wants to know. What went out
/// is with the receiver: a repeat whose first answer was lost with the server sends another.
async fn test(
    State(api): State<ApiState>,
    ClientInPath(id): ClientInPath,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let test = async move |api: ApiState, _: Option<IdempotencyKey>| {
        let client = api.queries().client(&id).ok_or_else(|| unknown_client(id.as_str()))?;
        let tester = api.shared.tester.get();
        let tester = tester.ok_or_else(|| Problem::unavailable("this server sends no notifications"))?;
        Ok(ApiAnswer::ok(&AttemptShape::from(&tester(client).await?)))
    };
    creation.once_without_body(&api, test).await
}

/// Happens in all partitions, some devices at a time: a repeat whose first answer was lost with the
/// server tells once more.
async fn resend(
    State(api): State<ApiState>,
    ClientInPath(id): ClientInPath,
    of_portal: Option<Extension<ResendOfPortal>>,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let resend = async move |api: ApiState, _: Option<IdempotencyKey>| {
        let resending = tokio::spawn(async move {
            // It is under way until it ends, also when the caller hangs up.
            let _of_portal = of_portal;
            api.engine().resend(id).await
        });
        resending.await.map_err(|_| Problem::unavailable("the server is stopping"))??;
        Ok(ApiAnswer::accepted())
    };
    creation.once_without_body(&api, resend).await
}
