//! Connections whose protocol is spoken elsewhere: taken in, given TLS where that is set, counted, and seen out when the server
//! stops.
//!
//! Where there is no room, whoever moves least makes room for a newcomer; where everybody is quick, the newcomer is closed
//! without a word, because in what protocol to say so is not known here.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

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
use tracing::{debug, warn};

use super::crowd::{Crowd, Guest};
use super::patience::Patience;
use super::room::{OpenFiles, Room};
use super::stopping::stopped;
use super::tls::{self, HANDSHAKES_MAX, TlsSource};
use crate::figures::{ByWord, Counted};
use crate::http::moving::Moving;

/// How long a caller may take nothing of what it is sent.
const STALL_MAX: Duration = Duration::from_secs(30);
/// How long a caller and the server may take to agree on TLS.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long connections may take to end after the server was asked to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Speaks a protocol.
pub trait Speak: Clone + Send + Sync + 'static {
    /// Speaks on a connection until it ends. Whoever speaks knows by itself when the server stops.
    fn speak<S>(&self, stream: S) -> impl Future<Output = ()> + Send
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static;
}

/// A bound listener.
#[derive(Debug)]
pub struct Arrivals {
    listener: TcpListener,
    /// In the log and in the names of figures.
    name: &'static str,
    connections_max: usize,
    tls: Option<Tls>,
    files: OpenFiles,
    figures: Figures,
}

#[derive(Clone, Debug)]
struct Tls {
    source: TlsSource,
    protocol: &'static [u8],
}

#[derive(Clone, Debug)]
struct Figures {
    connections: Gauge,
    connects: ByWord,
    accept_errors: Counter,
    shown_out: Counter,
    handshakes: ByWord,
}

impl Arrivals {
    /// So many connections at a time; `name` is what the figures call it, such as "grpc".
    #[must_use]
    pub fn new(listener: TcpListener, name: &'static str, connections_max: usize) -> Self {
        let figures = Figures {
            connections: Gauge::default(),
            connects: ByWord::new("result"),
            accept_errors: Counter::default(),
            shown_out: Counter::default(),
            handshakes: ByWord::new("result"),
        };
        Self { listener, name, connections_max, tls: None, files: OpenFiles::default(), figures }
    }

    /// Speaks TLS only, with the certificate that the source has when a connection comes, and agrees on this protocol (ALPN) with
    /// callers that name any.
    #[must_use]
    pub fn with_tls(mut self, source: TlsSource, protocol: &'static [u8]) -> Self {
        self.tls = Some(Tls { source, protocol });
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
        let name = self.name;
        registry.register(format!("fieldpost_{name}_connections"), "Connections now", connections.clone());
        let help = "Connections by what came of them: accepted, dropped";
        connects.register(registry, &format!("fieldpost_{name}_connects"), help);
        let help = "Connections that could not be accepted";
        registry.register(format!("fieldpost_{name}_accept_errors"), help, accept_errors.clone());
        let help = "Slow connections that were closed because another needed their place";
        registry.register(format!("fieldpost_{name}_shown_out"), help, shown_out.clone());
        if self.tls.is_some() {
            let help = "Connections that began with TLS, by result: agreed, failed, too_slow";
            handshakes.register(registry, &format!("fieldpost_{name}_tls_handshakes"), help);
        }
    }

    /// Has `speaker` speak until `stop` is true, or its sender is gone; then waits for it some time, and cuts what is left.
    pub async fn run(self, speaker: impl Speak, mut stop: watch::Receiver<bool>) {
        let crowd = Arc::new(Crowd::new(Room::within(self.connections_max, self.files.clone())));
        let turns = self.tls.as_ref().map(|_| Arc::new(Crowd::new(Room::new(HANDSHAKES_MAX))));
        let (mut patience, mut connections) = (Patience::new(self.name), JoinSet::new());
        loop {
            let taken = tokio::select! {
                taken = next(&mut patience, &self.listener, turns.as_ref()) => taken,
                Some(_) = connections.join_next() => continue,
                () = stopped(&mut stop) => break,
            };
            let Some((stream, turn)) = taken else {
                self.figures.accept_errors.inc();
                continue;
            };
            let Some(guest) = crowd.enter().await else {
                self.figures.connects.count("dropped");
                continue;
            };
            self.figures.connects.count("accepted");
            let connection = Connection { guest: Arc::new(guest), figures: self.figures.clone() };
            let tls = self.tls.as_ref().map(Tls::config);
            connections.spawn(connection.greet(stream, tls, turn, speaker.clone(), stop.clone()));
        }
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(DRAIN, all).await.is_err() {
            warn!(connections = connections.len(), "{} connections that did not finish are cut", self.name);
        }
        connections.shutdown().await;
    }
}

impl Tls {
    /// What the certificate's source has now, for this protocol.
    fn config(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.source.load());
        config.alpn_protocols = vec![self.protocol.to_vec()];
        Arc::new(config)
    }
}

/// The next connection, with its turn to agree on TLS; `None` when there was none to be had.
async fn next(
    patience: &mut Patience,
    listener: &TcpListener,
    turns: Option<&Arc<Crowd>>,
) -> Option<(TcpStream, Option<Guest>)> {
    let turn = match turns {
        Some(turns) => Some(turns.enter_in_turn().await),
        None => None,
    };
    let (stream, _) = patience.accept(listener).await?;
    Some((stream, turn))
}

/// A connection with its place.
struct Connection {
    guest: Arc<Guest>,
    figures: Figures,
}

impl Connection {
    async fn greet(
        self,
        stream: TcpStream,
        tls: Option<Arc<ServerConfig>>,
        turn: Option<Guest>,
        speaker: impl Speak,
        mut stop: watch::Receiver<bool>,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "a connection broke before it began");
            return;
        }
        let (Some(config), Some(turn)) = (tls, turn) else { return self.speak(stream, speaker).await };
        let agreed = tokio::select! {
            agreed = self.agree(stream, config) => agreed,
            () = turn.shown_out() => return self.figures.handshakes.count("too_slow"),
            () = stopped(&mut stop) => return,
        };
        drop(turn);
        if let Some(stream) = agreed {
            self.speak(stream, speaker).await;
        }
    }

    /// Agrees on TLS with a caller, if that takes no longer than it may.
    async fn agree(&self, stream: TcpStream, config: Arc<ServerConfig>) -> Option<TlsStream<TcpStream>> {
        let (result, stream) = match timeout(HANDSHAKE_MAX, tls::handshake(stream, config)).await {
            Ok(Ok(stream)) => ("agreed", Some(stream)),
            Ok(Err(tls::Disagreed)) => ("failed", None),
            Err(_) => ("too_slow", None),
        };
        self.figures.handshakes.count(result);
        stream
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, speaker: impl Speak) {
        let _counted = Counted::new(&self.figures.connections);
        // A connection counts as one long request: it stays as long as it moves, or while there is room.
        self.guest.begins();
        let stream = Moving::new(stream, STALL_MAX, Some(Arc::clone(&self.guest)));
        tokio::select! {
            // Boxed so that a connection takes no room for both.
            () = Box::pin(speaker.speak(stream)) => {}
            () = self.guest.shown_out() => {
                self.figures.shown_out.inc();
                debug!("a slow connection makes room for another");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;

    use super::*;

    /// Says everything again, until nothing more comes or the server stops.
    #[derive(Clone)]
    struct Echo(watch::Receiver<bool>);

    impl Speak for Echo {
        async fn speak<S>(&self, mut stream: S)
        where
            S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        {
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

    async fn serve(connections_max: usize) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>, Figures) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stop = watch::Sender::new(false);
        let arrivals = Arrivals::new(listener, "test", connections_max);
        let figures = arrivals.figures.clone();
        let running = tokio::spawn(arrivals.run(Echo(stop.subscribe()), stop.subscribe()));
        (address, stop, running, figures)
    }

    async fn said_again(stream: &mut TcpStream) -> bool {
        let mut byte = [0];
        stream.write_all(b"x").await.is_ok() && stream.read_exact(&mut byte).await.is_ok() && byte == *b"x"
    }

    #[tokio::test]
    async fn who_finds_no_room_is_closed_and_a_place_that_is_left_is_given_again() {
        let (address, _stop, _running, figures) = serve(1).await;
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
        assert_eq!(figures.connections.get(), 1);
        drop(third);
    }

    #[tokio::test]
    async fn a_stop_is_told_to_all_and_waits_for_what_they_have_to_say() {
        let (address, stop, running, figures) = serve(9).await;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        assert!(said_again(&mut stream).await);
        stop.send_replace(true);
        let mut last = Vec::new();
        stream.read_to_end(&mut last).await.expect("closed in order");
        assert_eq!(last, b"!");
        running.await.expect("no panic");
        assert_eq!(figures.connections.get(), 0);
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    }
}
