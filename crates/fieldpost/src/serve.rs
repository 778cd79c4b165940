//! A server's life: open the data directory, start the engine, open the edges, and on a signal
//! close them in reverse order.
//!
//! The HTTP listener is bound first and answers `/healthz` and `/readyz` all along; everything else
//! it answers 503 until the engine runs. The ready file is written once every listener accepts.

mod access;
mod amqp;
mod backups;
mod clock;
mod data_dir;
mod directory_mark;
mod edge;
mod free_space;
mod grpc;
mod host;
mod lmstfy;
mod mqtt;
mod notices;
mod open_files;
mod process;
mod readiness;
mod ready_file;
mod relay;
pub(crate) mod storages;
mod tls;

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use api::ApiState;
use base::locks::locked;
use base::{Clock, DeviceIdForm, Timestamp, WayIn};
use engine::Engine;
use net::http::{HttpListener, LargeAnswers, WebAccess};
use prometheus_client::registry::Registry;
use store::{BlockStorages, EmbeddedStore, Running, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info};

use crate::config::{Durability, InForce, ServerSettings, UnknownDeviceChoice};
use crate::program_pages::ProgramPages;
use edge::EdgeContext;
use host::ServerProcess;
use net::memory_budget::MemoryBudget;
use open_files::OpenFileShares;
use readiness::Readiness;
use ready_file::Addresses;
use tls::{Certificate, TlsSource};

/// Runs the server until SIGTERM or SIGINT.
pub(crate) async fn run(
    settings: ServerSettings,
    in_force: InForce,
    ready_file: Option<PathBuf>,
) -> ExitCode {
    let stop = watch::Sender::new(false);
    match serve(&settings, in_force, ready_file, &stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Why the server did not start, or did not stop well: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ServeFailure(String);

fn because<E: Display>(what: &str) -> impl FnOnce(E) -> ServeFailure {
    move |error| ServeFailure(format!("{what}: {error}"))
}

async fn serve(
    settings: &ServerSettings,
    in_force: InForce,
    ready_file: Option<PathBuf>,
    stop: &watch::Sender<bool>,
) -> Result<(), ServeFailure> {
    let program_pages = ProgramPages::at_start();
    let mut signals = StopSignals::listen()?;
    let shares = open_files::share(settings);
    let http = bind("http.listen", settings.http.listen)?;
    if let Some(file) = &ready_file {
        // Where another server has the address or the directory, the file is that one's.
        data_dir::check_free(settings)?;
        ready_file::remove(file)
            .map_err(because(&format!("the ready file {} cannot be removed", file.display())))?;
    }
    let mut addresses = Addresses::of(http.local_addr().map_err(because("http.listen"))?);
    let mut tasks = JoinSet::new();
    let bootstrap = Bootstrap::open(settings, in_force, http, (shares, stop), &mut tasks)?;

    info!(http = %addresses.http, data_dir = %settings.data_dir.display(), "starting");
    let store = data_dir::open(settings)?;
    let directory_mark = directory_mark::read_or_draw(&settings.data_dir)?;
    let block_storages = storages::open(&settings.storages, &settings.data_dir).map_err(ServeFailure)?;
    let clock = tokio::select! {
        clock = clock::start(store.recorded_now(), &bootstrap.readiness) => Some(clock.map_err(ServeFailure)?),
        () = signals.any() => None,
    };
    if let Some(clock) = clock {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let threads =
            Running::start(Arc::clone(&store), Arc::clone(&clock)).map_err(because("no threads"))?;
        let engine = Engine::start(
            engine_settings(settings, block_storages, directory_mark),
            Arc::<EmbeddedStore>::clone(&store),
            clock,
        )
        .await
        .map_err(because("the data cannot be loaded"))?;
        engine.name_places_by(settings.place.clone());
        let mut edges = JoinSet::new();
        open_edges(settings, bootstrap, (&engine, &store), &mut addresses, &mut edges, stop).await?;
        program_pages.release();
        tell_ready(&addresses, settings, ready_file.as_deref())?;
        let broken = tokio::select! {
            () = signals.any() => None,
            Some(ended) = edges.join_next() => Some(ended),
        };
        info!("stopping: no new work is taken, what was accepted is finished");
        stop.send_replace(true);
        while edges.join_next().await.is_some() {}
        engine.stop().await;
        threads.stop();
        if let Some(ended) = broken {
            return Err(ServeFailure(format!("a part of the server ended by itself: {ended:?}")));
        }
        if let Some(failure) = engine.failure() {
            return Err(ServeFailure(format!("the store had failed: {failure}")));
        }
        // the next start has nothing to apply again, and sees when any of the log is missing
        store.checkpoint_all().map_err(because("the last checkpoint failed"))?;
    }
    stop.send_replace(true);
    while tasks.join_next().await.is_some() {}
    info!("stopped");
    Ok(())
}

/// Names every listener that accepts, in the ready file and in the log.
fn tell_ready(
    addresses: &Addresses,
    settings: &ServerSettings,
    ready_file: Option<&Path>,
) -> Result<(), ServeFailure> {
    if let Some(file) = ready_file {
        ready_file::write(file, addresses)
            .map_err(because(&format!("the ready file {} cannot be written", file.display())))?;
    }
    // Without "..": who adds a listener tells it here too.
    let Addresses { http, mqtt, grpc, lmstfy, lmstfy_admin } = *addresses;
    let [mqtt, grpc, lmstfy, lmstfy_admin] =
        [mqtt, grpc, lmstfy, lmstfy_admin].map(|address| address.map(tracing::field::display));
    info!(%http, mqtt, grpc, lmstfy, lmstfy_admin, data_dir = %settings.data_dir.display(), "ready");
    Ok(())
}

/// What is there before the engine runs: the HTTP listener, and what is told by it.
struct Bootstrap {
    readiness: Arc<Readiness>,
    tls: Option<TlsSource>,
    /// When the certificate expires.
    expires: Option<watch::Receiver<Timestamp>>,
    shares: OpenFileShares,
    /// Of every HTTP listener, as `answers`.
    web: WebAccess,
    answers: LargeAnswers,
    memory: MemoryBudget,
    metrics: Registry,
    host: ServerProcess,
}

impl Bootstrap {
    fn open(
        settings: &ServerSettings,
        in_force: InForce,
        http: TcpListener,
        (shares, stop): (OpenFileShares, &watch::Sender<bool>),
        tasks: &mut JoinSet<()>,
    ) -> Result<Self, ServeFailure> {
        access::tell(settings);
        let hangups = signal(SignalKind::hangup()).map_err(because("signals cannot be listened for"))?;
        let certificate = settings.tls.as_ref().map(Certificate::load).transpose();
        let certificate =
            certificate.map_err(|unusable| ServeFailure(format!("{}: {unusable}", unusable.key())))?;
        let tls = certificate.as_ref().map(Certificate::source);
        let expires = certificate.as_ref().map(Certificate::expires);
        let (readiness, mut metrics) = (Arc::new(Readiness::default()), Registry::default());
        process::register(&mut metrics, clock::built_at());
        if let Some(certificate) = &certificate {
            certificate.register_metrics(&mut metrics);
        }
        let (app, busy) = readiness::apps(&readiness);
        let memory = MemoryBudget::default();
        let (web, answers) = (access::web_access(settings), LargeAnswers::new(&memory));
        memory.register_metrics(&mut metrics);
        web.register_metrics(&mut metrics);
        answers.register_metrics(&mut metrics);
        let mut listener = HttpListener::new(http, app, busy, shares.http, web.clone());
        listener = listener.with_answers(answers.clone());
        listener = listener.with_open_files(shares.files.clone());
        if let Some(source) = &tls {
            listener = listener.with_tls(Arc::clone(source));
        }
        listener.register_metrics(&mut metrics);
        let host = ServerProcess::of(settings, in_force, &shares, listener.connections());
        tasks.spawn(listener.run(stop.subscribe()));
        tasks.spawn(tls::follow(certificate, hangups, stop.subscribe()));
        Ok(Self { readiness, tls, expires, shares, web, answers, memory, metrics, host })
    }
}

async fn open_edges(
    settings: &ServerSettings,
    bootstrap: Bootstrap,
    (engine, store): (&Engine, &Arc<EmbeddedStore>),
    addresses: &mut Addresses,
    edges: &mut JoinSet<()>,
    stop: &watch::Sender<bool>,
) -> Result<(), ServeFailure> {
    let Bootstrap { readiness, tls, expires, shares, web, answers, memory, mut metrics, mut host } =
        bootstrap;
    tell_of_machine(settings, engine, expires, edges, stop);
    run_by_themselves(engine, edges, stop);
    engine.register_metrics(&mut metrics);
    let sending = notify::register_metrics(&mut metrics);
    let webhooks = notify::Webhooks::new(engine.clone(), notify_settings(settings, &shares), sending);
    let tester = webhooks.tester();
    host.open_breakers = webhooks.open_breakers();
    edges.spawn(webhooks.run(stop.subscribe()));
    let (reports, replayer) =
        gateway::http::routes_and_replayer(engine, &settings.kinds, &memory, &mut metrics);
    let metrics = Arc::new(Mutex::new(metrics));
    let access = Arc::new(access::access(settings));
    let edge = EdgeContext {
        settings,
        engine,
        access: &access,
        tls: tls.as_ref(),
        shares: &shares,
        web,
        answers,
        memory: memory.clone(),
        metrics: &metrics,
        stop,
    };
    let api = ApiState::new(engine.clone(), Arc::clone(&access), &memory, Arc::clone(&metrics));
    let api = api.ended_by(stop.subscribe());
    mqtt::open(&edge, &mut host, addresses, edges).await?;
    if let Some(consumer) = amqp::consumer(&settings.amqp, engine, &mut locked(&metrics)) {
        edges.spawn(consumer.run(stop.subscribe()));
    }
    lmstfy::open(&edge, addresses, edges).await?;
    grpc::open(&edge, addresses, edges).await?;
    let api = api.testing_with(move |client| {
        let tester = tester.clone();
        Box::pin(async move { tester.test(&client).await })
    });
    let api = api.replaying_with(move |id| {
        let replayer = replayer.clone();
        Box::pin(async move { replayer.replay(id).await })
    });
    let api = match settings.durability {
        Durability::Always => api,
        Durability::Interval(interval) => api.synced_within(interval),
    };
    let api = api.backing_up_with(backups::begin(store)).live_streams(settings.http.live_max).hosted_by(host);
    engine.intake(WayIn::Http).attend(true).await;
    let console = console::routes(&console::FrameAncestors::new(settings.http.frame_ancestors.clone()));
    relay::open(&settings.relay, &api, edges, stop);
    readiness.open(api::router_with(&api, reports.merge(console)));
    edges.spawn(api.work_on_operations());
    Ok(())
}

/// Starts what nobody calls.
fn run_by_themselves(engine: &Engine, edges: &mut JoinSet<()>, stop: &watch::Sender<bool>) {
    edges.spawn(clock::follow(engine.clone(), stop.subscribe()));
    edges.spawn(copies::run_copies(engine.clone(), stop.subscribe()));
}

/// Starts what tells operators of the certificate and of the disk, and streams of the latter.
fn tell_of_machine(
    settings: &ServerSettings,
    engine: &Engine,
    expires: Option<watch::Receiver<Timestamp>>,
    edges: &mut JoinSet<()>,
    stop: &watch::Sender<bool>,
) {
    let told = &settings.notices_of_machine;
    if let (Some(expires), Some(tls), Some(before)) = (expires, &settings.tls, told.certificate_before) {
        let (engine, cert) = (engine.clone(), tls.cert.clone());
        edges.spawn(notices::watch_certificate(engine, expires, cert, before, stop.subscribe()));
    }
    let data_dir = || settings.data_dir.clone();
    if let Some(least) = told.storage_free {
        edges.spawn(notices::watch_disk(engine.clone(), data_dir(), least, stop.subscribe()));
    }
    if let Some(free) = settings.streams_disk_free_bytes {
        edges.spawn(free_space::watch_for_streams(engine.clone(), data_dir(), free, stop.subscribe()));
    }
}

fn engine_settings(
    settings: &ServerSettings,
    block_storages: BlockStorages,
    directory_mark: u64,
) -> engine::EngineSettings {
    let (devices, notify) = (&settings.devices, &settings.notify);
    let kinds = Arc::clone(&settings.kinds);
    engine::EngineSettings {
        device_ids: DeviceIdForm { chars_max: devices.id_max_len, alphabet: devices.id_chars },
        unknown: match devices.unknown {
            UnknownDeviceChoice::Reject => engine::settings::UnknownDevice::Reject,
            UnknownDeviceChoice::Register => engine::settings::UnknownDevice::Register,
        },
        report_interval: devices.report_interval,
        loss_grace: devices.loss_grace,
        restart_grace: devices.restart_grace,
        ways_configured: [settings.mqtt.listen.is_some(), true, settings.amqp.url.is_some()],
        retry: engine::settings::RetrySettings {
            base: notify.retry_base,
            max: notify.retry_max,
            attempts_max: notify.max_attempts,
        },
        attempt_timeout: notify.timeout,
        stale_probe: notify.stale_probe,
        notices: settings.notices,
        keep: engine::settings::RetentionLimits {
            readings: settings.history.readings,
            events: settings.history.events,
            deliveries: settings.history.deliveries,
            quarantined: settings.quarantine.age_max,
            quarantine_bytes_max: settings.quarantine.bytes_max,
        },
        jobs_resident_max: settings.jobs.resident_max,
        node_name: settings.node_name.clone(),
        directory_mark: Some(directory_mark),
        streams_memory_bytes: settings.streams_memory_bytes,
        block_storages,
        coordination: settings.coordination,
        commands: settings.commands.clone(),
        operations: settings.operations,
        campaigns: settings.campaigns.clone(),
        allow_private: notify.allow_private,
        render: Arc::new(notify::render),
        check_payload: Arc::new(move |kind, payload| kinds.check_payload(kind, payload)),
    }
}

fn notify_settings(settings: &ServerSettings, shares: &OpenFileShares) -> notify::WebhookSettings {
    notify::WebhookSettings {
        timeout: settings.notify.timeout,
        per_client_in_flight: settings.notify.per_client_in_flight,
        in_flight: shares.webhooks,
        breaker_pause: settings.notify.retry_base,
        allow_private: settings.notify.allow_private,
    }
}

fn bind(key: &str, address: SocketAddr) -> Result<TcpListener, ServeFailure> {
    net::listen::bind(address).map_err(|error| no_listener(key, address, &error))
}

fn no_listener(key: &str, address: SocketAddr, error: &io::Error) -> ServeFailure {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there: stop it, or choose another port",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose another port",
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address",
        _ => "choose another address",
    };
    ServeFailure(format!("{key}: {address} cannot be listened on: {error}; {advice}"))
}

/// The signals that end the server.
struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    fn listen() -> Result<Self, ServeFailure> {
        let listen = |kind| signal(kind).map_err(because("signals cannot be listened for"));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
