//! Takes connections in, greets them, and sees them out when the server stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{Instrument, debug_span};

use super::Shared;
use super::figures::Counted;
use super::greeting::{NotGreeted, greet};
use super::limits::{Limits, REFUSING_MAX, TCP_KEEPALIVE};
use super::logins::Logins;
use super::tls::{self, TlsSource};
use crate::figures::Quota;

/// A bound MQTT listener.
#[derive(Debug)]
pub struct MqttListener {
    listener: TcpListener,
    shared: Shared,
    tls: Option<TlsSource>,
}

impl MqttListener {
    /// Binds; nobody is greeted before [`MqttListener::run`]. Open to everybody, and without TLS.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(address: SocketAddr, engine: Engine, limits: Limits) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, shared: Shared::new(engine, limits), tls: None })
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

    /// Where it listens.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Puts `fieldpost_mqtt_*` into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.shared.figures.register(registry);
    }

    /// Serves until `shutdown` is true, or its sender is gone. Returns when every connection has settled what it handed in and is
    /// closed.
    pub async fn run(self, mut shutdown: watch::Receiver<bool>) {
        let Self { listener, shared, tls } = self;
        let (shared, tls) = (Arc::new(shared), tls.as_ref());
        let places = Places::new(shared.limits.connections_max);
        let for_greeting = shutdown.clone();
        shared.intake.attend(true).await;
        tokio::select! {
            never = accept_all(&listener, &shared, tls, &places, &for_greeting) => match never {},
            () = stopped(&mut shutdown) => {}
        }
        drop(listener);
        shared.intake.attend(false).await;
        shared.sessions.stop();
        places.all_left().await;
        shared.absent.all_left().await;
    }
}

/// Resolves when the server stops.
async fn stopped(shutdown: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone: nobody could tell us any more.
    drop(shutdown.wait_for(|stop| *stop).await);
}

/// Room for connections, and for some more that are only told that there is none.
#[derive(Debug)]
struct Places {
    serving: Arc<Semaphore>,
    serving_max: u32,
    refusing: Arc<Semaphore>,
}

/// A connection's place; it is free again when this is dropped.
#[derive(Debug)]
enum Place {
    Serving(#[expect(dead_code, reason = "held while the connection lives")] OwnedSemaphorePermit),
    Refusing(#[expect(dead_code, reason = "held while the connection lives")] OwnedSemaphorePermit),
}

impl Places {
    fn new(connections_max: usize) -> Self {
        let serving_max = u32::try_from(connections_max.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self {
            serving: Arc::new(Semaphore::new(serving_max as usize)),
            serving_max,
            refusing: Arc::new(Semaphore::new(REFUSING_MAX)),
        }
    }

    fn take(&self) -> Option<Place> {
        let serving = Arc::clone(&self.serving).try_acquire_owned().map(Place::Serving);
        let place = serving.or_else(|_| Arc::clone(&self.refusing).try_acquire_owned().map(Place::Refusing));
        place.ok()
    }

    async fn all_left(&self) {
        for (places, all) in [(&self.serving, self.serving_max), (&self.refusing, REFUSING_MAX as u32)] {
            // The semaphores are never closed, so there is no error to see.
            drop(places.acquire_many(all).await);
        }
    }
}

/// What accepting never comes to.
enum Never {}

async fn accept_all(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    tls: Option<&TlsSource>,
    places: &Places,
    shutdown: &watch::Receiver<bool>,
) -> Never {
    let mut patience = Patience::new();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                patience.restore();
                let Some(place) = places.take() else {
                    // Closed without a word: answering would take room that is not there.
                    shared.figures.connects.count("dropped");
                    continue;
                };
                let greeting = Greeting {
                    busy: matches!(place, Place::Refusing(_)),
                    deadline: Instant::now() + shared.limits.connect_timeout,
                    shared: Arc::clone(shared),
                    shutdown: shutdown.clone(),
                };
                let served = serve(stream, tls.map(|source| source.load_full()), greeting, place);
                tokio::spawn(served.instrument(debug_span!("mqtt", %peer)));
            }
            Err(error) => {
                shared.figures.accept_errors.inc();
                sleep(patience.lose(&error)).await;
            }
        }
    }
}

/// What to do when the operating system has no connection for us: wait, longer each time, and say so now and then.
#[derive(Debug)]
struct Patience {
    wait: Duration,
    log: Quota,
}

impl Patience {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    fn new() -> Self {
        Self { wait: Self::FIRST, log: Quota::new() }
    }

    fn restore(&mut self) {
        self.wait = Self::FIRST;
    }

    /// How long to wait after this error; not at all if it only concerns one connection.
    fn lose(&mut self, error: &io::Error) -> Duration {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            return Duration::ZERO;
        }
        if let Some(left_out) = self.log.take() {
            tracing::warn!(%error, left_out, "cannot accept MQTT connections; is the limit of open files too low?");
        }
        let wait = self.wait;
        self.wait = (wait * 2).min(Self::LONGEST);
        wait
    }
}

/// How a new connection is greeted.
struct Greeting {
    shared: Arc<Shared>,
    /// There is no room for it.
    busy: bool,
    /// When its CONNECT must be answered.
    deadline: Instant,
    shutdown: watch::Receiver<bool>,
}

async fn serve(stream: TcpStream, tls: Option<Arc<ServerConfig>>, greeting: Greeting, place: Place) {
    if let Err(error) = configure(&stream) {
        tracing::debug!(%error, "a connection was gone at once");
        return;
    }
    match tls {
        None => greeting.converse(stream).await,
        // Boxed so that a connection without TLS takes no room for it.
        Some(config) => Box::pin(greeting.converse_in_secret(stream, config)).await,
    }
    drop(place);
}

impl Greeting {
    async fn converse_in_secret(mut self, stream: TcpStream, config: Arc<ServerConfig>) {
        match self.in_time(tls::handshake(stream, config)).await {
            Ok(stream) => self.converse(stream).await,
            Err(result) => self.not_accepted(result),
        }
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(mut self, mut stream: S) {
        let (shared, busy) = (Arc::clone(&self.shared), self.busy);
        // Boxed so that what greeting needs is given back when it is done.
        let greeted = self.in_time(Box::pin(greet(&mut stream, &shared, busy))).await;
        match greeted {
            Ok(greeted) => {
                drop(self);
                shared.figures.connects.count("accepted");
                let _counted = Counted::new(&shared.figures.connections);
                greeted.into_session(stream, &shared).run().await;
            }
            Err(result) => self.not_accepted(result),
        }
    }

    /// Gives up what takes too long, and everything when the listener stops.
    async fn in_time<T>(
        &mut self,
        greeting: impl Future<Output = Result<T, NotGreeted>>,
    ) -> Result<T, NotGreeted> {
        tokio::select! {
            greeted = timeout_at(self.deadline, greeting) => greeted.unwrap_or(Err("timeout")),
            () = stopped(&mut self.shutdown) => Err("stopping"),
        }
    }

    fn not_accepted(&self, result: NotGreeted) {
        self.shared.figures.connects.count(result);
        tracing::debug!(result, "a connection was not accepted");
    }
}

fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_KEEPALIVE / 4);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_open_files_grows_longer_up_to_a_second() {
        let too_many_files = || io::Error::from_raw_os_error(24);
        let mut patience = Patience::new();
        let waits: Vec<_> = (0..9).map(|_| patience.lose(&too_many_files()).as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        assert_eq!(patience.lose(&io::ErrorKind::ConnectionAborted.into()), Duration::ZERO);
        patience.restore();
        assert_eq!(patience.lose(&too_many_files()), Patience::FIRST);
    }

    #[test]
    fn places_are_given_out_up_to_the_limit_and_then_to_refuse() {
        let places = Places::new(2);
        let serving = [places.take(), places.take()];
        assert!(serving.iter().all(|place| matches!(place, Some(Place::Serving(_)))));
        let refusing: Vec<_> = (0..REFUSING_MAX).map(|_| places.take()).collect();
        assert!(refusing.iter().all(|place| matches!(place, Some(Place::Refusing(_)))));
        assert!(places.take().is_none());
        drop(serving);
        assert!(matches!(places.take(), Some(Place::Serving(_))));
    }
}
