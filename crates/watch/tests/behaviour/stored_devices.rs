//! What a store would keep of the devices: enough to start a watch again after a crash.
//!
//! Batches are applied as the records say, and by nothing that the watch itself does.

use std::collections::BTreeMap;

use base::{DeviceId, Incarnation, Kind, PartitionId, Timestamp};
use records::{AttendedReadings, Batch, DeviceProfile, DeviceSlot, DeviceState, LastSeen, Op, PaceOverride};
use watch::{SilenceSettings, Watch};

/// The stored devices of a partition.
pub(crate) struct StoredDevices {
    /// The clocks in the head of the latest batch.
    pub(crate) clocks: AttendedReadings,
    devices: BTreeMap<DeviceSlot, (DeviceProfile, DeviceState, Option<LastSeen>)>,
}

impl StoredDevices {
    pub(crate) fn new(clocks: AttendedReadings) -> Self {
        Self { clocks, devices: BTreeMap::new() }
    }

    /// A device is registered or its profile changed.
    pub(crate) fn put_device(&mut self, profile: &DeviceProfile, clocks: AttendedReadings) {
        self.clocks = clocks;
        let fresh = || (profile.clone(), DeviceState::default(), None);
        self.devices.entry(profile.slot).or_insert_with(fresh).0 = profile.clone();
    }

    pub(crate) fn delete_device(&mut self, slot: DeviceSlot, clocks: AttendedReadings) {
        self.clocks = clocks;
        self.devices.remove(&slot);
    }

    pub(crate) fn profile(&self, slot: DeviceSlot) -> DeviceProfile {
        self.devices[&slot].0.clone()
    }

    pub(crate) fn state(&self, slot: DeviceSlot) -> DeviceState {
        self.devices[&slot].1.clone()
    }

    pub(crate) fn seen(&self, slot: DeviceSlot) -> Option<LastSeen> {
        self.devices[&slot].2
    }

    /// Applies a batch made at `now`, whose head has `clocks`.
    pub(crate) fn apply(&mut self, batch: &Batch, now: Timestamp, clocks: AttendedReadings) {
        if batch.ops.is_empty() {
            return;
        }
        self.clocks = clocks;
        for op in &batch.ops {
            match op {
                Op::Sign(sign) => {
                    let (way, attended) = (sign.way, clocks.of(Some(sign.way)));
                    let device = self.devices.get_mut(&sign.slot).expect("a stored device");
                    device.2 = Some(LastSeen {
                        at: now,
                        way,
                        attended,
                        readings: sign.readings,
                        newest_ts: sign.newest_ts,
                    });
                }
                Op::PutState(slot, state) => {
                    self.devices.get_mut(slot).expect("a stored device").1 = state.clone();
                }
                other => panic!("a watch makes no {other:?}"),
            }
        }
    }

    /// A new watch with everything that is kept.
    pub(crate) fn restart(&self, settings: SilenceSettings, now: Timestamp) -> Watch {
        let mut watch = Watch::new(settings, self.clocks, now);
        for (profile, state, seen) in self.devices.values() {
            watch.load(profile, state.clone(), *seen);
        }
        watch
    }
}

/// An empty batch.
pub(crate) fn batch() -> Batch {
    Batch::new(PartitionId(0))
}

/// A device as it is registered at a reading of the clock of devices never seen.
pub(crate) fn profile(slot: u32, report_interval_ms: Option<u64>, clocks: AttendedReadings) -> DeviceProfile {
    DeviceProfile {
        id: DeviceId::new(&format!("dev{slot}")).expect("an id"),
        incarnation: Incarnation(u64::from(slot)),
        slot: DeviceSlot(slot),
        kind: Kind::lock(),
        address: None,
        labels: Vec::new(),
        report_interval_ms,
        pace: PaceOverride::default(),
        registered_at: Timestamp(0),
        expected_from: clocks.every,
        clients: Vec::new(),
    }
}
