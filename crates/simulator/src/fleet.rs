//! A fleet of simulated devices: lanes that carry [`LaneTraffic`] over a way in and remember what
//! was acknowledged.
//!
//! One lane is one connection, which speaks for a part of the devices and keeps their order. A lane
//! whose connection breaks connects again and repeats, oldest first, whatever was not acknowledged.
//! So after a crash a report may arrive twice, and [`Sent`] knows how often each went out. Nothing
//! here grows without bound but the record of every report, which is kept only on request
//! ([`ReportRecording::EveryReport`]).

mod amqp;
mod http;
mod lane;
mod lean_mqtt;
mod mqtt;
pub(crate) mod mqtt_packet;
mod mqtt_window;
pub(crate) mod mqtt_wire;
mod outbox;
mod payload;
mod progress;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::endpoint::Endpoint;
use crate::latency::Latency;
use crate::sent::Sent;
use crate::traffic::{DeviceIds, LaneTraffic};

use lane::{Lane, LaneOutcome};

pub use progress::{FleetProgress, FleetStats, Latencies, Reasons};

/// Between two looks at the figures, which do not announce themselves: counting must cost nothing.
const FIGURES_EVERY: Duration = Duration::from_millis(1);

/// The way in that a fleet takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// MQTT 3.1.1 at QoS 1 through `rumqttc`, as a device's firmware would.
    Mqtt {
        /// Reports sent and not yet acknowledged, at most, per connection.
        in_flight: u16,
    },
    /// MQTT 3.1.1 at QoS 1 with as little work per report as possible, for load.
    LeanMqtt {
        /// Reports sent and not yet acknowledged, at most, per connection.
        in_flight: u16,
    },
    /// MQTT of another dialect, otherwise as with [`Way::LeanMqtt`].
    MqttAs(MqttDialect),
    /// `POST /v1/reports` with NDJSON over connections that are kept.
    Http {
        /// Lines in a request, at most.
        lines: u16,
    },
    /// AMQP 0-9-1 to the queue of a broker, with publisher confirms: what is acknowledged is that
    /// the broker has it.
    Amqp {
        /// Messages sent and not yet confirmed, at most, per connection.
        in_flight: u16,
    },
}

/// How a device speaks MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MqttDialect {
    /// The protocol's version.
    pub version: MqttVersion,
    /// How reports are sent.
    pub qos: Qos,
    /// Reports sent and not yet acknowledged, at most, per connection.
    pub in_flight: u16,
}

/// The versions of MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MqttVersion {
    /// 3.1.1, in which a refused report is acknowledged like any other.
    V311,
    /// 5, in which a refusal says why.
    V5,
}

/// The qualities of service of MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    /// 0: sent, and never heard of again.
    AtMostOnce,
    /// 1: acknowledged.
    AtLeastOnce,
    /// 2: acknowledged, released and completed; here it counts as acknowledged when it is
    /// completed.
    ExactlyOnce,
}

impl Way {
    /// Whether each report gets an answer at all.
    #[must_use]
    pub const fn answers(self) -> bool {
        !matches!(self, Self::MqttAs(MqttDialect { qos: Qos::AtMostOnce, .. }))
    }

    /// Whether an answer tells a refusal from an acceptance.
    #[must_use]
    pub const fn tells_refusals(self) -> bool {
        match self {
            Self::Http { .. } => true,
            Self::MqttAs(dialect) => self.answers() && matches!(dialect.version, MqttVersion::V5),
            Self::Mqtt { .. } | Self::LeanMqtt { .. } | Self::Amqp { .. } => false,
        }
    }
}

/// What a report looks like over MQTT. Over HTTP and AMQP it always carries its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadFormat {
    /// The bare value.
    Value,
    /// An envelope with the value and the device's own time.
    Dated,
    /// An envelope with value, time, and an id of which no other report of the device has the like.
    Identified {
        /// Differs between runs.
        run: u64,
    },
}

/// What is remembered of the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportRecording {
    /// Counts and latencies only: any number of reports in constant memory.
    Counts,
    /// Every report with its answer, 64 bytes each.
    EveryReport,
}

/// Who reports, where to and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The way in.
    pub way: Way,
    /// The server's address for that way.
    pub endpoint: Endpoint,
    /// All devices of the run.
    pub devices: DeviceIds,
    /// What a report looks like.
    pub payload: PayloadFormat,
    /// What is remembered.
    pub keep: ReportRecording,
}

/// What a fleet has done, once it has ended.
#[derive(Debug)]
pub struct FleetOutcome {
    /// Counts over all lanes.
    pub stats: FleetStats,
    /// Reports that were still without an answer at the end.
    pub unanswered: u64,
    /// From first going out to the acknowledgement.
    pub latency: Latency,
    /// Every report; nothing unless it was to be kept.
    pub sent: Sent,
}

/// A fleet at work.
#[derive(Debug)]
pub struct ReportingFleet {
    devices: DeviceIds,
    progress: Arc<FleetProgress>,
    stop: watch::Sender<bool>,
    lanes: JoinSet<LaneOutcome>,
    ended: Vec<LaneOutcome>,
}

impl ReportingFleet {
    /// Starts one lane for each of `traffics`.
    #[must_use]
    pub fn start<T: LaneTraffic>(plan: Plan, traffics: Vec<T>) -> Self {
        let progress = Arc::new(FleetProgress::default());
        let (stop, stopped) = watch::channel(false);
        let devices = plan.devices.clone();
        let plan = Arc::new(plan);
        let mut lanes = JoinSet::new();
        for traffic in traffics {
            let lane = Lane::new(Arc::clone(&plan), traffic, Arc::clone(&progress));
            lanes.spawn(lane.run(stopped.clone()));
        }
        Self { devices, progress, stop, lanes, ended: Vec::new() }
    }

    /// The live figures.
    #[must_use]
    pub fn progress(&self) -> Arc<FleetProgress> {
        Arc::clone(&self.progress)
    }

    /// Waits until the live figures satisfy `done`; false when they have not within `patience`.
    pub async fn until(&self, patience: Duration, mut done: impl FnMut(FleetStats) -> bool) -> bool {
        let satisfied = async {
            while !done(self.progress.stats()) {
                tokio::time::sleep(FIGURES_EVERY).await;
            }
        };
        tokio::time::timeout(patience, satisfied).await.is_ok()
    }

    /// Waits until all traffic has finished and has been answered. It may be dropped and called
    /// again.
    pub async fn drained(&mut self) {
        while let Some(lane) = self.lanes.join_next().await {
            self.ended.push(lane.expect("a lane neither panics nor is aborted"));
        }
    }

    /// Waits until all traffic has finished and has been answered, or `patience` is over; what is
    /// unanswered then stays so.
    pub async fn finish(mut self, patience: Duration) -> FleetOutcome {
        if tokio::time::timeout(patience, self.drained()).await.is_err() {
            self.stop.send_replace(true);
            self.drained().await;
        }
        let mut outcome = FleetOutcome {
            stats: self.progress.stats(),
            unanswered: 0,
            latency: self.progress.latencies().since_sent,
            sent: Sent::nothing(self.devices),
        };
        for lane in self.ended {
            outcome.unanswered += lane.unanswered;
            outcome.sent.merge(lane.sent);
        }
        outcome
    }
}
