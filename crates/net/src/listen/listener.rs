//! Connections whose protocol is spoken elsewhere: taken in, given TLS where that is set, counted,
//! and seen out when the server stops.
//!
//! Where there is no room, whoever moves least makes room for a newcomer. Where everybody is quick,
//! the newcomer is told so if the protocol has words for that, and closed otherwise. A caller that
//! takes too long to agree on TLS, or takes nothing of what it is sent, is cut off. What else may
//! take how long is for whoever speaks to say.

use std::future::{Future, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::accept_backoff::AcceptBackoff;
use super::admission::{ConnectionPool, PooledConnection};
use super::capacity::{Capacity, CapacityPermit, OpenFiles};
use super::shutdown::stopped;
use super::stall_guard::StallGuard;
use super::tls::{HANDSHAKES_MAX, HandshakeFailed, Handshakes, TlsSource, TlsStream};
use crate::metrics::{Counted, LabelCounter};

/// How long a caller may take nothing of what it is sent.
const STALL_MAX: Duration = Duration::from_secs(30);
/// How long a caller and the server may take to agree on TLS.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long connections may take to end after the server was asked to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Speaks a protocol.
pub trait Protocol: Send + Sync + 'static {
    /// How many at a time are told that there is no room, beyond all others; one more is closed
    /// without a word.
    const REJECTED_MAX: usize = 0;

    /// Speaks on a connection until it ends, or until the server stops, which the protocol knows by
    /// itself. It notes in `pooled` when a request begins and ends: between them the connection is
    /// silent.
    fn serve<S>(&self, stream: S, pooled: Arc<PooledConnection>) -> impl Future<Output = ()> + Send
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Says on a connection that there is no room, and ends it.
    fn reject<S>(&self, _stream: S) -> impl Future<Output = ()> + Send
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        ready(())
    }
}

/// A bound listener.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    /// In the log and in the names of metrics.
    name: &'static str,
    connections_max: usize,
    tls: Option<ListenerTls>,
    files: OpenFiles,
    metrics: Arc<ListenerMetrics>,
}

#[derive(Clone, Debug)]
struct ListenerTls {
    source: TlsSource,
    protocol: Option<&'static [u8]>,
}

#[derive(Debug)]
struct ListenerMetrics {
    connections: Gauge,
    connects: LabelCounter,
    accept_errors: Counter,
    evicted: Counter,
    handshakes: LabelCounter,
}

impl Listener {
    /// So many connections at a time; `name` is what the metrics call it, such as "grpc".
    #[must_use]
    pub fn new(listener: TcpListener, name: &'static str, connections_max: usize) -> Self {
        let metrics = ListenerMetrics {
            connections: Gauge::default(),
            connects: LabelCounter::new("result"),
            accept_errors: Counter::default(),
            evicted: Counter::default(),
            handshakes: LabelCounter::new("result"),
        };
        Self {
            listener,
            name,
            connections_max,
            tls: None,
            files: OpenFiles::default(),
            metrics: Arc::new(metrics),
        }
    }

    /// Speaks TLS only, with the certificate that the source has when a connection comes. If a
    /// protocol is given, agrees on it (ALPN) with callers that name any.
    #[must_use]
    pub fn with_tls(mut self, source: TlsSource, protocol: Option<&'static [u8]>) -> Self {
        self.tls = Some(ListenerTls { source, protocol });
        self
    }

    /// Takes the files of its connections from these.
    #[must_use]
    pub fn with_open_files(mut self, files: OpenFiles) -> Self {
        self.files = files;
        self
    }

    /// Follows how many connections there are.
    #[must_use]
    pub fn connections(&self) -> Gauge {
        self.metrics.connections.clone()
    }

    /// Puts its metrics into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let ListenerMetrics { connections, connects, accept_errors, evicted, handshakes } = &*self.metrics;
        let name = self.name;
        registry.register(format!("fieldpost_{name}_connections"), "Connections now", connections.clone());
        let help =
            "Connections by what came of them: accepted, crowded, dropped, or busy where that can be said";
        connects.register(registry, &format!("fieldpost_{name}_connects"), help);
        let help = "Connections that could not be accepted";
        registry.register(format!("fieldpost_{name}_accept_errors"), help, accept_errors.clone());
        let help = "Slow connections that were closed because another needed their place";
        registry.register(format!("fieldpost_{name}_shown_out"), help, evicted.clone());
        if self.tls.is_some() {
            let help = "Connections that began with TLS, by result: agreed, failed, too_slow";
            handshakes.register(registry, &format!("fieldpost_{name}_tls_handshakes"), help);
        }
    }

    /// Has `speaker` speak until `stop` is true, or its sender is gone; then waits for it some
    /// time, and cuts what is left.
    pub async fn run<P: Protocol>(self, speaker: P, mut stop: watch::Receiver<bool>) {
        let (mut control, speaker) = (AdmissionControl::of::<P>(&self), Arc::new(speaker));
        let mut connections = JoinSet::new();
        loop {
            let taken = tokio::select! {
                taken = control.backoff.accept(&self.listener) => taken,
                Some(_) = connections.join_next() => continue,
                () = stopped(&mut stop) => break,
            };
            let Some((stream, peer)) = taken else {
                self.metrics.accept_errors.inc();
                continue;
            };
            let turn = tokio::select! {
                turn = control.turn(peer) => turn,
                () = stopped(&mut stop) => break,
            };
            let Ok(turn) = turn else {
                self.metrics.connects.count("crowded");
                continue;
            };
            let Some(admission) = control.admit(peer).await else {
                self.metrics.connects.count("dropped");
                continue;
            };
            self.metrics.connects.count(admission.label());
            let (speaker, metrics) = (Arc::clone(&speaker), Arc::clone(&self.metrics));
            let connection = AcceptedConnection { admission, speaker, metrics };
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "a connection broke before it began");
                continue;
            }
            match (&self.tls, turn) {
                (Some(tls), Some(turn)) => {
                    let handshakes = control.handshake_turns.clone();
                    connections.spawn(connection.handshake(
                        stream,
                        tls.config(),
                        handshakes,
                        turn,
                        stop.clone(),
                    ))
                }
                _ => connections.spawn(connection.serve(stream)),
            };
        }
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(DRAIN, all).await.is_err() {
            warn!(connections = connections.len(), "{} connections that did not finish are cut", self.name);
        }
        connections.shutdown().await;
    }
}

impl ListenerTls {
    /// What the certificate's source has now, for this protocol.
    fn config(&self) -> Arc<ServerConfig> {
        let Some(protocol) = self.protocol else { return self.source.load_full() };
        let mut config = ServerConfig::clone(&self.source.load());
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    }
}

/// The address has its share of handshakes, and there is no room for more.
struct ShareExhausted;

/// Where connections come in.
struct AdmissionControl {
    backoff: AcceptBackoff,
    served: Arc<ConnectionPool>,
    rejected: Arc<Capacity>,
    /// For those who agree on TLS.
    handshakes: Option<Arc<ConnectionPool>>,
    handshake_turns: Handshakes,
}

/// A connection's place, held as long as it lives.
enum Admission {
    Served(PooledConnection),
    Rejected(CapacityPermit),
}

impl Admission {
    fn pooled(&self) -> Option<&PooledConnection> {
        match self {
            Self::Served(pooled) => Some(pooled),
            Self::Rejected(_) => None,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Served(_) => "accepted",
            Self::Rejected(_) => "busy",
        }
    }
}

impl AdmissionControl {
    fn of<P: Protocol>(arrivals: &Listener) -> Self {
        let served = Capacity::within(arrivals.connections_max, arrivals.files.clone());
        Self {
            backoff: AcceptBackoff::new(arrivals.name),
            served: Arc::new(ConnectionPool::new(served)),
            rejected: Arc::new(Capacity::new(P::REJECTED_MAX)),
            handshakes: arrivals.tls.as_ref().map(|_| {
                let places = arrivals.connections_max.min(HANDSHAKES_MAX);
                Arc::new(ConnectionPool::of_handshakes(Capacity::new(places)))
            }),
            handshake_turns: Handshakes::new(),
        }
    }

    /// The turn of a connection to agree on TLS, where that is spoken; others wait to be accepted
    /// meanwhile.
    async fn turn(&self, peer: SocketAddr) -> Result<Option<PooledConnection>, ShareExhausted> {
        match &self.handshakes {
            Some(handshakes) => handshakes.enter_in_turn(peer).await.map(Some).ok_or(ShareExhausted),
            None => Ok(None),
        }
    }

    /// `None` where even saying that there is no room would take room that is not there.
    async fn admit(&self, peer: SocketAddr) -> Option<Admission> {
        match self.served.enter(peer).await {
            Some(pooled) => Some(Admission::Served(pooled)),
            None => self.rejected.take().map(Admission::Rejected),
        }
    }
}

/// A connection with its place.
struct AcceptedConnection<P> {
    admission: Admission,
    speaker: Arc<P>,
    metrics: Arc<ListenerMetrics>,
}

impl<P: Protocol> AcceptedConnection<P> {
    /// Agrees on TLS first.
    async fn handshake(
        self,
        stream: TcpStream,
        config: Arc<ServerConfig>,
        handshakes: Handshakes,
        turn: PooledConnection,
        mut stop: watch::Receiver<bool>,
    ) {
        // How long this may take is for its turn to say.
        if let Some(pooled) = self.admission.pooled() {
            pooled.begins();
        }
        let agreed = tokio::select! {
            // In a box that is gone when it is spoken.
            agreed = Box::pin(self.finish_handshake(handshakes.agree(stream, config, &turn))) => agreed,
            () = turn.evicted() => return self.metrics.handshakes.count("too_slow"),
            () = stopped(&mut stop) => return,
        };
        drop((turn, stop));
        if let Some(pooled) = self.admission.pooled() {
            pooled.pauses();
        }
        if let Some(stream) = agreed {
            self.serve(stream).await;
        }
    }

    /// Agrees on TLS with a caller, if that takes no longer than it may.
    async fn finish_handshake(
        &self,
        agreeing: impl Future<Output = Result<TlsStream, HandshakeFailed>>,
    ) -> Option<Box<TlsStream>> {
        let (result, stream) = match timeout(HANDSHAKE_MAX, agreeing).await {
            Ok(Ok(stream)) => ("agreed", Some(Box::new(stream))),
            Ok(Err(HandshakeFailed)) => ("failed", None),
            Err(_) => ("too_slow", None),
        };
        self.metrics.handshakes.count(result);
        stream
    }

    /// What is spoken is in a box, so that a connection takes no room for what it needed before
    /// that.
    fn serve<S>(self, stream: S) -> BoxFuture<'static, ()>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self { admission, speaker, metrics } = self;
        async move {
            let _counted = Counted::new(&metrics.connections);
            match admission {
                Admission::Rejected(_place) => speaker.reject(StallGuard::new(stream, STALL_MAX, None)).await,
                Admission::Served(pooled) => {
                    let pooled = Arc::new(pooled);
                    let stream = StallGuard::new(stream, STALL_MAX, Some(Arc::clone(&pooled)));
                    tokio::select! {
                        () = speaker.serve(stream, Arc::clone(&pooled)) => {}
                        () = pooled.evicted() => {
                            metrics.evicted.inc();
                            debug!("a slow connection makes room for another");
                        }
                    }
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;
    use tokio::task::JoinHandle;

    use super::*;

    /// Says everything again, until nothing more comes or the server stops.
    struct Echo(watch::Receiver<bool>);

    impl Protocol for Echo {
        async fn serve<S>(&self, mut stream: S, pooled: Arc<PooledConnection>)
        where
            S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        {
            pooled.begins();
            let mut stop = self.0.clone();
            let mut byte = [0];
            loop {
                tokio::select! {
                    read = stream.read_exact(&mut byte) => if read.is_err() { return },
                    () = stopped(&mut stop) => byte = *b"!",
                }
                if stream.write_all(&byte).await.is_err() || byte == *b"!" {
                    return;
                }
            }
        }
    }

    async fn serve(
        connections_max: usize,
    ) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>, Arc<ListenerMetrics>) {
        serve_on(TcpListener::bind("127.0.0.1:0").await.expect("a port"), connections_max)
    }

    fn serve_on(
        listener: TcpListener,
        connections_max: usize,
    ) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>, Arc<ListenerMetrics>) {
        let address = listener.local_addr().expect("bound");
        let stop = watch::Sender::new(false);
        let arrivals = Listener::new(listener, "test", connections_max);
        let metrics = Arc::clone(&arrivals.metrics);
        let running = tokio::spawn(arrivals.run(Echo(stop.subscribe()), stop.subscribe()));
        (address, stop, running, metrics)
    }

    async fn said_again(stream: &mut TcpStream) -> bool {
        let mut byte = [0];
        stream.write_all(b"x").await.is_ok() && stream.read_exact(&mut byte).await.is_ok() && byte == *b"x"
    }

    #[tokio::test]
    async fn who_finds_no_room_is_closed_and_a_place_that_is_left_is_given_again() {
        let (address, _stop, _running, metrics) = serve(1).await;
        let mut first = TcpStream::connect(address).await.expect("it listens");
        assert!(said_again(&mut first).await);
        let mut second = TcpStream::connect(address).await.expect("it listens");
        assert!(!said_again(&mut second).await, "everybody is quick");
        drop(first);
        let again = async {
            loop {
                let mut third = TcpStream::connect(address).await.expect("it listens");
                if said_again(&mut third).await {
                    return third;
                }
            }
        };
        let third = timeout(HANDSHAKE_MAX, again).await.expect("there is room again");
        assert_eq!(metrics.connections.get(), 1);
        drop(third);
    }

    #[tokio::test]
    async fn a_stop_is_told_to_all_and_waits_for_what_they_have_to_say() {
        // Bound, and never listens: nobody else is given the port once the server has stopped.
        let reservation = TcpSocket::new_v4().expect("a socket");
        reservation.set_reuseaddr(true).expect("is set");
        reservation.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let reserved = reservation.local_addr().expect("bound");
        let listener = TcpListener::bind(reserved).await.expect("it is free");
        let (address, stop, running, metrics) = serve_on(listener, 9);
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        assert!(said_again(&mut stream).await);
        stop.send_replace(true);
        let mut last = Vec::new();
        stream.read_to_end(&mut last).await.expect("closed in order");
        assert_eq!(last, b"!");
        running.await.expect("no panic");
        assert_eq!(metrics.connections.get(), 0);
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    }
}
