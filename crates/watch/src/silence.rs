//! Who waits for a sign of life, until when, in which clock.
//!
//! A device that is not lost waits in the wheel of its clock, filed no later than its deadline. A
//! report moves the deadline without touching the wheel; only another way in moves the device to
//! another wheel.

use base::Timestamp;
use base::time::millis;
use records::{AttendedReadings, Connection, DeviceSlot};

use crate::SilenceSettings;
use crate::clocks::{ALL_CLOCKS, AttendedClocks, CLOCKS, ClockOf, clock_index};
use crate::clocks::{reading_of_tick, tick_after, tick_reached};
use crate::device::WatchedDevice;
use crate::device_table::DeviceTable;
use crate::wheel::{Bucket, Wheel};

/// The waiting devices.
#[derive(Debug)]
pub(crate) struct Silence {
    wheels: [Wheel; CLOCKS],
    default_interval_ms: u64,
    grace_ms: u64,
}

/// What became of a device whose bucket came due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SilenceCheck {
    /// No bucket is due.
    NobodyDue,
    /// It has been heard of since it was filed, and waits on.
    Waits,
    /// It has been silent for too long, and waits no more.
    Lost(DeviceSlot),
}

impl Silence {
    pub(crate) fn new(settings: &SilenceSettings, readings: &AttendedReadings) -> Self {
        Self {
            wheels: ALL_CLOCKS.map(|of| Wheel::new(clock_index(of), tick_reached(readings.of(of)))),
            default_interval_ms: millis(settings.report_interval).unsigned_abs(),
            grace_ms: millis(settings.loss_grace).unsigned_abs(),
        }
    }

    /// Files a device anew by its deadline, unless it is lost.
    pub(crate) fn await_sign(&mut self, devices: &mut DeviceTable, slot: DeviceSlot) {
        self.leave(devices, slot);
        let device = devices.known(slot);
        if device.connection() != Connection::Lost {
            let tick = self.deadline_tick(device);
            self.wheels[clock_index(device.way())].file(devices, slot, tick);
        }
    }

    /// A device gave a sign of life, which can only have moved its deadline on.
    pub(crate) fn heard(&mut self, devices: &mut DeviceTable, slot: DeviceSlot) {
        let device = devices.known(slot);
        if device.place().wheel() != Some(clock_index(device.way())) {
            self.await_sign(devices, slot);
        }
    }

    /// A device waits no more.
    pub(crate) fn leave(&mut self, devices: &mut DeviceTable, slot: DeviceSlot) {
        if let Some(wheel) = devices.get(slot).and_then(|device| device.place().wheel()) {
            self.wheels[wheel].leave(devices, slot);
        }
    }

    /// Looks at one device whose bucket is due in a clock that runs.
    pub(crate) fn check_next(&mut self, devices: &mut DeviceTable, clocks: &AttendedClocks) -> SilenceCheck {
        for of in ALL_CLOCKS {
            let now = tick_reached(clocks.reading(of));
            if let Some(bucket) = self.due(of, clocks) {
                let wheel = &mut self.wheels[clock_index(of)];
                let slot = wheel.take(devices, bucket);
                let deadline = self.deadline_tick(devices.known(slot));
                if deadline <= now {
                    return SilenceCheck::Lost(slot);
                }
                self.wheels[clock_index(of)].file(devices, slot, deadline);
                return SilenceCheck::Waits;
            }
            if clocks.runs(of) {
                self.wheels[clock_index(of)].pass(now);
            }
        }
        SilenceCheck::NobodyDue
    }

    /// Whether [`Silence::check_next`] would look at anybody.
    pub(crate) fn is_anybody_due(&self, clocks: &AttendedClocks) -> bool {
        ALL_CLOCKS.into_iter().any(|of| self.due(of, clocks).is_some())
    }

    /// When somebody is due, and no later than the next pulse; `None` while nobody waits for a
    /// clock that runs.
    pub(crate) fn next_wakeup(&self, clocks: &AttendedClocks, now: Timestamp) -> Option<Timestamp> {
        let due = ALL_CLOCKS.into_iter().filter_map(|of| {
            let bucket = self.wheels[clock_index(of)].first()?;
            let wait_ms = reading_of_tick(bucket.tick).0.saturating_sub(clocks.reading(of).0);
            clocks.moment_after(of, wait_ms)
        });
        due.min().map(|first| first.min(clocks.next_pulse()).max(now))
    }

    fn due(&self, of: ClockOf, clocks: &AttendedClocks) -> Option<Bucket> {
        if !clocks.runs(of) {
            return None;
        }
        let now = tick_reached(clocks.reading(of));
        self.wheels[clock_index(of)].first().filter(|bucket| bucket.tick <= now)
    }

    /// The first tick at which a device's silence has lasted too long.
    fn deadline_tick(&self, device: &WatchedDevice) -> u64 {
        tick_after(device.deadline(self.default_interval_ms, self.grace_ms))
    }
}
