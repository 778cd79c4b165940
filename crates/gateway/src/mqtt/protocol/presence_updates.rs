//! What has to be told of this session before the client is answered: whose session it is, and
//! which devices it reaches.
//!
//! Until all of that is durable no further packet is used. So what is told keeps its order.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base::DeviceId;
use bytes::BytesMut;
use engine::intake::NotAccepting;
use engine::presence::{KindSet, Session};
use engine::records::DisconnectReason;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use super::MqttProtocol;
use crate::mqtt::ending::MqttEnding;
use crate::mqtt::labels::Answer;
use crate::mqtt::presence::{self, PresenceCall};
use crate::mqtt::reach::covered;

/// What is being told, and the answer to the client that waits for it.
pub(super) struct PendingAnswer {
    told: BoxFuture<'static, Result<(), NotAccepting>>,
    answer: BytesMut,
}

type Lookup = BoxFuture<'static, Result<Vec<Answer>, NotAccepting>>;

impl MqttProtocol {
    pub(super) fn is_answer_pending(&self) -> bool {
        self.pending_answer.is_some()
    }

    /// Ready when nothing has to be told any more; then the client has its answer.
    pub(in crate::mqtt) fn poll_told(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), MqttEnding>> {
        let Some(pending_answer) = &mut self.pending_answer else { return Poll::Ready(Ok(())) };
        let told = ready!(pending_answer.told.as_mut().poll(cx));
        if let Some(pending_answer) = self.pending_answer.take() {
            self.out.extend_from_slice(&pending_answer.answer);
        }
        Poll::Ready(told.map_err(MqttEnding::from))
    }

    /// Answers the client once these calls are made.
    pub(super) fn answer_when_told(&mut self, calls: Vec<PresenceCall>, answer: BytesMut) {
        if calls.is_empty() {
            return self.out.extend_from_slice(&answer);
        }
        let told = Box::pin(presence::tell(self.shared.presence.clone(), self.session(), calls));
        self.pending_answer = Some(Box::new(PendingAnswer { told, answer }));
    }

    /// Tells whose session this is, and what the subscriptions reach that it goes on with. Before
    /// the CONNACK, so that it is so when the client has that. The client id is empty where the
    /// client gave none.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub(in crate::mqtt) async fn tell_begin(&mut self, client_id: &str) -> Result<(), NotAccepting> {
        let answers = match self.labels_to_begin() {
            Some(asked) => asked.await?,
            None => Vec::new(),
        };
        let shared = Arc::clone(&self.shared);
        let known = shared.known(&answers);
        let mut calls = Vec::new();
        // Labels come and go: whether a session is a device's own by one is the engine's to say.
        if let Some(own) = self.access.own_device(client_id) {
            self.presence.connect(own, KindSet::Any, &mut calls);
        }
        let login = self.access.devices();
        let subscriptions = std::mem::take(&mut self.subscriptions);
        for filter in subscriptions.filters() {
            let covered = covered(filter, &shared.kinds);
            let is_served = self.presence.has_room_for(covered.named.len()) && self.route(filter);
            if is_served && self.access.subscribe(filter, known) == Ok(true) {
                self.presence.subscribe(covered, &login, &mut calls);
            }
        }
        self.subscriptions = subscriptions;
        if calls.is_empty() {
            return Ok(());
        }
        presence::tell(self.shared.presence.clone(), self.session(), calls).await
    }

    /// The labels that say for which devices the login still speaks.
    fn labels_to_begin(&self) -> Option<Lookup> {
        let label = self.access.label()?;
        let known = self.shared.known(&[]);
        let asked = self.subscriptions.filters().filter_map(|filter| self.access.asks_about(filter, known));
        let mut devices: Vec<DeviceId> = asked.collect();
        devices.sort_unstable();
        devices.dedup();
        let labels = Arc::clone(&self.shared.labels);
        let engine = self.shared.engine.clone();
        (!devices.is_empty()).then(|| Box::pin(labels.look_up(engine, label, devices)) as Lookup)
    }

    /// Tells that the session has ended; nothing if nobody has to know.
    pub(in crate::mqtt) fn tell_end(&mut self, reason: DisconnectReason) -> Option<BoxFuture<'static, ()>> {
        // What is still being told is overtaken by its end.
        self.pending_answer = None;
        let calls = self.presence.close();
        let (presence, session) = (self.shared.presence.clone(), self.session());
        (!calls.is_empty())
            .then(|| Box::pin(presence::tell_end(presence, session, calls, reason)) as BoxFuture<'static, ()>)
    }

    /// A connection that is dropped without an end: its handshake took too long, or the process
    /// stops.
    pub(super) fn tell_end_unawaited(&mut self) {
        if let Some(told) = self.tell_end(DisconnectReason::ConnectionLost)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(told);
        }
    }

    fn session(&self) -> Session {
        let address = self.connection.peer.map(|peer| peer.ip().to_canonical().to_string().into());
        let label = self.access.label().map(|label| Arc::new((label.key.into(), label.value.into())));
        Session { number: self.connection.number, address, label }
    }
}
