//! One connection from its accepted CONNECT to its end: the socket, the keep-alive, and what is due
//! when it is over.
//!
//! Everything is one poll function over plain fields, so that an idle connection is little more
//! than its socket.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use engine::intake::NotAccepting;
use net::listen::CapacityPermit;
use net::metrics::Counted;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::ending::{MqttEnding, Violation};
use super::keep_alive::KeepAlive;
use super::limits::PACKET_MAX;
use super::offline_session::{OfflineSession, SessionPermit, SessionState, lasts};
use super::protocol::MqttProtocol;
use super::rights::Rights;
use super::sessions::SessionSlot;
use super::will::{Will, WillOutcome, WillOwner};
use super::{MqttShared, lingering_close, scratch};

/// A connection whose CONNECT is accepted.
pub(super) struct MqttSession<S> {
    pub(super) shared: Arc<MqttShared>,
    pub(super) stream: S,
    /// The stream holds something that was written and not sent: TLS has a buffer of its own.
    pub(super) unflushed: bool,
    pub(super) slot: SessionSlot,
    /// Its place among the connections of its login, until it is over.
    pub(super) _of_login: CapacityPermit,
    /// Its place among all. A newcomer that takes it over may have the same one.
    pub(super) _place: Arc<CapacityPermit>,
    pub(super) access: Rights,
    pub(super) protocol: MqttProtocol,
    pub(super) will: Option<Box<Will>>,
    /// How long the session outlives the connection, in seconds.
    pub(super) session_expiry_secs: u32,
    pub(super) keep_alive: Option<KeepAlive>,
    /// Runs while a packet has begun that is not all there.
    pub(super) packet_due: Option<Pin<Box<Sleep>>>,
    pub(super) _counted: Counted,
}

/// A session as a task, with its open file. Written out because a state machine made by the
/// compiler would hold the session twice: once as its argument, once as what goes on.
pub(super) struct Life<S> {
    phase: SessionPhase<S>,
    _file: Option<CapacityPermit>,
}

#[expect(clippy::large_enum_variant, reason = "nearly all of them are going on, each in a task of its own")]
enum SessionPhase<S> {
    Going(MqttSession<S>),
    /// Boxed so that a connection that goes on takes no room for its end.
    Ending(Pin<Box<dyn Future<Output = ()> + Send>>),
    Over,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Future for Life<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let phase = &mut self.phase;
        if let SessionPhase::Going(session) = phase {
            let ending = ready!(session.poll(cx));
            if let SessionPhase::Going(session) = std::mem::replace(phase, SessionPhase::Over) {
                *phase = SessionPhase::Ending(Box::pin(session.end(ending)));
            }
        }
        if let SessionPhase::Ending(end) = phase {
            ready!(end.as_mut().poll(cx));
            *phase = SessionPhase::Over;
        }
        Poll::Ready(())
    }
}

/// A session that outlives its connection.
enum AfterDisconnect {
    /// For whoever took the slot over.
    Inherited(SessionState),
    /// For the client's return.
    Waiting(SessionState, SessionPermit),
}

impl<S: AsyncRead + AsyncWrite + Unpin> MqttSession<S> {
    /// What runs until the connection is closed, and then gives its open file back.
    pub(super) fn with_file(self, file: Option<CapacityPermit>) -> Life<S> {
        Life { phase: SessionPhase::Going(self), _file: file }
    }

    /// Runs until the connection is closed.
    pub(super) async fn run(mut self) {
        let ending = poll_fn(|cx| self.poll(cx)).await;
        // Boxed so that a connection that goes on takes no room for its end.
        Box::pin(self.end(ending)).await;
    }

    /// Settles what is under way, carries out the will, leaves the session to whom it belongs, and
    /// closes.
    async fn end(mut self, ending: MqttEnding) {
        let ending = self.changed_expiry(ending);
        let ending = self.settle(ending).await;
        let after_disconnect = self.after_disconnect(ending);
        let (ending, waiting_will) = self.carry_out_will(ending, after_disconnect.is_some()).await;
        self.tell_end(ending).await;
        self.shared.metrics.disconnects.count(ending.label());
        tracing::debug!(client = self.slot.client_id(), reason = ending.label(), "a connection ended");
        let Self { shared, slot, access, mut stream, mut protocol, session_expiry_secs, .. } = self;
        protocol.send_disconnect(ending);
        let (out, peer) = (std::mem::take(&mut protocol.out), protocol.peer());
        drop(protocol);
        // All that this client said is handed in: a newer connection of it may begin.
        match after_disconnect {
            None => drop(slot),
            Some(AfterDisconnect::Inherited(state)) => slot.hand_over(state),
            Some(AfterDisconnect::Waiting(state, permit)) => {
                let until = Instant::now() + lasts(session_expiry_secs, shared.limits.session_expiry_max);
                let will = waiting_will;
                let offline = OfflineSession { shared, slot, access, peer, state, will, until, permit };
                tokio::spawn(offline.run());
            }
        }
        match ending {
            MqttEnding::Gone => {}
            // Who said goodbye sends nothing more, and who had to make room makes it now.
            MqttEnding::Goodbye { .. } | MqttEnding::OverLoginLimit | MqttEnding::TakenOver { .. } => {
                lingering_close::say(&mut stream, &out, false).await;
            }
            _ => lingering_close::say(&mut stream, &out, true).await,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<MqttEnding> {
        if let Poll::Ready(ending) = self.slot.poll_order(cx) {
            return Poll::Ready(ending);
        }
        loop {
            if let Err(not) = self.protocol.acknowledge(cx, self.slot.client_id()) {
                return Poll::Ready(not.into());
            }
            if let Err(error) = self.say(cx) {
                return Poll::Ready(gone(&error));
            }
            match self.poll_receive(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(ending)) => return Poll::Ready(ending),
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(ending) = self.poll_trickle(cx) {
            return Poll::Ready(ending);
        }
        self.poll_silence(cx)
    }

    /// Takes what has come. Pending while there is no room, until an acknowledgement or the socket
    /// wakes the task.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), MqttEnding>> {
        if !self.protocol.has_room() {
            return Poll::Pending;
        }
        if let Err(ending) = ready!(self.protocol.poll_answers(cx)) {
            return Poll::Ready(Err(ending));
        }
        if let Err(ending) = ready!(self.protocol.poll_told(cx)) {
            return Poll::Ready(Err(ending));
        }
        if self.protocol.is_held_back() {
            return Poll::Ready(self.protocol.resume());
        }
        ready!(self.shared.held.poll_room(cx));
        let Self { stream, protocol, keep_alive, .. } = self;
        let received = ready!(scratch::poll_read(stream, cx, |bytes| protocol.receive(bytes)));
        if let Some(keep_alive) = keep_alive {
            keep_alive.heard();
        }
        Poll::Ready(received.unwrap_or_else(|error| Err(gone(&error))))
    }

    /// Writes what waits to be said, commands and copies of reports, until the client takes no more
    /// or nothing is left.
    fn say(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Poll::Ready(written) = self.poll_write(cx) {
            written?;
            if !self.protocol.deliver(cx) {
                break;
            }
        }
        Ok(())
    }

    /// Ready when nothing waits to be sent.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let out = &mut self.protocol.out;
        while !out.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, out))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.shared.metrics.sent_bytes.inc_by(written as u64);
            out.advance(written);
            self.unflushed = true;
        }
        // An idle connection holds no buffer.
        *out = BytesMut::new();
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when a packet that has begun takes too long.
    fn poll_trickle(&mut self, cx: &mut Context<'_>) -> Poll<MqttEnding> {
        if self.protocol.has_used_packet() || !self.protocol.is_within_packet() {
            self.packet_due = None;
        }
        if !self.protocol.is_within_packet() {
            return Poll::Pending;
        }
        let due = self.packet_due.get_or_insert_with(|| Box::pin(sleep(PACKET_MAX)));
        due.as_mut().poll(cx).map(|()| MqttEnding::Trickling)
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<MqttEnding> {
        let Some(keep_alive) = &mut self.keep_alive else { return Poll::Pending };
        if self.protocol.waits_for_engine() {
            // It may well have spoken: it is we who do not listen.
            keep_alive.heard();
        }
        keep_alive.poll_silence(cx).map(|()| MqttEnding::Silent)
    }

    /// A goodbye may change how long the session lasts, but a session that ends with its connection
    /// does not come to life.
    fn changed_expiry(&mut self, ending: MqttEnding) -> MqttEnding {
        let MqttEnding::Goodbye { session_expiry_secs: Some(secs), .. } = ending else { return ending };
        if self.session_expiry_secs == 0 && secs > 0 {
            return Violation::Protocol.into();
        }
        self.session_expiry_secs = secs;
        ending
    }

    /// Waits until what was handed in is durable. What takes too long is given up: nothing that was
    /// not acknowledged is promised.
    async fn settle(&mut self, ending: MqttEnding) -> MqttEnding {
        if ending == MqttEnding::NotAccepting {
            return ending;
        }
        let within = self.shared.limits.settle_timeout;
        match timeout(within, self.settle_all()).await {
            Ok(Ok(())) => ending,
            Ok(Err(not)) => not.into(),
            Err(_) => {
                tracing::debug!(client = self.slot.client_id(), "a connection ended with reports under way");
                ending
            }
        }
    }

    async fn settle_all(&mut self) -> Result<(), NotAccepting> {
        poll_fn(|cx| {
            self.protocol.acknowledge(cx, self.slot.client_id())?;
            if let Poll::Ready(Err(_)) = self.poll_write(cx) {
                // Nobody takes these bytes any more.
                self.protocol.out.clear();
                self.unflushed = false;
            }
            if self.protocol.is_settled() { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    }

    /// What of the session goes on without the connection.
    fn after_disconnect(&mut self, ending: MqttEnding) -> Option<AfterDisconnect> {
        if self.session_expiry_secs == 0 || !ending.leaves_session() {
            return None;
        }
        let state = self.protocol.leave();
        match ending {
            MqttEnding::TakenOver { clean_start: true } => None,
            MqttEnding::TakenOver { clean_start: false } => Some(AfterDisconnect::Inherited(state)),
            _ => match self.shared.absent.take(&state) {
                Some(permit) => Some(AfterDisconnect::Waiting(state, permit)),
                None => {
                    self.shared.metrics.sessions_not_kept.inc();
                    None
                }
            },
        }
    }

    /// Tells the engine that its devices are gone. What takes too long goes on by itself.
    async fn tell_end(&mut self, ending: MqttEnding) {
        let Some(mut told) = self.protocol.tell_end(ending.reason()) else { return };
        if timeout(self.shared.limits.settle_timeout, &mut told).await.is_err() {
            tracing::debug!(client = self.slot.client_id(), "the end of a connection takes long to be told");
            tokio::spawn(told);
        }
    }

    /// Applies the will if it is due, or says when it is; and how the connection ends if that
    /// fails.
    async fn carry_out_will(
        &mut self,
        ending: MqttEnding,
        session_outlives: bool,
    ) -> (MqttEnding, Option<(Box<Will>, Instant)>) {
        let Some(will) = self.will.take() else { return (ending, None) };
        let expiry = if session_outlives { self.session_expiry_secs } else { 0 };
        match will.outcome(ending, lasts(expiry, self.shared.limits.session_expiry_max)) {
            WillOutcome::Void => (ending, None),
            WillOutcome::After(delay) => (ending, Some((will, Instant::now() + delay))),
            WillOutcome::Now => {
                let (client, peer) = (self.slot.client_id(), self.protocol.peer());
                let applied =
                    apply(&will, WillOwner { access: &self.access, client, peer }, &self.shared).await;
                (applied.map_or_else(MqttEnding::from, |()| ending), None)
            }
        }
    }
}

async fn apply(will: &Will, of: WillOwner<'_>, shared: &MqttShared) -> Result<(), NotAccepting> {
    let within = shared.limits.settle_timeout;
    timeout(within, will.apply(of, shared)).await.unwrap_or_else(|_| {
        tracing::warn!(client = of.client, "a will takes long to become durable; it is not waited for");
        Ok(())
    })
}

fn gone(error: &io::Error) -> MqttEnding {
    tracing::debug!(%error, "a connection broke");
    MqttEnding::Gone
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn a_connection_that_waits_is_little_more_than_its_socket() {
        let bytes = size_of::<Life<TcpStream>>();
        assert!(bytes <= 768, "{bytes} bytes of 1.5 KiB, beside the task, the socket and a table");
    }
}
