//! A server that consumes a queue, and a publisher to it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation};
use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::server::{RunningServer, Site};
use tokio::time::{interval, timeout};

use crate::rabbitmq::{RabbitMq, url_at};

/// Nothing here takes longer, even on a machine that is busy with other tests. Up to half a minute
/// lies between two attempts to reach a RabbitMQ that was away.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks at something that has no signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A server that is stopped has answered by then.
pub(super) const STOP_MAX: Duration = Duration::from_secs(20 + 10);
pub(super) const METERS: [&str; 4] = ["m1", "m2", "m3", "m4"];

/// A server that consumes a queue of its own.
pub(super) struct Rig {
    pub(super) api: ApiClient,
    pub(super) site: Site,
    pub(super) server: Option<RunningServer>,
}

impl Rig {
    /// With a lock and four meters.
    pub(super) async fn start(broker: SocketAddr, queue: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_with_url(&url_at(broker), queue, settings).await
    }

    pub(super) async fn start_with_url(url: &str, queue: &str, settings: &[(&str, &str)]) -> Self {
        let amqp = [("FIELDPOST_AMQP__URL", url), ("FIELDPOST_AMQP__QUEUE", queue)];
        let settings = [&amqp, settings].concat();
        let site = Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &settings).expect("a directory");
        let server = Some(site.start(PATIENCE).await.expect("a server"));
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        let rig = Self { api, site, server };
        rig.register("0xA", &json!({"kind": "lock"})).await;
        for meter in METERS {
            rig.register(meter, &json!({"kind": "meter"})).await;
        }
        rig
    }

    pub(super) async fn register(&self, id: &str, fields: &Value) {
        let mut device = fields.clone();
        device["id"] = id.into();
        let _: Value = self.api.post("/v1/devices", &device).await.expect("registered");
    }

    pub(super) async fn crash(&mut self) {
        self.server.take().expect("it runs").kill().await.expect("killed");
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
    }

    /// A device's readings, oldest first.
    pub(super) async fn readings(&self, device: &str) -> Vec<Value> {
        let path = format!("/v1/devices/{device}/readings?order=asc");
        let readings: Vec<Value> = self.api.list(&path).await.expect("a list");
        readings.into_iter().map(|reading| reading["data"].clone()).collect()
    }

    /// Waits until the device has at least so many readings.
    pub(super) async fn has_readings(&self, device: &str, readings: usize) -> Vec<Value> {
        eventually("the readings come", async || {
            let all = self.readings(device).await;
            (all.len() >= readings).then_some(all)
        })
        .await
    }

    /// A figure as `/metrics` shows it.
    pub(super) async fn figure(&self, name: &str) -> f64 {
        let metrics = self.api.any(hyper::Method::GET, "/metrics", None).await.expect("metrics");
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }

    pub(super) async fn figure_is(&self, name: &str, expect: f64) {
        eventually(name, async || (self.figure(name).await == expect).then_some(())).await;
    }

    /// For what goes on growing.
    pub(super) async fn figure_reaches(&self, name: &str, least: f64) {
        eventually(name, async || (self.figure(name).await >= least).then_some(())).await;
    }

    /// The log, once this is in it. What fails is counted before the log tells it.
    pub(super) async fn log_with(&self, sentence: &str) -> String {
        eventually(sentence, async || {
            let said = self.site.log();
            said.contains(sentence).then_some(said)
        })
        .await
    }

    /// The types of a device's events, oldest first.
    pub(super) async fn events(&self, device: &str) -> Vec<String> {
        let events: Vec<Value> =
            self.api.list(&format!("/v1/events?device={device}&order=asc")).await.expect("a list");
        events.iter().map(|event| event["type"].as_str().expect("a type").to_owned()).collect()
    }

    pub(super) async fn has_event(&self, device: &str, event: &str) {
        eventually(event, async || {
            self.events(device).await.iter().any(|known| known == event).then_some(())
        })
        .await;
    }
}

/// Asks at intervals until there is an answer.
pub(super) async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let asking = async {
        let mut again = interval(LOOK_EVERY);
        loop {
            again.tick().await;
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

pub(super) fn report(device: &str, data: impl Into<Value>) -> String {
    json!({"sensor_id": device, "data": data.into()}).to_string()
}

/// A channel with publisher confirms.
pub(super) async fn confirming(broker: &RabbitMq) -> Channel {
    let channel = broker.channel().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    channel
}

/// Publishes; whether the broker confirmed that it is in the queue.
pub(super) async fn publish(channel: &Channel, queue: &str, body: &str) -> lapin::Result<bool> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let sent = channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), persistent).await?;
    Ok(matches!(sent.await?, Confirmation::Ack(None)))
}

pub(super) async fn publish_all(channel: &Channel, queue: &str, bodies: impl IntoIterator<Item = String>) {
    for body in bodies {
        assert!(publish(channel, queue, &body).await.expect("the broker is there"), "{body} is in no queue");
    }
}
