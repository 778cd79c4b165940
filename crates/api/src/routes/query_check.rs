//! Queries of calls that take none are refused: no call that changes or deletes something takes an
//! unknown filter for "all of them". Calls outside of `/v1/`,
//! such as health and metrics, take any query.

use std::future::{Ready, ready};

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use net::problem::Refused;

use crate::ApiState;
use crate::openapi::Call;
use crate::params;

/// A handler, asked only where the query may be there.
#[derive(Clone)]
pub(super) struct QueryCheck<H> {
    handler: H,
    takes_query: bool,
}

impl<H> QueryCheck<H> {
    /// The handler of a call: one that is described with parameters says itself what it knows.
    pub(super) fn of(handler: H, path: &str, call: &Call) -> Self {
        Self { handler, takes_query: call.takes_query() || !path.starts_with("/v1/") }
    }

    /// Whether a query is left to the handler.
    pub(super) fn takes_query(&self) -> bool {
        self.takes_query
    }
}

impl<H, T> Handler<T, ApiState> for QueryCheck<H>
where
    H: Handler<T, ApiState>,
    T: 'static,
{
    type Future = Either<H::Future, Ready<Response>>;

    fn call(self, request: Request, api: ApiState) -> Self::Future {
        let checked = if self.takes_query { Ok(()) } else { params::none(request.uri()) };
        match checked {
            Ok(()) => Either::Left(self.handler.call(request, api)),
            Err(problem) => Either::Right(ready(Refused(problem).into_response())),
        }
    }
}
