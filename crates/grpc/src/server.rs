//! Speaks HTTP/2 on a connection and gives each call to its service, once its caller is known.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use access::Access;
use base::Problem;
use engine::Engine;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::http::WebAccess;
use net::listen::{PooledConnection, Protocol};
use net::memory_budget::MemoryBudget;
use net::metrics::Counted;
use net::shares::{SenderKey, SharedPool};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic_health::pb::health_server::HealthServer;
use tower_service::Service as _;
use tracing::debug;

use crate::callers::Peer;
use crate::calls::{Answering, Method, OngoingCall, Service, WatchPlace};
use crate::commands::CommandsService;
use crate::coordination::CoordinationService;
use crate::health::HealthService;
use crate::jobs::JobsService;
use crate::metrics::GrpcMetrics;
use crate::page_answer::CallTasks;
use crate::proto::commands_server::CommandsServer;
use crate::proto::coordination_server::CoordinationServer;
use crate::proto::jobs_server::JobsServer;
use crate::proto::reports_server::ReportsServer;
use crate::proto::rollouts_server::RolloutsServer;
use crate::proto::streams_server::StreamsServer;
use crate::proto::tasks_server::TasksServer;
use crate::receiving::{ConnectionPlaces, MessageMemory, until_answered};
use crate::reports::{ReadReport, Reports};
use crate::rollouts::RolloutsService;
use crate::status::status;
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;
use crate::streams::StreamsService;
use crate::tasks::TasksService;
use crate::watches::Watches;
use crate::{MESSAGE_BYTES_MAX, answers_in_flight};

/// Calls of one connection that may be under way at a time.
const CALLS_MAX: u32 = 256;
/// What a caller may send of a call before it is read, in bytes, and of all calls of a connection:
/// so many times that. Calls that wait for a place are not read: all of them together must leave
/// room for one that is.
const CALL_WINDOW_BYTES: u32 = 64 * 1_024;
/// The same of a connection that comes when there are so many with wide windows, or so many of its
/// address. So the memory of all windows is bounded by 256 MiB, and 1 MiB for each such connection.
const NARROW_WINDOW_BYTES: u32 = 4 * 1_024;
const WIDE_WINDOWS_MAX: usize = 16;
const WIDE_WINDOWS_OF_SENDER_MAX: usize = 8;
/// The largest message of the health service, which needs no token, in bytes.
const HEALTH_MESSAGE_BYTES_MAX: usize = 1_024;
/// Health checks under way: of all, of an address, and of a connection.
const CHECKS_MAX: usize = 1_024;
const CHECKS_OF_SENDER_MAX: usize = 128;
const CHECKS_OF_CONNECTION_MAX: usize = 16;
/// How long a health check may take from its head to its answer.
const CHECK_WITHIN: Duration = Duration::from_secs(10);
/// Watches of the health service by one connection.
const WATCHES_OF_CONNECTION_MAX: usize = 16;
/// What is made of the answer to a call before the caller takes it, in bytes.
const SEND_BYTES_MAX: usize = 512 * 1_024;
/// Largest metadata of a call, in bytes.
const METADATA_BYTES_MAX: u32 = 32 * 1_024;
/// After so long without a word a caller is asked whether it is there, and may take so long to say
/// so.
const ASK_AFTER: Duration = Duration::from_secs(30);
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The services, for any number of connections. Cheap to clone.
#[derive(Clone)]
pub struct Grpc {
    engine: Engine,
    access: Arc<Access>,
    web: Arc<WebAccess>,
    jobs: JobsServer<JobsService>,
    reports: ReportsServer<Reports>,
    commands: CommandsServer<CommandsService>,
    rollouts: RolloutsServer<RolloutsService>,
    tasks: TasksServer<TasksService>,
    streams: StreamsServer<StreamsService>,
    coordination: CoordinationServer<CoordinationService>,
    health: HealthServer<HealthService>,
    message_memory: MessageMemory,
    wide_windows: Arc<SharedPool>,
    checks: Arc<SharedPool>,
    watches: Arc<Watches>,
    metrics: GrpcMetrics,
    stop: StopSignal,
}

/// Whose connection it is, and what is left of its share.
#[derive(Clone)]
struct ConnectionContext {
    peer: SocketAddr,
    places: ConnectionPlaces,
    checks: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    pooled: Arc<PooledConnection>,
}

base::debug_as_name!(Grpc);

/// The answer of a service. A call that goes on without its caller leaves its line in the log too.
async fn answered(
    call: OngoingCall,
    answer: impl Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
) -> Response<Answering> {
    let answer = async move {
        let Ok(response) = answer.await;
        call.answered(answers_in_flight::counted(response))
    };
    until_answered(answer).await
}

impl Grpc {
    /// The services of `engine` for whom `access` and `web` let in, until `stop` is true or its
    /// sender is gone.
    pub fn new(
        engine: &Engine,
        access: Arc<Access>,
        web: WebAccess,
        memory: &MemoryBudget,
        read_report: ReadReport,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let (metrics, stop) = (GrpcMetrics::default(), StopSignal::new(stop));
        let reads = StoreReads::new(memory, &metrics);
        let jobs = JobsService::new(engine, reads.answers().clone(), stop.clone(), &metrics);
        let reports = Reports::new(engine, memory, read_report, stop.clone(), &metrics);
        let commands = CommandsService::new(engine, reads.clone(), stop.clone());
        let rollouts = RolloutsService::new(engine, reads.clone(), stop.clone(), &metrics);
        let tasks = TasksService::new(engine, reads.clone(), stop.clone(), &metrics);
        let coordination = CoordinationService::new(engine, (reads.clone(), memory), stop.clone(), &metrics);
        let streams = StreamsService::new(engine, (reads, memory), stop.clone(), &metrics);
        Self {
            engine: engine.clone(),
            access,
            web: Arc::new(web),
            jobs: JobsServer::new(jobs).max_decoding_message_size(MESSAGE_BYTES_MAX),
            reports: ReportsServer::new(reports).max_decoding_message_size(MESSAGE_BYTES_MAX),
            commands: CommandsServer::new(commands).max_decoding_message_size(MESSAGE_BYTES_MAX),
            rollouts: RolloutsServer::new(rollouts).max_decoding_message_size(MESSAGE_BYTES_MAX),
            tasks: TasksServer::new(tasks).max_decoding_message_size(MESSAGE_BYTES_MAX),
            streams: StreamsServer::new(streams).max_decoding_message_size(MESSAGE_BYTES_MAX),
            coordination: CoordinationServer::new(coordination)
                .max_decoding_message_size(crate::coordination::MESSAGE_BYTES_MAX),
            health: HealthServer::new(HealthService::new(engine, stop.clone()))
                .max_decoding_message_size(HEALTH_MESSAGE_BYTES_MAX),
            message_memory: MessageMemory::new(memory, &metrics),
            wide_windows: Arc::new(SharedPool::new(WIDE_WINDOWS_MAX, WIDE_WINDOWS_OF_SENDER_MAX)),
            checks: Arc::new(SharedPool::new(CHECKS_MAX, CHECKS_OF_SENDER_MAX)),
            watches: Arc::default(),
            metrics,
            stop,
        }
    }

    /// Puts its figures into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// How much a new connection may send of a call before it is read, in bytes.
    fn window(&self, address: IpAddr) -> (u32, Option<[OwnedSemaphorePermit; 2]>) {
        let wide = self.wide_windows.try_take(&SenderKey::of_address(address), 1).map(|(place, _)| place);
        (if wide.is_some() { CALL_WINDOW_BYTES } else { NARROW_WINDOW_BYTES }, wide)
    }

    /// Nothing of what a call sends is read before it is known whose call it is and that there is
    /// room for it.
    async fn answer(
        mut self,
        request: Request<Incoming>,
        connection: ConnectionContext,
    ) -> Response<Answering> {
        let Some(method) = Method::at(request.uri().path()) else {
            let unknown = Method::unknown();
            return OngoingCall::begins(unknown, connection.peer, &self.metrics)
                .refused(Status::unimplemented("there is no such method"));
        };
        let mut call = OngoingCall::begins(method, connection.peer, &self.metrics);
        if let Some(foreign) = self.web.refusal_of_call(request.uri(), request.headers()) {
            return call.refused(status(&foreign));
        }
        let (mut parts, body) = request.into_parts();
        if !is_grpc(&parts.headers) {
            return call.refused(Status::invalid_argument("the content type is not application/grpc"));
        }
        parts.extensions.insert(Peer(connection.peer));
        let sender = match method.service {
            Service::Health => SenderKey::of_address(connection.peer.ip()),
            Service::Jobs
            | Service::Reports
            | Service::Commands
            | Service::Rollouts
            | Service::Tasks
            | Service::Streams
            | Service::Coordination => {
                let caller = match self.access.admit(&parts.headers).await {
                    Ok(caller) => caller,
                    Err(not_admitted) => return call.not_admitted(&not_admitted),
                };
                connection.pooled.is_admitted();
                call.is_of(caller.clone());
                if let Some(problem) = self.not_now() {
                    return call.refused(status(&problem));
                }
                let sender = SenderKey::of_caller(caller.name(), connection.peer.ip());
                parts.extensions.insert(caller);
                sender
            }
        };
        let body = connection.places.guard(body, method.sends(), sender).into_body(&mut parts.extensions);
        let request = Request::from_parts(parts, body);
        match method.service {
            Service::Jobs => answered(call, self.jobs.call(request)).await,
            Service::Reports => answered(call, self.reports.call(request)).await,
            Service::Commands => answered(call, self.commands.call(request)).await,
            Service::Rollouts => answered(call, self.rollouts.call(request)).await,
            Service::Tasks => answered(call, self.tasks.call(request)).await,
            Service::Streams => answered(call, self.streams.call(request)).await,
            Service::Coordination => answered(call, self.coordination.call(request)).await,
            Service::Health if method.streams => self.watch_health(call, request, &connection).await,
            Service::Health => self.check_health(call, request, &connection).await,
        }
    }

    /// Health is told to anybody, so nobody may ask for much of it. Its place is free again when it
    /// is answered, taken or not: an answer is small.
    async fn check_health(
        &mut self,
        call: OngoingCall,
        request: Request<Body>,
        connection: &ConnectionContext,
    ) -> Response<Answering> {
        let of_connection = Arc::clone(&connection.checks).try_acquire_owned().ok();
        let Some(_places) =
            of_connection.zip(self.checks.try_take(&SenderKey::of_address(connection.peer.ip()), 1))
        else {
            return call.refused(status(&too_many("checks")));
        };
        let _counted = Counted::new(&self.metrics.health_calls);
        match timeout(CHECK_WITHIN, self.health.call(request)).await {
            Ok(Ok(response)) => call.answered(response),
            Err(_) => {
                let late = Problem::new(408, "body_too_slow", "the message of a check has to come at once");
                call.refused(status(&late))
            }
        }
    }

    /// A watch has its place until it is over, or until a newer one takes it.
    async fn watch_health(
        &mut self,
        mut call: OngoingCall,
        mut request: Request<Body>,
        connection: &ConnectionContext,
    ) -> Response<Answering> {
        let Ok(of_connection) = Arc::clone(&connection.watches).try_acquire_owned() else {
            return call.refused(status(&too_many("watches")));
        };
        let (watching, replaced) = self.watches.begin(connection.peer.ip());
        request.extensions_mut().insert(replaced);
        let counted = Counted::new(&self.metrics.health_calls);
        call.takes(WatchPlace { _of_connection: of_connection, _watching: watching, _counted: counted });
        let Ok(response) = self.health.call(request).await;
        call.answered(response)
    }

    /// A call that comes while the server stops would be cut off; what is read of a failed store
    /// may not be durable.
    fn not_now(&self) -> Option<Problem> {
        if self.stop.is_stopping() {
            return Some(Problem::unavailable("the server is stopping"));
        }
        self.engine.failure().map(|_| Problem::unavailable("the store has failed; /readyz says how"))
    }
}

impl Protocol for Grpc {
    /// Speaks until the connection ends; once the server stops, until the calls under way are over.
    async fn serve<S>(&self, stream: S, pooled: Arc<PooledConnection>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // Once a call of it was let in, a connection counts as one long request. It stays as long
        // as it moves, or while there is room.
        pooled.awaits_admission();
        let peer = pooled.peer();
        let mut http = http2::Builder::new(CallTasks::new(&self.metrics.slow_readers));
        http.timer(TokioTimer::new()).keep_alive_interval(ASK_AFTER).keep_alive_timeout(ANSWER_WITHIN);
        http.max_concurrent_streams(CALLS_MAX).max_header_list_size(METADATA_BYTES_MAX);
        let (window_bytes, _wide) = self.window(peer.ip());
        http.initial_stream_window_size(window_bytes);
        http.initial_connection_window_size(CALLS_MAX * window_bytes);
        http.max_send_buf_size(SEND_BYTES_MAX);
        let of_connection = ConnectionContext {
            peer,
            places: self.message_memory.of_connection(),
            checks: Arc::new(Semaphore::new(CHECKS_OF_CONNECTION_MAX)),
            watches: Arc::new(Semaphore::new(WATCHES_OF_CONNECTION_MAX)),
            pooled,
        };
        let service = service_fn(|request| {
            let (grpc, connection) = (self.clone(), of_connection.clone());
            async move { Ok::<_, Infallible>(grpc.answer(request, connection).await) }
        });
        let mut stop = self.stop.clone();
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.stopping() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "a gRPC connection broke");
        }
    }
}

fn too_many(what: &str) -> Problem {
    let detail = format!("too many {what} of the health service are under way");
    Problem::new(429, "too_many_requests", detail)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}
