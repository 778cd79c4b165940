//! What the holder of a portal may call: a few routes, about one client, as far as the portal says.
//!
//! A portal has no scope, so whatever a scope would open stays shut for it, on every route. It does
//! nothing that the token which opened it may not do itself, as that token is now. Where no tokens
//! are asked for, the limits hold for whoever shows a portal's token all the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use access::{Access, Caller, Digest, LimitReached, OngoingRequest, Portal, PortalHolder, Scope};
use axum::extract::Request;
use axum::http::{Extensions, Method};
use base::locks::locked;
use base::{Problem, Timestamp, time};
use engine::records::{PortalRights, PortalToken, TokenDigest};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::middleware::scopes_suffice;
use super::ownership::{About, is_own};
use super::portal_sends::PortalSends;
use super::table::{Ownership, needs};
use crate::ApiState;
use crate::shape::PORTAL_RIGHTS;

/// How often the holders of portals that have ended are forgotten.
const FORGOTTEN_EVERY: Duration = Duration::from_secs(60);

/// What a call takes of a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortalRight {
    Read,
    Retry,
    Url,
}

/// The routes that a portal reaches: what each takes, and by what it is about the portal's client.
pub(super) const PORTAL_ROUTES: &[(&str, &str, PortalRight, Ownership)] = &[
    ("GET", "/v1/clients/{id}", PortalRight::Read, Ownership::ClientInPath),
    ("GET", "/v1/clients/{id}/devices", PortalRight::Read, Ownership::ClientInPath),
    ("GET", "/v1/deliveries", PortalRight::Read, Ownership::ClientInQuery),
    ("GET", "/v1/events", PortalRight::Read, Ownership::ClientInQuery),
    // Each topic takes what the list of its name takes.
    ("GET", "/v1/live", PortalRight::Read, Ownership::ClientInQuery),
    ("GET", "/v1/deliveries/{id}", PortalRight::Read, Ownership::DeliveryInPath),
    ("POST", "/v1/deliveries/{id}/retry", PortalRight::Retry, Ownership::DeliveryInPath),
    ("POST", "/v1/clients/{id}/resend", PortalRight::Retry, Ownership::ClientInPath),
    ("POST", "/v1/clients/{id}/test", PortalRight::Retry, Ownership::ClientInPath),
    ("PATCH", "/v1/clients/{id}", PortalRight::Url, Ownership::ClientInPath),
    ("POST", "/v1/clients/{id}/rotate-secret", PortalRight::Url, Ownership::ClientInPath),
];

fn needed(method: &Method, route: &str) -> Option<(PortalRight, Ownership)> {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let row = PORTAL_ROUTES.iter().find(|(of, path, ..)| (*of, *path) == (method, route))?;
    Some((row.2, row.3))
}

/// Whether a call tells the holder what its own portal allows.
pub(super) fn is_about_itself(method: &Method, route: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && route == "/v1/caller"
}

/// Whether a portal allows this call.
///
/// # Errors
/// When that cannot be looked up now.
pub(super) async fn may(
    api: &ApiState,
    portal: &Portal,
    (method, route): (&Method, &str),
    about: &About,
) -> Result<bool, Problem> {
    let Some((right, own)) = needed(method, route) else { return Ok(false) };
    let rights = PortalRights { read: portal.read, retry: portal.retry, url: portal.url };
    let opener = opener_scopes(&api.shared.access, portal.opened_by.as_deref());
    let is_allowed = right.is_in(rights) && opener.is_some_and(|scopes| reaches(scopes, method, route));
    Ok(is_allowed && is_own(api, &portal.client, own, about).await?)
}

impl PortalRight {
    /// In the order of their words.
    const ALL: [Self; PORTAL_RIGHTS.len()] = [Self::Read, Self::Retry, Self::Url];

    fn is_in(self, rights: PortalRights) -> bool {
        match self {
            Self::Read => rights.read,
            Self::Retry => rights.retry,
            Self::Url => rights.url,
        }
    }
}

/// What the token that opened a portal may do now; `None` where it is gone. Without tokens
/// everybody may do everything.
fn opener_scopes<'a>(access: &'a Access, opened_by: Option<&str>) -> Option<&'a [Scope]> {
    match access {
        Access::Open => Some(&[Scope::Admin]),
        Access::Guarded(_) => access.scopes_of(opened_by?),
    }
}

/// Whether these scopes reach a route whoever it is about.
fn reaches(scopes: &[Scope], method: &Method, route: &str) -> bool {
    scopes_suffice(scopes, needs(method, route), method.is_safe(), &About::these(&[], &[]))
}

/// What of `may` a token with these scopes cannot do itself, so that it may not open a portal for
/// it.
fn beyond(scopes: &[Scope], may: PortalRights) -> Option<&'static str> {
    let can = |right: PortalRight| {
        let mut routes = PORTAL_ROUTES.iter().filter(|row| row.2 == right);
        routes.any(|(method, route, ..)| {
            Method::from_bytes(method.as_bytes()).is_ok_and(|method| reaches(scopes, &method, route))
        })
    };
    let mut rights = PortalRight::ALL.into_iter().zip(PORTAL_RIGHTS);
    rights.find(|(right, _)| right.is_in(may) && !can(*right)).map(|(_, word)| word)
}

/// Whether the caller may open a portal that may do this.
///
/// # Errors
/// 403 `forbidden`: it could not do so itself.
pub(crate) fn check_may_open(caller: Option<&Caller>, may: PortalRights) -> Result<(), Problem> {
    let Some(caller) = caller else { return Ok(()) };
    let Some(word) = beyond(caller.scopes(), may) else { return Ok(()) };
    let detail = format!(
        "token {:?} may not open a portal with {word:?} in may, because it may not do that itself; it takes the scope admin",
        caller.name()
    );
    Err(Problem::new(403, "forbidden", detail))
}

/// Whether the token that opened a portal could still open it.
fn could_open_still(access: &Access, token: &PortalToken) -> bool {
    let scopes = opener_scopes(access, token.by.as_deref());
    scopes.is_some_and(|scopes| {
        reaches(scopes, &Method::POST, "/v1/clients/{id}/portal") && beyond(scopes, token.may).is_none()
    })
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PortalRequestLabels {
    result: &'static str,
}

/// The holders of portals that called, with what they have used up.
#[derive(Debug, Default)]
pub(crate) struct PortalHolders {
    known: Mutex<KnownHolders>,
    sends: PortalSends,
    requests: Family<PortalRequestLabels, Counter>,
}

#[derive(Debug, Default)]
struct KnownHolders {
    holders: HashMap<TokenDigest, Arc<PortalHolder>>,
    /// Before that those of portals that have ended are not looked for.
    forget_at: Timestamp,
}

impl PortalHolders {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Requests with the token of a portal, by result: admitted, forbidden, limited";
        registry.register("fieldpost_http_portal_requests", help, self.requests.clone());
    }

    pub(super) fn judged(&self, result: &'static str) {
        self.requests.get_or_create(&PortalRequestLabels { result }).inc();
    }

    /// Who holds this portal.
    fn holder(&self, api: &ApiState, token: &PortalToken) -> Arc<PortalHolder> {
        let (mut known, now, open) =
            (locked(&self.known), api.engine().clock().now(), api.engine().portals());
        if now >= known.forget_at {
            known.forget_at = now.after(FORGOTTEN_EVERY);
            known.holders.retain(|digest, _| open.get(digest, now).is_some());
        }
        let holder = known.holders.entry(token.digest).or_insert_with(|| {
            let may = token.may;
            let portal = Portal {
                client: token.client_id.clone(),
                read: may.read,
                retry: may.retry,
                url: may.url,
                expires_at: token.expires_at,
                opened_by: token.by.clone(),
            };
            Arc::new(PortalHolder::new(portal, token.id.0))
        });
        Arc::clone(holder)
    }
}

/// Who shows the token of an open portal. It has ended once the token that opened it is gone, or
/// may no longer do what it does.
pub(super) fn recognised(api: &ApiState, request: &Request) -> Option<(Arc<PortalHolder>, TokenDigest)> {
    let shown = access::portal_token(request.headers())?;
    let token = open(api, &TokenDigest(Digest::of(shown).to_bytes()))?;
    Some((api.shared.portals.holder(api, &token), token.digest))
}

/// The portal of a token, if it is open now.
pub(super) fn open(api: &ApiState, digest: &TokenDigest) -> Option<Arc<PortalToken>> {
    let token = api.engine().portals().get(digest, api.engine().clock().now())?;
    could_open_still(&api.shared.access, &token).then_some(token)
}

/// Whether a token of a portal is shown where nobody would look at it otherwise.
pub(super) fn is_unknown_portal_token(api: &ApiState, request: &Request) -> bool {
    matches!(&*api.shared.access, Access::Open) && access::portal_token(request.headers()).is_some()
}

/// Whether the portal of this caller is still open.
pub(super) fn is_open(api: &ApiState, caller: &access::Caller, portal: &Portal) -> bool {
    let Some(client) = api.queries().client(&portal.client) else { return false };
    let open = api.engine().portals().of_client(client.incarnation, api.engine().clock().now());
    open.iter()
        .filter(|token| access::portal_name(&token.client_id, token.id.0) == caller.name())
        .any(|token| could_open_still(&api.shared.access, token))
}

/// Takes a request of a holder in.
///
/// # Errors
/// The refusal, and after how many seconds the next may come.
pub(super) fn take(api: &ApiState, holder: &PortalHolder) -> Result<OngoingRequest, (Problem, u64)> {
    holder.take().map_err(|reached| {
        api.shared.portals.judged("limited");
        (holder.limited(&reached), retry_after_seconds(&reached))
    })
}

/// After how many seconds a caller may come back that has reached a limit.
pub(super) fn retry_after_seconds(reached: &LimitReached) -> u64 {
    time::millis(reached.again).max(1).cast_unsigned().div_ceil(1_000)
}

/// Takes a request in that has the server send something for the portals of a client.
///
/// # Errors
/// The refusal, and after how many seconds the next may come.
pub(super) fn take_send(
    api: &ApiState,
    portal: &Portal,
    (method, route): (&Method, &str),
    extensions: &mut Extensions,
) -> Result<(), (Problem, u64)> {
    let sends = &api.shared.portals.sends;
    let taken = match (method, route) {
        (&Method::POST, "/v1/clients/{id}/test") => sends.test(&portal.client, api.engine().clock().now()),
        (&Method::POST, "/v1/clients/{id}/resend") => sends.resend(&portal.client).map(|resend| {
            extensions.insert(resend);
        }),
        _ => Ok(()),
    };
    taken.inspect_err(|_| api.shared.portals.judged("limited"))
}
