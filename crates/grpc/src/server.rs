//! Speaks HTTP/2 on a connection and gives each call to its service, once its caller is known.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base::Problem;
use engine::Engine;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tonic::Status;
use tonic::body::Body;
use tonic_health::pb::health_server::HealthServer;
use tower_service::Service as _;
use tracing::debug;

use crate::MESSAGE_BYTES_MAX;
use crate::access::{Access, Admitted, Peer};
use crate::calls::{Answering, Call, HealthPlaces, Method, Service};
use crate::figures::{Counted, Figures};
use crate::health::Health;
use crate::jobs::Jobs;
use crate::proto::jobs_server::JobsServer;
use crate::proto::reports_server::ReportsServer;
use crate::receiving::{ConnectionPlaces, Places};
use crate::reports::{ReadReport, Reports};
use crate::status::status;
use crate::stopping::Stop;

/// Calls of one connection that may be under way at a time.
const CALLS_MAX: u32 = 256;
/// What a caller may send of a call, and of all calls of a connection, before it is read, in bytes.
/// Calls that wait for a place are not read: all of them together must leave room for one that is.
const CALL_WINDOW_BYTES: u32 = 64 * 1_024;
const CONNECTION_WINDOW_BYTES: u32 = CALLS_MAX * CALL_WINDOW_BYTES;
/// The health service, which needs no token: calls of a connection and of all of them at a time,
/// and the largest message, in bytes.
const HEALTH_CALLS_OF_CONNECTION_MAX: usize = 16;
const HEALTH_CALLS_MAX: usize = 1_024;
const HEALTH_MESSAGE_BYTES_MAX: usize = 1_024;
/// What is made of the answer to a call before the caller takes it, in bytes.
const SEND_BYTES_MAX: usize = 512 * 1_024;
/// Largest metadata of a call, in bytes.
const METADATA_BYTES_MAX: u32 = 32 * 1_024;
/// After so long without a word a caller is asked whether it is there, and may take so long to say so.
const ASK_AFTER: Duration = Duration::from_secs(30);
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The services, for any number of connections. Cheap to clone.
#[derive(Clone)]
pub struct Grpc {
    engine: Engine,
    access: Arc<dyn Access>,
    jobs: JobsServer<Jobs>,
    reports: ReportsServer<Reports>,
    health: HealthServer<Health>,
    places: Places,
    health_calls: Arc<Semaphore>,
    figures: Figures,
    stop: Stop,
}

/// Whose connection it is, and what is left of its share.
#[derive(Clone)]
struct Connection {
    peer: SocketAddr,
    places: ConnectionPlaces,
    health_calls: Arc<Semaphore>,
}

impl std::fmt::Debug for Grpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Grpc")
    }
}

impl Grpc {
    /// The services of `engine` for whom `access` lets in, until `stop` is true or its sender is gone.
    pub fn new(
        engine: &Engine,
        access: impl Access,
        read_report: ReadReport,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let (figures, stop) = (Figures::default(), Stop::new(stop));
        let jobs = Jobs::new(engine, stop.clone(), &figures);
        let reports = Reports::new(engine, read_report, stop.clone(), &figures);
        Self {
            engine: engine.clone(),
            access: Arc::new(access),
            jobs: JobsServer::new(jobs).max_decoding_message_size(MESSAGE_BYTES_MAX),
            reports: ReportsServer::new(reports).max_decoding_message_size(MESSAGE_BYTES_MAX),
            health: HealthServer::new(Health::new(engine, stop.clone()))
                .max_decoding_message_size(HEALTH_MESSAGE_BYTES_MAX),
            places: Places::new(&figures),
            health_calls: Arc::new(Semaphore::new(HEALTH_CALLS_MAX)),
            figures,
            stop,
        }
    }

    /// Puts its figures into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.figures.register(registry);
    }

    /// Speaks on a connection of `peer` until it ends; once the server stops, until the calls under
    /// way are over.
    pub async fn speak<S>(&self, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new()).keep_alive_interval(ASK_AFTER).keep_alive_timeout(ANSWER_WITHIN);
        http.max_concurrent_streams(CALLS_MAX).max_header_list_size(METADATA_BYTES_MAX);
        http.initial_stream_window_size(CALL_WINDOW_BYTES);
        http.initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        http.max_send_buf_size(SEND_BYTES_MAX);
        let of_connection = Connection {
            peer,
            places: self.places.of_connection(),
            health_calls: Arc::new(Semaphore::new(HEALTH_CALLS_OF_CONNECTION_MAX)),
        };
        let service = service_fn(|request| {
            let (grpc, connection) = (self.clone(), of_connection.clone());
            async move { Ok::<_, Infallible>(grpc.answer(request, connection).await) }
        });
        let mut stop = self.stop.clone();
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.told() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "a gRPC connection broke");
        }
    }

    /// Nothing of what a call sends is read before it is known whose call it is and that there is
    /// room for it.
    async fn answer(mut self, request: Request<Incoming>, connection: Connection) -> Response<Answering> {
        let Some(method) = Method::at(request.uri().path()) else {
            let unknown = Method::unknown();
            return Call::begins(unknown, connection.peer, &self.figures)
                .refused(Status::unimplemented("there is no such method"));
        };
        let mut call = Call::begins(method, connection.peer, &self.figures);
        let (mut parts, body) = request.into_parts();
        if !is_grpc(&parts.headers) {
            return call.refused(Status::invalid_argument("the content type is not application/grpc"));
        }
        let admitted = match method.service {
            Service::Health => self.admit_to_health(&mut call, &connection),
            Service::Jobs | Service::Reports => self.admit(&mut call, &mut parts).await,
        };
        if let Err(problem) = admitted {
            return call.refused(status(&problem));
        }
        parts.extensions.insert(Peer(connection.peer));
        let request = Request::from_parts(parts, Body::new(connection.places.guard(body, method.sends())));
        let Ok(response) = match method.service {
            Service::Jobs => self.jobs.call(request).await,
            Service::Reports => self.reports.call(request).await,
            Service::Health => self.health.call(request).await,
        };
        call.answered(response)
    }

    async fn admit(&self, call: &mut Call, parts: &mut Parts) -> Result<(), Problem> {
        let caller = self.access.admit(&parts.headers).await?;
        call.is_of(Arc::clone(&caller));
        parts.extensions.insert(Admitted(caller));
        self.not_now().map_or(Ok(()), Err)
    }

    /// Health is told to anybody, so nobody may ask for much of it.
    fn admit_to_health(&self, call: &mut Call, connection: &Connection) -> Result<(), Problem> {
        let place = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_owned().ok();
        let places = place(&connection.health_calls).zip(place(&self.health_calls));
        let Some((of_connection, of_all)) = places else {
            let detail = "too many calls of the health service are under way; end some or ask later";
            return Err(Problem::new(429, "too_many_requests", detail));
        };
        call.takes(HealthPlaces {
            _places: [of_connection, of_all],
            _counted: Counted::new(&self.figures.health_calls),
        });
        Ok(())
    }

    /// A call that comes while the server stops would be cut off; what is read of a failed store may not be durable.
    fn not_now(&self) -> Option<Problem> {
        if self.stop.is_told() {
            return Some(Problem::unavailable("the server is stopping"));
        }
        self.engine.failure().map(|_| Problem::unavailable("the store has failed; /readyz says how"))
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}
