//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! A post is one write, and reads until the answer has come. There is no task behind a connection.
//! What the receiver sent or closed between two posts is found when the connection is asked whether
//! it is [usable](ReceiverConnection::is_usable). So a post costs no hand-over between tasks, an
//! idle connection costs only its buffer, and dropping a post closes it. (It is our own because a
//! post is all it has to do; with hyper's, an attempt cost a tenth more in all.)

mod answer_start;
mod response;

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use httparse::Status::{Complete, Partial};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

pub use answer_start::AnswerStart;
use response::Rest;
pub use response::{Malformed, ResponseHead};

#[cfg(test)]
mod tests;

/// Largest head of an answer. The buffer grows to it only when needed.
const ANSWER_HEAD_BYTES_MAX: usize = 32 * 1_024;
/// How much of an answer's body is read for the sake of the connection.
const ANSWER_BODY_BYTES_MAX: u64 = 64 * 1_024;
/// Longest line that begins a chunk, with its extensions, or that is part of a trailer.
const CHUNK_LINE_BYTES_MAX: usize = 4 * 1_024;
/// What ends a chunk's data: `\r\n`.
const LINE_END_BYTES: usize = 2;
/// Room for a read.
const READ_BYTES: usize = 1_024;
/// Room that an idle connection keeps.
const IDLE_BYTES_MAX: usize = 4 * 1_024;

/// What a connection runs on: TCP, or TLS over it.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A connection. Not usable for good once a call on it has failed or was dropped half-way.
pub struct ReceiverConnection {
    stream: Box<dyn ByteStream>,
    /// What was read and is not understood yet.
    input: Vec<u8>,
    /// Every answer so far was read to its end, and the receiver wants to go on.
    is_between_posts: bool,
    /// How long after its request the first byte of the latest answer came.
    first_byte: Option<Duration>,
}

/// Why there was no answer, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The connection failed, or ended too early.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What came is no answer.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The head is longer than is read.
    #[error("the head of the answer is longer than {ANSWER_HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
}

/// More follows than is read for the sake of a connection.
struct TooLong;

impl std::fmt::Debug for ReceiverConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiverConnection")
            .field("is_between_posts", &self.is_between_posts)
            .finish_non_exhaustive()
    }
}

impl ReceiverConnection {
    /// A connection that nothing was sent on.
    #[must_use]
    pub fn new(stream: Box<dyn ByteStream>) -> Self {
        Self { stream, input: Vec::new(), is_between_posts: true, first_byte: None }
    }

    /// Whether another request may be sent on it: the answer before it is read, and the receiver
    /// has not closed it since.
    pub async fn is_usable(&mut self) -> bool {
        if !self.is_between_posts || !self.input.is_empty() {
            return false;
        }
        let stream = &mut self.stream;
        let is_silent = poll_fn(|cx| {
            let mut byte = [0; 1];
            let read = Pin::new(&mut *stream).poll_read(cx, &mut ReadBuf::new(&mut byte));
            // Its end, an error, or an answer that nobody asked for.
            Poll::Ready(read.is_pending())
        });
        // A task that did much at one go would be told to wait, as if nothing had come.
        tokio::task::unconstrained(is_silent).await
    }

    /// Posts and waits for the head of the answer.
    ///
    /// # Errors
    /// When the connection ends before that, or something else comes.
    pub async fn post(&mut self, head: &[u8], body: &[u8]) -> Result<ResponseHead, Broken> {
        self.is_between_posts = false;
        let mut parts = [IoSlice::new(head), IoSlice::new(body)];
        let mut parts = &mut parts[..];
        while !parts.is_empty() {
            let written = self.stream.write_vectored(parts).await?;
            if written == 0 {
                return Err(Broken::Io(io::ErrorKind::WriteZero.into()));
            }
            IoSlice::advance_slices(&mut parts, written);
        }
        self.stream.flush().await?;
        self.first_byte = None;
        self.response(Instant::now()).await
    }

    /// How long after its request the first byte of the latest answer came.
    #[must_use]
    pub fn first_byte(&self) -> Option<Duration> {
        self.first_byte
    }

    /// Reads the head of an answer to a request of which that was the end. Interim ones are passed
    /// over.
    async fn response(&mut self, asked: Instant) -> Result<ResponseHead, Broken> {
        // A head that comes in small pieces is not parsed again with each of them.
        let (mut next_look, mut searched) = (0, 0);
        loop {
            if self.input.len() >= next_look || has_blank_line(&self.input[searched..]) {
                if let Some((response, bytes)) = ResponseHead::parse(&self.input)? {
                    self.input.drain(..bytes);
                    if !response.is_interim() {
                        return Ok(response);
                    }
                    (next_look, searched) = (0, 0);
                    continue;
                }
                next_look = self.input.len() * 2;
            }
            searched = self.input.len().saturating_sub(2);
            if self.input.len() >= ANSWER_HEAD_BYTES_MAX {
                return Err(Broken::HeadTooLong);
            }
            self.read().await?;
            self.first_byte.get_or_insert_with(|| asked.elapsed());
        }
    }

    /// Reads the rest of an answer, and keeps its `start`. Where it is too long, or ends with the
    /// connection, the connection is not usable any more. Where the head says so already, no more
    /// is read than `start` wants.
    ///
    /// # Errors
    /// When the connection ends before that, or its chunks are no chunks.
    pub async fn finish(&mut self, response: &ResponseHead, start: &mut AnswerStart) -> Result<(), Broken> {
        let is_kept = response.may_be_followed(ANSWER_BODY_BYTES_MAX);
        let mut left = if is_kept { ANSWER_BODY_BYTES_MAX } else { start.wants() };
        if left == 0 {
            // What came with the head costs nothing.
            if let Rest::Bytes(bytes) = response.rest {
                let here = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.input.len());
                start.take(&self.input[..here]);
            }
            return Ok(());
        }
        let finished = match response.rest {
            Rest::Bytes(bytes) => self.skip(bytes.min(left + 1), &mut left, start).await?,
            Rest::Chunks => self.skip_chunks(&mut left, start).await?,
            Rest::UntilClosed => self.skip(u64::MAX, &mut left, start).await?,
        };
        self.is_between_posts = is_kept && finished.is_ok();
        self.input.shrink_to(IDLE_BYTES_MAX);
        Ok(())
    }

    /// Passes over so many bytes, if that is no more than is left.
    async fn skip(
        &mut self,
        mut bytes: u64,
        left: &mut u64,
        start: &mut AnswerStart,
    ) -> Result<Result<(), TooLong>, Broken> {
        loop {
            let here = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.input.len());
            start.take(&self.input[..here]);
            self.input.drain(..here);
            bytes -= here as u64;
            let Some(rest) = left.checked_sub(here as u64) else { return Ok(Err(TooLong)) };
            *left = rest;
            if bytes == 0 {
                return Ok(Ok(()));
            }
            self.read().await?;
        }
    }

    async fn skip_chunks(
        &mut self,
        left: &mut u64,
        start: &mut AnswerStart,
    ) -> Result<Result<(), TooLong>, Broken> {
        loop {
            match httparse::parse_chunk_size(&self.input).map_err(|_| Malformed::Chunk)? {
                Complete((line, size)) => {
                    self.input.drain(..line);
                    if size == 0 {
                        return self.skip_trailer().await;
                    }
                    // Lines count like what they frame: their extensions may be as long as the
                    // rest.
                    let Some(rest) = left.checked_sub((line + LINE_END_BYTES) as u64) else {
                        return Ok(Err(TooLong));
                    };
                    *left = rest;
                    if self.skip(size, left, start).await?.is_err() {
                        return Ok(Err(TooLong));
                    }
                    if !matches!(self.line().await?, Ok(line) if line == LINE_END_BYTES) {
                        return Err(Malformed::Chunk.into());
                    }
                    self.input.drain(..LINE_END_BYTES);
                }
                Partial if self.input.len() > CHUNK_LINE_BYTES_MAX => return Ok(Err(TooLong)),
                Partial => self.read().await?,
            }
        }
    }

    /// Passes over the lines behind the last chunk, up to an empty one.
    async fn skip_trailer(&mut self) -> Result<Result<(), TooLong>, Broken> {
        let mut left = CHUNK_LINE_BYTES_MAX;
        loop {
            let Ok(line) = self.line().await? else { return Ok(Err(TooLong)) };
            let is_empty = matches!(&self.input[..line], b"\r\n" | b"\n");
            self.input.drain(..line);
            if is_empty {
                return Ok(Ok(()));
            }
            let Some(rest) = left.checked_sub(line) else { return Ok(Err(TooLong)) };
            left = rest;
        }
    }

    /// How long the line is that comes next, its end included.
    async fn line(&mut self) -> Result<Result<usize, TooLong>, Broken> {
        loop {
            if let Some(at) = self.input.iter().position(|byte| *byte == b'\n') {
                return Ok(Ok(at + 1));
            }
            if self.input.len() > CHUNK_LINE_BYTES_MAX {
                return Ok(Err(TooLong));
            }
            self.read().await?;
        }
    }

    /// Reads what is there, and waits for something.
    async fn read(&mut self) -> Result<(), Broken> {
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(Broken::Io(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(()),
        }
    }
}

/// Whether a head may end within.
fn has_blank_line(input: &[u8]) -> bool {
    input.windows(2).any(|pair| pair == b"\n\n") || input.windows(3).any(|three| three == b"\n\r\n")
}
