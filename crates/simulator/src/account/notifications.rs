//! What a client was told, against what has happened and what the server's books say.

use std::collections::{BTreeMap, HashMap};

use super::{
    Audit, DeliverySnapshot, DeviceSnapshot, Event, Expected, NotificationStatus, NotifiedClient,
    ServerSnapshot, Shortfall,
};
use crate::receiver::{Arrival, ConnectionStatus, DeviceEventKind, Notification};
use crate::sent::Sent;

/// `types` names at most this many events.
const TYPES_MAX: usize = 8;

/// Checks everything about one client and adds up the figures.
pub(super) fn check(
    sent: &Sent,
    snapshot: &ServerSnapshot,
    told: &NotifiedClient<'_>,
    expected: &Expected,
    audit: &mut Audit,
) {
    check_counts(told, audit);
    let mut devices: BTreeMap<u32, (Vec<&Arrival>, Vec<&DeliverySnapshot>)> = BTreeMap::new();
    for arrival in told.ledger.arrivals() {
        match sent.devices().index(&arrival.notification.device_id) {
            Some(index) => devices.entry(index).or_default().0.push(arrival),
            None => complain(
                told,
                audit,
                format!("told about {}, no device of the run", arrival.notification.device_id),
            ),
        }
    }
    for delivery in snapshot.deliveries.iter().filter(|delivery| delivery.client_id == told.client_id) {
        if let Some(index) = sent.devices().index(&delivery.device_id) {
            devices.entry(index).or_default().1.push(delivery);
        }
    }
    for (index, device) in &snapshot.devices {
        let (arrivals, deliveries) = devices.remove(index).unwrap_or_default();
        let device_id = sent.devices().id(*index);
        let booked = deliveries.iter().map(|delivery| (delivery.id.as_str(), *delivery)).collect();
        let client_id = told.client_id;
        let account =
            PairAccount { client_id, device_id, index: *index, device, arrivals, deliveries, booked };
        account.check_deliveries(audit);
        account.check_order(audit);
        account.check_contents(audit);
        account.check_last(audit);
        account.measure(sent, expected, audit);
    }
}

fn check_counts(told: &NotifiedClient<'_>, audit: &mut Audit) {
    let counts = told.ledger.counts();
    for (count, what) in [
        (counts.forged, "requests without a valid signature"),
        (counts.malformed, "requests that are not notifications"),
        (counts.altered, "repeats with another body"),
        (counts.backwards, "notifications older than one before"),
    ] {
        if count > 0 {
            let examples = told.ledger.complaints();
            complain(told, audit, format!("{count} {what}, such as {examples:?}"));
        }
    }
}

fn complain(told: &NotifiedClient<'_>, audit: &mut Audit, what: String) {
    let client_id = told.client_id.to_owned();
    audit.shortfalls.push(Shortfall::ReceiverComplains { client_id, what });
}

/// One client and one device, as seen by the receiver and by the server.
struct PairAccount<'a> {
    client_id: &'a str,
    device_id: String,
    index: u32,
    device: &'a DeviceSnapshot,
    /// At the receiver, in order, failed attempts too.
    arrivals: Vec<&'a Arrival>,
    /// In the server's books, oldest first.
    deliveries: Vec<&'a DeliverySnapshot>,
    /// The same by webhook-id.
    booked: HashMap<&'a str, &'a DeliverySnapshot>,
}

impl PairAccount<'_> {
    /// One notification per event, each delivered or superseded, and what is called delivered was
    /// taken.
    fn check_deliveries(&self, audit: &mut Audit) {
        let (due, booked) = (self.device.events.len(), self.deliveries.len());
        audit.notifications_due += due as u64;
        if due != booked {
            self.wrong(audit, format!("{due} events, but {booked} notifications"));
        }
        let arrived = self.arrivals_by_id();
        for delivery in &self.deliveries {
            let (arrivals, taken) = arrived.get(delivery.id.as_str()).copied().unwrap_or((0, 0));
            audit.retried += u64::from(delivery.attempt_count > 1);
            match delivery.status {
                NotificationStatus::Delivered => audit.delivered += 1,
                NotificationStatus::Superseded => audit.superseded += 1,
                other => self.wrong(audit, format!("{} is {other:?}", delivery.id)),
            }
            let is_delivered = delivery.status == NotificationStatus::Delivered;
            if is_delivered && taken == 0 {
                self.wrong(audit, format!("{} is called delivered, but was never taken", delivery.id));
            }
            // What a receiver took before the server knew of it is in the books as an attempt
            // without an answer.
            let explained = u64::from(is_delivered) + delivery.attempts_cut;
            if taken > explained {
                let DeliverySnapshot { id, status, attempts_cut, .. } = delivery;
                self.wrong(
                    audit,
                    format!(
                        "{id} was taken {taken} times, but is {status:?} with {attempts_cut} cut attempts"
                    ),
                );
            }
            if arrivals > delivery.attempt_count {
                let booked = delivery.attempt_count;
                self.wrong(
                    audit,
                    format!("{} came {arrivals} times, {booked} attempts are booked", delivery.id),
                );
            }
        }
        for id in arrived.keys().filter(|id| !self.booked.contains_key(*id)) {
            self.wrong(audit, format!("{id} came, but is not in the books"));
        }
    }

    /// A notification tells of something newer than all before it, unless it is one of them again.
    fn check_order(&self, audit: &mut Audit) {
        let mut newest: Option<&Arrival> = None;
        for arrival in &self.arrivals {
            if let Some(newest) = newest {
                let (before, now) = (newest.notification.sequence, arrival.notification.sequence);
                let is_repeat = newest.webhook_id == arrival.webhook_id;
                if (now <= before && !is_repeat) || (is_repeat && newest.body_hash != arrival.body_hash) {
                    self.wrong(
                        audit,
                        format!("{} with sequence {now} came after {before}", arrival.webhook_id),
                    );
                }
            }
            newest = Some(arrival);
        }
    }

    /// Each notification says what its event says, and accounts for what was not told since the
    /// last delivered one.
    fn check_contents(&self, audit: &mut Audit) {
        let mut base = 0;
        let mut before: Option<&Arrival> = None;
        for arrival in &self.arrivals {
            if let Some(last) = before.filter(|last| last.webhook_id != arrival.webhook_id)
                && self.is_delivered(&last.webhook_id)
            {
                base = last.notification.sequence;
            }
            if before.is_none_or(|last| last.webhook_id != arrival.webhook_id)
                && let Err(what) = self.check_content(&arrival.notification, base)
            {
                self.wrong(audit, format!("{}: {what}", arrival.webhook_id));
            }
            before = Some(arrival);
        }
    }

    fn check_content(&self, told: &Notification, base: u64) -> Result<(), String> {
        let Some(folded) = self.events(base, told.sequence) else {
            return Err(format!("it tells of event {}, told of event {base} before", told.sequence));
        };
        let (oldest, newest) = (&folded[0], &folded[folded.len() - 1]);
        let types: Vec<DeviceEventKind> =
            folded[folded.len().saturating_sub(TYPES_MAX)..].iter().map(|event| event.kind).collect();
        let connection = if newest.kind == DeviceEventKind::Lost {
            ConnectionStatus::Lost
        } else {
            ConnectionStatus::Online
        };
        let previous = if oldest.kind == DeviceEventKind::Changed { &oldest.previous } else { &oldest.value };
        let skipped = folded.len() as u64 - 1;
        same("type", &told.kind, &newest.kind)?;
        same("value", &told.value, &newest.value)?;
        same("connection", &told.connection, &connection)?;
        same("types", &told.types, &types)?;
        same("previous", &told.previous, previous)?;
        same("skipped", &told.skipped, &skipped)
    }

    /// The last word that was taken is about the newest event and shows the present state.
    fn check_last(&self, audit: &mut Audit) {
        let events = self.device.events.len() as u64;
        let last = self.arrivals.iter().rfind(|arrival| arrival.reply.is_success());
        match last {
            None if events == 0 => {}
            None => self.wrong(audit, format!("{events} events, and nothing was ever told")),
            Some(last) => {
                let (told, state) = (&last.notification, &self.device.state);
                if told.sequence != events {
                    self.wrong(audit, format!("last told of event {} of {events}", told.sequence));
                }
                if told.value != state.value || told.connection != state.connection {
                    let (value, connection) = (&told.value, told.connection);
                    self.wrong(audit, format!("last told {value} {connection:?}, it is {state:?}"));
                }
            }
        }
    }

    /// How long after its report each change was first told.
    fn measure(&self, sent: &Sent, expected: &Expected, audit: &mut Audit) {
        let latency = audit.report_to_webhook.entry(self.client_id.to_owned()).or_default();
        for arrival in
            self.arrivals.iter().filter(|arrival| arrival.attempt == 1 && arrival.reply.is_success())
        {
            let Notification { kind, changed_at_ms, .. } = arrival.notification;
            let cause = changed_at_ms
                .filter(|_| kind == DeviceEventKind::Changed)
                .and_then(|ts| sent.find(self.index, ts));
            if let Some(cause) = cause.filter(|cause| expected.is_calm(cause.first_sent)) {
                latency.record(arrival.at.saturating_duration_since(cause.first_sent));
            }
        }
    }

    /// How often each webhook-id came, and how often of these it was taken.
    fn arrivals_by_id(&self) -> HashMap<&str, (u64, u64)> {
        let mut arrived: HashMap<&str, (u64, u64)> = HashMap::new();
        for arrival in &self.arrivals {
            let (times, taken) = arrived.entry(&arrival.webhook_id).or_default();
            *times += 1;
            *taken += u64::from(arrival.reply.is_success());
        }
        arrived
    }

    fn is_delivered(&self, webhook_id: &str) -> bool {
        self.booked.get(webhook_id).is_some_and(|delivery| delivery.status == NotificationStatus::Delivered)
    }

    /// The events after `base` up to `last`; `None` when there is none or `last` has not happened.
    fn events(&self, base: u64, last: u64) -> Option<&[Event]> {
        let events = self.device.events.get(usize::try_from(base).ok()?..usize::try_from(last).ok()?)?;
        (!events.is_empty()).then_some(events)
    }

    fn wrong(&self, audit: &mut Audit, what: String) {
        let (client_id, device_id) = (self.client_id.to_owned(), self.device_id.clone());
        audit.shortfalls.push(Shortfall::NotificationWrong { client_id, device_id, what });
    }
}

fn same<T: PartialEq + std::fmt::Debug>(field: &str, told: &T, happened: &T) -> Result<(), String> {
    if told == happened {
        Ok(())
    } else {
        Err(format!("{field} is {told:?}, by the events it is {happened:?}"))
    }
}
