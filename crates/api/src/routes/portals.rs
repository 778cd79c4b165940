//! `/v1/clients/{id}/portal`: short-lived links to one client.

use std::sync::Arc;

use access::{Digest, PORTAL_TOKEN_PREFIX};
use axum::extract::State;
use axum::response::Response;
use base::{Problem, random};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::portals::NewPortal;
use engine::queries::BoundedPage;
use engine::records::{PortalToken, TokenDigest};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::check_may_open;
use crate::body::Text;
use crate::cursor::NumberKey;
use crate::idempotency::Creation;
use crate::list::{self, List, PageOfList};
use crate::openapi::Call;
use crate::openapi::refusals::UNKNOWN_CLIENT;
use crate::params::Params;
use crate::path::{ClientInPath, PortalInPath, unknown_client};
use crate::shape::{self, NewPortalShape, PortalShape};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;

pub(super) fn routes() -> Routes {
    let opened = Call::new("Opens a portal: a short-lived token that reaches this client alone")
        .once()
        .takes(shape::new_portal_schema())
        .gives::<NewPortalShape>(201, "the portal with its token, which is shown only here")
        .refuses(&[
            UNKNOWN_CLIENT,
            (409, "too_many_portals"),
            (422, "invalid_duration"),
            (422, "invalid_ttl"),
            (422, "missing_field"),
            (422, "unknown_word"),
        ]);
    let listed = Call::new("The open portals of a client, the oldest first")
        .lists::<PortalShape>()
        .refuses(&[UNKNOWN_CLIENT]);
    let closed = Call::new("Closes a portal; its token reaches nothing from then on")
        .gives_nothing(204, "it is closed")
        .refuses(&[UNKNOWN_CLIENT, (404, "unknown_portal")]);
    Routes::default()
        .post("/v1/clients/{id}/portal", open, opened)
        .get("/v1/clients/{id}/portal", list, listed)
        .delete("/v1/clients/{id}/portal/{portal_id}", close, closed)
}

/// The answer to a key is kept in memory alone, as it has the token.
async fn open(
    State(api): State<ApiState>,
    ClientInPath(client): ClientInPath,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let caller = creation.caller();
    let open = async move |api: ApiState, body: Text| {
        let (ttl, may) = shape::new_portal(&body)?;
        check_may_open(caller.as_ref(), may)?;
        let bytes = random::unguessable::<TOKEN_BYTES>();
        let bytes = bytes.map_err(|_| Problem::unavailable("the system has no source of randomness"))?;
        let token = format!("{PORTAL_TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        let digest = TokenDigest(Digest::of(token.as_bytes()).to_bytes());
        let by = caller.map(|caller| caller.name().into());
        let opened = api.engine().open_portal(NewPortal { client, digest, ttl, may, by }).await?;
        Ok(ApiAnswer::created(&NewPortalShape::of(&opened, token)))
    };
    creation.once_in_memory(&api, open).await
}

/// The open portals of a client, as they are now.
struct PortalList(Vec<Arc<PortalToken>>);

impl List for PortalList {
    type Key = NumberKey;
    type Found = Arc<PortalToken>;
    type Shown<'a> = PortalShape;

    fn look(&self, after: Option<&NumberKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let is_behind = |token: &&Arc<PortalToken>| after.is_none_or(|after| token.id.0 > after.0);
        Ok(BoundedPage::indexed(self.0.iter().filter(is_behind).take(limit).cloned().collect()))
    }

    fn key(token: &Arc<PortalToken>) -> NumberKey {
        NumberKey(token.id.0)
    }

    fn show(token: &Arc<PortalToken>) -> PortalShape {
        (&**token).into()
    }
}

async fn list(
    State(api): State<ApiState>,
    ClientInPath(id): ClientInPath,
    params: Params,
) -> Result<Response, Refused> {
    let page = params.page()?;
    let client = api.queries().client(&id).ok_or_else(|| unknown_client(id.as_str()))?;
    let now = api.engine().clock().now();
    let open = api.engine().portals().of_client(client.incarnation, now);
    list::answer(&api, page, PortalList(open)).await
}

async fn close(
    State(api): State<ApiState>,
    PortalInPath(client, id): PortalInPath,
) -> Result<ApiAnswer, Refused> {
    api.engine().close_portal(client, id).await?;
    Ok(ApiAnswer::nothing())
}
