//! A fleet of simulated devices: lanes that carry [`Traffic`] over a way in and remember what was acknowledged.
//!
//! One lane is one connection, which speaks for a part of the devices and keeps their order. A lane whose connection
//! breaks connects again and repeats, oldest first, whatever was not acknowledged; so after a crash a report may
//! arrive twice, and [`Sent`] knows how often each went out. Nothing here grows without bound but the record of
//! every report, which is kept only on request ([`Keep::EveryReport`]).

mod http;
mod lane;
mod lean_mqtt;
mod mqtt;
mod mqtt_wire;
mod outbox;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::endpoint::Endpoint;
use crate::latency::Latency;
use crate::sent::Sent;
use crate::traffic::{DeviceIds, Traffic};

use lane::{Lane, LaneOutcome};

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
    /// `POST /v1/reports` with NDJSON over connections that are kept.
    Http {
        /// Lines in a request, at most.
        lines: u16,
    },
}

/// What a report looks like over MQTT. Over HTTP it always carries its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// The bare value.
    Value,
    /// An envelope with the value and the device's own time.
    Dated,
}

/// What is remembered of the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
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
    pub payload: Payload,
    /// What is remembered.
    pub keep: Keep,
}

/// What a fleet has done so far; read while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicU64,
    repeated: AtomicU64,
    acknowledged: AtomicU64,
    refused: AtomicU64,
    broken: AtomicU64,
    disordered: AtomicU64,
}

/// A [`Progress`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Reports that went out, each counted once.
    pub sent: u64,
    /// Times that a report went out again after a broken connection.
    pub repeated: u64,
    /// Reports acknowledged.
    pub acknowledged: u64,
    /// Reports refused with a reason.
    pub refused: u64,
    /// Connections that broke or could not be made.
    pub broken: u64,
    /// Acknowledgements that came out of order, which the server promises not to do.
    pub disordered: u64,
}

impl Progress {
    /// The figures now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            sent: read(&self.sent),
            repeated: read(&self.repeated),
            acknowledged: read(&self.acknowledged),
            refused: read(&self.refused),
            broken: read(&self.broken),
            disordered: read(&self.disordered),
        }
    }
}

/// What a fleet has done, once it has ended.
#[derive(Debug)]
pub struct Outcome {
    /// Counts over all lanes.
    pub figures: Figures,
    /// Reports that were still without an answer at the end.
    pub unanswered: u64,
    /// From first going out to the acknowledgement.
    pub latency: Latency,
    /// Every report; nothing unless it was to be kept.
    pub sent: Sent,
}

/// A fleet at work.
#[derive(Debug)]
pub struct Fleet {
    devices: DeviceIds,
    progress: Arc<Progress>,
    stop: watch::Sender<bool>,
    lanes: JoinSet<LaneOutcome>,
}

impl Fleet {
    /// Starts one lane for each of `traffics`.
    #[must_use]
    pub fn start<T: Traffic>(plan: Plan, traffics: Vec<T>) -> Self {
        let progress = Arc::new(Progress::default());
        let (stop, stopped) = watch::channel(false);
        let devices = plan.devices.clone();
        let plan = Arc::new(plan);
        let mut lanes = JoinSet::new();
        for traffic in traffics {
            let lane = Lane::new(Arc::clone(&plan), traffic, Arc::clone(&progress));
            lanes.spawn(lane.run(stopped.clone()));
        }
        Self { devices, progress, stop, lanes }
    }

    /// The live figures.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Waits until the live figures satisfy `done`; false when they have not within `patience`.
    pub async fn until(&self, patience: Duration, mut done: impl FnMut(Figures) -> bool) -> bool {
        let satisfied = async {
            while !done(self.progress.figures()) {
                tokio::time::sleep(FIGURES_EVERY).await;
            }
        };
        tokio::time::timeout(patience, satisfied).await.is_ok()
    }

    /// Waits until all traffic has finished and has been answered, or `patience` is over; what is unanswered then
    /// stays so.
    pub async fn finish(mut self, patience: Duration) -> Outcome {
        let mut ended = Vec::new();
        let all = async {
            while let Some(lane) = self.lanes.join_next().await {
                ended.push(lane);
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            self.stop.send_replace(true);
            while let Some(lane) = self.lanes.join_next().await {
                ended.push(lane);
            }
        }
        let mut outcome = Outcome {
            figures: Figures::default(),
            unanswered: 0,
            latency: Latency::default(),
            sent: Sent::nothing(self.devices),
        };
        for lane in ended {
            let lane = lane.expect("a lane neither panics nor is aborted");
            outcome.unanswered += lane.unanswered;
            outcome.latency.merge(&lane.latency);
            outcome.sent.merge(lane.sent);
        }
        outcome.figures = self.progress.figures();
        outcome
    }
}
