//! What is kept in memory of one device, and the rules of a report.
//!
//! A million of these are resident, so they are packed: what can be absent is kept without a flag
//! where a value is to spare. Memory and store agree: the record made here is what a restart loads.

use std::num::NonZeroU64;

use base::{Attended, Timestamp, Value, WayIn};
use records::{Connection, DeviceProfile, DeviceSlot, DeviceState, EventKind, Seen, SignReading};

use crate::Noticed;
use crate::wheel::Place;

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    value: Option<Value>,
    changed_at: MaybeTime,
    newest_ts: MaybeTime,
    sequence: u64,
    /// Meaningless while `way` is `None`.
    seen_at: Timestamp,
    /// What its clock showed at its latest sign of life; for a device never seen, from where it is
    /// expected.
    silent_from: Attended,
    report_interval_ms: Option<NonZeroU64>,
    readings: u32,
    /// Where it waits among the silent.
    pub(crate) place: Place,
    /// The way of its latest sign of life; `None` is never.
    way: Option<WayIn>,
    connection: Connection,
}

/// Most bytes of memory that a device may take here; the engine needs the rest of its 120.
const DEVICE_BYTES_MAX: usize = 96;
const _: () = assert!(size_of::<Option<Device>>() <= DEVICE_BYTES_MAX, "a million devices fit in 100 MB");

impl Device {
    pub(crate) fn load(profile: &DeviceProfile, state: DeviceState, seen: Option<Seen>) -> Self {
        Self {
            value: state.value,
            changed_at: state.changed_at.into(),
            newest_ts: seen.and_then(|seen| seen.newest_ts).into(),
            sequence: state.sequence,
            seen_at: seen.map_or(Timestamp(0), |seen| seen.at),
            silent_from: seen.map_or(profile.expected_from, |seen| seen.attended),
            report_interval_ms: profile.report_interval_ms.and_then(NonZeroU64::new),
            readings: seen.map_or(0, |seen| seen.readings),
            place: Place::default(),
            way: seen.map(|seen| seen.way),
            connection: state.connection,
        }
    }

    pub(crate) fn state(&self) -> DeviceState {
        DeviceState {
            value: self.value.clone(),
            changed_at: self.changed_at.into(),
            connection: self.connection,
            sequence: self.sequence,
        }
    }

    pub(crate) fn seen(&self) -> Option<Seen> {
        self.way.map(|way| Seen {
            at: self.seen_at,
            way,
            attended: self.silent_from,
            readings: self.readings,
            newest_ts: self.newest_ts.into(),
        })
    }

    pub(crate) fn connection(&self) -> Connection {
        self.connection
    }

    /// The readings kept of it.
    pub(crate) fn readings(&self) -> u32 {
        self.readings
    }

    /// The newest `ts` that a report of it carried.
    pub(crate) fn newest_ts(&self) -> Option<Timestamp> {
        self.newest_ts.into()
    }

    /// The clock that its silence is measured by.
    pub(crate) fn way(&self) -> Option<WayIn> {
        self.way
    }

    pub(crate) fn set_interval(&mut self, report_interval_ms: Option<u64>) {
        self.report_interval_ms = report_interval_ms.and_then(NonZeroU64::new);
    }

    pub(crate) fn expect_from(&mut self, expected_from: Attended) {
        if self.way.is_none() {
            self.silent_from = expected_from;
        }
    }

    /// The reading of its clock at which its silence has lasted too long.
    pub(crate) fn deadline(&self, default_interval_ms: u64, grace_ms: u64) -> Attended {
        let interval_ms = self.report_interval_ms.map_or(default_interval_ms, NonZeroU64::get);
        let silence_ms = i64::try_from(interval_ms.saturating_add(grace_ms)).unwrap_or(i64::MAX);
        Attended(self.silent_from.0.saturating_add(silence_ms))
    }

    /// Any sign of life was received.
    pub(crate) fn see(&mut self, now: Timestamp, way: WayIn, attended: Attended) {
        self.seen_at = now;
        self.way = Some(way);
        self.silent_from = attended;
    }

    /// It is online now; if it was lost, that is a restoration.
    pub(crate) fn greet(&mut self, slot: DeviceSlot, noticed: &mut Vec<Noticed>) {
        let was = std::mem::replace(&mut self.connection, Connection::Online);
        if was == Connection::Lost {
            noticed.push(self.notice(slot, EventKind::Restored, self.value.clone()));
        }
    }

    /// It has been silent for too long.
    pub(crate) fn lose(&mut self, slot: DeviceSlot) -> Noticed {
        self.connection = Connection::Lost;
        self.notice(slot, EventKind::Lost, self.value.clone())
    }

    /// A report is kept, and becomes the device's value unless it is older than what is known. Also
    /// whether it changed.
    pub(crate) fn take_report(
        &mut self,
        slot: DeviceSlot,
        now: Timestamp,
        value: Value,
        ts: Option<Timestamp>,
        noticed: &mut Vec<Noticed>,
    ) -> (Option<SignReading>, bool) {
        self.readings = self.readings.wrapping_add(1);
        let newest = self.newest_ts();
        let for_history_only = ts.is_some_and(|ts| Some(ts) < newest);
        let changed = !for_history_only && self.value.as_ref() != Some(&value);
        self.newest_ts = newest.max(ts).into();
        if changed {
            let previous = self.value.replace(value.clone());
            self.changed_at = Some(ts.unwrap_or(now)).into();
            noticed.push(self.notice(slot, EventKind::Changed, previous));
        }
        (Some(SignReading { ts, value, changed }), changed)
    }

    fn notice(&mut self, slot: DeviceSlot, kind: EventKind, previous: Option<Value>) -> Noticed {
        self.sequence += 1;
        Noticed { slot, kind, sequence: self.sequence, value: self.value.clone(), previous }
    }
}

/// A moment or nothing, in the 8 bytes of a moment: the earliest of all, which no text can say, is
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MaybeTime(i64);

impl MaybeTime {
    const NOTHING: i64 = i64::MIN;
}

impl From<Option<Timestamp>> for MaybeTime {
    fn from(time: Option<Timestamp>) -> Self {
        Self(time.map_or(Self::NOTHING, |time| time.0))
    }
}

impl From<MaybeTime> for Option<Timestamp> {
    fn from(time: MaybeTime) -> Self {
        (time.0 != MaybeTime::NOTHING).then_some(Timestamp(time.0))
    }
}
