//! One connection's part of a fleet: the life that all ways in share.
//!
//! Connect, carry traffic until it ends, and begin again when the connection breaks. What differs between the ways
//! in is a single session, in the sibling modules.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::outbox::Outbox;
use super::{Plan, Progress, Way, http, lean_mqtt, mqtt};
use crate::latency::Latency;
use crate::sent::Sent;
use crate::traffic::{Next, Report, Traffic};

/// Between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Lanes of this process, of all its fleets.
static LANES_STARTED: AtomicU64 = AtomicU64::new(0);

/// What a lane leaves behind.
#[derive(Debug)]
pub(super) struct LaneOutcome {
    pub(super) unanswered: u64,
    pub(super) latency: Latency,
    pub(super) sent: Sent,
}

/// What a lane waits for, besides answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// Room in its window.
    Room,
    /// The time of the next report.
    Until(Instant),
    /// Nothing: all has been said.
    End,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lane<T> {
    number: u64,
    pub(super) plan: Arc<Plan>,
    traffic: T,
    pub(super) outbox: Outbox,
}

impl<T: Traffic> Lane<T> {
    pub(super) fn new(plan: Arc<Plan>, traffic: T, progress: Arc<Progress>) -> Self {
        let number = LANES_STARTED.fetch_add(1, Ordering::Relaxed);
        let outbox = Outbox::new(plan.devices.clone(), plan.keep, progress);
        Self { number, plan, traffic, outbox }
    }

    /// A client id that no other lane has, nor one of another fleet: a server lets only one connection have it.
    pub(super) fn client_id(&self) -> String {
        format!("simulator-{}-{}", std::process::id(), self.number)
    }

    /// Runs until all traffic is answered, or `stopped`.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) -> LaneOutcome {
        tokio::select! {
            () = self.carry() => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        let (unanswered, latency, sent) = self.outbox.into_parts();
        LaneOutcome { unanswered, latency, sent }
    }

    async fn carry(&mut self) {
        loop {
            let address = self.plan.endpoint.address().await;
            match self.session(address).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(lane = self.number, %error, "connection broke"),
            }
            self.outbox.connection_broke();
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }

    /// One connection; `Ok` when there is nothing more to say and all is answered.
    async fn session(&mut self, address: SocketAddr) -> io::Result<()> {
        match self.plan.way {
            Way::Mqtt { in_flight } => mqtt::session(self, address, in_flight).await,
            Way::LeanMqtt { in_flight } => lean_mqtt::session(self, address, in_flight).await,
            Way::Http { lines } => http::session(self, address, lines.into()).await,
        }
    }

    /// Takes from the traffic until `in_flight` reports are without an answer.
    pub(super) fn fill(&mut self, in_flight: usize, now: Instant) -> Pause {
        while self.outbox.len() < in_flight {
            match self.traffic.next(now) {
                Next::Report(report) => self.outbox.push(report),
                Next::NotBefore(time) => return Pause::Until(time),
                Next::Finished => return Pause::End,
            }
        }
        Pause::Room
    }

    /// Whether everything has been said and answered.
    pub(super) fn is_done(&self, pause: Pause) -> bool {
        pause == Pause::End && self.outbox.len() == 0
    }

    /// Appends `report` as the plan wants it over MQTT.
    pub(super) fn write_payload(&self, report: Report, out: &mut Vec<u8>) {
        super::mqtt_wire::write_payload(self.plan.payload, report, out);
    }
}

/// Waits for the next report's time; for ever when there is none to wait for.
pub(super) async fn rest(pause: Pause) {
    match pause {
        Pause::Until(time) => tokio::time::sleep_until(time.into()).await,
        Pause::Room | Pause::End => std::future::pending().await,
    }
}
