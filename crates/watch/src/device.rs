//! What is kept in memory of one device, and the rules of a report.
//!
//! A million of these are resident, so they are packed. Memory and store agree: the record made
//! here is what a restart loads.

mod packed;

use base::{Attended, Timestamp, Value, WayIn};
use records::{Connection, DeviceProfile, DeviceSlot, DeviceState, EventKind, LastSeen, SignReading};

use self::packed::{PackedReading, PackedStatus, PackedTime, U40};
use crate::Noticed;
use crate::wheel::WheelPlace;

/// One device.
#[derive(Debug)]
pub(crate) struct WatchedDevice {
    value: Option<Value>,
    changed_at: PackedTime,
    newest_ts: PackedTime,
    /// When it gave its latest sign of life.
    seen_at: PackedTime,
    /// What its clock showed at its latest sign of life; for a device never seen, from where it is
    /// expected.
    silent_from: PackedReading,
    sequence: U40,
    /// 0 stands for the setting `devices.report_interval`.
    report_interval_ms: U40,
    readings: u32,
    /// The slot before it in its bucket of the wheel.
    pub(crate) before: u32,
    /// The slot after it there.
    pub(crate) after: u32,
    status: PackedStatus,
}

const _: () = assert!(size_of::<Option<WatchedDevice>>() == 64, "a device is as long as a line of the cache");

impl WatchedDevice {
    pub(crate) fn load(profile: &DeviceProfile, state: DeviceState, seen: Option<LastSeen>) -> Self {
        let nowhere = WheelPlace::default();
        Self {
            value: state.value,
            changed_at: state.changed_at.into(),
            newest_ts: seen.and_then(|seen| seen.newest_ts).into(),
            seen_at: seen.map(|seen| seen.at).into(),
            silent_from: seen.map_or(profile.expected_from, |seen| seen.attended).into(),
            sequence: U40::nearest(state.sequence),
            report_interval_ms: U40::nearest(profile.report_interval_ms.unwrap_or(0)),
            readings: seen.map_or(0, |seen| seen.readings),
            before: nowhere.before,
            after: nowhere.after,
            status: PackedStatus::new(nowhere.bucket, seen.map(|seen| seen.way), state.connection),
        }
    }

    pub(crate) fn state(&self) -> DeviceState {
        DeviceState {
            value: self.value.clone(),
            changed_at: self.changed_at.into(),
            connection: self.connection(),
            sequence: self.sequence.get(),
        }
    }

    pub(crate) fn seen(&self) -> Option<LastSeen> {
        Some(LastSeen {
            at: Option::from(self.seen_at)?,
            way: self.way()?,
            attended: self.silent_from.into(),
            readings: self.readings,
            newest_ts: self.newest_ts.into(),
        })
    }

    /// Where it waits among the silent.
    pub(crate) fn place(&self) -> WheelPlace {
        WheelPlace { before: self.before, after: self.after, bucket: self.status.bucket() }
    }

    pub(crate) fn set_place(&mut self, place: WheelPlace) {
        (self.before, self.after) = (place.before, place.after);
        self.status = self.status.with_bucket(place.bucket);
    }

    pub(crate) fn connection(&self) -> Connection {
        self.status.connection()
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
        self.status.way()
    }

    pub(crate) fn set_interval(&mut self, report_interval_ms: Option<u64>) {
        self.report_interval_ms = U40::nearest(report_interval_ms.unwrap_or(0));
    }

    pub(crate) fn expect_from(&mut self, expected_from: Attended) {
        if self.way().is_none() {
            self.silent_from = expected_from.into();
        }
    }

    /// The reading of its clock at which its silence has lasted too long.
    pub(crate) fn deadline(&self, default_interval_ms: u64, grace_ms: u64) -> Attended {
        let interval_ms = match self.report_interval_ms.get() {
            0 => default_interval_ms,
            own => own,
        };
        let silence_ms = i64::try_from(interval_ms.saturating_add(grace_ms)).unwrap_or(i64::MAX);
        Attended(Attended::from(self.silent_from).0.saturating_add(silence_ms))
    }

    /// Any sign of life was received.
    pub(crate) fn see(&mut self, now: Timestamp, way: WayIn, attended: Attended) {
        self.seen_at = Some(now).into();
        self.status = self.status.with_way(Some(way));
        self.silent_from = attended.into();
    }

    /// It is online now; if it was lost, that is a restoration.
    pub(crate) fn greet(&mut self, slot: DeviceSlot, noticed: &mut Vec<Noticed>) {
        let was = self.connection();
        self.status = self.status.with_connection(Connection::Online);
        if was == Connection::Lost {
            noticed.push(self.notice(slot, EventKind::Restored, self.value.clone()));
        }
    }

    /// It has been silent for too long.
    pub(crate) fn lose(&mut self, slot: DeviceSlot) -> Noticed {
        self.status = self.status.with_connection(Connection::Lost);
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
        if ts > newest {
            self.newest_ts = ts.into();
        }
        if changed {
            let previous = self.value.replace(value.clone());
            self.changed_at = Some(ts.unwrap_or(now)).into();
            noticed.push(self.notice(slot, EventKind::Changed, previous));
        }
        (Some(SignReading { ts, value, changed }), changed)
    }

    fn notice(&mut self, slot: DeviceSlot, kind: EventKind, previous: Option<Value>) -> Noticed {
        let sequence = self.sequence.get() + 1;
        self.sequence = U40::nearest(sequence);
        Noticed { slot, kind, sequence, value: self.value.clone(), previous }
    }
}
