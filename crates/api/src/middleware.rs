//! What holds for every route: it is counted and timed, and a panic fails one request and no more.
//! Whatever is refused is refused with a problem.

use std::any::Any;
use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};
use std::time::Instant;

use access::Access;
use axum::Router;
use axum::extract::{ConnectInfo, MatchedPath, Request};
use axum::http::header::{CACHE_CONTROL, ETAG, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use axum::routing::future::RouteFuture;
use base::Problem;
use compact_str::CompactString;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use net::problem::{Refused, quoted};
use tower_layer::{Layer, layer_fn};
use tower_service::Service;
use tracing::error;

use crate::ApiState;
use crate::authorization::{AuthorizationLayer, PortalGuard};
use crate::change_log::LoggedRequest;
use crate::compression;

/// The routes with the habits around them. Each layer is memory of every consumer that waits: there
/// are few, and none keeps a request that it has passed on.
pub(crate) fn keep(api: &ApiState, routes: Router) -> Router {
    let routes = routes.fallback(unknown_route).method_not_allowed_fallback(unknown_method);
    let guarded = match *api.shared.access {
        Access::Open => {
            let api = api.clone();
            routes.layer(layer_fn(move |routes| PortalGuard::new(api.clone(), routes)))
        }
        Access::Guarded(_) => {
            let api = api.clone();
            routes.layer(layer_fn(move |routes| AuthorizationLayer::new(api.clone(), routes)))
        }
    };
    let api = api.clone();
    guarded.layer(layer_fn(move |routes| RequestLayer { api: api.clone(), routes }))
}

/// Refuses while the store has failed: what is read then may not be what is durable.
pub(crate) fn only_with_a_store(
    api: ApiState,
) -> impl Layer<Route, Service = OnlyWithAStore> + Clone + Send + Sync + 'static {
    layer_fn(move |routes| OnlyWithAStore { api: api.clone(), routes })
}

#[derive(Clone)]
pub(crate) struct OnlyWithAStore {
    api: ApiState,
    routes: Route,
}

impl Service<Request> for OnlyWithAStore {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<RouteFuture<Infallible>, Ready<Result<Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.routes, cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match self.api.engine().failure() {
            None => Either::Left(self.routes.call(request)),
            Some(_) => {
                let refused = Refused(Problem::unavailable("the store has failed; /readyz says how"));
                Either::Right(ready(Ok(refused.into_response())))
            }
        }
    }
}

async fn unknown_route(method: Method, uri: Uri) -> Refused {
    let detail = format!("there is nothing to {method} at {}", quoted(uri.path()));
    Refused(Problem::unknown("unknown_route", detail))
}

/// The router adds `Allow` on the way out, which is all that OPTIONS asks for.
async fn unknown_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = format!("this route does not take {method}; the Allow header lists what it takes");
    Refused(Problem::new(405, "method_not_allowed", detail)).into_response()
}

/// Counts and times a request, decodes its body, throws away what it leaves of it, and answers it
/// when it panics.
#[derive(Clone)]
struct RequestLayer {
    api: ApiState,
    routes: Route,
}

impl Service<Request> for RequestLayer {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.routes, cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (api, began) = (self.api.clone(), Instant::now());
        let route = request.extensions().get::<MatchedPath>().cloned();
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
        // A copy: the URI would keep the buffer that the request was read into.
        let path = CompactString::from(request.uri().path());
        let asked = LoggedRequest { method: request.method().clone(), path, peer };
        let takes_gzip = asked.method != Method::HEAD && compression::is_accepted(request.headers());
        let decoded = api.shared.decoders.decoded(api.shared.body_drain.watching(request));
        let answering = decoded.map(|request| caught(self.routes.call(request)));
        async move {
            let mut response = match answering {
                Ok(answering) => answering.await.unwrap_or_else(|panic| panicked(&asked, &*panic)),
                Err(refused) => *refused,
            };
            if let Some(plain) = compression::plain(&mut response).filter(|_| takes_gzip) {
                response = compression::smaller(response, &plain);
            }
            let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
            api.shared.metrics.answered(&asked.method, route, response.status(), began.elapsed());
            api.shared.change_log.answered(&asked, route, &response);
            Ok(for_its_caller_alone(&asked.path, response))
        }
        .boxed()
    }
}

/// What is told of devices is for whoever asked: no cache keeps it, and no browser takes it for
/// something else than it says. What has a tag may be kept by its caller, and is asked for again;
/// what was made may show a secret.
fn for_its_caller_alone(path: &str, mut response: Response) -> Response {
    if path.starts_with("/v1/") {
        let is_made = response.status() == StatusCode::CREATED;
        let headers = response.headers_mut();
        let is_kept = headers.contains_key(ETAG) && !is_made;
        let kept = if is_kept { "private, no-cache" } else { "no-store" };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

fn panicked(LoggedRequest { method, path, .. }: &LoggedRequest, panic: &(dyn Any + Send)) -> Response {
    error!(%method, path = &**path, panic = message(panic), "a request panicked");
    let detail = "the server failed at this request; its log says where";
    Refused(Problem::new(500, "internal_error", detail)).into_response()
}

/// What is answered, or the panic that came instead.
fn caught(
    answering: RouteFuture<Infallible>,
) -> impl Future<Output = Result<Response, Box<dyn Any + Send>>> + Send {
    // In a box, so that it is there once and not at each stage of its way.
    let mut answering = Box::pin(answering);
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(cx))) {
        Ok(poll) => poll.map(|Ok(response)| Ok(response)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("of an unknown kind")
}
