//! Who may call, and how much: tokens with their scopes and limits, logins of devices, and failed
//! attempts to guess either.
//!
//! A token is known by its SHA-256 alone, and so is a password. Which scope a route or a call
//! takes, and what of a client's scope is the client's own, each edge knows by itself. Without
//! tokens nothing is guarded.

mod admitted;
mod caller;
mod failed_auth;
mod guard;
mod limits;
mod logins;
mod metrics;
mod picks;
mod portal;
mod scope;
mod token;

use prometheus_client::registry::Registry;

pub use admitted::{Admitted, NotAdmitted, RequestedAction};
pub use caller::Caller;
pub use failed_auth::{FailedAuth, TooManyWrongTokens};
pub use guard::{Guard, NotRecognised, TokenHolder};
pub use limits::{LimitReached, OngoingRequest};
pub use logins::{Credentials, Login, Logins, Principal, UsernameTaken};
pub use picks::PickLimits;
pub use portal::{PORTAL_TOKEN_PREFIX, Portal, PortalHolder, portal_name, portal_token};
pub use scope::{Namespace, Scope, StreamRights};
pub use token::{Digest, Token};

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

    /// Whether nobody has to show a token.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// Whether a caller that was let in would be let in again, and may do the same: its token is
    /// neither gone nor changed.
    #[must_use]
    pub fn still_knows(&self, caller: &Caller) -> bool {
        match self {
            Self::Open => true,
            Self::Guarded(guard) => guard.still_knows(caller),
        }
    }

    /// Puts its metrics into the registry.
    pub fn register(&self, registry: &mut Registry) {
        if let Self::Guarded(guard) = self {
            guard.register(registry);
        }
    }
}
