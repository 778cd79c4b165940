//! Who makes a request: the token it came with, once that is recognised.

use std::sync::Arc;

use base::{CallerName, Problem};

use crate::{Portal, Scope, StreamRights, Token};

/// The token of a request that was let through; an extension of the request.
#[derive(Clone, Debug)]
pub struct Caller {
    token: Arc<Token>,
    name: CallerName,
    /// Of whoever holds a portal.
    portal: Option<Arc<Portal>>,
}

impl Caller {
    pub(crate) fn new(token: Token) -> Self {
        Self { name: CallerName(token.name.as_str().into()), token: Arc::new(token), portal: None }
    }

    pub(crate) fn of_portal(token: Token, portal: Arc<Portal>) -> Self {
        Self { portal: Some(portal), ..Self::new(token) }
    }

    /// What it may do as the holder of a portal; `None` of any other caller.
    #[must_use]
    pub fn portal(&self) -> Option<&Portal> {
        self.portal.as_deref()
    }

    /// The token's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.token.name
    }

    /// The name, for whoever knows no tokens.
    #[must_use]
    pub fn called(&self) -> CallerName {
        self.name.clone()
    }

    /// What it may do.
    #[must_use]
    pub fn scopes(&self) -> &[Scope] {
        &self.token.scopes
    }

    /// The refusal of a request that takes another scope: 403. `takes` names the scopes that would
    /// be enough.
    #[must_use]
    pub fn may_not(&self, takes: &str) -> Problem {
        let detail = match &self.portal {
            None => format!("token {:?} may not do this; it takes the scope {takes}", self.name()),
            Some(portal) => format!("this portal of client {} does not allow it", portal.client),
        };
        Problem::new(403, "forbidden", detail)
    }

    /// Whether it may have the server publish to queues of a namespace.
    ///
    /// # Errors
    /// 403 `forbidden`.
    pub fn may_publish(&self, namespace: &str) -> Result<(), Problem> {
        if self.scopes().iter().any(|scope| scope.may_publish(namespace)) {
            return Ok(());
        }
        Err(self.may_not("admin, or jobs:NAMESPACE of the queue in notify"))
    }

    /// Whether it may have the server append to streams of a namespace.
    ///
    /// # Errors
    /// 403 `forbidden`.
    pub fn may_append(&self, namespace: &str) -> Result<(), Problem> {
        if self.scopes().iter().any(|scope| scope.may_stream(namespace, StreamRights::Append)) {
            return Ok(());
        }
        Err(self.may_not("admin, or streams:NAMESPACE or streams:NAMESPACE:append of the stream in results"))
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }
}
