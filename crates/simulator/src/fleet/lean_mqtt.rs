//! A session for load: MQTT at QoS 1 with many reports in one write and many acknowledgements in one read.
//!
//! Reading never waits for writing: a server that holds back its reader still gets its acknowledgements read.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use tokio::net::TcpStream;

use super::lane::{Lane, rest};
use super::mqtt_wire::{self, Packet, bad_packet, take_packet};
use crate::traffic::Traffic;

/// Read at once, at most.
const READ_BYTES: usize = 16 * 1024;

/// Carries the lane's traffic over one connection.
pub(super) async fn session<T: Traffic>(
    lane: &mut Lane<T>,
    address: SocketAddr,
    in_flight: u16,
) -> io::Result<()> {
    let mut connection = Connection::open(address, &lane.client_id()).await?;
    loop {
        let now = Instant::now();
        let pause = lane.fill(in_flight.max(1).into(), now);
        connection.publish(lane, now);
        if lane.is_done(pause) {
            return connection.close().await;
        }
        connection.write_some()?;
        tokio::select! {
            biased;
            ready = connection.stream.readable() => {
                ready?;
                connection.read_some()?;
                connection.take_acknowledgements(lane)?;
            }
            ready = connection.stream.writable(), if !connection.output.is_empty() => ready?,
            () = rest(pause) => {}
        }
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    output: Vec<u8>,
    input: Vec<u8>,
    payload: Vec<u8>,
    /// Of the next publish.
    next_id: u16,
    /// Of the oldest publish without an acknowledgement.
    oldest_id: u16,
}

impl Connection {
    /// Connects and waits for the server's consent.
    async fn open(address: SocketAddr, client_id: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (output, input) = (Vec::new(), Vec::with_capacity(READ_BYTES));
        let mut connection = Self { stream, output, input, payload: Vec::new(), next_id: 1, oldest_id: 1 };
        mqtt_wire::write_connect(client_id, &mut connection.output);
        connection.flush().await?;
        loop {
            connection.stream.readable().await?;
            connection.read_some()?;
            match connection.take_packet()? {
                None => {}
                Some(Packet::Connack { return_code: 0 }) => return Ok(connection),
                Some(packet) => return Err(bad_packet(&format!("not let in: {packet:?}"))),
            }
        }
    }

    /// Encodes what the lane has not written yet.
    fn publish<T: Traffic>(&mut self, lane: &mut Lane<T>, now: Instant) {
        while let Some(report) = lane.outbox.next_to_write(now) {
            self.payload.clear();
            lane.write_payload(report, &mut self.payload);
            let devices = &lane.plan.devices;
            mqtt_wire::write_publish(devices, report.device, self.next_id, &self.payload, &mut self.output);
            self.next_id = following(self.next_id);
        }
    }

    /// Hands each acknowledgement that has come to the lane.
    fn take_acknowledgements<T: Traffic>(&mut self, lane: &mut Lane<T>) -> io::Result<()> {
        let mut rest = self.input.as_slice();
        let mut count = 0;
        while let Some(packet) = take_packet(&mut rest)? {
            if packet != (Packet::Puback { packet_id: self.oldest_id }) || count == lane.outbox.written() {
                lane.outbox.disorder();
                return Err(bad_packet(&format!("{packet:?} came instead of PUBACK {}", self.oldest_id)));
            }
            self.oldest_id = following(self.oldest_id);
            count += 1;
        }
        lane.outbox.acknowledge(count, Instant::now());
        let taken = self.input.len() - rest.len();
        self.input.drain(..taken);
        Ok(())
    }

    fn take_packet(&mut self) -> io::Result<Option<Packet>> {
        let mut rest = self.input.as_slice();
        let packet = take_packet(&mut rest)?;
        let taken = self.input.len() - rest.len();
        self.input.drain(..taken);
        Ok(packet)
    }

    /// Reads what is there.
    fn read_some(&mut self) -> io::Result<()> {
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes what the socket takes without waiting.
    fn write_some(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.try_write(&self.output) {
                Ok(written) => self.output.drain(..written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.write_some()?;
        while !self.output.is_empty() {
            self.stream.writable().await?;
            self.write_some()?;
        }
        Ok(())
    }

    async fn close(mut self) -> io::Result<()> {
        mqtt_wire::write_disconnect(&mut self.output);
        self.flush().await
    }
}

/// Packet ids go round without zero.
const fn following(packet_id: u16) -> u16 {
    if packet_id == u16::MAX { 1 } else { packet_id + 1 }
}
