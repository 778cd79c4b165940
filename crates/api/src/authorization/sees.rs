//! How much of the devices a caller may know of.

use std::convert::Infallible;

use access::{Caller, Scope};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base::Problem;

use crate::openapi::refusals::UNKNOWN_DEVICE;

/// How much of the devices a caller may know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sees {
    Everything,
    /// Its own devices. Whether there are others is not for it to find out.
    ItsOwn,
}

impl<S: Send + Sync> FromRequestParts<S> for Sees {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of_caller(parts.extensions.get::<Caller>()))
    }
}

impl Sees {
    /// Of a caller; without tokens everybody sees everything.
    pub(crate) fn of_caller(caller: Option<&Caller>) -> Self {
        let may_see = |scope: &Scope| matches!(scope, Scope::Admin | Scope::Read | Scope::Operate);
        let all = caller.is_none_or(|caller| caller.scopes().iter().any(may_see));
        if all { Self::Everything } else { Self::ItsOwn }
    }

    /// The result of a lookup; an unknown device is answered as somebody else's is, of which
    /// nothing is shown.
    pub(crate) fn of<T: Default>(self, found: Result<T, Problem>) -> Result<T, Problem> {
        match (self, found) {
            (Self::ItsOwn, Err(problem)) if problem.code == UNKNOWN_DEVICE.1 => Ok(T::default()),
            (_, found) => found,
        }
    }
}
