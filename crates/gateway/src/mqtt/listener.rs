//! Takes connections in, greets them, and sees them out when the server stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::WayIn;
use engine::Engine;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::figures::Figures;
use super::greeting::greet;
use super::limits::{Limits, REFUSING_MAX, TCP_KEEPALIVE};
use super::sessions::Sessions;
use crate::figures::Quota;

/// A bound MQTT listener.
#[derive(Debug)]
pub struct MqttListener {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl MqttListener {
    /// Binds; nobody is greeted before [`MqttListener::run`].
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(address: SocketAddr, engine: Engine, limits: Limits) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let intake = engine.intake(WayIn::Mqtt);
        let (figures, sessions) = (Figures::default(), Arc::new(Sessions::default()));
        Ok(Self { listener, shared: Arc::new(Shared { engine, intake, limits, figures, sessions }) })
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
        let Self { listener, shared } = self;
        let places = Places::new(shared.limits.connections_max);
        let for_greeting = shutdown.clone();
        shared.intake.attend(true).await;
        tokio::select! {
            never = accept_all(&listener, &shared, &places, &for_greeting) => match never {},
            () = stopped(&mut shutdown) => {}
        }
        drop(listener);
        shared.intake.attend(false).await;
        shared.sessions.stop();
        places.all_left().await;
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
    places: &Places,
    shutdown: &watch::Receiver<bool>,
) -> Never {
    let mut patience = Patience::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                patience.restore();
                admit(stream, shared, places, shutdown);
            }
            Err(error) => {
                shared.figures.accept_errors.inc();
                sleep(patience.lose(&error)).await;
            }
        }
    }
}

fn admit(stream: TcpStream, shared: &Arc<Shared>, places: &Places, shutdown: &watch::Receiver<bool>) {
    let Some(place) = places.take() else {
        // Closed without a word: answering would take room that is not there.
        shared.figures.connects.count("dropped");
        return;
    };
    tokio::spawn(serve(stream, Arc::clone(shared), place, shutdown.clone()));
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

async fn serve(
    mut stream: TcpStream,
    shared: Arc<Shared>,
    place: Place,
    mut shutdown: watch::Receiver<bool>,
) {
    if let Err(error) = configure(&stream) {
        tracing::debug!(%error, "a connection was gone at once");
        return;
    }
    let busy = matches!(place, Place::Refusing(_));
    let greeted = tokio::select! {
        // Boxed so that what greeting needs is given back when it is done.
        greeted = timeout(shared.limits.connect_timeout, Box::pin(greet(&mut stream, &shared, busy))) => {
            greeted.unwrap_or(Err("timeout"))
        }
        () = stopped(&mut shutdown) => Err("stopping"),
    };
    drop(shutdown);
    match greeted {
        Ok(greeted) => {
            shared.figures.connects.count("accepted");
            let _counted = Counted::new(&shared.figures.connections);
            greeted.into_session(stream, &shared).run().await;
        }
        Err(result) => {
            shared.figures.connects.count(result);
            tracing::debug!(result, "a connection was not accepted");
        }
    }
}

fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_KEEPALIVE / 4);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}

/// Counts a connection while it lives.
struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
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
