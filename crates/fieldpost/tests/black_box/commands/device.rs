//! A lock on rumqttc, in either version of MQTT: it takes commands, and says of them what a test
//! tells it to.

use std::collections::VecDeque;
use std::time::Duration;

use rumqttc::v5;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::contract::rig::{PATIENCE, Rig};

/// A version of MQTT.
#[derive(Clone, Copy, Debug)]
pub(super) enum Version {
    Old,
    New,
}

pub(super) const VERSIONS: [Version; 2] = [Version::Old, Version::New];

/// What a client hears of its server.
#[derive(Debug)]
enum Heard {
    Connected,
    Subscribed,
    Acknowledged,
    Published { topic: String, payload: Value },
}

enum Client {
    Old(rumqttc::AsyncClient),
    New(v5::AsyncClient),
}

/// A lock with a connection.
pub(super) struct Device {
    id: String,
    client: Client,
    heard: mpsc::UnboundedReceiver<Heard>,
    commands: VecDeque<(String, Value)>,
    listening: JoinHandle<()>,
}

impl Device {
    /// A lock that is connected, and has no subscription yet. Its client id is its own.
    pub(super) async fn connect(rig: &Rig, version: Version, id: &str) -> Self {
        let port = rig.site.mqtt.address().await.port();
        let (tell, heard) = mpsc::unbounded_channel();
        let (client, listening) = match version {
            Version::Old => old_client(id, port, tell),
            Version::New => new_client(id, port, tell),
        };
        let mut device = Self { id: id.to_owned(), client, heard, commands: VecDeque::new(), listening };
        device.until(|heard| matches!(heard, Heard::Connected)).await;
        device
    }

    /// One that takes its commands.
    pub(super) async fn ready(rig: &Rig, version: Version, id: &str) -> Self {
        let mut device = Self::connect(rig, version, id).await;
        device.subscribe(&format!("dev/lock/{id}")).await;
        device
    }

    pub(super) async fn subscribe(&mut self, filter: &str) {
        match &self.client {
            Client::Old(client) => {
                client.subscribe(filter, rumqttc::QoS::AtLeastOnce).await.expect("queued");
            }
            Client::New(client) => {
                client.subscribe(filter, v5::mqttbytes::QoS::AtLeastOnce).await.expect("queued");
            }
        }
        self.until(|heard| matches!(heard, Heard::Subscribed)).await;
    }

    /// The next command: its id and its payload.
    pub(super) async fn command(&mut self) -> (String, Value) {
        loop {
            match self.commands.pop_front() {
                Some(command) => return command,
                None => self.until(|heard| matches!(heard, Heard::Published { .. })).await,
            }
        }
    }

    /// The next command is this one.
    pub(super) async fn gets(&mut self, id: &str) {
        let (given, payload) = self.command().await;
        assert_eq!(given, id, "{payload}");
    }

    /// Says that it did a command, or did not.
    pub(super) async fn answer(&mut self, id: &str, ok: bool, result: &Value) {
        self.say("ack", &json!({"message_id": id, "ok": ok, "result": result})).await;
    }

    /// Publishes below its topic, and waits until that is acknowledged: it is durable then.
    pub(super) async fn say(&mut self, level: &str, payload: &Value) {
        let (topic, payload) = (format!("dev/lock/{}/{level}", self.id), payload.to_string());
        match &self.client {
            Client::Old(client) => {
                let qos = rumqttc::QoS::AtLeastOnce;
                client.publish(topic, qos, false, payload).await.expect("queued");
            }
            Client::New(client) => {
                let qos = v5::mqttbytes::QoS::AtLeastOnce;
                client.publish(topic, qos, false, payload).await.expect("queued");
            }
        }
        self.until(|heard| matches!(heard, Heard::Acknowledged)).await;
    }

    /// Says goodbye.
    pub(super) async fn leave(self) {
        match &self.client {
            Client::Old(client) => client.disconnect().await.expect("queued"),
            Client::New(client) => client.disconnect().await.expect("queued"),
        }
        timeout(PATIENCE, self.listening).await.expect("in time").expect("no panic");
    }

    /// Its connection breaks.
    pub(super) async fn vanish(self) {
        self.listening.abort();
        let _cancelled = self.listening.await;
    }

    /// Listens until it has heard such a thing. Commands are kept.
    async fn until(&mut self, is: impl Fn(&Heard) -> bool) {
        loop {
            let heard = timeout(PATIENCE, self.heard.recv()).await;
            let heard = heard.expect("in time").expect("the connection lasts");
            let found = is(&heard);
            if let Heard::Published { topic, payload } = heard {
                assert_eq!(topic, format!("dev/lock/{}", self.id), "{payload}");
                let id = payload["message_id"].as_str().expect("an id").to_owned();
                self.commands.push_back((id, payload["payload"].clone()));
            }
            if found {
                return;
            }
        }
    }
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

fn old_client(id: &str, port: u16, tell: mpsc::UnboundedSender<Heard>) -> (Client, JoinHandle<()>) {
    use rumqttc::{AsyncClient, Event, MqttOptions, Packet};
    let mut options = MqttOptions::new(id, "127.0.0.1", port);
    options.set_keep_alive(Duration::from_secs(30));
    let (client, mut events) = AsyncClient::new(options, 100);
    events.network_options.set_connection_timeout(PATIENCE.as_secs());
    let listening = tokio::spawn(async move {
        while let Ok(event) = events.poll().await {
            let heard = match event {
                Event::Incoming(Packet::ConnAck(_)) => Heard::Connected,
                Event::Incoming(Packet::SubAck(_)) => Heard::Subscribed,
                Event::Incoming(Packet::PubAck(_)) => Heard::Acknowledged,
                Event::Incoming(Packet::Publish(publish)) => {
                    Heard::Published { topic: publish.topic, payload: json_of(&publish.payload) }
                }
                _ => continue,
            };
            let _the_test_has_ended = tell.send(heard);
        }
    });
    (Client::Old(client), listening)
}

fn new_client(id: &str, port: u16, tell: mpsc::UnboundedSender<Heard>) -> (Client, JoinHandle<()>) {
    use v5::mqttbytes::v5::Packet;
    use v5::{AsyncClient, Event, MqttOptions};
    let mut options = MqttOptions::new(id, "127.0.0.1", port);
    options.set_keep_alive(Duration::from_secs(30)).set_connection_timeout(PATIENCE.as_secs());
    let (client, mut events) = AsyncClient::new(options, 100);
    let listening = tokio::spawn(async move {
        while let Ok(event) = events.poll().await {
            let heard = match event {
                Event::Incoming(Packet::ConnAck(_)) => Heard::Connected,
                Event::Incoming(Packet::SubAck(_)) => Heard::Subscribed,
                Event::Incoming(Packet::PubAck(_)) => Heard::Acknowledged,
                Event::Incoming(Packet::Publish(publish)) => Heard::Published {
                    topic: String::from_utf8_lossy(&publish.topic).into_owned(),
                    payload: json_of(&publish.payload),
                },
                _ => continue,
            };
            let _the_test_has_ended = tell.send(heard);
        }
    });
    (Client::New(client), listening)
}
