//! Which caller may use which route: the check in front of every route of the REST API.
//!
//! Tokens, scopes and limits are those of the crate `access`. [`table`] says of each route which
//! scope it takes; what of a client's scope is the client's own is looked up in [`own`]. What a
//! route does with a request that was let through is not known here.

mod middleware;
mod own;
mod sees;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use middleware::KeepsOut;
pub(crate) use sees::Sees;
