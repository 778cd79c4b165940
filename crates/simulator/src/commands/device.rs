//! One connection of devices that take commands: it subscribes for each of them, reads what comes
//! and answers when it is time. Small enough for 19,000 of them in a process.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::watch;

use super::ledger::{CommandLedger, hash_of};
use super::packet::{self, ServerPacket};
use super::response_profile::ResponseProfile;
use crate::client_stream::{Buffered, CONNECT_TIMEOUT, ClientStream, permit_to_connect};
use crate::endpoint::Endpoint;
use crate::fleet::MqttVersion;
use crate::fleet::mqtt_packet::bad_packet;
use crate::fleet::mqtt_wire;
use crate::traffic::DeviceIds;

/// Between two attempts to connect; twice as long after each that came to nothing, up to the
/// longest.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a device may have nothing to say; it says that it is there in half of that.
const KEEP_ALIVE: Duration = Duration::from_secs(300);
/// The least that is held ready for reading: a small command.
const READ_BYTES: usize = 256;
/// The packet id of the one SUBSCRIBE; answers have those from the next on.
const SUBSCRIBE_ID: u16 = 1;

/// Connections of this process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// See the module.
#[derive(Debug)]
pub(super) struct DeviceConnection {
    number: u64,
    endpoint: Endpoint,
    devices: DeviceIds,
    part: Range<u32>,
    profile: ResponseProfile,
    ledger: Arc<CommandLedger>,
}

/// The message of a command, as far as a device has to understand it.
#[derive(Deserialize)]
struct CommandMessage {
    message_id: String,
}

/// An answer that is to be given.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DueAnswer {
    at: Instant,
    device: u32,
    message_id: String,
    ok: bool,
}

/// What a connection has while it lasts.
struct CommandedSession<'a> {
    connection: &'a DeviceConnection,
    wire: Buffered,
    answers: BinaryHeap<Reverse<DueAnswer>>,
    /// Packet ids of answers that the server has not acknowledged, with the command of each.
    unacknowledged: VecDeque<(u16, u64)>,
    next_id: u16,
    next_ping: Instant,
    /// A device leaves, and its connection with it.
    leaves: bool,
}

/// Why a connection ended, if not by a failure.
enum SessionEnd {
    /// It was stopped, and has said goodbye.
    Stopped,
    /// A device left without a word.
    Left,
}

impl DeviceConnection {
    pub(super) fn new(
        endpoint: Endpoint,
        devices: DeviceIds,
        part: Range<u32>,
        profile: ResponseProfile,
        ledger: Arc<CommandLedger>,
    ) -> Self {
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Self { number, endpoint, devices, part, profile, ledger }
    }

    /// Connects, answers, and connects again, until it is stopped.
    pub(super) async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut pause = RECONNECT_PAUSE;
        loop {
            let opening = tokio::time::timeout(CONNECT_TIMEOUT, self.open());
            let opened = tokio::select! {
                opened = opening => opened,
                () = stop(&mut stopped) => return,
            };
            let timeout = |_| io::Error::new(io::ErrorKind::TimedOut, "not let in in time");
            match opened.map_err(timeout).flatten() {
                Ok(session) => {
                    pause = RECONNECT_PAUSE;
                    let devices = self.part.len() as u64;
                    self.ledger.subscribed(devices);
                    let ended = session.serve(&mut stopped).await;
                    self.ledger.unsubscribed(devices);
                    match ended {
                        Ok(SessionEnd::Stopped) => return,
                        Ok(SessionEnd::Left) => {
                            self.ledger.left();
                            pause = self.profile.leave_for;
                        }
                        Err(error) => self.ledger.broke(&error.to_string()),
                    }
                }
                Err(error) => self.ledger.broke(&error.to_string()),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {
                    pause = (pause * 2).clamp(RECONNECT_PAUSE, RECONNECT_PAUSE_MAX);
                }
                () = stop(&mut stopped) => return,
            }
        }
    }

    /// Connects and subscribes for each device.
    async fn open(&self) -> io::Result<CommandedSession<'_>> {
        let permit = permit_to_connect().await;
        let wire = ClientStream::open(&self.endpoint).await?;
        let now = Instant::now();
        let mut session = CommandedSession {
            connection: self,
            wire: Buffered::new(wire, READ_BYTES),
            answers: BinaryHeap::new(),
            unacknowledged: VecDeque::new(),
            next_id: SUBSCRIBE_ID + 1,
            next_ping: now + KEEP_ALIVE / 2,
            leaves: false,
        };
        let client_id = format!("commanded-{}-{}", std::process::id(), self.number);
        let login = self.endpoint.access().login.as_ref();
        let keep_alive_s = KEEP_ALIVE.as_secs() as u16;
        let out = &mut session.wire.output;
        mqtt_wire::write_connect(MqttVersion::V311, &client_id, login, keep_alive_s, out);
        session
            .awaits(|incoming| match incoming {
                ServerPacket::Connack { code: 0 } => Ok(()),
                ServerPacket::Connack { code } => Err(bad_packet(&format!("not let in: code {code}"))),
                other => Err(bad_packet(&format!("not let in: {other:?}"))),
            })
            .await?;
        let kind = self.devices.kind();
        let topics: Vec<_> =
            self.part.clone().map(|device| format!("dev/{kind}/{}", self.devices.id(device))).collect();
        packet::write_subscribe(SUBSCRIBE_ID, &topics, &mut session.wire.output);
        session
            .awaits(|incoming| match incoming {
                ServerPacket::Suback { is_granted: true } => Ok(()),
                other => Err(bad_packet(&format!("not subscribed: {other:?}"))),
            })
            .await?;
        drop(permit);
        Ok(session)
    }
}

impl CommandedSession<'_> {
    /// Waits for the next packet, which is to be such a one. What comes behind it stays.
    async fn awaits(&mut self, check: impl FnOnce(ServerPacket<'_>) -> io::Result<()>) -> io::Result<()> {
        loop {
            let mut rest = self.wire.input.as_slice();
            if let Some(incoming) = packet::take(&mut rest)? {
                check(incoming)?;
                let taken = self.wire.input.len() - rest.len();
                self.wire.input.drain(..taken);
                return Ok(());
            }
            poll_fn(|context| self.wire.exchange(context)).await?;
        }
    }

    /// Takes commands and answers them.
    async fn serve(mut self, stopped: &mut watch::Receiver<bool>) -> io::Result<SessionEnd> {
        loop {
            self.take_all()?;
            if self.leaves {
                return Ok(SessionEnd::Left);
            }
            let now = Instant::now();
            self.answer_due(now);
            if now >= self.next_ping {
                self.next_ping = now + KEEP_ALIVE / 2;
                mqtt_wire::write_ping(&mut self.wire.output);
            }
            let until =
                self.answers.peek().map_or(self.next_ping, |Reverse(next)| next.at.min(self.next_ping));
            tokio::select! {
                biased;
                moved = poll_fn(|context| self.wire.exchange(context)) => moved?,
                () = reached(until) => {}
                () = stop(stopped) => {
                    mqtt_wire::write_disconnect(&mut self.wire.output);
                    return self.wire.write_all().await.map(|()| SessionEnd::Stopped);
                }
            }
        }
    }

    fn take_all(&mut self) -> io::Result<()> {
        let input = std::mem::take(&mut self.wire.input);
        let mut rest = input.as_slice();
        while let Some(incoming) = packet::take(&mut rest)? {
            match incoming {
                ServerPacket::Publish { topic, packet_id, payload } => {
                    self.take_command(topic, packet_id, payload)?;
                }
                ServerPacket::Puback { packet_id } => self.settle(packet_id)?,
                ServerPacket::Pingresp => {}
                other => return Err(bad_packet(&format!("{other:?} was not asked for"))),
            }
        }
        let taken = input.len() - rest.len();
        self.wire.input = input;
        self.wire.input.drain(..taken);
        Ok(())
    }

    fn take_command(&mut self, topic: &[u8], packet_id: Option<u16>, payload: &[u8]) -> io::Result<()> {
        let now = Instant::now();
        if let Some(packet_id) = packet_id {
            packet::write_puback(packet_id, &mut self.wire.output);
        }
        let DeviceConnection { devices, ledger, profile, .. } = self.connection;
        let id = topic.rsplit(|byte| *byte == b'/').next().and_then(|id| std::str::from_utf8(id).ok());
        let device = id.and_then(|id| devices.index(id));
        let device = device.ok_or_else(|| bad_packet("a command for somebody else"))?;
        let CommandMessage { message_id } = serde_json::from_slice(payload).map_err(io::Error::other)?;
        let command = hash_of(&message_id);
        ledger.received(command, now);
        let reaction = profile.reaction(device, command);
        self.leaves |= reaction.leaves;
        for _ in 0..reaction.times {
            let (at, ok, message_id) = (now + reaction.after, reaction.ok, message_id.clone());
            self.answers.push(Reverse(DueAnswer { at, device, message_id, ok }));
        }
        Ok(())
    }

    fn answer_due(&mut self, now: Instant) {
        while self.answers.peek().is_some_and(|Reverse(next)| next.at <= now) {
            let Some(Reverse(DueAnswer { device, message_id, ok, .. })) = self.answers.pop() else { return };
            let devices = &self.connection.devices;
            let topic = format!("dev/{}/{}/ack", devices.kind(), devices.id(device));
            let payload = format!(r#"{{"message_id":"{message_id}","ok":{ok}}}"#);
            let packet_id = self.next_id;
            // Packet ids go round without that of the SUBSCRIBE and without zero.
            self.next_id = packet_id.checked_add(1).unwrap_or(SUBSCRIBE_ID + 1);
            packet::write_publish(topic.as_bytes(), packet_id, payload.as_bytes(), &mut self.wire.output);
            self.unacknowledged.push_back((packet_id, hash_of(&message_id)));
            self.connection.ledger.answered(ok);
        }
    }

    fn settle(&mut self, packet_id: u16) -> io::Result<()> {
        match self.unacknowledged.pop_front() {
            Some((first, command)) if first == packet_id => {
                self.connection.ledger.settled(command, Instant::now());
                Ok(())
            }
            _ => Err(bad_packet("an acknowledgement out of turn")),
        }
    }
}

async fn reached(time: Instant) {
    tokio::time::sleep_until(time.into()).await;
}

async fn stop(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}
