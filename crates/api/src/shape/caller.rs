//! Who calls, in answers.

use access::{Caller, Portal, Scope};
use engine::records::PortalRights;
use serde::Serialize;
use utoipa::ToSchema;

use super::portal::right_words;
use super::text::Time;

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
    /// Of a portal: when it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Time>,
    /// Of a portal: what it allows, of `read`, `retry` and `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    may: Option<Vec<&'static str>>,
}

impl CallerShape {
    /// The holder of a token; without one anybody, on an open server.
    pub(crate) fn of(open: bool, caller: Option<&Caller>) -> Self {
        let Some(caller) = caller else {
            let scopes = if open { vec![Scope::Admin.to_string()] } else { Vec::new() };
            return Self { open, token: None, scopes, client: None, expires_at: None, may: None };
        };
        let portal = caller.portal();
        let client = match (portal, caller.scopes()) {
            (Some(portal), _) => Some(portal.client.as_str().to_owned()),
            (None, [Scope::Client(client)]) => Some(client.as_str().to_owned()),
            (None, _) => None,
        };
        let scopes = caller.scopes().iter().map(Scope::to_string).collect();
        let expires_at = portal.map(|portal| Time(portal.expires_at));
        let may =
            portal.map(|&Portal { read, retry, url, .. }| right_words(PortalRights { read, retry, url }));
        Self { open, token: Some(caller.name().to_owned()), scopes, client, expires_at, may }
    }
}
