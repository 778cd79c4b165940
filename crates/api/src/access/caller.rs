//! Who makes a request: the token it came with, once that is recognised.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base::{CallerName, Problem};

use super::{Scope, Token};
use crate::openapi::refusals::UNKNOWN_DEVICE;

/// The token of a request that was let through; an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    token: Arc<Token>,
    name: CallerName,
}

impl Caller {
    pub(super) fn new(token: Token) -> Self {
        Self { name: CallerName(token.name.as_str().into()), token: Arc::new(token) }
    }

    /// The token's name.
    pub(crate) fn name(&self) -> &str {
        &self.token.name
    }

    /// The same for those who do not know tokens.
    pub(super) fn called(&self) -> CallerName {
        self.name.clone()
    }

    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    pub(super) fn scopes(&self) -> &[Scope] {
        &self.token.scopes
    }
}

/// How much of the devices a caller may know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    Everything,
    /// Its own devices. Whether there are others is not for it to find out.
    ItsOwn,
}

impl<S: Send + Sync> FromRequestParts<S> for Sees {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let may_see = |scope: &Scope| matches!(scope, Scope::Admin | Scope::Read);
        let caller = parts.extensions.get::<Caller>();
        let all = caller.is_none_or(|caller| caller.scopes().iter().any(may_see));
        Ok(if all { Self::Everything } else { Self::ItsOwn })
    }
}

impl Sees {
    /// What was found; a device that is unknown is answered as somebody else's is, of which nothing is shown.
    pub(crate) fn of<T>(self, found: Result<Vec<T>, Problem>) -> Result<Vec<T>, Problem> {
        match (self, found) {
            (Self::ItsOwn, Err(problem)) if problem.code == UNKNOWN_DEVICE.1 => Ok(Vec::new()),
            (_, found) => found,
        }
    }
}
