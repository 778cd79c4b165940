//! What a connected client says, and what we say to it; without the socket.
//!
//! All reports of one [`MqttProtocol::receive`] are handed in as one slice. Nothing is taken that
//! there is no room for: what does not fit waits in `unread`, and then no more is received.

mod asking;
mod commands;
mod presence_updates;
mod subscribing;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::limits::SLICE_REPORTS_MAX;
use base::{DeviceId, Problem, hash};
use bytes::BytesMut;
use engine::intake::{NotAccepting, Received};
use futures_util::future::BoxFuture;
use rmqtt_codec::types::QoS;

use self::commands::CommandReceiver;
use self::presence_updates::PendingAnswer;
use super::aliases::Aliases;
use super::control::{self, Control};
use super::ending::{MqttEnding, Violation};
use super::fan_out::Watcher;
use super::in_flight::{Arrivals, Receipt, RefusedPublish, UnacknowledgedReports, Wants};
use super::labels::Answer;
use super::limits::{BEGUN_BYTES_FREE, OUT_BYTES_MAX};
use super::mirror::ReportCopy;
use super::offline_session::SessionState;
use super::presence::PresenceTracker;
use super::qos2::{PublishStart, PubrelOutcome, Qos2Exchanges};
use super::reply::{self, ClientCapabilities};
use super::rights::{Rights, Unknown};
use super::subscriptions::Subscriptions;
use super::wire::{self, Packet};
use super::{MqttShared, ProtocolVersion};
use crate::decode::DecodeRules;
use crate::metrics::ReportSender;

/// The conversation with one client.
pub(super) struct MqttProtocol {
    shared: Arc<MqttShared>,
    client: ClientCapabilities,
    access: Rights,
    unacknowledged: UnacknowledgedReports,
    /// Received and not used yet.
    unread: Vec<u8>,
    /// `unread` may begin with a whole packet that there was no room for; otherwise with a part of
    /// one.
    held_back: bool,
    /// What waits to be written.
    pub(super) out: BytesMut,
    subscriptions: Subscriptions,
    qos2: Qos2Exchanges,
    aliases: Aliases,
    counted: CountedBytes,
    /// A packet was used since somebody asked.
    used_packet: bool,
    connection: ConnectionId,
    /// Labels of devices are looked up before the packet that is held back can be used.
    asking: Option<Box<Asking>>,
    /// If it receives reports.
    watcher: Option<Arc<Watcher<ReportCopy>>>,
    /// If it receives commands.
    commands: Option<Box<CommandReceiver>>,
    /// What the engine knows of this session.
    presence: PresenceTracker,
    /// An answer waits until the engine knows what follows from it.
    pending_answer: Option<Box<PendingAnswer>>,
}

/// What is asked about labels, or was answered for the packet that was held back.
enum Asking {
    Asks(BoxFuture<'static, Result<Vec<Answer>, NotAccepting>>),
    Answered(Vec<Answer>),
}

/// Whose connection it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionId {
    /// No other connection of the listener has it.
    pub(super) number: u64,
    /// `None` where it came over no socket.
    pub(super) peer: Option<SocketAddr>,
}

/// Why a packet is not used.
enum UnusedPacket {
    Ends(MqttEnding),
    /// The labels of these devices have to be known first.
    Asks(Vec<DeviceId>),
}

impl<E: Into<MqttEnding>> From<E> for UnusedPacket {
    fn from(ending: E) -> Self {
        Self::Ends(ending.into())
    }
}

/// What this connection counts for in what all of them hold, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct CountedBytes {
    held: usize,
    begun: usize,
}

impl MqttProtocol {
    /// With the session that the client goes on with.
    pub(super) fn new(
        shared: Arc<MqttShared>,
        client: ClientCapabilities,
        connection: ConnectionId,
        access: Rights,
        state: SessionState,
    ) -> Self {
        let metrics = &shared.metrics;
        let unacknowledged = UnacknowledgedReports::new(
            shared.limits.unacknowledged_max.get().into(),
            metrics.unacknowledged.clone(),
        );
        let SessionState { subscriptions, qos2 } = state;
        metrics.subscriptions.inc_by(subscriptions.len() as i64);
        metrics.unreleased.inc_by(qos2.len() as i64);
        let mut protocol = Self {
            shared,
            client,
            access,
            unacknowledged,
            unread: Vec::new(),
            held_back: false,
            out: BytesMut::new(),
            subscriptions,
            qos2,
            aliases: Aliases::default(),
            counted: CountedBytes::default(),
            used_packet: false,
            connection,
            asking: None,
            watcher: None,
            commands: None,
            presence: PresenceTracker::default(),
            pending_answer: None,
        };
        protocol.watch_again();
        protocol
    }

    /// Goes on behind the CONNECT: with what was received behind it, and with the CONNACK in `out`.
    pub(super) fn going_on(mut self, unread: Vec<u8>, out: BytesMut) -> Self {
        self.held_back = !unread.is_empty();
        self.unread = unread;
        self.out = out;
        self
    }

    /// Where the client is; `None` if it came over no socket.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.connection.peer
    }

    /// Whether more may be received. If not, it is because reports are under way or because the
    /// client does not take what we say; either wakes who polls for it.
    pub(super) fn has_room(&self) -> bool {
        self.unacknowledged.room() > 0 && !self.is_out_full()
    }

    /// Whether the client does not take our answers. Commands do not count: a large one on a slow
    /// line must not keep us from hearing its device.
    fn is_out_full(&self) -> bool {
        let of_commands = self.commands.as_ref().map_or(0, |commands| commands.unwritten_bytes());
        self.out.len() >= OUT_BYTES_MAX + of_commands
    }

    /// Whether it is we who do not listen.
    pub(super) fn waits_for_engine(&self) -> bool {
        self.unacknowledged.room() == 0
            || self.is_asking()
            || self.is_answer_pending()
            || self.shared.held.is_full()
    }

    /// Whether a packet has begun that is not all there.
    pub(super) fn is_within_packet(&self) -> bool {
        !self.unread.is_empty() && !self.held_back
    }

    /// Whether everything that was handed in is settled.
    pub(super) fn is_settled(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Whether [`MqttProtocol::resume`] has something to do before more is received.
    pub(super) fn is_held_back(&self) -> bool {
        self.held_back
    }

    /// Whether a packet was used since this was last asked.
    pub(super) fn has_used_packet(&mut self) -> bool {
        std::mem::take(&mut self.used_packet)
    }

    /// Takes what was received; nothing is the end.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), MqttEnding> {
        if bytes.is_empty() {
            return Err(MqttEnding::Gone);
        }
        self.shared.metrics.received_bytes.inc_by(bytes.len() as u64);
        if !self.unread.is_empty() {
            self.unread.extend_from_slice(bytes);
            return self.resume();
        }
        // Whole packets are used where they lie; only the beginning of one is kept.
        let (used, result) = self.use_packets(bytes);
        self.unread = bytes[used..].to_vec();
        result.and_then(|()| self.count())
    }

    /// Goes on with what was received.
    pub(super) fn resume(&mut self) -> Result<(), MqttEnding> {
        let bytes = std::mem::take(&mut self.unread);
        let (used, result) = self.use_packets(&bytes);
        self.unread = if used == 0 { bytes } else { bytes[used..].to_vec() };
        result.and_then(|()| self.count())
    }

    /// Tells how much is held now. A large packet that has begun must not grow where there is no
    /// room for it.
    fn count(&mut self) -> Result<(), MqttEnding> {
        let unread = self.unread.capacity();
        let (behind, begun) = if self.held_back { (unread, 0) } else { (0, unread) };
        self.count_as(CountedBytes { held: self.unacknowledged.bytes() + behind, begun });
        if begun > BEGUN_BYTES_FREE && self.shared.begun.is_full() { Err(MqttEnding::NoRoom) } else { Ok(()) }
    }

    fn count_as(&mut self, now: CountedBytes) {
        let before = std::mem::replace(&mut self.counted, now);
        self.shared.held.change(before.held, now.held);
        self.shared.begun.change(before.begun, now.begun);
    }

    /// Uses the whole packets at the front of `bytes`, as far as there is room: how many bytes they
    /// are.
    fn use_packets(&mut self, bytes: &[u8]) -> (usize, Result<(), MqttEnding>) {
        let rules = DecodeRules::of(&self.shared.engine);
        let reports_max = self.unacknowledged.room().min(SLICE_REPORTS_MAX);
        let mut arrivals = Arrivals::of(self.connection.number);
        let mut used = 0;
        self.held_back = false;
        let answers = self.take_answers();
        let result = loop {
            if arrivals.len() >= reports_max || self.is_out_full() {
                self.held_back = true;
                break Ok(());
            }
            let packet = match wire::packet(&bytes[used..], self.shared.limits.packet_bytes_max) {
                Ok(Some(packet)) => packet,
                Ok(None) => break Ok(()),
                Err(violation) => break Err(violation.into()),
            };
            match self.use_packet(packet, &mut arrivals, (rules, answers.as_slice())) {
                Ok(()) => {}
                Err(UnusedPacket::Ends(ending)) => break Err(ending),
                Err(UnusedPacket::Asks(devices)) => {
                    self.held_back = true;
                    self.ask(devices, &bytes[used + packet.bytes.len()..]);
                    break Ok(());
                }
            }
            used += packet.bytes.len();
            self.used_packet = true;
            if self.is_answer_pending() {
                self.held_back = true;
                break Ok(());
            }
        };
        self.unacknowledged.hand_in(&self.shared.intake, arrivals);
        (used, result)
    }

    fn use_packet(
        &mut self,
        packet: Packet<'_>,
        arrivals: &mut Arrivals,
        (rules, answers): (DecodeRules, &[Answer]),
    ) -> Result<(), UnusedPacket> {
        if packet.is_publish() {
            return self.publish(packet, arrivals, (rules, answers));
        }
        if packet.is_puback() {
            return Ok(self.take_puback(wire::puback(self.client.version, packet)?)?);
        }
        if packet.is_pubrel() {
            return Ok(self.release(wire::pubrel(self.client.version, packet)?)?);
        }
        match control::read(self.client.version, packet)? {
            Control::Ping => reply::pong(&mut self.out),
            Control::Subscribe { packet_id, filters } => self.subscribe(packet_id, &filters, answers)?,
            Control::Unsubscribe { packet_id, filters } => self.unsubscribe(packet_id, &filters)?,
            Control::Goodbye { with_will, session_expiry_secs } => {
                return Err(MqttEnding::Goodbye { with_will, session_expiry_secs }.into());
            }
        }
        Ok(())
    }

    fn publish(
        &mut self,
        packet: Packet<'_>,
        arrivals: &mut Arrivals,
        (rules, answers): (DecodeRules, &[Answer]),
    ) -> Result<(), UnusedPacket> {
        let publish = wire::publish(self.client.version, packet)?;
        let qos2_max = self.qos2_max();
        let topic = self.aliases.resolve(publish.topic, publish.alias)?;
        let decoded = self.shared.kinds.publish(topic, publish.payload, publish.id, rules);
        let known = self.shared.known(answers);
        let allowed = self
            .access
            .publish(topic, decoded, known)
            .map_err(|Unknown(device)| UnusedPacket::Asks(vec![device]))?;
        let wants = match publish.qos {
            QoS::AtMostOnce => Wants::Nothing,
            QoS::AtLeastOnce => Wants::PubAck,
            QoS::ExactlyOnce => {
                let content = hash::derived(hash::derived(0, topic.as_bytes()), publish.payload);
                match self.qos2.begin(publish.packet_id, content, qos2_max) {
                    PublishStart::New => {
                        self.shared.metrics.unreleased.inc();
                    }
                    PublishStart::Instead => {}
                    PublishStart::Repeat => {
                        arrivals.push_repeat(publish.packet_id);
                        return Ok(());
                    }
                    PublishStart::TooMany => return Err(Violation::ReceiveMaximumExceeded.into()),
                }
                Wants::PubRec
            }
        };
        let received = Received { payload: publish.payload, topic: Some(topic) };
        arrivals.push(allowed, received, Receipt { packet_id: publish.packet_id, wants });
        Ok(())
    }

    fn release(&mut self, packet_id: u16) -> Result<(), Violation> {
        let known = match self.qos2.release(packet_id) {
            PubrelOutcome::Done => {
                self.shared.metrics.unreleased.dec();
                true
            }
            PubrelOutcome::Unknown => false,
            PubrelOutcome::TooEarly => return Err(Violation::Protocol),
        };
        self.client.pubcomp(packet_id, known, &mut self.out);
        Ok(())
    }

    /// Writes the acknowledgements of everything that has become durable, in order. The client's id
    /// is for the log.
    pub(super) fn acknowledge(&mut self, cx: &mut Context<'_>, client_id: &str) -> Result<(), NotAccepting> {
        while let Poll::Ready(settled) = self.unacknowledged.poll_settled(cx) {
            let settled = settled?;
            let shared = Arc::clone(&self.shared);
            let metrics = &shared.metrics;
            metrics.reports.accepted(settled.accepted().into());
            let mut acks = 0;
            for (receipt, refused) in settled.receipts() {
                if let Some(RefusedPublish { problem, device, topic }) = refused {
                    let (login, peer) = (self.access.username(), self.connection.peer);
                    let sender = ReportSender { device, topic, login, client: client_id, peer };
                    metrics.reports.refused_from(problem, sender);
                }
                acks += u64::from(receipt.wants != Wants::Nothing);
                self.answer(receipt, refused.map(|refused| refused.problem));
            }
            metrics.acks.inc_by(acks);
            let behind = if self.held_back { self.unread.capacity() } else { 0 };
            self.count_as(CountedBytes { held: self.unacknowledged.bytes() + behind, ..self.counted });
        }
        Ok(())
    }

    fn answer(&mut self, Receipt { packet_id, wants }: Receipt, problem: Option<&Problem>) {
        match wants {
            Wants::Nothing => {}
            Wants::PubAck => self.client.puback(packet_id, problem, &mut self.out),
            Wants::PubRec => {
                if problem.is_some() && self.client.version == ProtocolVersion::V5 {
                    // A reason of refusal ends the handshake.
                    self.qos2.refused(packet_id);
                    self.shared.metrics.unreleased.dec();
                } else {
                    self.qos2.received(packet_id);
                }
                self.client.pubrec(packet_id, problem, &mut self.out);
            }
            Wants::PubRecAgain => {
                let known = self.qos2.is_received(packet_id);
                self.client.pubrec_again(packet_id, known, &mut self.out);
            }
        }
    }

    /// QoS 2 publishes that may be under way. A client of 3.1.1 knows no such limit, and stopping
    /// to read would keep its releases from us: it may use every packet id.
    fn qos2_max(&self) -> usize {
        match self.client.version {
            ProtocolVersion::V311 => usize::from(u16::MAX),
            ProtocolVersion::V5 => self.shared.limits.unacknowledged_max.get().into(),
        }
    }

    /// What of the session outlives the connection.
    pub(super) fn leave(&mut self) -> SessionState {
        self.uncount();
        self.watch_no_more();
        self.route_no_more();
        SessionState {
            subscriptions: std::mem::take(&mut self.subscriptions),
            qos2: std::mem::take(&mut self.qos2).durable(),
        }
    }

    fn uncount(&self) {
        self.shared.metrics.subscriptions.dec_by(self.subscriptions.len() as i64);
        self.shared.metrics.unreleased.dec_by(self.qos2.len() as i64);
    }

    /// Sends an MQTT 5 client a DISCONNECT with the reason; in 3.1.1 only clients send one.
    pub(super) fn send_disconnect(&mut self, ending: MqttEnding) {
        let Some(code) = ending.code() else { return };
        if let Err(violation) = self.client.disconnect(code, &mut self.out) {
            tracing::debug!(
                reason = violation.label(),
                "the client takes no packet as small as a DISCONNECT"
            );
        }
    }
}

impl Drop for MqttProtocol {
    fn drop(&mut self) {
        self.count_as(CountedBytes::default());
        self.uncount();
        self.watch_no_more();
        self.route_no_more();
        self.tell_end_unawaited();
    }
}
