//! One connection from its accepted CONNECT to its end: the socket, the keep-alive, and what is due when it is over.
//!
//! Everything is one poll function over plain fields, so that an idle connection is little more than its socket.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use engine::intake::NotAccepting;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::connect::Will;
use super::ending::Ending;
use super::sessions::Seat;
use super::talk::Talk;
use super::{Shared, last_words, scratch};
use crate::decode::{self, Rules};

/// A connection whose CONNECT is accepted.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: TcpStream,
    pub(super) seat: Seat,
    pub(super) talk: Talk,
    pub(super) will: Option<Box<Will>>,
    pub(super) keep_alive: Option<KeepAlive>,
}

impl Session {
    /// Runs until the connection is closed.
    pub(super) async fn run(mut self) {
        let ending = poll_fn(|cx| self.poll(cx)).await;
        let ending = self.settle(ending).await;
        self.shared.figures.disconnects.count(ending.label());
        tracing::debug!(client = self.seat.client_id(), reason = ending.label(), "a connection ended");
        let Self { seat, mut stream, mut talk, .. } = self;
        // All that this client said is handed in: a newer connection of it may begin.
        drop(seat);
        talk.say_goodbye(ending);
        let out = std::mem::take(&mut talk.out);
        drop(talk);
        match ending {
            Ending::Gone => {}
            // Who said goodbye sends nothing more.
            Ending::Goodbye { .. } => last_words::say(&mut stream, &out, false).await,
            _ => last_words::say(&mut stream, &out, true).await,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if let Poll::Ready(ending) = self.seat.poll_order(cx) {
            return Poll::Ready(ending);
        }
        loop {
            if let Err(not) = self.talk.acknowledge(cx, self.seat.client_id()) {
                return Poll::Ready(not.into());
            }
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                return Poll::Ready(gone(&error));
            }
            match self.poll_receive(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(ending)) => return Poll::Ready(ending),
                Poll::Pending => break,
            }
        }
        self.poll_silence(cx)
    }

    /// Takes what has come. Pending while there is no room; then ring or socket wake us.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ending>> {
        if !self.talk.has_room() {
            return Poll::Pending;
        }
        if self.talk.is_held_back() {
            return Poll::Ready(self.talk.resume());
        }
        let Self { stream, talk, keep_alive, .. } = self;
        let received = ready!(scratch::poll_read(stream, cx, |bytes| talk.receive(bytes)));
        if let Some(keep_alive) = keep_alive {
            keep_alive.heard();
        }
        Poll::Ready(received.unwrap_or_else(|error| Err(gone(&error))))
    }

    /// Ready when nothing waits to be written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let out = &mut self.talk.out;
        while !out.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, out))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.shared.figures.sent_bytes.inc_by(written as u64);
            out.advance(written);
        }
        // An idle connection holds no buffer.
        *out = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        let Some(keep_alive) = &mut self.keep_alive else { return Poll::Pending };
        loop {
            ready!(keep_alive.sleep.as_mut().poll(cx));
            if self.talk.waits_for_engine() {
                // It may well have spoken: it is we who do not listen.
                keep_alive.heard();
            }
            let due = keep_alive.last_heard + keep_alive.grace;
            if due <= Instant::now() {
                return Poll::Ready(Ending::Silent);
            }
            keep_alive.sleep.as_mut().reset(due);
        }
    }

    /// Waits until what was handed in is durable, and applies the will if it is due. What takes too long is given up: nothing
    /// that was not acknowledged is promised.
    async fn settle(&mut self, ending: Ending) -> Ending {
        let within = self.shared.limits.settle_timeout;
        match timeout(within, self.settle_all(ending)).await {
            Ok(Ok(())) => ending,
            Ok(Err(not)) => not.into(),
            Err(_) => {
                tracing::debug!(client = self.seat.client_id(), "a connection ended with reports under way");
                ending
            }
        }
    }

    async fn settle_all(&mut self, ending: Ending) -> Result<(), NotAccepting> {
        if ending == Ending::NotAccepting {
            return Err(NotAccepting);
        }
        poll_fn(|cx| {
            self.talk.acknowledge(cx, self.seat.client_id())?;
            if let Poll::Ready(Err(_)) = self.poll_write(cx) {
                // Nobody takes these bytes any more.
                self.talk.out.clear();
            }
            if self.talk.is_settled() { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        match self.will.take() {
            Some(will) if ending.applies_will() => apply(&will, self.seat.client_id(), &self.shared).await,
            _ => Ok(()),
        }
    }
}

/// Takes the will for a publish of this client.
async fn apply(will: &Will, client_id: &str, shared: &Shared) -> Result<(), NotAccepting> {
    let figures = &shared.figures.reports;
    let rules = Rules::of(&shared.engine);
    let report = match decode::publish(&will.topic, &will.payload, None, rules) {
        Ok(report) => report,
        Err(problem) => {
            figures.refused(&problem, format_args!("the will of {client_id}"));
            return Ok(());
        }
    };
    let outcome = shared.intake.submit(vec![report]).await?.durable().await?;
    figures.accepted(outcome.accepted.into());
    for rejection in &outcome.rejected {
        figures.refused(&rejection.problem, format_args!("the will of {client_id}"));
    }
    Ok(())
}

fn gone(error: &io::Error) -> Ending {
    tracing::debug!(%error, "a connection broke");
    Ending::Gone
}

/// Watches that a client says something in time.
pub(super) struct KeepAlive {
    grace: Duration,
    last_heard: Instant,
    /// Not later than `last_heard + grace`; it is set anew only when it ends, not with every packet.
    sleep: Pin<Box<Sleep>>,
}

impl KeepAlive {
    /// For a keep-alive in seconds; a client may be silent for half as long again.
    pub(super) fn new(seconds: u16) -> Option<Self> {
        let grace = Duration::from_millis(u64::from(seconds) * 1_500);
        let now = Instant::now();
        (seconds > 0).then(|| Self { grace, last_heard: now, sleep: Box::pin(sleep_until(now + grace)) })
    }

    fn heard(&mut self) {
        self.last_heard = Instant::now();
    }
}
