//! How much of the devices and of the streams a caller may know of.

use std::collections::BTreeSet;
use std::convert::Infallible;

use access::{Caller, Scope, StreamRights};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base::Problem;
use engine::queries::BoundedPage;

use crate::openapi::refusals::UNKNOWN_DEVICE;

/// How much of the devices a caller may know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Visibility {
    Everything,
    /// Its own devices. Whether there are others is not for it to find out.
    ItsOwn,
}

impl<S: Send + Sync> FromRequestParts<S> for Visibility {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of_caller(parts.extensions.get::<Caller>()))
    }
}

impl Visibility {
    /// Of a caller; without tokens everybody sees everything.
    pub(crate) fn of_caller(caller: Option<&Caller>) -> Self {
        let may_see = |scope: &Scope| matches!(scope, Scope::Admin | Scope::Read | Scope::Operate);
        let all = caller.is_none_or(|caller| caller.scopes().iter().any(may_see));
        if all { Self::Everything } else { Self::ItsOwn }
    }

    /// The result of a lookup; an unknown device is answered as somebody else's is, of which
    /// nothing is shown. Where items are filtered, a page tells how many were looked at: none.
    pub(crate) fn of<T, K>(
        self,
        found: Result<BoundedPage<T, K>, Problem>,
        is_filtered: bool,
    ) -> Result<BoundedPage<T, K>, Problem> {
        match (self, found) {
            (Self::ItsOwn, Err(problem)) if problem.code == UNKNOWN_DEVICE.1 => {
                Ok(BoundedPage { looked_at: is_filtered.then_some(0), ..BoundedPage::default() })
            }
            (_, found) => found,
        }
    }
}

/// Of which namespaces a caller may know the streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VisibleStreams {
    Everything,
    OfNamespaces(BTreeSet<String>),
}

impl<S: Send + Sync> FromRequestParts<S> for VisibleStreams {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of_caller(parts.extensions.get::<Caller>()))
    }
}

impl VisibleStreams {
    /// Of a caller; without tokens everybody sees everything.
    fn of_caller(caller: Option<&Caller>) -> Self {
        let Some(caller) = caller else { return Self::Everything };
        if caller.scopes().iter().any(|scope| matches!(scope, Scope::Admin | Scope::Read | Scope::Operate)) {
            return Self::Everything;
        }
        let readable = caller.scopes().iter().filter_map(|scope| match scope {
            Scope::Streams(namespace, StreamRights::All | StreamRights::Read) => Some(namespace.as_str()),
            _ => None,
        });
        Self::OfNamespaces(readable.map(str::to_owned).collect())
    }

    /// The same, of one namespace alone if one is asked for.
    pub(crate) fn within(self, namespace: Option<String>) -> Self {
        match (self, namespace) {
            (all, None) => all,
            (Self::Everything, Some(namespace)) => Self::OfNamespaces(BTreeSet::from([namespace])),
            (Self::OfNamespaces(own), Some(namespace)) => {
                Self::OfNamespaces(own.into_iter().filter(|name| *name == namespace).collect())
            }
        }
    }
}
