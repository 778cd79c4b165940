//! Who may call what: bearer tokens, their scopes and their limits, in front of every route.
//!
//! A token is known by its SHA-256 alone. [`table`] says of each route which scope it takes; what of a client's scope is the
//! client's own is looked up in [`own`]. What a route does with a request that was let through is not known here, and
//! without tokens nothing is guarded.

mod caller;
mod figures;
mod guard;
mod guesses;
mod limits;
mod own;
mod scope;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod token;

use prometheus_client::registry::Registry;

pub use guard::{Admitted, Asked, Guard};
pub use scope::{Namespace, Scope};
pub use token::{Digest, Token};

pub(crate) use caller::{Caller, Sees};
pub(crate) use guard::{Holder, KeepsOut};
pub(crate) use guesses::Guesses;
pub(crate) use limits::UnderWay;

/// Whether callers have to show who they are.
#[derive(Debug)]
pub enum Access {
    /// Anybody may do anything; then only this machine may reach the listener.
    Open,
    /// A token is asked for.
    Guarded(Guard),
}

impl Access {
    /// For whoever has one of these tokens; for everybody if there are none.
    #[must_use]
    pub fn of(tokens: Vec<Token>) -> Self {
        if tokens.is_empty() { Self::Open } else { Self::Guarded(Guard::new(tokens)) }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        if let Self::Guarded(guard) = self {
            guard.register(registry);
        }
    }
}
