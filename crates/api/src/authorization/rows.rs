//! Rights to rows that come in another way than by a request for them: whoever follows a list takes
//! what the list takes.

use access::{Caller, Scope};
use axum::http::Method;
use base::{ClientId, Problem};

use super::middleware::may;
use super::ownership::About;
use super::portal;
use super::table::needs;
use crate::ApiState;

/// Whether a caller may GET `route`, with these texts in its path and query. Without tokens
/// everybody may.
///
/// # Errors
/// 403 `forbidden`, or why that cannot be looked up now.
pub(crate) async fn check_row(
    api: &ApiState,
    caller: Option<&Caller>,
    route: &str,
    path: &[(&str, &str)],
    query: &[(&str, &str)],
) -> Result<(), Problem> {
    let Some(caller) = caller else { return Ok(()) };
    let needs = needs(&Method::GET, route);
    if let Some(portal) = caller.portal() {
        let is_its_own = portal::may(api, portal, (&Method::GET, route), &About::these(path, query)).await?;
        return if is_its_own { Ok(()) } else { Err(caller.may_not(needs.description(true))) };
    }
    if may(api, caller, needs, true, &About::these(path, query)).await? {
        return Ok(());
    }
    Err(caller.may_not(needs.description(true)))
}

/// Whether a caller that was let in would be let in again, and may do the same. For that its token
/// must be neither gone nor changed, or its portal open.
pub(crate) fn still_knows(api: &ApiState, caller: &Caller) -> bool {
    match caller.portal() {
        Some(portal) => portal::is_open(api, caller, portal),
        None => api.shared.access.still_knows(caller),
    }
}

/// The clients whose own the caller may see.
pub(crate) fn own_clients(caller: &Caller) -> Vec<ClientId> {
    clients_of(caller.scopes())
}

/// The clients that scopes are for.
pub(crate) fn clients_of(scopes: &[Scope]) -> Vec<ClientId> {
    let client = |scope: &Scope| if let Scope::Client(id) = scope { Some(id.clone()) } else { None };
    scopes.iter().filter_map(client).collect()
}
