//! An engine with a few devices, an MQTT listener on a free port, and the HTTP route.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use base::{DeviceId, PartitionId, SystemClock, Timestamp, hash};
use engine::records::Quarantined;
use engine::{Engine, EngineSettings, NewDevice, Page};
use gateway::mqtt::{MqttLimits, MqttListener};
use net::memory_budget::MemoryBudget;
use prometheus_client::registry::Registry;
use store::Store;
use tokio::sync::watch;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use crate::PATIENCE;
use crate::held_store::HeldStore;

/// Locks of three partitions.
pub(crate) const LOCKS: [&str; 3] = ["0xA", "0x1", "0xC"];
pub(crate) const METER: &str = "m1";

pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<HeldStore>,
    pub(crate) mqtt: SocketAddr,
    pub(crate) http: Router,
    pub(crate) memory: MemoryBudget,
    registry: Registry,
    stop: watch::Sender<bool>,
    listener: JoinHandle<()>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(MqttLimits::default()).await
    }

    pub(crate) async fn with(limits: MqttLimits) -> Self {
        Self::listening(limits, |listener| listener).await
    }

    pub(crate) async fn listening(
        limits: MqttLimits,
        arrange: impl FnOnce(MqttListener) -> MqttListener,
    ) -> Self {
        let store = HeldStore::new();
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        let engine = Engine::start(settings(), store.clone(), clock).await.expect("an empty store");
        for (id, kind) in LOCKS.map(|id| (id, "lock")).into_iter().chain([(METER, "meter")]) {
            let device = NewDevice { id: id.into(), kind: Some(kind.into()), ..NewDevice::default() };
            engine.create_device(device).await.expect("a new device");
        }
        let partition = |id| hash::device_partition(&DeviceId::new(id).expect("an id"), store.partitions());
        assert_eq!(LOCKS.map(partition), [3, 0, 1].map(PartitionId));
        let (memory, mut registry) = (MemoryBudget::default(), Registry::default());
        let http = gateway::http::routes(&engine, &Arc::default(), &memory, &mut registry);
        let listener = MqttListener::bind(([127, 0, 0, 1], 0).into(), engine.clone(), limits);
        let listener = arrange(listener.await.expect("a free port"));
        listener.register_metrics(&mut registry);
        let mqtt = listener.local_addr().expect("bound");
        let (stop, stopping) = watch::channel(false);
        let listener = tokio::spawn(listener.run(stopping));
        Self { engine, store, mqtt, http, memory, registry, stop, listener }
    }

    /// Stops the listener and waits until it is gone.
    pub(crate) async fn stop_mqtt(self) {
        self.stop.send_replace(true);
        self.listener.await.expect("no panic");
    }

    /// Tells the listener to stop, and does not wait.
    pub(crate) fn begin_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// The device's readings, oldest first, as JSON.
    pub(crate) fn readings(&self, device: &str) -> Vec<String> {
        let page =
            Page { from: Timestamp(0), to: Timestamp::MAX, ascending: true, after: None, limit: 1_000 };
        let id = DeviceId::new(device).expect("an id");
        let readings = self.engine.queries().readings(&id, page).expect("a device");
        readings.iter().map(|reading| reading.value.to_json()).collect()
    }

    /// What is in the quarantine, oldest first: code, topic and payload of each.
    fn quarantined(&self) -> Vec<(String, String, Vec<u8>)> {
        let page =
            Page { from: Timestamp(0), to: Timestamp::MAX, ascending: true, after: None, limit: 1_000 };
        let refused = self.engine.queries().quarantine(page).expect("readable");
        let told = |report: Quarantined| (report.code, report.topic.unwrap_or_default(), report.payload);
        refused.into_iter().map(|(_, report)| told(report)).collect()
    }

    /// Waits until the quarantine holds so many: a feed that was just read may be a few
    /// milliseconds late.
    pub(crate) async fn quarantines(&self, reports: usize) -> Vec<(String, String, Vec<u8>)> {
        let quarantined = async {
            loop {
                let all = self.quarantined();
                if all.len() == reports {
                    break all;
                }
                yield_now().await;
            }
        };
        timeout(PATIENCE, quarantined).await.expect("in time")
    }

    /// Waits until the figure is this.
    pub(crate) async fn figure_becomes(&self, name: &str, value: u64) {
        let becomes = async {
            while self.figure(name) != value {
                yield_now().await;
            }
        };
        timeout(PATIENCE, becomes).await.unwrap_or_else(|_| panic!("{name} is {}", self.figure(name)));
    }

    /// When the device was last heard of.
    pub(crate) fn last_seen(&self, device: &str) -> Option<Timestamp> {
        let id = DeviceId::new(device).expect("an id");
        let device = self.engine.queries().device(&id).expect("readable").expect("registered");
        device.seen.map(|seen| seen.at)
    }

    /// A figure as `/metrics` shows it: `name{label="word"}` or `name`.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("text");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a number"))
    }
}

fn settings() -> EngineSettings {
    let restart_grace = Duration::from_secs(120);
    EngineSettings { restart_grace, ways_configured: [true, true, false], ..EngineSettings::for_tests() }
}
