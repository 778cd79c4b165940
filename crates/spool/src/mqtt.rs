//! Devices' reports over MQTT 3.1.1 and 5: a publish is acknowledged once it is on disk.
//!
//! Nothing is ever sent to a device: subscriptions are granted and stay silent. Every connection
//! begins a session of its own.

mod publish;

use std::collections::HashSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use net::listen::{PooledConnection, Protocol, stopped};
use prometheus_client::metrics::counter::Counter;
use rmqtt_codec::types::{Publish, QoS};
use rmqtt_codec::version::{ProtocolVersion, VersionCodec};
use rmqtt_codec::{MqttCodec, MqttPacket, v3, v5};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::codec::{Decoder, Encoder};

use crate::destination::Destination;
use crate::disk_threads::SpoolIntake;
use crate::record::SpoolEntry;
use publish::PublishMeaning;

/// Connections at a time.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Largest packet, in bytes.
const PACKET_BYTES_MAX: u32 = 128 * 1_024;
/// How long a client may take to say who it is.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Without a keep-alive of its own a client is given this one.
const KEEP_ALIVE_SECS: u16 = 3_600;
/// Publishes of QoS 2 that are not complete, of one connection.
const UNRELEASED_MAX: usize = 1_024;
/// Publishes that are made durable together, of one connection.
const TOGETHER_MAX: usize = 512;

const PUBACK: u8 = 0x40;
const PUBREC: u8 = 0x50;
const PUBCOMP: u8 = 0x70;
const TOPIC_NAME_INVALID: u8 = 0x90;

/// Speaks MQTT, and hands in what is published.
pub(crate) struct MqttIntake {
    pub(crate) intake: SpoolIntake,
    /// Publishes that are no reports.
    pub(crate) ignored: Counter,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Why a connection ends: what a client did, or that it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MqttEnd {
    Goodbye,
    Gone,
    Broke,
    Silent,
    NotAccepted,
}

impl Protocol for MqttIntake {
    async fn serve<S>(&self, stream: S, pooled: Arc<PooledConnection>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut stop = self.stop.clone();
        let mut connection = MqttConnection {
            stream,
            read: BytesMut::new(),
            out: BytesMut::new(),
            codec: MqttCodec::Version(VersionCodec),
            is_v5: false,
            unreleased: HashSet::new(),
        };
        let ended = tokio::select! {
            () = stopped(&mut stop) => MqttEnd::NotAccepted,
            ended = self.converse(&mut connection, &pooled) => ended,
        };
        tracing::debug!(peer = %pooled.peer(), ?ended, "an MQTT connection ended");
    }
}

impl MqttIntake {
    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        connection: &mut MqttConnection<S>,
        pooled: &PooledConnection,
    ) -> MqttEnd {
        let keep_alive = match timeout(CONNECT_MAX, connection.greet()).await {
            Ok(Ok(keep_alive)) => keep_alive,
            Ok(Err(ended)) => return ended,
            Err(_) => return MqttEnd::Silent,
        };
        loop {
            pooled.begins();
            let step = self.take(connection).await;
            pooled.pauses();
            if let Err(ended) = step {
                return ended;
            }
            match timeout(keep_alive, connection.read_more()).await {
                Ok(Ok(())) => {}
                Ok(Err(ended)) => return ended,
                Err(_) => return MqttEnd::Silent,
            }
        }
    }

    /// Everything that has come: made durable, then answered in its order.
    async fn take<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        connection: &mut MqttConnection<S>,
    ) -> Result<(), MqttEnd> {
        loop {
            let (mut entries, mut is_goodbye) = (Vec::new(), false);
            while entries.len() < TOGETHER_MAX && !is_goodbye {
                let Some(packet) = connection.next()? else { break };
                is_goodbye = self.answer(connection, packet, &mut entries)?;
            }
            let is_more = entries.len() == TOGETHER_MAX;
            if !entries.is_empty()
                && let Err(error) = self.intake.append(entries).await
            {
                // Unacknowledged, they come again; the device hears of it by the connection's end.
                tracing::debug!(%error, "publishes are not accepted");
                return Err(MqttEnd::NotAccepted);
            }
            connection.write().await?;
            if is_goodbye {
                return Err(MqttEnd::Goodbye);
            }
            if !is_more {
                return Ok(());
            }
        }
    }

    /// What is to be kept, and what is answered once it is. Whether the client goes.
    fn answer<S>(
        &self,
        connection: &mut MqttConnection<S>,
        packet: MqttPacket,
        entries: &mut Vec<SpoolEntry>,
    ) -> Result<bool, MqttEnd> {
        match packet {
            MqttPacket::V3(v3::Packet::Publish(publish)) | MqttPacket::V5(v5::Packet::Publish(publish)) => {
                self.publish(connection, &publish, entries)?;
            }
            MqttPacket::V3(v3::Packet::PublishRelease { packet_id }) => connection.release(packet_id),
            MqttPacket::V5(v5::Packet::PublishRelease(release)) => connection.release(release.packet_id),
            MqttPacket::V3(v3::Packet::Subscribe { packet_id, topic_filters }) => {
                let status = topic_filters.iter().map(|_| v3::SubscribeReturnCode::Success(QoS::AtMostOnce));
                let ack = v3::Packet::SubscribeAck { packet_id, status: status.collect() };
                connection.say(MqttPacket::V3(ack))?;
            }
            MqttPacket::V5(v5::Packet::Subscribe(subscribe)) => {
                let status = subscribe.topic_filters.iter().map(|_| v5::SubscribeAckReason::GrantedQos0);
                let ack = v5::SubscribeAck {
                    packet_id: subscribe.packet_id,
                    properties: Vec::new(),
                    reason_string: None,
                    status: status.collect(),
                };
                connection.say(MqttPacket::V5(v5::Packet::SubscribeAck(ack)))?;
            }
            MqttPacket::V3(v3::Packet::Unsubscribe { packet_id, .. }) => {
                connection.say(MqttPacket::V3(v3::Packet::UnsubscribeAck { packet_id }))?;
            }
            MqttPacket::V5(v5::Packet::Unsubscribe(unsubscribe)) => {
                let status = unsubscribe.topic_filters.iter().map(|_| v5::UnsubscribeAckReason::Success);
                let ack = v5::UnsubscribeAck {
                    packet_id: unsubscribe.packet_id,
                    properties: Vec::new(),
                    reason_string: None,
                    status: status.collect(),
                };
                connection.say(MqttPacket::V5(v5::Packet::UnsubscribeAck(ack)))?;
            }
            MqttPacket::V3(v3::Packet::PingRequest) | MqttPacket::V5(v5::Packet::PingRequest) => {
                connection.out.put_slice(&[0xd0, 0]);
            }
            MqttPacket::V3(v3::Packet::Disconnect) | MqttPacket::V5(v5::Packet::Disconnect(_)) => {
                return Ok(true);
            }
            _ => return Err(MqttEnd::Broke),
        }
        Ok(false)
    }

    fn publish<S>(
        &self,
        connection: &mut MqttConnection<S>,
        publish: &Publish,
        entries: &mut Vec<SpoolEntry>,
    ) -> Result<(), MqttEnd> {
        if publish.topic.is_empty() || publish.topic.contains(['+', '#', '\0']) {
            return Err(MqttEnd::Broke);
        }
        if publish.qos == QoS::ExactlyOnce {
            let packet_id = publish.packet_id.ok_or(MqttEnd::Broke)?;
            if !connection.unreleased.contains(&packet_id) && connection.unreleased.len() >= UNRELEASED_MAX {
                return Err(MqttEnd::Broke);
            }
            if !connection.unreleased.insert(packet_id) {
                connection.acknowledge(PUBREC, packet_id, 0);
                return Ok(());
            }
        }
        let properties = publish.properties.as_ref();
        let id = properties.and_then(|all| all.user_properties.iter().find(|(key, _)| &**key == "id"));
        let meaning = publish::meaning(&publish.topic, &publish.payload, id.map(|(_, id)| &**id));
        let reason = if meaning == PublishMeaning::Unknown { TOPIC_NAME_INVALID } else { 0 };
        match meaning {
            PublishMeaning::Report(body) => {
                let flat = |byte: u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
                let body: Vec<u8> = body.into_iter().map(flat).collect();
                let destination = Destination::reports();
                entries.push(SpoolEntry {
                    destination,
                    items: 1,
                    key: None,
                    follow: None,
                    body: body.into(),
                });
            }
            PublishMeaning::Passing | PublishMeaning::Unknown => drop(self.ignored.inc()),
        }
        match (publish.qos, publish.packet_id) {
            (QoS::AtLeastOnce, Some(packet_id)) => connection.acknowledge(PUBACK, packet_id, reason),
            (QoS::ExactlyOnce, Some(packet_id)) => {
                // With MQTT 5 a refused publish is not released.
                if connection.is_v5 && reason != 0 {
                    connection.unreleased.remove(&packet_id);
                }
                connection.acknowledge(PUBREC, packet_id, reason);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A client, and what it has said and is to be told.
struct MqttConnection<S> {
    stream: S,
    read: BytesMut,
    out: BytesMut,
    codec: MqttCodec,
    is_v5: bool,
    /// QoS 2 publishes that were kept and may come again.
    unreleased: HashSet<NonZeroU16>,
}

impl<S> MqttConnection<S> {
    fn next(&mut self) -> Result<Option<MqttPacket>, MqttEnd> {
        let decoded = self.codec.decode(&mut self.read).map_err(|_| MqttEnd::Broke)?;
        Ok(decoded.map(|(packet, _)| packet))
    }

    fn say(&mut self, packet: MqttPacket) -> Result<(), MqttEnd> {
        self.codec.encode(packet, &mut self.out).map_err(|_| MqttEnd::Broke)
    }

    fn acknowledge(&mut self, answer: u8, packet_id: NonZeroU16, reason: u8) {
        let id = packet_id.get().to_be_bytes();
        if self.is_v5 && reason != 0 {
            self.out.put_slice(&[answer, 3, id[0], id[1], reason]);
        } else {
            self.out.put_slice(&[answer, 2, id[0], id[1]]);
        }
    }

    fn release(&mut self, packet_id: NonZeroU16) {
        self.unreleased.remove(&packet_id);
        self.acknowledge(PUBCOMP, packet_id, 0);
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> MqttConnection<S> {
    async fn read_more(&mut self) -> Result<(), MqttEnd> {
        self.read.reserve(4 * 1_024);
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) | Err(_) => Err(MqttEnd::Gone),
            Ok(_) => Ok(()),
        }
    }

    async fn write(&mut self) -> Result<(), MqttEnd> {
        let written = timeout(CONNECT_MAX, self.stream.write_all_buf(&mut self.out)).await;
        written.map_err(|_| MqttEnd::Silent)?.map_err(|_| MqttEnd::Gone)?;
        self.stream.flush().await.map_err(|_| MqttEnd::Gone)
    }

    async fn next_awaited(&mut self) -> Result<MqttPacket, MqttEnd> {
        loop {
            if let Some(packet) = self.next()? {
                return Ok(packet);
            }
            self.read_more().await?;
        }
    }

    /// Takes the CONNECT; how long the client may be silent.
    async fn greet(&mut self) -> Result<Duration, MqttEnd> {
        let MqttPacket::Version(version) = self.next_awaited().await? else { return Err(MqttEnd::Broke) };
        self.is_v5 = version == ProtocolVersion::MQTT5;
        self.codec = match version {
            ProtocolVersion::MQTT3 => MqttCodec::V3(v3::Codec::new(PACKET_BYTES_MAX)),
            ProtocolVersion::MQTT5 => MqttCodec::V5(v5::Codec::new(PACKET_BYTES_MAX, PACKET_BYTES_MAX)),
        };
        let keep_alive = match self.next_awaited().await? {
            MqttPacket::V3(v3::Packet::Connect(connect)) => {
                let ack = v3::ConnectAck {
                    session_present: false,
                    return_code: v3::ConnectAckReason::ConnectionAccepted,
                };
                self.say(MqttPacket::V3(v3::Packet::ConnectAck(ack)))?;
                connect.keep_alive
            }
            MqttPacket::V5(v5::Packet::Connect(connect)) => {
                let keep_alive = connect.keep_alive;
                let is_long = keep_alive == 0 || keep_alive > KEEP_ALIVE_SECS;
                let random = connect.client_id.is_empty().then(getrandom::u64).transpose();
                let assigned = random.map_err(|_| MqttEnd::NotAccepted)?.map(|id| format!("auto-{id:016x}"));
                let ack = v5::ConnectAck {
                    session_expiry_interval_secs: Some(0),
                    max_packet_size: Some(PACKET_BYTES_MAX),
                    assigned_client_id: assigned.map(Into::into),
                    topic_alias_max: 0,
                    retain_available: false,
                    server_keepalive_sec: is_long.then_some(KEEP_ALIVE_SECS),
                    shared_subscription_available: false,
                    ..v5::ConnectAck::default()
                };
                self.say(MqttPacket::V5(v5::Packet::ConnectAck(Box::new(ack))))?;
                if is_long { KEEP_ALIVE_SECS } else { keep_alive }
            }
            _ => return Err(MqttEnd::Broke),
        };
        self.write().await?;
        let keep_alive = if keep_alive == 0 { KEEP_ALIVE_SECS } else { keep_alive };
        Ok(Duration::from_secs(keep_alive.into()).mul_f64(1.5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_of_5_is_told_that_nothing_is_retained_or_shared() {
        let (mut client, stream) = tokio::io::duplex(1_024);
        let mut connection = MqttConnection {
            stream,
            read: BytesMut::new(),
            out: BytesMut::new(),
            codec: MqttCodec::Version(VersionCodec),
            is_v5: false,
            unreleased: HashSet::new(),
        };
        client.write_all(b"\x10\x0f\0\x04MQTT\x05\x02\0\x3c\0\0\x02me").await.expect("written");
        connection.greet().await.expect("let in");
        drop(connection);
        let mut told = Vec::new();
        client.read_to_end(&mut told).await.expect("readable");
        let packet = v5::Codec::default().decode(&mut BytesMut::from(&told[..])).expect("readable");
        let Some((v5::Packet::ConnectAck(ack), _)) = packet else { panic!("{packet:?}") };
        assert!(!ack.retain_available && !ack.shared_subscription_available);
    }
}
