//! `/v1/clients/{id}/portal`: short-lived links to one client.

use access::{Caller, Digest, PORTAL_TOKEN_PREFIX};
use axum::Extension;
use axum::extract::State;
use base::{Problem, random};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::portals::NewPortal;
use engine::records::TokenDigest;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::Answer;
use crate::authorization::check_may_open;
use crate::body::Text;
use crate::openapi::Call;
use crate::openapi::refusals::UNKNOWN_CLIENT;
use crate::path::{ClientInPath, PortalInPath, unknown_client};
use crate::shape::{self, NewPortalShape, PortalsShape};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;

pub(super) fn routes() -> Routes {
    let opened = Call::new("Opens a portal: a short-lived token that reaches this client alone")
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
        .gives::<PortalsShape>(200, "all of them")
        .refuses(&[UNKNOWN_CLIENT]);
    let closed = Call::new("Closes a portal; its token reaches nothing from then on")
        .gives_nothing(204, "it is closed")
        .refuses(&[UNKNOWN_CLIENT, (404, "unknown_portal")]);
    Routes::default()
        .post("/v1/clients/{id}/portal", open, opened)
        .get("/v1/clients/{id}/portal", list, listed)
        .delete("/v1/clients/{id}/portal/{portal_id}", close, closed)
}

/// Takes no `Idempotency-Key`: a kept answer would keep the token.
async fn open(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    ClientInPath(client): ClientInPath,
    body: Text,
) -> Result<Answer, Refused> {
    let (ttl, may) = shape::new_portal(&body)?;
    check_may_open(caller.as_deref(), may)?;
    let bytes = random::unguessable::<TOKEN_BYTES>();
    let bytes = bytes.map_err(|_| Problem::unavailable("the system has no source of randomness"))?;
    let token = format!("{PORTAL_TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let digest = TokenDigest(Digest::of(token.as_bytes()).to_bytes());
    let by = caller.map(|Extension(caller)| caller.name().into());
    let opened = api.engine().open_portal(NewPortal { client, digest, ttl, may, by }).await?;
    Ok(Answer::created(&NewPortalShape::of(&opened, token)))
}

async fn list(State(api): State<ApiState>, ClientInPath(id): ClientInPath) -> Result<Answer, Refused> {
    let client = api.queries().client(&id).ok_or_else(|| unknown_client(id.as_str()))?;
    let now = api.engine().clock().now();
    let open = api.engine().portals().of_client(client.incarnation, now);
    Ok(Answer::ok(&PortalsShape::of(open.iter().map(|token| &**token))))
}

async fn close(
    State(api): State<ApiState>,
    PortalInPath(client, id): PortalInPath,
) -> Result<Answer, Refused> {
    api.engine().close_portal(client, id).await?;
    Ok(Answer::nothing())
}
