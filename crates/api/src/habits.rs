//! What holds for every route: it is counted and timed, a panic fails one request and no more, and whatever is refused is
//! refused with a problem.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use base::Problem;
use tracing::error;

use crate::ApiState;
use crate::access::{self, Access};
use crate::problem::{Refused, quoted};

/// The routes with the habits around them. Each layer is memory of every consumer that waits, so there are few.
pub(crate) fn keep(api: &ApiState, routes: Router) -> Router {
    let routes = routes.fallback(unknown_route).method_not_allowed_fallback(unknown_method);
    let guarded = match api.shared.access {
        Access::Open => routes,
        Access::Guarded(_) => routes.layer(from_fn_with_state(api.clone(), access::keep_out)),
    };
    guarded.layer(from_fn_with_state(api.clone(), attend))
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

/// The router adds `Allow` on the way out.
async fn unknown_method(method: Method) -> Refused {
    let detail = format!("this route does not take {method}; the Allow header lists what it takes");
    Refused(Problem::new(405, "method_not_allowed", detail))
}

/// Counts and times a request, throws away what it leaves of its body, and answers it when it panics.
async fn attend(State(api): State<ApiState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let (method, uri, began) = (request.method().clone(), request.uri().clone(), Instant::now());
    let response = match caught(next.run(api.shared.leftovers.watching(request))).await {
        Ok(response) => response,
        Err(panic) => {
            error!(%method, path = uri.path(), panic = message(&*panic), "a request panicked");
            let detail = "the server failed at this request; its log says where";
            Refused(Problem::new(500, "internal_error", detail)).into_response()
        }
    };
    let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
    api.shared.figures.answered(&method, route, response.status(), began.elapsed());
    response
}

async fn caught<T>(answering: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut answering = pin!(answering);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("of an unknown kind")
}
