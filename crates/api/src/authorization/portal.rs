//! What the holder of a portal may call: a few routes, about one client, as far as the portal says.
//!
//! A portal has no scope, so whatever a scope would open stays shut for it, on every route. Where
//! no tokens are asked for, the limits hold for whoever shows a portal's token all the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use access::{Access, Digest, Portal, PortalHolder, UnderWay};
use axum::extract::Request;
use axum::http::Method;
use base::{Incarnation, Problem};
use engine::records::{PortalToken, TokenDigest};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::own::{About, is_own};
use super::table::Own;
use crate::ApiState;

/// What a call takes of a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Read,
    Retry,
    Url,
}

/// The routes that a portal reaches: what each takes, and by what it is about the portal's client.
pub(super) const PORTAL_ROUTES: &[(&str, &str, Right, Own)] = &[
    ("GET", "/v1/clients/{id}", Right::Read, Own::ClientInPath),
    ("GET", "/v1/clients/{id}/devices", Right::Read, Own::ClientInPath),
    ("GET", "/v1/deliveries", Right::Read, Own::ClientInQuery),
    ("GET", "/v1/events", Right::Read, Own::ClientInQuery),
    // Each topic takes what the list of its name takes.
    ("GET", "/v1/live", Right::Read, Own::ClientInQuery),
    ("GET", "/v1/deliveries/{id}", Right::Read, Own::DeliveryInPath),
    ("POST", "/v1/deliveries/{id}/retry", Right::Retry, Own::DeliveryInPath),
    ("POST", "/v1/clients/{id}/resend", Right::Retry, Own::ClientInPath),
    ("POST", "/v1/clients/{id}/test", Right::Retry, Own::ClientInPath),
    ("PATCH", "/v1/clients/{id}", Right::Url, Own::ClientInPath),
    ("POST", "/v1/clients/{id}/rotate-secret", Right::Url, Own::ClientInPath),
];

fn needed(method: &Method, route: &str) -> Option<(Right, Own)> {
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
    let has_right = match right {
        Right::Read => portal.read,
        Right::Retry => portal.retry,
        Right::Url => portal.url,
    };
    Ok(has_right && is_own(api, &portal.client, own, about).await?)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Judged {
    result: &'static str,
}

/// The holders of portals that called, with what they have used up.
#[derive(Debug, Default)]
pub(crate) struct PortalHolders {
    known: Mutex<HashMap<Incarnation, Arc<PortalHolder>>>,
    requests: Family<Judged, Counter>,
}

impl PortalHolders {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "fieldpost_http_portal_requests",
            "Requests with the token of a portal, by result: admitted, forbidden, limited",
            self.requests.clone(),
        );
    }

    pub(super) fn judged(&self, result: &'static str) {
        self.requests.get_or_create(&Judged { result }).inc();
    }

    /// Who holds this portal.
    fn holder(&self, api: &ApiState, token: &PortalToken) -> Arc<PortalHolder> {
        let mut known = self.known();
        // Those that are closed are forgotten once they are as many as those that are open.
        if known.len() > 2 * api.engine().portals().len() {
            let now = api.engine().clock().now();
            known.retain(|_, holder| holder.caller().portal().is_some_and(|portal| now < portal.expires_at));
        }
        let holder = known.entry(token.id).or_insert_with(|| {
            let may = token.may;
            let portal = Portal {
                client: token.client_id.clone(),
                read: may.read,
                retry: may.retry,
                url: may.url,
                expires_at: token.expires_at,
            };
            Arc::new(PortalHolder::new(portal, token.id.0))
        });
        Arc::clone(holder)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Incarnation, Arc<PortalHolder>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who shows the token of an open portal.
pub(super) fn recognised(api: &ApiState, request: &Request) -> Option<Arc<PortalHolder>> {
    let shown = access::portal_token(request.headers())?;
    let digest = TokenDigest(Digest::of(shown).to_bytes());
    let token = api.engine().portals().get(&digest, api.engine().clock().now())?;
    Some(api.shared.portals.holder(api, &token))
}

/// Whether a token of a portal is shown where nobody would look at it otherwise.
pub(super) fn is_shown_in_vain(api: &ApiState, request: &Request) -> bool {
    matches!(&*api.shared.access, Access::Open) && access::portal_token(request.headers()).is_some()
}

/// Whether the portal of this caller is still open.
pub(super) fn is_open(api: &ApiState, caller: &access::Caller, portal: &Portal) -> bool {
    let Some(client) = api.queries().client(&portal.client) else { return false };
    let open = api.engine().portals().of_client(client.incarnation, api.engine().clock().now());
    open.iter().any(|token| access::portal_name(&token.client_id, token.id.0) == caller.name())
}

/// Takes a request of a holder in.
///
/// # Errors
/// The refusal, and after how many seconds the next may come.
pub(super) fn take(api: &ApiState, holder: &PortalHolder) -> Result<UnderWay, (Problem, u64)> {
    holder.take().map_err(|reached| {
        api.shared.portals.judged("limited");
        let seconds = base::time::millis(reached.again).max(1).cast_unsigned().div_ceil(1_000);
        (holder.limited(&reached), seconds)
    })
}
