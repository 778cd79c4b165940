//! The HTTP listener before and after the API is there: until the engine runs it answers health questions and 503.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::any;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service;
use tracing::{debug, warn};

/// Connections at most; more wait to be taken.
const CONNECTIONS_MAX: usize = 16_384;
/// How long the head of a request may take, from the connection's start or the answer before.
const HEADER_PATIENCE: Duration = Duration::from_secs(60);
/// How long requests under way may take after the server was asked to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// Pause after a connection that could not be taken.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

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

/// Serves until told to stop, then gives the requests under way [`DRAIN`], and cuts what is left.
pub(super) async fn serve(listener: TcpListener, front: Arc<Front>, mut stop: watch::Receiver<bool>) {
    let app = Router::new().fallback(any(answer)).with_state(front);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    loop {
        let stream = tokio::select! {
            stream = accept(&listener, &places) => stream,
            Some(_) = connections.join_next() => continue,
            // A sender that has gone means the same as one that says stop.
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, place) = stream;
        let service = TowerToHyperService::new(app.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        connections.spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "an HTTP connection broke");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        warn!(connections = connections.len(), "HTTP connections that did not finish are cut");
    }
    connections.shutdown().await;
}

/// The next connection, once there is a place for it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    let place = Arc::clone(places).acquire_owned().await.expect("the places are never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%error, "a connection broke before it began");
                }
                return (stream, place);
            }
            // Out of open files, most likely: connections that end make room.
            Err(error) => {
                warn!(%error, "an HTTP connection cannot be taken");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn answer(State(front): State<Arc<Front>>, request: Request) -> Result<Response, Infallible> {
    match front.api.get() {
        Some(api) => api.clone().call(request).await,
        None => Ok(front.starting(request.uri().path())),
    }
}
