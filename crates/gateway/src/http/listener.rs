//! Takes HTTP connections in, serves a router on them, and sees them out when the server stops.
//!
//! Where there is no room, whoever moves least makes room for a newcomer; where everybody is quick, the newcomer is answered
//! by another router, which says so. A caller that takes too long - to agree on TLS, for the head of a request, to take an
//! answer - is cut off; how long a body may take is for whoever reads it to say.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tower_service::Service;
use tracing::{debug, warn};

use super::moving::Moving;
use crate::figures::{ByWord, Counted};
use crate::listen::crowd::{Crowd, Guest};
use crate::listen::patience::Patience;
use crate::listen::room::{OpenFiles, Place, Room};
use crate::listen::stopping::stopped;
use crate::listen::tls::{self, HANDSHAKES_MAX, TlsSource};

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1_024;
/// Most that one connection reads ahead, in bytes; a head has to fit in.
const READ_BYTES_MAX: usize = 64 * 1_024;
/// Connections beyond all others that are told that there are too many.
const REFUSING_MAX: usize = 64;
/// An answer up to this size is as good as sent when it is made: the sockets take it.
const SMALL_ANSWER_BYTES: u64 = 64 * 1_024;

const _: () = assert!(HEAD_BYTES_MAX <= READ_BYTES_MAX, "a head is read whole before it is looked at");

/// What a listener and its connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at a time. Beyond it the slowest make room, and where none is slow the newcomer is told so.
    pub connections_max: usize,
    /// How long the head of a request may take, from the connection's start or the answer before.
    pub head_timeout: Duration,
    /// How long a caller may take nothing of an answer.
    pub stall_max: Duration,
    /// How long a caller and the server may take to agree on TLS.
    pub handshake_timeout: Duration,
    /// How long requests under way may take after the server was asked to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            head_timeout: Duration::from_secs(60),
            stall_max: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(10),
        }
    }
}

/// A bound HTTP listener.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    app: Router,
    busy: Router,
    limits: Limits,
    tls: Option<TlsSource>,
    files: OpenFiles,
    figures: Figures,
}

#[derive(Clone, Debug)]
struct Figures {
    connections: Gauge,
    connects: ByWord,
    accept_errors: Counter,
    shown_out: Counter,
    handshakes: ByWord,
}

impl HttpListener {
    /// Serves `app`, and `busy` to whom there is no room for, one request each.
    #[must_use]
    pub fn new(listener: TcpListener, app: Router, busy: Router, limits: Limits) -> Self {
        let figures = Figures {
            connections: Gauge::default(),
            connects: ByWord::new("result"),
            accept_errors: Counter::default(),
            shown_out: Counter::default(),
            handshakes: ByWord::new("result"),
        };
        Self { listener, app, busy, limits, tls: None, files: OpenFiles::default(), figures }
    }

    /// Speaks TLS only, with the certificate that the source has when a connection comes.
    #[must_use]
    pub fn with_tls(mut self, source: TlsSource) -> Self {
        self.tls = Some(source);
        self
    }

    /// Takes the files of its connections from these.
    #[must_use]
    pub fn with_open_files(mut self, files: OpenFiles) -> Self {
        self.files = files;
        self
    }

    /// Puts its figures into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let Figures { connections, connects, accept_errors, shown_out, handshakes } = &self.figures;
        registry.register("fieldpost_http_connections", "Connections now", connections.clone());
        connects.register(
            registry,
            "fieldpost_http_connects",
            "Connections by what came of them: accepted, busy, dropped",
        );
        registry.register(
            "fieldpost_http_accept_errors",
            "Connections that could not be accepted",
            accept_errors.clone(),
        );
        registry.register(
            "fieldpost_http_shown_out",
            "Slow connections that were closed because another needed their place",
            shown_out.clone(),
        );
        if self.tls.is_some() {
            handshakes.register(
                registry,
                "fieldpost_http_tls_handshakes",
                "HTTP connections that began with TLS, by result: agreed, failed, too_slow",
            );
        }
    }

    /// Serves until `stop` is true, or its sender is gone; then gives the requests under way some time, and cuts what is left.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
        let mut door = Door::of(&self);
        loop {
            let taken = tokio::select! {
                taken = door.next(&self.listener) => taken,
                Some(_) = connections.join_next() => continue,
                () = stopped(&mut stop) => break,
            };
            let Some((stream, turn)) = taken else {
                self.figures.accept_errors.inc();
                continue;
            };
            let Some(seat) = door.seat().await else {
                // Closed without a word: answering would take room that is not there.
                self.figures.connects.count("dropped");
                continue;
            };
            self.figures.connects.count(seat.label());
            let connection = Connection {
                app: if matches!(seat, Seat::Served(_)) { &self.app } else { &self.busy }.clone(),
                http: http(&seat, &self.limits),
                seat,
                limits: self.limits,
                watcher: graceful.watcher(),
                figures: self.figures.clone(),
            };
            let tls = self.tls.as_ref().map(|source| source.load_full());
            connections.spawn(connection.greet(stream, tls, turn, stop.clone()));
        }
        drop(self.listener);
        if timeout(self.limits.drain, graceful.shutdown()).await.is_err() {
            warn!(connections = connections.len(), "HTTP connections that did not finish are cut");
        }
        connections.shutdown().await;
    }
}

fn http(seat: &Seat, limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout);
    http.max_header_size(HEAD_BYTES_MAX).max_buf_size(READ_BYTES_MAX);
    http.keep_alive(matches!(seat, Seat::Served(_)));
    http
}

/// Where connections come in.
struct Door {
    patience: Patience,
    serving: Arc<Crowd>,
    refusing: Arc<Room>,
    /// For those who agree on TLS.
    handshakes: Option<Arc<Crowd>>,
}

/// A connection's seat, held as long as it lives.
enum Seat {
    Served(Guest),
    Refused(#[expect(dead_code, reason = "held while the connection lives")] Place),
}

impl Seat {
    fn label(&self) -> &'static str {
        match self {
            Self::Served(_) => "accepted",
            Self::Refused(_) => "busy",
        }
    }
}

impl Door {
    fn of(listener: &HttpListener) -> Self {
        let serving = Room::within(listener.limits.connections_max, listener.files.clone());
        Self {
            patience: Patience::new("HTTP"),
            serving: Arc::new(Crowd::new(serving)),
            refusing: Arc::new(Room::new(REFUSING_MAX)),
            handshakes: listener.tls.as_ref().map(|_| Arc::new(Crowd::new(Room::new(HANDSHAKES_MAX)))),
        }
    }

    /// The next connection, with its turn to agree on TLS; `None` when there was none to be had.
    async fn next(&mut self, listener: &TcpListener) -> Option<(TcpStream, Option<Guest>)> {
        let turn = match &self.handshakes {
            Some(handshakes) => Some(handshakes.enter_in_turn().await),
            None => None,
        };
        let (stream, _) = self.patience.accept(listener).await?;
        Some((stream, turn))
    }

    async fn seat(&self) -> Option<Seat> {
        match self.serving.enter().await {
            Some(guest) => Some(Seat::Served(guest)),
            None => self.refusing.take().map(Seat::Refused),
        }
    }
}

/// What a connection needs to be served.
struct Connection {
    http: http1::Builder,
    app: Router,
    seat: Seat,
    limits: Limits,
    watcher: Watcher,
    figures: Figures,
}

impl Connection {
    async fn greet(
        self,
        stream: TcpStream,
        tls: Option<Arc<ServerConfig>>,
        turn: Option<Guest>,
        mut stop: watch::Receiver<bool>,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "a connection broke before it began");
            return;
        }
        let (Some(config), Some(turn)) = (tls, turn) else { return self.speak(stream).await };
        let agreed = tokio::select! {
            agreed = self.agree(stream, config) => agreed,
            () = turn.shown_out() => return self.figures.handshakes.count("too_slow"),
            () = stopped(&mut stop) => return,
        };
        drop(turn);
        if let Some(stream) = agreed {
            // Boxed so that a connection without TLS takes no room for it.
            Box::pin(self.speak(stream)).await;
        }
    }

    /// Agrees on TLS with a caller, if that takes no longer than it may.
    async fn agree(&self, stream: TcpStream, config: Arc<ServerConfig>) -> Option<TlsStream<TcpStream>> {
        let handshake = timeout(self.limits.handshake_timeout, tls::handshake(stream, config));
        let (result, stream) = match handshake.await {
            Ok(Ok(stream)) => ("agreed", Some(stream)),
            Ok(Err(tls::Disagreed)) => ("failed", None),
            Err(_) => ("too_slow", None),
        };
        self.figures.handshakes.count(result);
        stream
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let Self { http, app, seat, limits, watcher, figures } = self;
        let _counted = Counted::new(&figures.connections);
        match seat {
            Seat::Refused(_) => {
                let io = TokioIo::new(Moving::new(stream, limits.stall_max, None));
                let service = service_fn(move |request| app.clone().call(request));
                ended(watcher.watch(http.serve_connection(io, service)).await);
            }
            Seat::Served(guest) => {
                let guest = Arc::new(guest);
                let io = TokioIo::new(Moving::new(stream, limits.stall_max, Some(Arc::clone(&guest))));
                let service = service_fn({
                    let guest = Arc::clone(&guest);
                    move |request| answer(app.clone(), request, Arc::clone(&guest))
                });
                tokio::select! {
                    result = watcher.watch(http.serve_connection(io, service)) => ended(result),
                    () = guest.shown_out() => {
                        figures.shown_out.inc();
                        debug!("a slow HTTP connection makes room for another");
                    }
                }
            }
        }
    }
}

fn ended(result: Result<(), hyper::Error>) {
    if let Err(error) = result {
        debug!(%error, "an HTTP connection broke");
    }
}

async fn answer(
    mut app: Router,
    request: Request<Incoming>,
    guest: Arc<Guest>,
) -> Result<Response, Infallible> {
    guest.begins();
    let paused = Paused(guest);
    let response = app.call(request).await?;
    if response.body().size_hint().upper().is_some_and(|bytes| bytes <= SMALL_ANSWER_BYTES) {
        return Ok(response);
    }
    // The request lasts until its answer is sent or given up.
    Ok(response.map(|body| {
        Body::new(body.map_err(move |error| {
            let _paused = &paused;
            error
        }))
    }))
}

/// The request is over when this is dropped.
struct Paused(Arc<Guest>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.pauses();
    }
}
