//! What a connected client says, and what we say to it; without the socket.
//!
//! All reports of one [`Talk::receive`] are handed in as one slice. Nothing is taken that there is no room for: what does not fit
//! waits in `unread`, and then no more is received.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::limits::SLICE_REPORTS_MAX;
use bytes::BytesMut;
use engine::intake::NotAccepting;
use rmqtt_codec::types::QoS;

use super::Shared;
use super::control::{self, Control};
use super::ending::{Ending, Violation};
use super::limits::OUT_BYTES_MAX;
use super::reply::{self, Client};
use super::ring::{Receipt, Ring, Slice};
use super::subscriptions::Subscriptions;
use super::wire::{self, Packet};
use crate::decode::{self, Rules};

/// The conversation with one client.
pub(super) struct Talk {
    shared: Arc<Shared>,
    client: Client,
    ring: Ring,
    /// Received and not used yet.
    unread: Vec<u8>,
    /// `unread` may begin with a whole packet that there was no room for; otherwise with a part of one.
    held_back: bool,
    /// What waits to be written.
    pub(super) out: BytesMut,
    subscriptions: Subscriptions,
}

impl Talk {
    /// Goes on behind the CONNECT: with what was received behind it, and with the CONNACK in `out`.
    pub(super) fn new(shared: Arc<Shared>, client: Client, unread: Vec<u8>, out: BytesMut) -> Self {
        let figures = &shared.figures;
        let ring = Ring::new(shared.limits.unacknowledged_max.get().into(), figures.unacknowledged.clone());
        let held_back = !unread.is_empty();
        Self { shared, client, ring, unread, held_back, out, subscriptions: Subscriptions::default() }
    }

    /// Whether more may be received. If not, it is because reports are under way or because the client does not take what we
    /// say; either wakes who polls for it.
    pub(super) fn has_room(&self) -> bool {
        !self.waits_for_engine() && self.out.len() < OUT_BYTES_MAX
    }

    /// Whether it is we who do not listen.
    pub(super) fn waits_for_engine(&self) -> bool {
        self.ring.room() == 0
    }

    /// Whether everything that was handed in is settled.
    pub(super) fn is_settled(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether [`Talk::resume`] has something to do before more is received.
    pub(super) fn is_held_back(&self) -> bool {
        self.held_back
    }

    /// Takes what was received; nothing is the end.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        if bytes.is_empty() {
            return Err(Ending::Gone);
        }
        self.shared.figures.received_bytes.inc_by(bytes.len() as u64);
        if !self.unread.is_empty() {
            self.unread.extend_from_slice(bytes);
            return self.resume();
        }
        // Whole packets are used where they lie; only the beginning of one is kept.
        let (used, result) = self.use_packets(bytes);
        self.unread = bytes[used..].to_vec();
        result
    }

    /// Goes on with what was received.
    pub(super) fn resume(&mut self) -> Result<(), Ending> {
        let bytes = std::mem::take(&mut self.unread);
        let (used, result) = self.use_packets(&bytes);
        self.unread = if used == 0 { bytes } else { bytes[used..].to_vec() };
        result
    }

    /// Uses the whole packets at the front of `bytes`, as far as there is room: how many bytes they are.
    fn use_packets(&mut self, bytes: &[u8]) -> (usize, Result<(), Ending>) {
        let rules = Rules::of(&self.shared.engine);
        let reports_max = self.ring.room().min(SLICE_REPORTS_MAX);
        let mut slice = Slice::default();
        let mut used = 0;
        self.held_back = false;
        let result = loop {
            if slice.receipts.len() >= reports_max || self.out.len() >= OUT_BYTES_MAX {
                self.held_back = true;
                break Ok(());
            }
            let packet = match wire::packet(&bytes[used..], self.shared.limits.packet_bytes_max) {
                Ok(Some(packet)) => packet,
                Ok(None) => break Ok(()),
                Err(violation) => break Err(violation.into()),
            };
            used += packet.bytes.len();
            if let Err(ending) = self.use_packet(packet, &mut slice, rules) {
                break Err(ending);
            }
        };
        self.ring.hand_in(&self.shared.intake, slice);
        (used, result)
    }

    fn use_packet(&mut self, packet: Packet<'_>, slice: &mut Slice, rules: Rules) -> Result<(), Ending> {
        if packet.is_publish() {
            let publish = wire::publish(self.client.version, packet)?;
            let refused = match decode::publish(publish.topic, publish.payload, publish.id, rules) {
                Ok(report) => {
                    slice.reports.push(report);
                    None
                }
                Err(problem) => Some(Box::new(problem)),
            };
            slice.receipts.push(Receipt { packet_id: publish.packet_id, refused });
            return Ok(());
        }
        match control::read(self.client.version, packet)? {
            Control::Ping => reply::pong(&mut self.out),
            Control::Subscribe { packet_id, filters } => self.subscribe(packet_id, &filters)?,
            Control::Unsubscribe { packet_id, filters } => self.unsubscribe(packet_id, &filters)?,
            Control::Goodbye { with_will } => return Err(Ending::Goodbye { with_will }),
        }
        Ok(())
    }

    fn subscribe(&mut self, packet_id: NonZeroU16, filters: &[(String, QoS)]) -> Result<(), Violation> {
        let max = self.shared.limits.subscriptions_max;
        let before = self.subscriptions.len();
        let granted: Vec<_> =
            filters.iter().map(|(filter, qos)| self.subscriptions.add(filter, *qos, max)).collect();
        self.shared.figures.subscriptions.inc_by((self.subscriptions.len() - before) as i64);
        self.client.suback(packet_id, granted.into_iter(), &mut self.out)
    }

    fn unsubscribe(&mut self, packet_id: NonZeroU16, filters: &[String]) -> Result<(), Violation> {
        let before = self.subscriptions.len();
        let removed: Vec<_> = filters.iter().map(|filter| self.subscriptions.remove(filter)).collect();
        self.shared.figures.subscriptions.dec_by((before - self.subscriptions.len()) as i64);
        self.client.unsuback(packet_id, removed.into_iter(), &mut self.out)
    }

    /// Writes the acknowledgements of everything that has become durable, in order. The client's id is for the log.
    pub(super) fn acknowledge(&mut self, cx: &mut Context<'_>, client_id: &str) -> Result<(), NotAccepting> {
        while let Poll::Ready(settled) = self.ring.poll_settled(cx) {
            let settled = settled?;
            let figures = &self.shared.figures;
            figures.reports.accepted(settled.accepted().into());
            let mut acks = 0;
            for (packet_id, problem) in settled.receipts() {
                if let Some(problem) = problem {
                    figures.reports.refused(problem, format_args!("{client_id}, packet {packet_id}"));
                }
                if packet_id != 0 {
                    self.client.puback(packet_id, problem, &mut self.out);
                    acks += 1;
                }
            }
            figures.acks.inc_by(acks);
        }
        Ok(())
    }

    /// Says why the connection ends, where the version has a word for it.
    pub(super) fn say_goodbye(&mut self, ending: Ending) {
        let Some(code) = ending.code() else { return };
        if let Err(violation) = self.client.disconnect(code, &mut self.out) {
            tracing::debug!(reason = violation.label(), "the client takes no packet as small as a goodbye");
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.shared.figures.subscriptions.dec_by(self.subscriptions.len() as i64);
    }
}
