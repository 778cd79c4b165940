//! The HTTP listener before and after the API is there: until the engine runs it answers health questions and 503.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::any;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_service::Service;
use tracing::error;

/// What is behind the HTTP listener.
#[derive(Debug, Default)]
pub(super) struct Front {
    api: OnceLock<Router>,
    waits_for: RwLock<Option<String>>,
}

impl Front {
    /// The API answers from now on.
    pub(super) fn open(&self, api: Router) {
        // A front is opened once; a second call would find the first API in place.
        let _already_open = self.api.set(api);
    }

    /// The start waits: `/readyz` says for what.
    pub(super) fn waits_for(&self, what: String) {
        *self.waits_for.write().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }

    fn starting(&self, path: &str) -> Response {
        let waits_for = self.waits_for.read().unwrap_or_else(PoisonError::into_inner).clone();
        let detail = waits_for.unwrap_or_else(|| "the server is starting".to_owned());
        if path == "/healthz" {
            return Response::new(Body::from("alive\n"));
        }
        let problem = serde_json::json!({
            "type": "about:blank", "title": "Service Unavailable", "status": 503, "code": "starting", "detail": detail,
        });
        let mut response = Response::new(Body::from(problem.to_string()));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/problem+json"));
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        response
    }
}

/// Serves until told to stop, then finishes the requests under way.
pub(super) async fn serve(listener: TcpListener, front: Arc<Front>, mut stop: watch::Receiver<bool>) {
    let app = Router::new().fallback(any(answer)).with_state(front);
    let stopped = async move {
        // A sender that has gone means the same as one that says stop.
        let _gone = stop.wait_for(|stop| *stop).await;
    };
    if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(stopped).await {
        error!(%error, "the HTTP listener ended");
    }
}

async fn answer(State(front): State<Arc<Front>>, request: Request) -> Result<Response, Infallible> {
    match front.api.get() {
        Some(api) => api.clone().call(request).await,
        None => Ok(front.starting(request.uri().path())),
    }
}
