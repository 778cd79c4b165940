//! A stream that counts what it moves for the connection pool, and breaks when the other side takes
//! nothing of what is sent.
//!
//! Without that, a caller that asks and never reads would keep an answer in memory for as long as
//! it likes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::admission::PooledConnection;

/// A stream of one connection.
pub(crate) struct StallGuard<S> {
    stream: S,
    stall_max: Duration,
    /// Runs while the other side takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    pooled: Option<Arc<PooledConnection>>,
}

impl<S> StallGuard<S> {
    pub(crate) fn new(stream: S, stall_max: Duration, pooled: Option<Arc<PooledConnection>>) -> Self {
        Self { stream, stall_max, stalled: None, pooled }
    }

    fn moved(&self, bytes: usize) {
        if let Some(pooled) = &self.pooled {
            pooled.moved(bytes);
        }
    }

    /// Passes on what came of sending, or that it takes too long.
    fn sent<T>(
        &mut self,
        cx: &mut Context<'_>,
        sent: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = sent {
            self.stalled = None;
            self.moved(result.as_ref().map_or(0, bytes));
            return Poll::Ready(result);
        }
        let stall_max = self.stall_max;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall_max)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the caller takes nothing of its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.moved(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(cx, sent, |written| *written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.sent(cx, sent, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.sent(cx, flushed, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.sent(cx, ended, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, pause};

    use super::*;

    const STALL_MAX: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn who_takes_nothing_is_given_up() {
        pause();
        let (near, mut far) = duplex(4);
        let mut moving = StallGuard::new(near, STALL_MAX, None);
        let start = Instant::now();
        moving.write_all(b"1234").await.expect("there is room");
        let reads = async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            far.read_exact(&mut [0; 2]).await
        };
        let (written, read) = tokio::join!(moving.write_all(b"5678"), reads);
        assert!(read.is_ok());
        assert_eq!(written.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        assert_eq!(start.elapsed().as_secs(), 50, "taking something begins the time anew");
    }
}
