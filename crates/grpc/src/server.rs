//! Speaks HTTP/2 on a connection and gives each call to its service, once its caller is known.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base::Problem;
use engine::Engine;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tonic_health::pb::health_server::HealthServer;
use tower_service::Service as _;
use tracing::debug;

use crate::MESSAGE_BYTES_MAX;
use crate::access::{Access, Admitted};
use crate::calls::{Answering, Call, Method, Service};
use crate::figures::Figures;
use crate::health::Health;
use crate::jobs::Jobs;
use crate::large::Places;
use crate::proto::jobs_server::JobsServer;
use crate::proto::reports_server::ReportsServer;
use crate::reports::{ReadReport, Reports};
use crate::status::status;
use crate::stopping::Stop;

/// Calls of one connection that may be under way at a time.
const CALLS_MAX: u32 = 256;
/// What a caller may send of a call, and of all calls of a connection, before it is read, in bytes.
const CALL_WINDOW_BYTES: u32 = 1_024 * 1_024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1_024 * 1_024;
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
    figures: Figures,
    stop: Stop,
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
            health: HealthServer::new(Health::new(engine, stop.clone())),
            places: Places::new(&figures),
            figures,
            stop,
        }
    }

    /// Puts its figures into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.figures.register(registry);
    }

    /// Speaks on a connection until it ends; once the server stops, until the calls under way are over.
    pub async fn speak<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new()).keep_alive_interval(ASK_AFTER).keep_alive_timeout(ANSWER_WITHIN);
        http.max_concurrent_streams(CALLS_MAX).max_header_list_size(METADATA_BYTES_MAX);
        http.initial_stream_window_size(CALL_WINDOW_BYTES);
        http.initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        http.max_send_buf_size(SEND_BYTES_MAX);
        let service = service_fn(|request| {
            let grpc = self.clone();
            async move { Ok::<_, Infallible>(grpc.answer(request).await) }
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

    async fn answer(mut self, request: Request<Incoming>) -> Response<Answering> {
        let Some(method) = Method::at(request.uri().path()) else {
            let unknown = Method::unknown();
            return Call::begins(unknown, &self.figures)
                .refused(Status::unimplemented("there is no such method"));
        };
        let mut call = Call::begins(method, &self.figures);
        let (mut parts, body) = request.into_parts();
        if !is_grpc(&parts.headers) {
            return call.refused(Status::invalid_argument("the content type is not application/grpc"));
        }
        if method.service != Service::Health {
            match self.access.admit(&parts.headers).await {
                Ok(caller) => {
                    call.is_of(Arc::clone(&caller));
                    parts.extensions.insert(Admitted(caller));
                }
                Err(problem) => return call.refused(status(&problem)),
            }
            if let Some(problem) = self.not_now() {
                return call.refused(status(&problem));
            }
        }
        let request = Request::from_parts(parts, Body::new(self.places.guard(body)));
        let Ok(response) = match method.service {
            Service::Jobs => self.jobs.call(request).await,
            Service::Reports => self.reports.call(request).await,
            Service::Health => self.health.call(request).await,
        };
        call.answered(response)
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
