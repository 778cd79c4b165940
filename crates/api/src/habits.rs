//! What holds for every route: it is counted and timed, a panic fails one request and no more, and whatever is refused is
//! refused with a problem.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use base::Problem;
use tracing::error;

use crate::ApiState;
use crate::access;
use crate::leftover::read_to_the_end;
use crate::problem::{Refused, quoted};

/// The routes with the habits around them, the outermost last.
pub(crate) fn keep(api: &ApiState, routes: Router) -> Router {
    routes
        .fallback(unknown_route)
        .layer(from_fn(explain_method))
        .layer(from_fn_with_state(api.clone(), access::keep_out))
        .layer(from_fn_with_state(api.clone(), read_to_the_end))
        .layer(from_fn(catch_panic))
        .layer(from_fn_with_state(api.clone(), count))
}

/// Refuses while the store has failed: what is read then may not be what is durable.
pub(crate) async fn only_with_a_store(
    State(api): State<ApiState>,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    match api.engine().failure() {
        None => Ok(next.run(request).await),
        Some(_) => Err(Problem::unavailable("the store has failed; /readyz says how").into()),
    }
}

async fn unknown_route(method: Method, uri: Uri) -> Refused {
    let detail = format!("there is nothing to {method} at {}", quoted(uri.path()));
    Refused(Problem::unknown("unknown_route", detail))
}

/// The router answers 405 without a body, and adds `Allow` on the way out.
async fn explain_method(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let response = next.run(request).await;
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    let detail = format!("this route does not take {method}; the Allow header lists what it takes");
    Refused(Problem::new(405, "method_not_allowed", detail)).into_response()
}

async fn count(State(api): State<ApiState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let (method, began) = (request.method().clone(), Instant::now());
    let response = next.run(request).await;
    let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
    api.shared.figures.answered(&method, route, response.status(), began.elapsed());
    response
}

async fn catch_panic(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut answering = Box::pin(next.run(request));
    let caught = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    });
    match caught.await {
        Ok(response) => response,
        Err(panic) => {
            error!(%method, path, panic = message(&*panic), "a request panicked");
            let detail = "the server failed at this request; its log says where";
            Refused(Problem::new(500, "internal_error", detail)).into_response()
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("of an unknown kind")
}
