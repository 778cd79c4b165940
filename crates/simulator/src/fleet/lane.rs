//! One connection's part of a fleet: the life that all ways in share.
//!
//! Connect, carry traffic until it ends, and begin again when the connection breaks. What differs
//! between the ways in is a single session, in the sibling modules.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::outbox::Outbox;
use super::{FleetProgress, MqttDialect, MqttVersion, Plan, Qos, Way, amqp, http, lean_mqtt, mqtt, payload};
use crate::sent::Sent;
use crate::traffic::{LaneAction, LaneTraffic, SimulatedReport};

/// Between two attempts to connect; twice as long after each that came to nothing, up to the
/// longest.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long an MQTT device may have nothing to say, where it matters to the server.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Lanes of this process, of all its fleets.
static LANES_STARTED: AtomicU64 = AtomicU64::new(0);

/// What a lane leaves behind.
#[derive(Debug)]
pub(super) struct LaneOutcome {
    pub(super) unanswered: u64,
    pub(super) sent: Sent,
}

/// What a lane waits for, besides answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// Room in its window.
    Room,
    /// The time of the next report.
    Until(Instant),
    /// Nothing: the device breaks the connection once it has said what it has.
    Cut,
    /// Nothing: all has been said.
    End,
}

impl Pause {
    /// The same, but no longer than until `time`.
    pub(super) fn or_until(self, time: Option<Instant>) -> Self {
        match (self, time) {
            (Self::Until(own), Some(time)) => Self::Until(own.min(time)),
            (_, Some(time)) => Self::Until(time),
            (own, None) => own,
        }
    }
}

/// How a connection ended that did not break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// All is said and answered.
    Done,
    /// The device broke it on purpose.
    Cut,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lane<T> {
    number: u64,
    pub(super) plan: Arc<Plan>,
    traffic: T,
    pub(super) outbox: Outbox,
}

impl<T: LaneTraffic> Lane<T> {
    pub(super) fn new(plan: Arc<Plan>, traffic: T, progress: Arc<FleetProgress>) -> Self {
        let number = LANES_STARTED.fetch_add(1, Ordering::Relaxed);
        let outbox = Outbox::new(number, plan.devices.clone(), plan.keep, progress);
        Self { number, plan, traffic, outbox }
    }

    /// A client id that no other lane has, nor one of another fleet: a server lets only one
    /// connection have it.
    pub(super) fn client_id(&self) -> String {
        format!("simulator-{}-{}", std::process::id(), self.number)
    }

    /// Runs until all traffic is answered, or `stopped`.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) -> LaneOutcome {
        tokio::select! {
            () = self.carry() => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        let (unanswered, sent) = self.outbox.into_parts();
        LaneOutcome { unanswered, sent }
    }

    async fn carry(&mut self) {
        let mut pause = RECONNECT_PAUSE;
        loop {
            let answered = self.outbox.answered();
            match self.session().await {
                Ok(Ending::Done) => return,
                Ok(Ending::Cut) => self.outbox.connection_was_cut(),
                Err(error) => {
                    tracing::debug!(lane = self.number, %error, "connection broke");
                    self.outbox.connection_broke(&error.to_string());
                    let came_to_something = self.outbox.answered() > answered;
                    pause = if came_to_something { RECONNECT_PAUSE } else { pause };
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RECONNECT_PAUSE_MAX);
                }
            }
        }
    }

    /// One connection; `Ok` when it ended as it should.
    async fn session(&mut self) -> io::Result<Ending> {
        match self.plan.way {
            Way::Mqtt { in_flight } => mqtt::session(self, in_flight).await,
            Way::LeanMqtt { in_flight } => {
                let dialect = MqttDialect { version: MqttVersion::V311, qos: Qos::AtLeastOnce, in_flight };
                lean_mqtt::session(self, dialect, Duration::ZERO).await
            }
            Way::MqttAs(dialect) => lean_mqtt::session(self, dialect, KEEP_ALIVE).await,
            Way::Http { lines } => http::session(self, lines.into()).await,
            Way::Amqp { in_flight } => amqp::session(self, in_flight.into()).await,
        }
    }

    /// Takes from the traffic until `in_flight` reports are without an answer.
    pub(super) fn fill(&mut self, in_flight: usize, now: Instant) -> Pause {
        while self.outbox.len() < in_flight {
            match self.traffic.next(now) {
                LaneAction::Report(report) => {
                    self.outbox.push(report);
                    if report.then_cut {
                        return Pause::Cut;
                    }
                }
                LaneAction::NotBefore(time) => return Pause::Until(time),
                LaneAction::Finished => return Pause::End,
            }
        }
        Pause::Room
    }

    /// Whether everything has been said and answered.
    pub(super) fn is_done(&self, pause: Pause) -> bool {
        pause == Pause::End && self.outbox.len() == 0
    }

    /// Appends `report` as the plan wants it over MQTT.
    pub(super) fn write_payload(&self, report: SimulatedReport, out: &mut Vec<u8>) {
        payload::write_mqtt(self.plan.payload, report, out);
    }
}

/// Waits for the next report's time; for ever when there is none to wait for.
pub(super) async fn rest(pause: Pause) {
    match pause {
        Pause::Until(time) => tokio::time::sleep_until(time.into()).await,
        Pause::Room | Pause::Cut | Pause::End => std::future::pending().await,
    }
}
