//! The consumer over one connection after the other: connects, lets it work, and connects again
//! when it ended.

use std::time::{Duration, Instant};

use base::WayIn;
use base::random::{Random, unguessable};
use engine::{Engine, Intake};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::sleep;

use super::attendance::Attendance;
use super::backoff::Backoff;
use super::broker::Broker;
use super::ending::AmqpEnding;
use super::metrics::AmqpMetrics;
use super::session::AmqpSession;
use super::{AmqpLimits, AmqpSource};

/// The consumer of one queue.
#[derive(Debug)]
pub struct AmqpConsumer {
    shared: AmqpShared,
}

/// What every connection needs.
#[derive(Debug)]
pub(super) struct AmqpShared {
    pub(super) engine: Engine,
    pub(super) intake: Intake,
    pub(super) source: AmqpSource,
    pub(super) limits: AmqpLimits,
    pub(super) metrics: AmqpMetrics,
}

/// Resolves when the server stops.
pub(super) async fn stopped(shutdown: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone: nobody could tell us any more.
    drop(shutdown.wait_for(|stop| *stop).await);
}

impl AmqpConsumer {
    /// Connects to nothing before [`AmqpConsumer::run`].
    #[must_use]
    pub fn new(engine: Engine, source: AmqpSource, limits: AmqpLimits) -> Self {
        let intake = engine.intake(WayIn::Amqp);
        Self { shared: AmqpShared { engine, intake, source, limits, metrics: AmqpMetrics::default() } }
    }

    /// Puts `fieldpost_amqp_*` into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
    }

    /// Consumes until `shutdown` is true, or its sender is gone; whenever RabbitMQ cannot be
    /// reached, tries again. Returns when what was under way is durable and acknowledged, or when
    /// that takes too long.
    pub async fn run(self, mut shutdown: watch::Receiver<bool>) {
        let shared = &self.shared;
        let mut attendance = Attendance::new(shared.limits.lag_max, shared.engine.clock().now());
        let mut backoff = Backoff::new(&shared.limits, Random::new(seed()));
        loop {
            let begun = Instant::now();
            let ending = shared.connect_and_work(&mut attendance, &mut shutdown).await;
            if matches!(ending, AmqpEnding::Stopping) {
                return;
            }
            if let Some(failure) = shared.engine.failure() {
                tracing::error!(%failure, "nothing is taken from RabbitMQ any more, because the store failed; it keeps the reports");
                return stopped(&mut shutdown).await;
            }
            backoff.connection_lasted(begun.elapsed());
            let pause = backoff.pause();
            shared.metrics.lag.set(attendance.lag(shared.engine.clock().now()).as_secs_f64());
            shared.tell_failure(&ending, pause);
            tokio::select! {
                () = sleep(pause) => {}
                () = stopped(&mut shutdown) => return,
            }
        }
    }
}

impl AmqpShared {
    async fn connect_and_work(
        &self,
        attendance: &mut Attendance,
        shutdown: &mut watch::Receiver<bool>,
    ) -> AmqpEnding {
        let opened = tokio::select! {
            opened = Broker::open(&self.source, self.limits.connect_timeout) => opened,
            () = stopped(shutdown) => return AmqpEnding::Stopping,
        };
        let (broker, deliveries, found) = match opened {
            Ok(opened) => opened,
            Err(ending) => {
                self.metrics.connects.count(ending.word());
                return ending;
            }
        };
        self.metrics.connects.count("accepted");
        tracing::info!(
            server = %self.source.url,
            queue = self.source.queue.as_str(),
            waiting = found.message_count(),
            "reports are taken from RabbitMQ"
        );
        let ending = AmqpSession::new(self, attendance, broker, deliveries).run(shutdown).await;
        self.metrics.disconnects.count(ending.word());
        ending
    }

    fn tell_failure(&self, ending: &AmqpEnding, pause: Duration) {
        tracing::warn!(
            server = %self.source.url,
            queue = self.source.queue.as_str(),
            error = %ending,
            advice = ending.advice(),
            next_attempt_in = ?pause,
            "nothing is taken from RabbitMQ, and silence over AMQP is not counted until it is"
        );
    }
}

/// Chance for the pauses; without a source of it they are only more alike.
fn seed() -> u64 {
    unguessable().map_or(0, u64::from_le_bytes)
}
