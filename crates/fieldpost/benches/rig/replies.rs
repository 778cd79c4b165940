//! A connection that is written to and read from in large pieces, whatever is spoken on it.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Failure;

const READ_BYTES: usize = 64 * 1_024;

/// What was read and not yet understood is kept in place.
pub(crate) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
    /// So much of `read` belongs to replies that were handed out.
    taken: usize,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(2 * READ_BYTES), taken: 0 })
    }

    pub(crate) async fn send(&mut self, requests: &[u8]) -> Result<(), Failure> {
        Ok(self.stream.write_all(requests).await?)
    }

    /// The next reply, as soon as all of it is there: `length` says how long it is, if it can be
    /// told already.
    pub(crate) async fn reply(
        &mut self,
        length: impl Fn(&[u8]) -> Result<Option<usize>, Failure>,
    ) -> Result<&[u8], Failure> {
        let bytes = loop {
            if let Some(bytes) = length(&self.read[self.taken..])? {
                break bytes;
            }
            self.read.drain(..self.taken);
            self.taken = 0;
            self.read.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("the server closed the connection".into());
            }
        };
        let begin = self.taken;
        self.taken += bytes;
        Ok(&self.read[begin..self.taken])
    }
}
