//! A subscriber that does as little as one can: counts QoS 1 publishes and acknowledges them, many
//! in one write.
//!
//! It stands in for the application behind a broker, so that the peer's figure is one of messages
//! that arrived.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECT: &[u8] = &[0x10, 15, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 3, b's', b'u', b'b'];
const CONNACK: [u8; 4] = [0x20, 2, 0, 0];
const SUBSCRIBE_ALL: &[u8] = &[0x82, 10, 0, 1, 0, 5, b'd', b'e', b'v', b'/', b'#', 1];
const SUBACK: [u8; 5] = [0x90, 3, 0, 1, 1];
const PUBLISH: u8 = 3;

/// A connection that is subscribed to `dev/#` at QoS 1.
pub(super) struct Subscriber {
    stream: TcpStream,
    input: Vec<u8>,
    acknowledgements: Vec<u8>,
}

impl Subscriber {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        stream.write_all(CONNECT).await?;
        expect(&mut stream, &CONNACK).await?;
        stream.write_all(SUBSCRIBE_ALL).await?;
        expect(&mut stream, &SUBACK).await?;
        Ok(Self { stream, input: Vec::with_capacity(1 << 18), acknowledgements: Vec::new() })
    }

    /// Ends when `count` messages have come.
    pub(super) async fn receive(&mut self, count: u64) -> io::Result<()> {
        let mut received = 0;
        while received < count {
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            received += self.take_publishes();
            self.stream.write_all(&self.acknowledgements).await?;
            self.acknowledgements.clear();
        }
        Ok(())
    }

    fn take_publishes(&mut self) -> u64 {
        let (mut taken, mut publishes) = (0, 0);
        while let Some((first, body)) = packet(&self.input[taken..]) {
            if first >> 4 == PUBLISH {
                let payload = &self.input[taken + body.start..taken + body.end];
                let id_at = 2 + usize::from(u16::from_be_bytes([payload[0], payload[1]]));
                self.acknowledgements.extend_from_slice(&[0x40, 2, payload[id_at], payload[id_at + 1]]);
                publishes += 1;
            }
            taken += body.end;
        }
        self.input.drain(..taken);
        publishes
    }
}

async fn expect(stream: &mut TcpStream, packet: &[u8]) -> io::Result<()> {
    let mut got = vec![0; packet.len()];
    stream.read_exact(&mut got).await?;
    if got == packet { Ok(()) } else { Err(io::Error::other(format!("the broker answered {got:?}"))) }
}

/// The first byte of the first whole packet, and where its body lies.
fn packet(input: &[u8]) -> Option<(u8, std::ops::Range<usize>)> {
    let mut length = 0;
    for index in 1..=4 {
        let byte = *input.get(index)?;
        length |= usize::from(byte & 0x7f) << (7 * (index - 1));
        if byte & 0x80 == 0 {
            let body = index + 1..index + 1 + length;
            return (input.len() >= body.end).then_some((input[0], body));
        }
    }
    None
}
