//! Serves a router over HTTP on the connections of a listener, and sees requests out when the
//! server stops.
//!
//! For whom there is no room, another router says so. A caller that takes too long for the head of
//! a request is cut off. How long a body may take is for whoever reads it to say. Who stays where
//! there is no room is not known here.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use base::address;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_layer::Layer;
use tower_service::Service;
use tracing::debug;

use super::answer_pace::AnswerPace;
use super::large_answers::{AnsweredRequest, LargeAnswers};
use super::large_requests::LargeRequests;
use super::web::WebAccess;
use crate::detach::Detaching;
use crate::listen::{Listener, OpenFiles, PooledConnection, Protocol, TlsSource, stopped};

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1_024;
/// Most that one connection reads ahead, in bytes; a head has to fit in.
const READ_BYTES_MAX: usize = 64 * 1_024;
/// How long the head of a request may take, from the connection's start or the answer before.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

const _: () = assert!(HEAD_BYTES_MAX <= READ_BYTES_MAX, "a head is read whole before it is looked at");

/// A bound HTTP listener.
#[derive(Debug)]
pub struct HttpListener<A> {
    arrivals: Listener,
    app: A,
    busy: Router,
    web: WebAccess,
    answers: LargeAnswers,
}

impl<A> HttpListener<A>
where
    A: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    /// Serves `app` on so many connections at a time, and `busy` to whom there is no room for, one
    /// request each. Of web pages, only those that `web` lets in get either.
    #[must_use]
    pub fn new(listener: TcpListener, app: A, busy: Router, connections_max: usize, web: WebAccess) -> Self {
        Self {
            arrivals: Listener::new(listener, "http", connections_max),
            app,
            busy,
            web,
            answers: LargeAnswers::default(),
        }
    }

    /// Speaks TLS only, with the certificate that the source has when a connection comes.
    #[must_use]
    pub fn with_tls(self, source: TlsSource) -> Self {
        Self { arrivals: self.arrivals.with_tls(source, None), web: self.web.over_tls(), ..self }
    }

    /// Takes the files of its connections from these.
    #[must_use]
    pub fn with_open_files(self, files: OpenFiles) -> Self {
        Self { arrivals: self.arrivals.with_open_files(files), ..self }
    }

    /// Counts its answers among these.
    #[must_use]
    pub fn with_answers(self, answers: LargeAnswers) -> Self {
        Self { answers, ..self }
    }

    /// Follows how many connections there are.
    #[must_use]
    pub fn connections(&self) -> Gauge {
        self.arrivals.connections()
    }

    /// Puts its metrics into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.arrivals.register_metrics(registry);
    }

    /// Serves until `stop` is true, or its sender is gone; then gives the requests under way some
    /// time, and cuts what is left.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let Self { arrivals, app, busy, web, answers } = self;
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        http.max_header_size(HEAD_BYTES_MAX).max_buf_size(READ_BYTES_MAX);
        arrivals.run(HttpProtocol { app, busy, web, answers, http, stop: stop.clone() }, stop).await;
    }
}

/// Speaks HTTP/1.1.
struct HttpProtocol<A> {
    app: A,
    busy: Router,
    web: WebAccess,
    answers: LargeAnswers,
    http: http1::Builder,
    stop: watch::Receiver<bool>,
}

impl<A> Protocol for HttpProtocol<A>
where
    A: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    const REJECTED_MAX: usize = 64;

    async fn serve<S>(&self, stream: S, pooled: Arc<PooledConnection>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, pace) = (address::sender(pooled.peer().ip()), &AnswerPace::default());
        let service = service_fn(|request: hyper::Request<Incoming>| {
            pooled.begins();
            let paused = Paused(Arc::clone(&pooled));
            let answered = AnsweredRequest { sender, is_safe: request.method().is_safe(), pace };
            let answering = self.answered(self.app.clone(), with_peer(request, Some(pooled.peer())));
            answering
                .map(move |Ok(response)| Ok::<_, Infallible>(self.answers.send(response, answered, paused)))
        });
        let connection = pin!(self.http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            () = self.see_out(connection) => {}
            () = pace.is_lost() => {
                self.answers.gives_up();
                debug!(peer = %pooled.peer(), "an answer was taken too slowly while others waited");
            }
        }
    }

    async fn reject<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let answer =
            |request: hyper::Request<Incoming>| self.answered(self.busy.clone(), with_peer(request, None));
        let service = service_fn(answer);
        let mut http = self.http.clone();
        let connection = pin!(http.keep_alive(false).serve_connection(TokioIo::new(stream), service));
        self.see_out(connection).await;
    }
}

impl<A> HttpProtocol<A> {
    /// What `app` answers, unless a foreign web page asks.
    fn answered<S>(&self, app: S, request: Request) -> Answering<S::Future>
    where
        S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
    {
        if let Some(refusal) = self.web.refusal(&request) {
            return Answering::Left(ready(Ok(refusal)));
        }
        let mut app = LargeRequests(app);
        match self.web.cors(&request) {
            None => Answering::Right(Either::Left(app.call(request))),
            Some(cors) => Answering::Right(Either::Right(cors.layer(app).call(request).boxed())),
        }
    }

    /// Serves a connection to its end; once the server stops, until the request under way is over.
    async fn see_out<S, V>(&self, mut connection: Pin<&mut http1::Connection<TokioIo<S>, V>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
        V: HttpService<Incoming, ResBody = Body, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let mut stop = self.stop.clone();
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "an HTTP connection broke");
        }
    }
}

/// An answer on its way: refused at once, given by the app, or given by it with what CORS adds.
type Answering<F> = Either<
    Ready<Result<Response, Infallible>>,
    Either<Either<F, Detaching<F>>, BoxFuture<'static, Result<Response, Infallible>>>,
>;

/// The request as the app takes it, with the address that it came from.
fn with_peer(request: hyper::Request<Incoming>, peer: Option<SocketAddr>) -> Request {
    let mut request = request.map(Body::new);
    if let Some(peer) = peer {
        request.extensions_mut().insert(ConnectInfo(peer));
    }
    request
}

/// The request lasts until its answer is sent or given up: it is over when this is dropped.
struct Paused(Arc<PooledConnection>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.pauses();
    }
}
