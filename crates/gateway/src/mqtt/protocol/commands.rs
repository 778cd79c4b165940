//! The commands that this connection receives: which come here, which are written, and which of
//! them the client has acknowledged.
//!
//! A command that the client has not acknowledged is not kept for its next connection: the engine
//! sends it again until the device itself answers.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base::DeviceId;
use engine::intake::NotAccepting;
use futures_util::future::BoxFuture;
use rmqtt_codec::types::QoS;

use super::MqttProtocol;
use crate::mqtt::downlink::{CommandCopy, CommandRoutes};
use crate::mqtt::ending::Violation;
use crate::mqtt::fan_out::{Queued, WatchSubject, Watcher};
use crate::mqtt::labels::Answer;
use crate::mqtt::limits::OUT_BYTES_MAX;
use crate::mqtt::reach::{CoveredDevices, covered};
use crate::mqtt::reply::{self, Outgoing};
use crate::mqtt::rights::Unknown;

/// The commands of one connection.
pub(super) struct CommandReceiver {
    routes: Arc<CommandRoutes>,
    watcher: Arc<Watcher<CommandCopy>>,
    window: PacketIds,
    /// What was put into `out` and is not all written yet, in bytes.
    unwritten_bytes: usize,
    /// The label of this one's device is looked up first.
    checking: Option<(Arc<CommandCopy>, Check)>,
}

type Check = BoxFuture<'static, Result<Vec<Answer>, NotAccepting>>;

/// The packet ids of commands that wait for their PUBACKs.
#[derive(Debug, Default)]
struct PacketIds {
    packet_ids: Vec<u16>,
    last_id: u16,
}

impl PacketIds {
    fn is_full(&self, max: u16) -> bool {
        self.packet_ids.len() >= max.into()
    }

    /// An id that is not in use; there must be one.
    fn open(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if !self.packet_ids.contains(&self.last_id) {
                self.packet_ids.push(self.last_id);
                return self.last_id;
            }
        }
    }

    /// Whether the id was in use.
    fn close(&mut self, packet_id: u16) -> bool {
        let before = self.packet_ids.len();
        self.packet_ids.retain(|known| *known != packet_id);
        let was_open = self.packet_ids.len() < before;
        if self.packet_ids.is_empty() {
            // An idle connection holds no buffer.
            self.packet_ids = Vec::new();
        }
        was_open
    }
}

impl CommandReceiver {
    /// What was put into `out` since that was last empty, in bytes.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// The client's PUBACK. It may belong to an earlier connection of its session.
    fn acknowledge(&mut self, packet_id: u16) {
        if self.window.close(packet_id) {
            self.routes.metrics().unacknowledged.dec();
        }
    }
}

impl Drop for CommandReceiver {
    fn drop(&mut self) {
        let checked = self.checking.as_ref().map_or(0, |(copy, _)| copy.bytes());
        self.routes.settle(self.unwritten_bytes + checked);
        self.routes.metrics().unacknowledged.dec_by(self.window.packet_ids.len() as i64);
    }
}

impl MqttProtocol {
    /// Has commands come here that the filter covers: whether there was room for that.
    pub(super) fn route(&mut self, filter: &str) -> bool {
        let covers = !self.covered(filter).is_nothing();
        let routes = self.shared.commands.as_ref().filter(|_| covers);
        let Some(routes) = routes else { return true };
        let commands = self.commands.get_or_insert_with(|| {
            Box::new(CommandReceiver {
                routes: Arc::clone(routes),
                watcher: Arc::new(Watcher::new(&self.access)),
                window: PacketIds::default(),
                unwritten_bytes: 0,
                checking: None,
            })
        });
        routes.add(&commands.watcher, WatchSubject::of(filter, &self.shared.kinds))
    }

    /// No longer, unless another filter asks for the same.
    pub(super) fn unroute(&self, filter: &str) {
        let watched = self.watched_by(filter);
        if let Some(commands) = &self.commands
            && self.routed().all(|other| other != watched)
        {
            commands.routes.remove(&commands.watcher, watched);
        }
    }

    pub(super) fn route_no_more(&mut self) {
        if let Some(commands) = self.commands.take() {
            commands.routes.leave(&commands.watcher, self.routed());
        }
    }

    fn routed(&self) -> impl Iterator<Item = WatchSubject> {
        let covers = |filter: &&str| !self.covered(filter).is_nothing();
        self.subscriptions.filters().filter(covers).map(|filter| self.watched_by(filter))
    }

    /// The devices whose commands a filter covers.
    pub(super) fn covered(&self, filter: &str) -> CoveredDevices {
        covered(filter, &self.shared.kinds)
    }

    /// Takes a PUBACK. A client that was never sent a command breaks the rules with it.
    pub(super) fn take_puback(&mut self, packet_id: u16) -> Result<(), Violation> {
        let commands = self.commands.as_mut().ok_or(Violation::Protocol)?;
        commands.acknowledge(packet_id);
        Ok(())
    }

    /// Moves commands to what waits to be written, now that all before is written: whether there
    /// were any.
    pub(super) fn deliver_commands(&mut self, cx: &mut Context<'_>) -> bool {
        // Nothing comes before the SUBACK that it follows from.
        if self.commands.is_none() || self.is_answer_pending() {
            return false;
        }
        let before = self.out.len();
        if let Some(commands) = &mut self.commands {
            commands.watcher.register(cx.waker());
            commands.routes.settle(std::mem::take(&mut commands.unwritten_bytes));
        }
        while self.out.len() < OUT_BYTES_MAX
            && let Poll::Ready(Some((copy, allowed))) = self.poll_command(cx)
        {
            self.write_command(&copy, allowed);
        }
        self.out.len() > before
    }

    /// The next command, and whether the login may see its device. `None` when none waits, or the
    /// client has to acknowledge others first.
    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Arc<CommandCopy>, bool)>> {
        let Some(commands) = &mut self.commands else { return Poll::Ready(None) };
        if let Some((_, check)) = &mut commands.checking {
            let answers = ready!(check.as_mut().poll(cx));
            let copy = commands.checking.take().map(|(copy, _)| copy);
            return Poll::Ready(copy.map(|copy| {
                let allowed = answers.is_ok_and(|answers| has(&answers, &copy.device));
                (copy, allowed)
            }));
        }
        if commands.window.is_full(self.client.receive_max) {
            return Poll::Ready(None);
        }
        let Some(copy) = commands.watcher.take_counted() else { return Poll::Ready(None) };
        match (self.access.speaks_for(&copy.device, self.shared.known(&[])), self.access.label()) {
            (Ok(allowed), _) => Poll::Ready(Some((copy, allowed))),
            (Err(Unknown(device)), Some(label)) => {
                let labels = Arc::clone(&self.shared.labels);
                let check = labels.look_up(self.shared.engine.clone(), label, vec![device]);
                commands.checking = Some((copy, Box::pin(check)));
                self.poll_command(cx)
            }
            (Err(_), None) => Poll::Ready(Some((copy, false))),
        }
    }

    fn write_command(&mut self, copy: &CommandCopy, allowed: bool) {
        let qos = self.subscriptions.qos_of(&copy.topic);
        let Some(commands) = &mut self.commands else { return };
        let dropped = |reason| {
            commands.routes.settle(copy.bytes());
            commands.routes.metrics().dropped.count(reason);
        };
        // Another topic with the same hash, or a subscription that is gone.
        let Some(qos) = qos else { return dropped("nobody") };
        if !allowed {
            return dropped("not_allowed");
        }
        let packet_id = (qos != QoS::AtMostOnce).then(|| commands.window.open());
        let outgoing = Outgoing { topic: &copy.topic, payload: &copy.payload, packet_id };
        let is_written = reply::publish(self.client, outgoing, &mut self.out);
        let CommandReceiver { routes, window, unwritten_bytes, .. } = &mut **commands;
        if is_written {
            *unwritten_bytes += copy.bytes();
            routes.metrics().sent.inc();
            routes.metrics().unacknowledged.inc_by(packet_id.is_some().into());
        } else {
            routes.settle(copy.bytes());
            routes.metrics().dropped.count("too_large");
            packet_id.map(|packet_id| window.close(packet_id));
        }
    }
}

fn has(answers: &[Answer], device: &DeviceId) -> bool {
    answers.iter().any(|(of, has)| of == device && *has)
}

#[cfg(test)]
mod tests;
