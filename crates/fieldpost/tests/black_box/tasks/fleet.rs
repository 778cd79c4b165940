//! Devices that are there. Each takes its commands over a connection of its own, does with them as
//! it was told to, and says what it heard.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
use serde_json::{Value, json};
use simulator::server::Site;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::contract::rig::{PATIENCE, Rig};

/// What a device does with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// It does it, and says so with its own id.
    Answers,
    /// It says that it cannot.
    Refuses,
    /// It says nothing.
    IsSilent,
}

/// A command that a device heard.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) device: String,
    pub(super) command: String,
    pub(super) payload: Value,
}

/// Devices that are there.
pub(super) struct Fleet {
    port: u16,
    probes: BTreeMap<String, Probe>,
    tell: mpsc::UnboundedSender<Heard>,
    heard: mpsc::UnboundedReceiver<Heard>,
    counts: BTreeMap<String, usize>,
}

struct Probe {
    client: AsyncClient,
    listening: JoinHandle<()>,
    habit: Arc<Mutex<Habit>>,
}

impl Fleet {
    /// These devices, which answer.
    pub(super) async fn come(rig: &Rig, ids: &[String]) -> Self {
        Self::come_to(&rig.site, ids).await
    }

    /// The same, to the server of a site.
    pub(super) async fn come_to(site: &Site, ids: &[String]) -> Self {
        let (tell, heard) = mpsc::unbounded_channel();
        let port = site.mqtt.address().await.port();
        let mut fleet = Self { port, probes: BTreeMap::new(), tell, heard, counts: BTreeMap::new() };
        for id in ids {
            fleet.comes(id, Habit::Answers).await;
        }
        fleet
    }

    /// A device comes, and has its subscription.
    pub(super) async fn comes(&mut self, id: &str, habit: Habit) {
        let habit = Arc::new(Mutex::new(habit));
        let mut options = MqttOptions::new(id, "127.0.0.1", self.port);
        options.set_keep_alive(Duration::from_secs(30));
        let (client, mut events) = AsyncClient::new(options, 100);
        events.network_options.set_connection_timeout(PATIENCE.as_secs());
        client.subscribe(format!("dev/lock/{id}"), QoS::AtLeastOnce).await.expect("queued");
        let (subscribed, is_subscribed) = oneshot::channel();
        let (tell, own, habits, id) = (self.tell.clone(), client.clone(), Arc::clone(&habit), id.to_owned());
        let name = id.clone();
        let listening = tokio::spawn(async move {
            let mut subscribed = Some(subscribed);
            while let Ok(event) = events.poll().await {
                match event {
                    Event::Incoming(Packet::SubAck(_)) => {
                        let _told_once = subscribed.take().map(|told| told.send(()));
                    }
                    Event::Incoming(Packet::Publish(publish)) => {
                        let heard = heard(&id, &publish.payload);
                        let habit = *habits.lock().expect("unpoisoned");
                        answer(&own, &heard, habit).await;
                        let _the_test_has_ended = tell.send(heard);
                    }
                    _ => {}
                }
            }
        });
        timeout(PATIENCE, is_subscribed).await.expect("in time").expect("it subscribes");
        self.probes.insert(name, Probe { client, listening, habit });
    }

    /// From here on the device does so.
    pub(super) fn set(&self, id: &str, habit: Habit) {
        *self.probes[id].habit.lock().expect("unpoisoned") = habit;
    }

    /// The device says goodbye.
    pub(super) async fn leaves(&mut self, id: &str) {
        let probe = self.probes.remove(id).expect("it is there");
        probe.client.disconnect().await.expect("queued");
        timeout(PATIENCE, probe.listening).await.expect("in time").expect("no panic");
    }

    /// All connections break, as when their server was killed.
    pub(super) async fn vanish(&mut self) -> Vec<(String, Habit)> {
        let mut gone = Vec::new();
        for (id, probe) in std::mem::take(&mut self.probes) {
            probe.listening.abort();
            let _cancelled = probe.listening.await;
            gone.push((id, *probe.habit.lock().expect("unpoisoned")));
        }
        gone
    }

    /// They connect to the server that runs now.
    pub(super) async fn come_back(&mut self, rig: &Rig, gone: Vec<(String, Habit)>) {
        self.port = rig.site.mqtt.address().await.port();
        for (id, habit) in gone {
            self.comes(&id, habit).await;
        }
    }

    /// The next command that any of them hears.
    pub(super) async fn next(&mut self) -> Heard {
        let heard = timeout(PATIENCE, self.heard.recv()).await.expect("in time").expect("they are there");
        *self.counts.entry(heard.device.clone()).or_default() += 1;
        heard
    }

    /// How often each has heard a command, now that all were heard which it was told of.
    pub(super) fn counts(&mut self) -> BTreeMap<String, usize> {
        while let Ok(heard) = self.heard.try_recv() {
            *self.counts.entry(heard.device).or_default() += 1;
        }
        self.counts.clone()
    }

    /// A device answers a command that it heard.
    pub(super) async fn answer(&self, heard: &Heard) {
        answer(&self.probes[&heard.device].client, heard, Habit::Answers).await;
    }
}

fn heard(device: &str, payload: &[u8]) -> Heard {
    let message: Value = serde_json::from_slice(payload).expect("JSON");
    let command = message["message_id"].as_str().expect("an id").to_owned();
    Heard { device: device.to_owned(), command, payload: message["payload"].clone() }
}

async fn answer(client: &AsyncClient, heard: &Heard, habit: Habit) {
    let ok = match habit {
        Habit::Answers => true,
        Habit::Refuses => false,
        Habit::IsSilent => return,
    };
    let said = json!({"message_id": heard.command, "ok": ok, "result": {"from": heard.device}});
    let topic = format!("dev/lock/{}/ack", heard.device);
    client.publish(topic, QoS::AtLeastOnce, false, said.to_string()).await.expect("queued");
}
