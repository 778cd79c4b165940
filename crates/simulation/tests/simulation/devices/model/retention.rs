//! What is too old to be kept: whole UTC days, by the settings of the moment; what is gone never
//! comes back.

use std::time::Duration;

use base::{EntityId, Timestamp, Value};
use records::{Connection, EventKind, KeptFrom};

use super::device::{Device, Event, Taken};
use super::partition::Partition;
use crate::harness::violation::{Checked, Invariant};

/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3_600_000;

fn start_of_kept(now: Timestamp, keep: Duration) -> Timestamp {
    Timestamp((now.0 - keep.as_millis() as i64).div_euclid(DAY_MS) * DAY_MS)
}

impl Taken {
    /// A reading is as old as the later of its `ts` and its receipt.
    pub(crate) fn age(&self) -> Timestamp {
        self.reading.ts.max(self.received)
    }
}

impl Partition {
    /// After a step: with its batch, what is kept moves on. A step that could move it does make a
    /// batch, unless there never was one.
    pub(crate) fn move_kept(&mut self, batch: Option<KeptFrom>, is_new: bool) -> Checked {
        let (now, keep, before) = (self.now, &self.settings.keep, self.kept);
        let kept = KeptFrom {
            readings: start_of_kept(now, keep.readings).max(before.readings),
            events: start_of_kept(now, keep.events).max(before.events),
            deliveries: start_of_kept(now, keep.deliveries).max(before.deliveries),
        };
        if batch.is_none() && is_new {
            return Ok(());
        }
        Invariant::AS_THE_MODEL.same("what is kept", &batch.unwrap_or(before), &kept)?;
        self.kept = kept;
        if kept != before {
            self.count_expired(before);
        }
        Ok(())
    }

    /// When nothing else is to be done, nothing is kept that is too old.
    pub(crate) fn check_kept(&self, now: Timestamp) -> Checked {
        let keep = &self.settings.keep;
        let late = self.kept.readings < start_of_kept(now, keep.readings)
            || self.kept.events < start_of_kept(now, keep.events)
            || self.kept.deliveries < start_of_kept(now, keep.deliveries);
        Invariant::BOUNDED.check(!late, || format!("{:?} is kept at {now}", self.kept))
    }

    fn count_expired(&mut self, before: KeptFrom) {
        let kept = self.kept;
        let went = |at: Timestamp, before: Timestamp, kept: Timestamp| u64::from(at >= before && at < kept);
        for device in self.devices.values() {
            let readings = device.readings.iter().map(Taken::age);
            let readings = readings.map(|at| went(at, before.readings, kept.readings));
            self.counts.readings_expired += readings.sum::<u64>();
            let events = device.events.iter().map(|event| went(event.at, before.events, kept.events));
            self.counts.events_expired += events.sum::<u64>();
        }
        let deliveries = self.deliveries.iter();
        let deliveries = deliveries.map(|made| went(made.id.at, before.deliveries, kept.deliveries));
        self.counts.deliveries_expired += deliveries.sum::<u64>();
    }

    /// Whether a delivery is in the lists.
    pub(crate) fn lists(&self, delivery: EntityId) -> bool {
        delivery.at >= self.kept.deliveries
    }

    /// A device's events that are in the lists, oldest first.
    pub(crate) fn events_of<'a>(&self, device: &'a Device) -> &'a [Event] {
        let gone = device.events.partition_point(|event| event.at < self.kept.events);
        &device.events[gone..]
    }

    /// The kind of a device's newest event, and the value before it. Of an event that is too old to
    /// be kept, what the device is like tells it, and a delivery of that kind.
    pub(super) fn newest_event(&self, device: &Device, kind: EventKind) -> (EventKind, Option<Value>) {
        match (self.events_of(device).last(), device.connection, kind) {
            (Some(event), ..) => (event.kind, event.previous.clone()),
            (None, Connection::Lost, _) => (EventKind::Lost, device.value.clone()),
            (None, _, EventKind::Changed) => (EventKind::Changed, None),
            (None, ..) => (EventKind::Restored, device.value.clone()),
        }
    }
}
