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
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;
use tracing::{Instrument, debug, debug_span, warn};

use super::tls::TlsSource;

/// Connections at most; more wait to be taken.
const CONNECTIONS_MAX: usize = 16_384;
/// How long the head of a request may take, from the connection's start or the answer before.
const HEADER_PATIENCE: Duration = Duration::from_secs(60);
/// How long a caller and the server may take to agree on TLS.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// How long requests under way may take after the server was asked to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// Pause after a connection that could not be taken.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What is behind the HTTP listener.
#[derive(Debug, Default)]
pub(super) struct Front {
    api: OnceLock<Router>,
    waits_for: RwLock<Option<String>>,
    handshakes: Family<Handshake, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Handshake {
    result: &'static str,
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

    /// Puts `fieldpost_http_tls_*` into the registry.
    pub(super) fn register_metrics(&self, registry: &mut Registry) {
        registry.register(
            "fieldpost_http_tls_handshakes",
            "HTTP connections that began with TLS, by result: agreed, failed, too_slow",
            self.handshakes.clone(),
        );
    }

    fn shook_hands(&self, result: &'static str) {
        self.handshakes.get_or_create(&Handshake { result }).inc();
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
///
/// With `tls` it speaks TLS only, with the certificate that is there when a connection begins.
pub(super) async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    tls: Option<TlsSource>,
    mut stop: watch::Receiver<bool>,
) {
    let app = Router::new().fallback(any(answer)).with_state(Arc::clone(&front));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    loop {
        let (stream, place) = tokio::select! {
            taken = accept(&listener, &places) => taken,
            Some(_) = connections.join_next() => continue,
            // A sender that has gone means the same as one that says stop.
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let connection =
            Connection { http: http.clone(), app: app.clone(), watcher: graceful.watcher(), _place: place };
        match &tls {
            None => drop(connections.spawn(connection.speak(stream))),
            Some(source) => {
                let agreed = agree(stream, source.load_full(), Arc::clone(&front), stop.clone());
                connections.spawn(async move {
                    if let Some(stream) = agreed.await {
                        connection.speak(stream).await;
                    }
                });
            }
        }
    }
    drop(listener);
    if timeout(DRAIN, graceful.shutdown()).await.is_err() {
        warn!(connections = connections.len(), "HTTP connections that did not finish are cut");
    }
    connections.shutdown().await;
}

/// What a connection needs to be served.
struct Connection {
    http: http1::Builder,
    app: Router,
    watcher: Watcher,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let service = TowerToHyperService::new(self.app);
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = self.watcher.watch(connection).await {
            debug!(%error, "an HTTP connection broke");
        }
    }
}

/// Agrees on TLS with a caller, if that takes no longer than it may and the server is not asked to stop meanwhile.
async fn agree(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    front: Arc<Front>,
    mut stop: watch::Receiver<bool>,
) -> Option<TlsStream<TcpStream>> {
    let agreed = tokio::select! {
        agreed = timeout(HANDSHAKE_PATIENCE, TlsAcceptor::from(config).accept(stream)) => agreed,
        _ = stop.wait_for(|stop| *stop) => return None,
    };
    match agreed {
        Ok(Ok(stream)) => {
            front.shook_hands("agreed");
            return Some(stream);
        }
        Ok(Err(error)) => {
            debug!(%error, "a caller and the server did not agree on TLS");
            front.shook_hands("failed");
        }
        Err(_) => front.shook_hands("too_slow"),
    }
    None
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
        Some(api) => {
            let span = debug_span!("http", method = %request.method(), path = request.uri().path());
            api.clone().call(request).instrument(span).await
        }
        None => Ok(front.starting(request.uri().path())),
    }
}
