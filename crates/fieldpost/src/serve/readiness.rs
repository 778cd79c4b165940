//! What is behind the HTTP listener, before and after the API is there: until the engine runs it
//! answers health questions and 503.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, OnceLock, RwLock};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::routing::{any, get_service};
use base::Problem;
use base::locks::{read_locked, write_locked};
use futures_util::future::Either;
use net::problem;
use tower_service::Service;
use tracing::instrument::Instrumented;
use tracing::{Instrument, debug_span};

/// What is behind the HTTP listener.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    api: OnceLock<Router>,
    waits_for: RwLock<Option<String>>,
}

impl Readiness {
    /// The API answers from now on.
    pub(super) fn open(&self, api: Router) {
        // It is opened once; a second call would find the first API in place.
        let _already_open = self.api.set(api);
    }

    /// The start waits: `/readyz` says for what.
    pub(super) fn waits_for(&self, what: String) {
        *write_locked(&self.waits_for) = Some(what);
    }

    fn starting(&self, path: &str) -> Response {
        let waits_for = read_locked(&self.waits_for).clone();
        let detail = waits_for.unwrap_or_else(|| "the server is starting".to_owned());
        if path == "/healthz" {
            return Response::new(Body::from("alive\n"));
        }
        problem::response(&Problem::new(503, "starting", detail))
    }
}

/// What callers are answered, and what those are answered that there is no room for: a full server
/// is alive and measured all the same.
pub(super) fn apps(readiness: &Arc<Readiness>) -> (App, Router) {
    let app = App(Arc::clone(readiness));
    let busy = Router::new()
        .route("/healthz", get_service(app.clone()))
        .route("/readyz", get_service(app.clone()))
        .route("/metrics", get_service(app.clone()))
        .fallback(any(async || full()));
    (app, busy)
}

/// The API, once it is there. No router, which would be memory of every connection that waits.
#[derive(Clone)]
pub(super) struct App(Arc<Readiness>);

impl Service<Request> for App {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Instrumented<RouteFuture<Infallible>>, Ready<Result<Response, Infallible>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match self.0.api.get() {
            Some(api) => {
                let span = debug_span!("http", method = %request.method(), path = request.uri().path());
                Either::Left(api.clone().call(request).instrument(span))
            }
            None => Either::Right(ready(Ok(self.0.starting(request.uri().path())))),
        }
    }
}

fn full() -> Response {
    let detail = "there are as many connections as the server takes; try again in a moment";
    problem::response(&Problem::new(503, "too_many_connections", detail))
}
