//! Who calls, in answers.

use access::{Caller, Scope};
use serde::Serialize;
use utoipa::ToSchema;

/// Who calls, and what its token may do.
#[derive(Serialize, ToSchema)]
#[schema(as = Caller)]
pub(crate) struct CallerShape {
    /// No tokens are configured: anybody on this machine may do anything.
    open: bool,
    /// The token's name; null without tokens.
    #[schema(required)]
    token: Option<String>,
    /// What it may do; of an open server everything, as `admin`.
    scopes: Vec<String>,
    /// The one client whose own the token may see, where it may see nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
}

impl CallerShape {
    /// The holder of a token; without one anybody, on an open server.
    pub(crate) fn of(open: bool, caller: Option<&Caller>) -> Self {
        let Some(caller) = caller else {
            let scopes = if open { vec![Scope::Admin.to_string()] } else { Vec::new() };
            return Self { open, token: None, scopes, client: None };
        };
        let client = match caller.scopes() {
            [Scope::Client(client)] => Some(client.as_str().to_owned()),
            _ => None,
        };
        let scopes = caller.scopes().iter().map(Scope::to_string).collect();
        Self { open, token: Some(caller.name().to_owned()), scopes, client }
    }
}
