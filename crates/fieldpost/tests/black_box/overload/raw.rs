//! Bytes on sockets, as no client library would send them: HTTP and MQTT in parts, and what comes
//! back.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One HTTP connection.
pub(crate) struct Http {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The status of an answer, and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Http {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { stream: TcpStream::connect(address).await?, received: Vec::new() })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends a whole request and reads its answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.send(request).await?;
        self.answer().await
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self) -> io::Result<Answer> {
        let head = loop {
            if let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.receive().await?;
        };
        let text = String::from_utf8_lossy(&self.received[..head]).to_ascii_lowercase();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no answer but {text:?}")))?;
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let whole = head + length.and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
        while self.received.len() < whole {
            self.receive().await?;
        }
        let body = String::from_utf8_lossy(&self.received[head..whole]).into_owned();
        self.received.drain(..whole);
        Ok(Answer { status, body })
    }

    async fn receive(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// A request with a body.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A report of one lock.
pub(crate) fn report(device: &str, value: u8) -> Vec<u8> {
    let body = format!(r#"{{"device_id":"{device}","data":{value}}}"#);
    request("POST", "/v1/reports", "Content-Type: application/json\r\n", body.as_bytes())
}

/// One MQTT 3.1.1 connection.
pub(crate) struct Mqtt(pub(crate) TcpStream);

impl Mqtt {
    /// Connects, without a word.
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self(TcpStream::connect(address).await?))
    }

    /// Sends a CONNECT: the return code of the answer, 0 if it is accepted.
    pub(crate) async fn connect(&mut self, client_id: &str) -> io::Result<u8> {
        self.0.write_all(&connect(client_id)).await?;
        let mut connack = [0; 4];
        self.0.read_exact(&mut connack).await?;
        Ok(connack[3])
    }

    /// Reports the state of a lock with QoS 1, and waits for the acknowledgement.
    pub(crate) async fn report(&mut self, device: &str, value: u8) -> io::Result<()> {
        let (topic, value) = (text(&format!("dev/lock/{device}/state")), value.to_string());
        self.0.write_all(&packet(0x32, &[&topic[..], &[0, 1], value.as_bytes()].concat())).await?;
        let mut puback = [0; 4];
        self.0.read_exact(&mut puback).await?;
        if puback == [0x40, 2, 0, 1] { Ok(()) } else { Err(io::Error::other("no PUBACK")) }
    }

    /// Reads until the other side ends the connection.
    pub(crate) async fn ended(&mut self) {
        let mut rest = [0; 1_024];
        while self.0.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    }
}

pub(crate) fn connect(client_id: &str) -> Vec<u8> {
    packet(0x10, &[&b"\0\x04MQTT\x04\x02\0\x3c"[..], &text(client_id)].concat())
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

pub(crate) fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    [&header(first, body.len())[..], body].concat()
}

/// The fixed header of a packet with a body of so many bytes.
pub(crate) fn header(first: u8, length: usize) -> Vec<u8> {
    let (mut bytes, mut rest) = (vec![first], length);
    loop {
        let more = rest > 127;
        bytes.push((rest % 128) as u8 | if more { 0x80 } else { 0 });
        rest /= 128;
        if !more {
            return bytes;
        }
    }
}
