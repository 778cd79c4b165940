//! A session for load: MQTT with many reports in one write and many acknowledgements in one read.
//!
//! Reading never waits for writing: a server that holds back its reader still gets its
//! acknowledgements read. What was not acknowledged when a connection broke is published anew on
//! the next, at QoS 2 too: sessions do not outlive their connection here.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::lane::{Ending, Lane, Pause, rest};
use super::mqtt_packet::{AckKind, Connack, PacketToPublisher, bad_packet, take_packet};
use super::mqtt_window::{PublishEnd, PublishWindow};
use super::mqtt_wire;
use super::{MqttDialect, Qos};
use crate::client_stream::{Buffered, CONNECT_TIMEOUT, ClientStream, permit_to_connect};
use crate::endpoint::Endpoint;
use crate::traffic::LaneTraffic;

/// Read at once, at most; and the least that is held ready for reading.
const READ_BYTES_MAX: usize = 16 * 1024;
const READ_BYTES_MIN: usize = 64;
/// An acknowledgement takes about so much.
const ACKNOWLEDGEMENT_BYTES: usize = 4;

/// Carries the lane's traffic over one connection. The device says at least a PINGREQ in every
/// `keep_alive`, if it is not zero and the server does not ask for more.
pub(super) async fn session<T: LaneTraffic>(
    lane: &mut Lane<T>,
    dialect: MqttDialect,
    keep_alive: Duration,
) -> io::Result<Ending> {
    let client_id = lane.client_id();
    let opening = LeanMqttConnection::open(&lane.plan.endpoint, &client_id, dialect, keep_alive);
    let timeout = |_| io::Error::new(io::ErrorKind::TimedOut, "not let in in time");
    let mut connection = tokio::time::timeout(CONNECT_TIMEOUT, opening).await.map_err(timeout)??;
    loop {
        let now = Instant::now();
        let pause = connection.fill(lane, now);
        connection.publish(lane, now);
        if pause == Pause::Cut {
            poll_fn(|context| Poll::Ready(connection.wire.write_some(context))).await?;
            return Ok(Ending::Cut);
        }
        if lane.is_done(pause) {
            return connection.close().await.map(|()| Ending::Done);
        }
        connection.keep_alive(now)?;
        let until = connection.next_ping();
        tokio::select! {
            biased;
            moved = poll_fn(|context| connection.exchange(context)) => moved?,
            () = rest(pause.or_until(until)) => {}
        }
        connection.take_answers(lane)?;
    }
}

#[derive(Debug)]
struct LeanMqttConnection {
    dialect: MqttDialect,
    wire: Buffered,
    payload: Vec<u8>,
    window: PublishWindow,
    in_flight: usize,
    pings: Option<Pings>,
}

/// When to show that one is there, and whether the other is.
#[derive(Debug)]
struct Pings {
    every: Duration,
    next: Instant,
    /// A PINGREQ is out, and nothing has been heard since.
    is_unanswered: bool,
}

impl LeanMqttConnection {
    /// Connects and waits for the server's consent.
    async fn open(
        endpoint: &Endpoint,
        client_id: &str,
        dialect: MqttDialect,
        keep_alive: Duration,
    ) -> io::Result<Self> {
        let _permit = permit_to_connect().await;
        let wire = ClientStream::open(endpoint).await?;
        let wanted = usize::from(dialect.in_flight.max(1));
        let ready = (wanted * ACKNOWLEDGEMENT_BYTES).clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        let mut connection = Self {
            dialect,
            wire: Buffered::new(wire, ready),
            payload: Vec::new(),
            window: PublishWindow::new(),
            in_flight: wanted,
            pings: None,
        };
        let login = endpoint.access().login.as_ref();
        let keep_alive_s = keep_alive.as_secs() as u16;
        mqtt_wire::write_connect(
            dialect.version,
            client_id,
            login,
            keep_alive_s,
            &mut connection.wire.output,
        );
        let connack = connection.await_consent().await?;
        connection.in_flight = wanted.min(connack.receive_max.max(1).into());
        let keep_alive_s = connack.keep_alive_s.unwrap_or(keep_alive_s);
        connection.pings =
            (keep_alive_s > 0).then(|| Pings::every(Duration::from_secs(keep_alive_s.into()) / 2));
        Ok(connection)
    }

    async fn await_consent(&mut self) -> io::Result<Connack> {
        loop {
            poll_fn(|context| self.exchange(context)).await?;
            match self.take_packet()? {
                None => {}
                Some(PacketToPublisher::Connack(Connack { refusal: Some(reason), .. })) => {
                    return Err(bad_packet(&format!("not let in: {reason}")));
                }
                Some(PacketToPublisher::Connack(connack)) => return Ok(connack),
                Some(packet) => return Err(bad_packet(&format!("not let in: {packet:?}"))),
            }
        }
    }

    /// At QoS 0 there is no window; there the next reports wait until the last ones are written.
    fn fill<T: LaneTraffic>(&mut self, lane: &mut Lane<T>, now: Instant) -> Pause {
        if self.dialect.qos == Qos::AtMostOnce && !self.wire.is_written() {
            return Pause::Room;
        }
        lane.fill(self.in_flight, now)
    }

    /// Encodes what the lane has not written yet.
    fn publish<T: LaneTraffic>(&mut self, lane: &mut Lane<T>, now: Instant) {
        while let Some(report) = lane.outbox.next_to_write(now) {
            self.payload.clear();
            lane.write_payload(report, &mut self.payload);
            let packet_id = (self.dialect.qos != Qos::AtMostOnce).then(|| self.window.publish());
            let (devices, output) = (&lane.plan.devices, &mut self.wire.output);
            mqtt_wire::write_publish(self.dialect, devices, report.device, packet_id, &self.payload, output);
        }
        if self.dialect.qos == Qos::AtMostOnce {
            lane.outbox.forget_written();
        }
    }

    /// Hands each answer that has come to the lane. What was read is moved once for all of them,
    /// not for each.
    fn take_answers<T: LaneTraffic>(&mut self, lane: &mut Lane<T>) -> io::Result<()> {
        let mut input = std::mem::take(&mut self.wire.input);
        let mut rest = input.as_slice();
        let mut accepted = 0;
        let taken = self.settle_all(lane, &mut rest, &mut accepted);
        // Also what came before something that ends the connection: it needs no repeat.
        lane.outbox.acknowledge(accepted, Instant::now());
        let taken_bytes = input.len() - rest.len();
        input.drain(..taken_bytes);
        self.wire.input = input;
        taken
    }

    /// Settles what `input` begins with, and leaves in `accepted` how many of the newest are still
    /// to be acknowledged.
    fn settle_all<T: LaneTraffic>(
        &mut self,
        lane: &mut Lane<T>,
        input: &mut &[u8],
        accepted: &mut usize,
    ) -> io::Result<()> {
        while let Some(packet) = take_packet(input, self.dialect.version)? {
            match packet {
                PacketToPublisher::Reply { step, packet_id, refusal } => {
                    self.answer(lane, step, packet_id, refusal)?;
                }
                PacketToPublisher::Pingresp => {}
                PacketToPublisher::Disconnect { reason } => {
                    return Err(bad_packet(&format!("the server says goodbye: {reason}")));
                }
                PacketToPublisher::Connack(_) => return Err(bad_packet("a second CONNACK")),
            }
            while let Some(settled) = self.window.pop_settled() {
                match settled {
                    PublishEnd::Accepted => *accepted += 1,
                    PublishEnd::Refused(reason) => {
                        lane.outbox.acknowledge(std::mem::take(accepted), Instant::now());
                        lane.outbox.refuse_oldest(&reason);
                    }
                }
            }
        }
        Ok(())
    }

    fn answer<T: LaneTraffic>(
        &mut self,
        lane: &Lane<T>,
        step: AckKind,
        packet_id: u16,
        refusal: Option<String>,
    ) -> io::Result<()> {
        match self.window.answer(step, packet_id, refusal) {
            Ok(true) => mqtt_wire::write_release(packet_id, &mut self.wire.output),
            Ok(false) => {}
            Err(out_of_turn) => {
                lane.outbox.disorder();
                return Err(bad_packet(&out_of_turn.to_string()));
            }
        }
        Ok(())
    }

    fn take_packet(&mut self) -> io::Result<Option<PacketToPublisher>> {
        let mut rest = self.wire.input.as_slice();
        let packet = take_packet(&mut rest, self.dialect.version)?;
        let taken = self.wire.input.len() - rest.len();
        self.wire.input.drain(..taken);
        Ok(packet)
    }

    fn next_ping(&self) -> Option<Instant> {
        self.pings.as_ref().map(|pings| pings.next)
    }

    /// Says that the device is there, when it is time.
    fn keep_alive(&mut self, now: Instant) -> io::Result<()> {
        let Some(pings) = self.pings.as_mut().filter(|pings| now >= pings.next) else { return Ok(()) };
        if std::mem::replace(&mut pings.is_unanswered, true) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server is silent"));
        }
        pings.next = now + pings.every;
        mqtt_wire::write_ping(&mut self.wire.output);
        Ok(())
    }

    /// Writes what the socket takes, and is ready when something was read, or when all has been
    /// written that had to wait.
    fn exchange(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let had_output = !self.wire.is_written();
        if let Poll::Ready(read) = self.wire.exchange(context) {
            if let Some(pings) = self.pings.as_mut().filter(|_| read.is_ok()) {
                pings.is_unanswered = false;
            }
            return Poll::Ready(read);
        }
        if self.dialect.qos == Qos::AtMostOnce && had_output && self.wire.is_written() {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    async fn close(mut self) -> io::Result<()> {
        mqtt_wire::write_disconnect(&mut self.wire.output);
        self.wire.write_all().await
    }
}

impl Pings {
    fn every(every: Duration) -> Self {
        Self { every, next: Instant::now() + every, is_unanswered: false }
    }
}
