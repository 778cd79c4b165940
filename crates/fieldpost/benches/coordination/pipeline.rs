//! A pipeline on a connection of its own, in frames of HTTP/2 that are written and read here.
//!
//! The peer is asked the same way, in bytes of its protocol, so what the load itself takes is no
//! part of the comparison. A general client took about as much as the server did.

use std::net::SocketAddr;

use bytes::{Buf, BufMut};

use super::Failure;
use super::replies::Connection;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PATH: &str = "/fieldpost.v1.Coordination/Pipeline";

/// Length, type, flags and stream.
const FRAME_HEAD_BYTES: usize = 9;
/// Of a frame that everybody takes.
const FRAME_BYTES_MAX: i64 = 16 * 1_024;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// Flags; the first two are one bit, of different types.
const ACKNOWLEDGES: u8 = 1;
const END_OF_STREAM: u8 = 1;
const END_OF_HEADERS: u8 = 4;
const PADDED: u8 = 8;
/// The only stream, and the connection.
const STREAM: u32 = 1;
const CONNECTION: u32 = 0;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// Initial size of a flow-control window (RFC 9113, 6.9.2).
const FIRST_WINDOW_BYTES: i64 = 65_535;
/// Bytes that the server may send before we open its window again.
const OWN_WINDOW_BYTES: u32 = 1 << 20;

/// The gRPC message prefix: a flag for compression, and the length.
const PREFIX_BYTES: usize = 5;

/// A stream of messages there and back.
pub(super) struct Pipeline {
    connection: Connection,
    /// Frames that go with the next ones.
    out: Vec<u8>,
    /// What was read of messages; the first bytes belong to one that was handed out.
    read: Vec<u8>,
    handed_out: usize,
    /// Bytes that we may send: of the connection, and of the stream.
    windows: [i64; 2],
    /// What the server has set as the initial size of the stream's window.
    initial_window: i64,
    /// Bytes read since the last WINDOW_UPDATE.
    unannounced: u32,
}

impl Pipeline {
    pub(super) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let mut out = PREFACE.to_vec();
        let mut settings = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        settings.put_u32(OWN_WINDOW_BYTES);
        put_frame(&mut out, (SETTINGS, 0, CONNECTION), &settings);
        put_window_update(&mut out, CONNECTION, OWN_WINDOW_BYTES - FIRST_WINDOW_BYTES as u32);
        put_frame(&mut out, (HEADERS, END_OF_HEADERS, STREAM), &headers(&address.to_string()));
        Ok(Self {
            connection: Connection::open(address).await?,
            out,
            read: Vec::new(),
            handed_out: 0,
            windows: [FIRST_WINDOW_BYTES; 2],
            initial_window: FIRST_WINDOW_BYTES,
            unannounced: 0,
        })
    }

    /// Sends a message, in as many frames as the server has room for.
    pub(super) async fn send(&mut self, message: &[u8]) -> Result<(), Failure> {
        let length = (message.len() as u32).to_be_bytes();
        let prefix = [0, length[0], length[1], length[2], length[3]];
        let mut rest = prefix.as_slice().chain(message);
        while rest.has_remaining() {
            let room = self.windows[0].min(self.windows[1]).clamp(0, FRAME_BYTES_MAX) as usize;
            let piece = room.min(rest.remaining());
            if piece == 0 {
                self.read_frame().await?;
                continue;
            }
            self.windows.iter_mut().for_each(|window| *window -= piece as i64);
            put_frame_head(&mut self.out, piece, (DATA, 0, STREAM));
            self.out.put((&mut rest).take(piece));
        }
        self.flush().await
    }

    /// The next message.
    pub(super) async fn message(&mut self) -> Result<&[u8], Failure> {
        self.read.drain(..self.handed_out);
        self.handed_out = 0;
        let end = loop {
            if let Some((prefix, rest)) = self.read.split_first_chunk::<PREFIX_BYTES>() {
                let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                if rest.len() >= length {
                    break PREFIX_BYTES + length;
                }
            }
            self.read_frame().await?;
        };
        self.handed_out = end;
        Ok(&self.read[PREFIX_BYTES..end])
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        self.connection.send(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    async fn read_frame(&mut self) -> Result<(), Failure> {
        if !self.out.is_empty() {
            self.flush().await?;
        }
        let frame = self.connection.reply(frame_length).await?;
        let (head, mut body) = frame.split_at(FRAME_HEAD_BYTES);
        let (kind, flags) = (head[3], head[4]);
        match kind {
            DATA if flags & (PADDED | END_OF_STREAM) == 0 => {
                self.read.extend_from_slice(body);
                self.unannounced += body.len() as u32;
                if self.unannounced > OWN_WINDOW_BYTES / 2 {
                    put_window_update(&mut self.out, CONNECTION, self.unannounced);
                    put_window_update(&mut self.out, STREAM, self.unannounced);
                    self.unannounced = 0;
                }
            }
            HEADERS if flags & END_OF_STREAM == 0 => {}
            SETTINGS if flags & ACKNOWLEDGES == 0 => {
                while body.len() >= 6 {
                    let (name, value) = (body.get_u16(), body.get_u32());
                    if name == INITIAL_WINDOW_SIZE {
                        self.windows[1] += i64::from(value) - self.initial_window;
                        self.initial_window = value.into();
                    }
                }
                put_frame(&mut self.out, (SETTINGS, ACKNOWLEDGES, CONNECTION), &[]);
            }
            PING if flags & ACKNOWLEDGES == 0 => {
                put_frame(&mut self.out, (PING, ACKNOWLEDGES, CONNECTION), body);
            }
            SETTINGS | PING => {}
            WINDOW_UPDATE if body.len() == 4 => {
                let window = usize::from(head[5..] == STREAM.to_be_bytes());
                self.windows[window] += i64::from(body.get_u32());
            }
            _ => return Err(format!("a frame of type {kind} with flags {flags} ends the pipeline").into()),
        }
        Ok(())
    }
}

/// The headers of the call in HPACK, with indexes into the static table only.
fn headers(authority: &str) -> Vec<u8> {
    // `:method: POST` and `:scheme: http`.
    let mut out = vec![0x83, 0x86];
    let mut put = |name: &[u8], value: &str| {
        out.extend_from_slice(name);
        out.push(value.len() as u8);
        out.extend_from_slice(value.as_bytes());
    };
    put(&[0x01], authority);
    put(&[0x04], PATH);
    // `content-type`, which is number 31.
    put(&[0x0f, 16], "application/grpc");
    put(b"\x00\x02te", "trailers");
    out
}

fn frame_length(read: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(head) = read.first_chunk::<FRAME_HEAD_BYTES>() else { return Ok(None) };
    let length = FRAME_HEAD_BYTES + u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    Ok((read.len() >= length).then_some(length))
}

fn put_frame(out: &mut Vec<u8>, what: (u8, u8, u32), body: &[u8]) {
    put_frame_head(out, body.len(), what);
    out.extend_from_slice(body);
}

fn put_frame_head(out: &mut Vec<u8>, bytes: usize, (kind, flags, stream): (u8, u8, u32)) {
    out.put_uint(bytes as u64, 3);
    out.extend_from_slice(&[kind, flags]);
    out.put_u32(stream);
}

fn put_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    put_frame(out, (WINDOW_UPDATE, 0, stream), &bytes.to_be_bytes());
}
