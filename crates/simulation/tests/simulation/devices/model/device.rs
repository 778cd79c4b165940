//! One device as the contract describes it: what it said last, what is known of it, and who is to
//! be told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{DeviceId, Incarnation, Timestamp, Value, WayIn};
use engine::records::{Connection, DeviceProfile, DeviceState, LastSeen};
use records::{DeviceSlot, EventKind};

use super::listening::Mark;
use super::notifications::ExpectedNotifications;
use crate::harness::calls::CallId;

/// A device.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    pub(crate) slot: DeviceSlot,
    pub(crate) kind: String,
    pub(crate) address: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) interval_ms: Option<u64>,
    pub(crate) registered_at: Timestamp,
    /// On the clock of devices never heard of.
    pub(crate) expected_from: i64,
    /// An import named the time from which it is missed.
    pub(crate) is_named_time: bool,
    pub(crate) links: Vec<Incarnation>,
    pub(crate) value: Option<Value>,
    pub(crate) changed_at: Option<Timestamp>,
    pub(crate) newest_ts: Option<Timestamp>,
    pub(crate) connection: Connection,
    pub(crate) sequence: u64,
    pub(crate) seen: Option<(Timestamp, WayIn)>,
    pub(crate) silent_from: Mark,
    /// The ids of its latest reports, oldest first.
    pub(crate) report_ids: VecDeque<KnownId>,
    /// All that its reports ever had.
    pub(crate) ids_ever: BTreeSet<u64>,
    pub(crate) readings: Vec<Taken>,
    pub(crate) events: Vec<Event>,
    pub(crate) pairs: BTreeMap<Incarnation, ExpectedNotifications>,
}

/// The id of a report with effect: by which call it came, and in which life of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownId {
    pub(crate) id: u64,
    pub(crate) call: CallId,
    pub(crate) process: u64,
}

/// A reading, and when it was received.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) reading: Reading,
    pub(crate) received: Timestamp,
}

/// A reading.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) ts: Timestamp,
    pub(crate) value: Value,
    pub(crate) changed: bool,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) kind: EventKind,
    pub(crate) sequence: u64,
    pub(crate) value: Option<Value>,
    pub(crate) previous: Option<Value>,
}

/// When, by which way, at which reading of its clock, readings so far, newest `ts`.
type ShownSeen = (Timestamp, WayIn, i64, u32, Option<Timestamp>);

/// A device as a caller sees it, for comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    id: DeviceId,
    slot: DeviceSlot,
    kind: String,
    address: Option<String>,
    labels: Vec<(String, String)>,
    interval_ms: Option<u64>,
    registered_at: Timestamp,
    expected_from: i64,
    links: Vec<Incarnation>,
    state: DeviceState,
    seen: Option<ShownSeen>,
}

impl Shown {
    /// As the server shows it.
    pub(crate) fn of(profile: &DeviceProfile, state: &DeviceState, seen: Option<LastSeen>) -> Self {
        Self {
            id: profile.id.clone(),
            slot: profile.slot,
            kind: profile.kind.to_string(),
            address: profile.address.clone(),
            labels: profile.labels.clone(),
            interval_ms: profile.report_interval_ms,
            registered_at: profile.registered_at,
            expected_from: profile.expected_from.0,
            links: profile.clients.clone(),
            state: state.clone(),
            seen: seen.map(|seen| (seen.at, seen.way, seen.attended.0, seen.readings, seen.newest_ts)),
        }
    }
}

impl Device {
    /// As it should be shown.
    pub(crate) fn shown(&self) -> Shown {
        let state = DeviceState {
            value: self.value.clone(),
            changed_at: self.changed_at,
            connection: self.connection,
            sequence: self.sequence,
        };
        let readings = self.readings.len() as u32;
        Shown {
            id: self.id.clone(),
            slot: self.slot,
            kind: self.kind.clone(),
            address: self.address.clone(),
            labels: self.labels.clone().into_iter().collect(),
            interval_ms: self.interval_ms,
            registered_at: self.registered_at,
            expected_from: self.expected_from,
            links: self.links.clone(),
            state,
            seen: self.seen.map(|(at, way)| (at, way, self.silent_from.counted, readings, self.newest_ts)),
        }
    }

    /// Any sign of life; whether it is a restoration.
    pub(crate) fn greet(&mut self, now: Timestamp, way: WayIn, mark: Mark) -> bool {
        self.seen = Some((now, way));
        self.silent_from = mark;
        self.is_named_time = false;
        std::mem::replace(&mut self.connection, Connection::Online) == Connection::Lost
    }

    /// A value that was reported; whether, and from what, the device's value changed.
    pub(crate) fn take(
        &mut self,
        now: Timestamp,
        value: &Value,
        ts: Option<Timestamp>,
    ) -> Option<Option<Value>> {
        let outdated = ts.is_some() && self.newest_ts.is_some() && ts < self.newest_ts;
        let changed = !outdated && self.value.as_ref() != Some(value);
        if !outdated && ts.is_some() {
            self.newest_ts = ts;
        }
        let ts = ts.unwrap_or(now);
        let reading = Reading { ts, value: value.clone(), changed };
        self.readings.push(Taken { reading, received: now });
        if !changed {
            return None;
        }
        self.changed_at = Some(ts);
        Some(self.value.replace(value.clone()))
    }

    /// For how long it may be silent, in milliseconds.
    pub(crate) fn patience_ms(&self, interval_ms: i64, grace_ms: i64) -> i64 {
        self.interval_ms.map_or(interval_ms, |ms| ms as i64) + grace_ms
    }
}
