//! Accepts connections, has their handshakes done, and ends them when the server stops.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use access::Logins;
use engine::Engine;
use net::listen::{
    self, AcceptBackoff, Capacity, ConnectionPool, Handshakes, OpenFiles, PooledConnection, TlsSource,
    stopped,
};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span, debug_span};

use super::MqttShared;
use super::downlink::CommandRoutes;
use super::handshake::{HandshakeRefused, answer_connect};
use super::limits::{MqttLimits, TCP_KEEPALIVE};
use super::mirror::ReportMirror;
use crate::decode::kinds::KindForms;

/// A bound MQTT listener.
#[derive(Debug)]
pub struct MqttListener {
    listener: TcpListener,
    shared: MqttShared,
    tls: Option<TlsSource>,
    files: OpenFiles,
}

impl MqttListener {
    /// Binds; nobody is accepted before [`MqttListener::run`]. Open to everybody, and without TLS.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(address: SocketAddr, engine: Engine, limits: MqttLimits) -> io::Result<Self> {
        let listener = listen::bind(address)?;
        Ok(Self { listener, shared: MqttShared::new(engine, limits), tls: None, files: OpenFiles::default() })
    }

    /// Lets in only who has one of these logins.
    #[must_use]
    pub fn with_logins(mut self, logins: Logins) -> Self {
        self.shared.logins = Some(logins);
        self
    }

    /// Speaks TLS only, with the certificate that the source has when a connection comes.
    #[must_use]
    pub fn with_tls(mut self, source: TlsSource) -> Self {
        self.tls = Some(source);
        self
    }

    /// Knows the topics and messages of these kinds.
    #[must_use]
    pub fn with_kinds(mut self, kinds: Arc<KindForms>) -> Self {
        self.shared.kinds = kinds;
        self
    }

    /// Takes the files of its connections from these.
    #[must_use]
    pub fn with_open_files(mut self, files: OpenFiles) -> Self {
        self.files = files;
        self
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Follows how many connections there are.
    #[must_use]
    pub fn connections(&self) -> Gauge {
        self.shared.metrics.connections.clone()
    }

    /// Puts `fieldpost_mqtt_*` into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
    }

    /// Serves until `shutdown` is true, or its sender is gone. Returns when every connection has
    /// settled what it handed in and is closed.
    pub async fn run(self, mut shutdown: watch::Receiver<bool>) {
        let Self { listener, mut shared, tls, files } = self;
        let showing = shared.limits.mirror.then(|| MirrorThread::begin(&shared));
        shared.mirror = showing.as_ref().map(|showing| Arc::clone(&showing.mirror));
        let commands = CommandRoutes::new(Arc::clone(&shared.kinds), shared.metrics.commands.clone());
        commands.carry_for(&shared.engine);
        shared.commands = Some(commands);
        let (shared, tls) = (Arc::new(shared), tls.as_ref());
        let places = ListenerPlaces::new(&shared.limits, files);
        let for_handshakes = shutdown.clone();
        shared.intake.attend(true).await;
        tokio::select! {
            never = accept_all(&listener, &shared, tls, &places, &for_handshakes) => match never {},
            () = stopped(&mut shutdown) => {}
        }
        drop(listener);
        shared.intake.attend(false).await;
        shared.sessions.stop();
        places.all_left().await;
        shared.absent.all_left().await;
        if let Some(showing) = showing {
            showing.end().await;
        }
    }
}

/// Copies of reports are shown, on a thread of its own, until this is dropped.
struct MirrorThread {
    mirror: Arc<ReportMirror>,
    thread: Option<JoinHandle<()>>,
}

impl MirrorThread {
    fn begin(shared: &MqttShared) -> Self {
        let mirror =
            ReportMirror::of(&shared.engine, &shared.labels, &shared.kinds, shared.metrics.mirror.clone());
        let shows = Arc::clone(&mirror);
        Self { mirror, thread: Some(spawn_blocking(move || shows.run())) }
    }

    async fn end(mut self) {
        self.mirror.close();
        if let Some(thread) = self.thread.take()
            && let Err(error) = thread.await
        {
            tracing::error!(%error, "copying reports to subscribers broke off");
        }
    }
}

impl Drop for MirrorThread {
    fn drop(&mut self) {
        self.mirror.close();
    }
}

/// Capacity for connections that speak, and for new ones, which have not said who they are.
#[derive(Debug)]
struct ListenerPlaces {
    serving: Arc<Capacity>,
    handshaking: Arc<ConnectionPool>,
}

impl ListenerPlaces {
    fn new(limits: &MqttLimits, files: OpenFiles) -> Self {
        Self {
            serving: Arc::new(Capacity::new(limits.connections_max)),
            handshaking: Arc::new(ConnectionPool::of_handshakes(Capacity::within(
                limits.handshakes_max,
                files,
            ))),
        }
    }

    async fn all_left(&self) {
        self.handshaking.all_left().await;
        self.serving.all_left().await;
    }
}

/// A new connection waits while others are in their handshakes. A crowd that connects at once, as
/// after a start, is let in one after the other.
async fn accept_all(
    listener: &TcpListener,
    shared: &Arc<MqttShared>,
    tls: Option<&TlsSource>,
    places: &ListenerPlaces,
    shutdown: &watch::Receiver<bool>,
) -> Infallible {
    let (mut backoff, handshakes) = (AcceptBackoff::new("MQTT"), Handshakes::new());
    loop {
        let Some((stream, peer)) = backoff.accept(listener).await else {
            shared.metrics.accept_errors.inc();
            continue;
        };
        // Who it is says whether somebody has to leave for it.
        let Some(pooled) = places.handshaking.enter_in_turn(peer).await else {
            shared.metrics.connects.count("crowded");
            continue;
        };
        let connection = NewConnection {
            deadline: Instant::now() + shared.limits.connect_timeout,
            shared: Arc::clone(shared),
            serving: Arc::clone(&places.serving),
            pooled,
            shutdown: shutdown.clone(),
        };
        let span = debug_span!("mqtt", %peer);
        let tls = tls.map(|source| (source.load_full(), handshakes.clone()));
        let served = connection.receive(stream, tls, span.clone());
        tokio::spawn(served.instrument(span));
    }
}

/// A connection in its handshake.
struct NewConnection {
    shared: Arc<MqttShared>,
    serving: Arc<Capacity>,
    pooled: PooledConnection,
    /// When its CONNECT must be answered.
    deadline: Instant,
    shutdown: watch::Receiver<bool>,
}

impl NewConnection {
    async fn receive(self, stream: TcpStream, tls: Option<(Arc<ServerConfig>, Handshakes)>, span: Span) {
        if let Err(error) = configure(&stream) {
            tracing::debug!(%error, "a connection was gone at once");
            return;
        }
        match tls {
            None => self.converse(stream, span).await,
            // Boxed so that a connection without TLS takes no room for it.
            Some((config, handshakes)) => {
                Box::pin(self.converse_in_secret(stream, config, handshakes, span)).await;
            }
        }
    }

    async fn converse_in_secret(
        mut self,
        stream: TcpStream,
        config: Arc<ServerConfig>,
        handshakes: Handshakes,
        span: Span,
    ) {
        let Self { pooled, deadline, shutdown, .. } = &mut self;
        let agreed = async { handshakes.agree(stream, config, pooled).await.map_err(|_| "tls_failed") };
        match in_time(*deadline, pooled, shutdown, agreed).await {
            Ok(stream) => self.converse(stream, span).await,
            Err(result) => self.not_accepted(result),
        }
    }

    /// The session is a task of its own, so that it keeps nothing of what the handshake needed.
    async fn converse<S>(mut self, mut stream: S, span: Span)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (shared, serving) = (Arc::clone(&self.shared), Arc::clone(&self.serving));
        let Self { pooled, deadline, shutdown, .. } = &mut self;
        let mut watched = pooled.watch(&mut stream);
        let handshake = answer_connect(&mut watched, &shared, Some(pooled.peer()), || serving.take());
        match in_time(*deadline, pooled, shutdown, handshake).await {
            Ok(done) => {
                shared.metrics.connects.count("accepted");
                let session = done.into_session(stream, &shared);
                tokio::spawn(session.with_file(self.pooled.into_file()).instrument(span));
            }
            Err(result) => self.not_accepted(result),
        }
    }

    fn not_accepted(&self, result: HandshakeRefused) {
        self.shared.metrics.connects.count(result);
        tracing::debug!(result, "a connection was not accepted");
    }
}

/// Gives up what takes too long, and everything when the listener stops.
async fn in_time<T>(
    deadline: Instant,
    pooled: &PooledConnection,
    shutdown: &mut watch::Receiver<bool>,
    handshake: impl Future<Output = Result<T, HandshakeRefused>>,
) -> Result<T, HandshakeRefused> {
    tokio::select! {
        done = timeout_at(deadline, handshake) => done.unwrap_or(Err("timeout")),
        () = pooled.evicted() => Err("shown_out"),
        () = stopped(shutdown) => Err("stopping"),
    }
}

fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_KEEPALIVE / 4);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}
