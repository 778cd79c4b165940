//! SUBSCRIBE and UNSUBSCRIBE, what follows from them, and the copies of reports that a subscription
//! receives.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::Context;

use bytes::BytesMut;
use rmqtt_codec::types::QoS;

use super::{MqttProtocol, UnusedPacket};
use crate::mqtt::ending::Violation;
use crate::mqtt::fan_out::{WatchSubject, Watcher};
use crate::mqtt::labels::Answer;
use crate::mqtt::limits::OUT_BYTES_MAX;
use crate::mqtt::mirror::{matches, may_match};
use crate::mqtt::presence::PresenceCall;
use crate::mqtt::reach::covered;
use crate::mqtt::reply::{self, Outgoing};
use crate::mqtt::subscriptions::{Granted, Subscriptions};

/// Why a subscription to reports receives none (MQTT 5).
const NO_MIRROR: &str = "reports are not copied to subscribers: [mqtt] mirror is false";
/// Why one is refused (MQTT 5).
const WATCHED_BY_TOO_MANY: &str =
    "as many connections as may watch this device, or more than one device, do already";

impl MqttProtocol {
    pub(super) fn subscribe(
        &mut self,
        packet_id: NonZeroU16,
        filters: &[(String, QoS)],
        answers: &[Answer],
    ) -> Result<(), UnusedPacket> {
        self.ask_for_filters(filters, answers)?;
        let (before, mut calls) = (self.subscriptions.len(), Vec::new());
        let granted: Vec<_> = filters
            .iter()
            .map(|(filter, qos)| self.subscribe_to(filter, *qos, answers, &mut calls))
            .collect();
        self.shared.metrics.subscriptions.inc_by((self.subscriptions.len() - before) as i64);
        let in_vain = !self.shared.limits.mirror
            && filters
                .iter()
                .zip(&granted)
                .any(|((filter, _), granted)| matches!(granted, Granted::Qos(_)) && self.may_match(filter));
        let watched = granted.contains(&Granted::WatchedByTooMany).then_some(WATCHED_BY_TOO_MANY);
        let refused = granted.contains(&Granted::NotAuthorized).then(|| self.access.not_subscribed());
        let reason = refused.as_deref().or(in_vain.then_some(NO_MIRROR)).or(watched);
        let mut answer = BytesMut::new();
        self.client.suback(packet_id, granted.into_iter(), reason, &mut answer)?;
        self.answer_when_told(calls, answer);
        Ok(())
    }

    fn subscribe_to(
        &mut self,
        filter: &str,
        qos: QoS,
        answers: &[Answer],
        calls: &mut Vec<PresenceCall>,
    ) -> Granted {
        if let Some(refusal) = Subscriptions::refusal(filter) {
            return refusal;
        }
        match self.access.subscribe(filter, self.shared.known(answers)) {
            Ok(true) => {}
            Ok(false) => return Granted::NotAuthorized,
            // More devices than are looked up for one packet.
            Err(_unknown) => return Granted::TooMany,
        }
        let covered = self.covered(filter);
        if !self.presence.has_room_for(covered.named.len()) {
            return Granted::TooMany;
        }
        let granted = self.subscriptions.add(filter, qos, self.shared.limits.subscriptions_max);
        if !matches!(granted, Granted::Qos(_)) {
            return granted;
        }
        if !(self.watch(filter) && self.route(filter)) {
            self.subscriptions.remove(filter);
            self.unwatch(filter);
            self.unroute(filter);
            return Granted::WatchedByTooMany;
        }
        self.presence.subscribe(covered, &self.access.devices(), calls);
        granted
    }

    pub(super) fn unsubscribe(&mut self, packet_id: NonZeroU16, filters: &[String]) -> Result<(), Violation> {
        let before = self.subscriptions.len();
        let removed: Vec<_> = filters.iter().map(|filter| self.subscriptions.remove(filter)).collect();
        self.shared.metrics.subscriptions.dec_by((before - self.subscriptions.len()) as i64);
        for filter in filters {
            self.unwatch(filter);
            self.unroute(filter);
        }
        let (mut calls, mut answer) = (Vec::new(), BytesMut::new());
        let kinds = &self.shared.kinds;
        let left = self.subscriptions.filters().map(|filter| covered(filter, kinds));
        self.presence.keep(left, &mut calls);
        self.client.unsuback(packet_id, removed.into_iter(), &mut answer)?;
        self.answer_when_told(calls, answer);
        Ok(())
    }

    /// Has reports come here that the filter may match: whether there was room for that.
    fn watch(&mut self, filter: &str) -> bool {
        let mirror = self.shared.mirror.as_ref().filter(|_| self.may_match(filter));
        let Some(mirror) = mirror else { return true };
        let watcher = self.watcher.get_or_insert_with(|| Arc::new(Watcher::new(&self.access)));
        mirror.watch(watcher, WatchSubject::of(filter, &self.shared.kinds))
    }

    /// No longer, unless another filter asks for the same.
    fn unwatch(&self, filter: &str) {
        let watched = self.watched_by(filter);
        if let (Some(mirror), Some(watcher)) = (&self.shared.mirror, &self.watcher)
            && self.watched().all(|other| other != watched)
        {
            mirror.unwatch(watcher, watched);
        }
    }

    /// What the subscriptions ask for.
    fn watched(&self) -> impl Iterator<Item = WatchSubject> {
        let may_match = |filter: &&str| self.may_match(filter);
        self.subscriptions.filters().filter(may_match).map(|filter| self.watched_by(filter))
    }

    fn may_match(&self, filter: &str) -> bool {
        may_match(filter, &self.shared.kinds)
    }

    pub(super) fn watched_by(&self, filter: &str) -> WatchSubject {
        WatchSubject::of(filter, &self.shared.kinds)
    }

    /// Goes on receiving what the session of before received. Where there is no room for that, the
    /// subscription stays in vain.
    pub(super) fn watch_again(&mut self) {
        let subscriptions = std::mem::take(&mut self.subscriptions);
        for filter in subscriptions.filters() {
            if !(self.watch(filter) & self.route(filter)) {
                tracing::debug!(filter, "too many connections watch the same");
            }
        }
        self.subscriptions = subscriptions;
    }

    pub(super) fn watch_no_more(&mut self) {
        if let (Some(mirror), Some(watcher)) = (&self.shared.mirror, self.watcher.take()) {
            mirror.leave(&watcher, self.watched());
        }
    }

    /// Moves commands and copies of reports to what waits to be written: whether there were any.
    /// What the client reported over this connection it knows.
    pub(in crate::mqtt) fn deliver(&mut self, cx: &mut Context<'_>) -> bool {
        let has_commands = self.deliver_commands(cx);
        self.deliver_copies(cx) || has_commands
    }

    fn deliver_copies(&mut self, cx: &Context<'_>) -> bool {
        let (Some(mirror), Some(watcher)) = (&self.shared.mirror, &self.watcher) else { return false };
        watcher.register(cx.waker());
        let before = self.out.len();
        while self.out.len() < OUT_BYTES_MAX
            && let Some(shown) = mirror.next(watcher)
        {
            let own = shown.source == self.connection.number;
            if !own
                && self.subscriptions.filters().any(|filter| matches(filter, &shown.topic))
                && reply::publish(self.client, Outgoing::copy_of(&shown), &mut self.out)
            {
                mirror.count_copy();
            }
        }
        self.out.len() > before
    }
}
