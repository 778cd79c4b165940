//! The least time between two publishes to a device.

use std::collections::BTreeSet;

use base::Timestamp;
use records::DeviceSlot;

use crate::table::SlotMap;

/// When each device may be published to again. A gap outlasts its lane: a device that comes back
/// soon is spared all the same. Devices without a gap are not here.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    ends: SlotMap<Timestamp>,
    by_end: BTreeSet<(Timestamp, DeviceSlot)>,
}

impl Gaps {
    /// When something may go out to the device again.
    pub(crate) fn end(&self, slot: DeviceSlot) -> Timestamp {
        self.ends.get(&slot).copied().unwrap_or(Timestamp(i64::MIN))
    }

    /// Nothing goes out to the device before `end`. Gaps that are over are dropped, two for each
    /// that begins: so there are never more than devices that are in one.
    pub(crate) fn begin(&mut self, slot: DeviceSlot, now: Timestamp, end: Timestamp) {
        if end <= now.max(self.end(slot)) {
            return;
        }
        self.forget(slot);
        self.ends.insert(slot, end);
        self.by_end.insert((end, slot));
        for _ in 0..2 {
            if let Some((_, over)) = self.by_end.first().copied().filter(|(end, _)| *end <= now) {
                self.forget(over);
            }
        }
    }

    pub(crate) fn forget(&mut self, slot: DeviceSlot) {
        if let Some(end) = self.ends.remove(&slot) {
            self.by_end.remove(&(end, slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_never_becomes_shorter() {
        let (mut gaps, device) = (Gaps::default(), DeviceSlot(1));
        gaps.begin(device, Timestamp(0), Timestamp(10));
        gaps.begin(device, Timestamp(0), Timestamp(5));
        assert_eq!(gaps.end(device), Timestamp(10));
        gaps.begin(device, Timestamp(0), Timestamp(15));
        assert_eq!(gaps.end(device), Timestamp(15));
        assert_eq!(gaps.by_end.len(), 1);
    }

    #[test]
    fn only_devices_in_a_gap_take_memory() {
        let mut gaps = Gaps::default();
        for time in 0..1_000 {
            gaps.begin(DeviceSlot(time as u32), Timestamp(time), Timestamp(time + 10));
            assert!(gaps.ends.len() <= 11 && gaps.by_end.len() == gaps.ends.len(), "at {time}");
        }
        gaps.begin(DeviceSlot(0), Timestamp(1_000), Timestamp(1_000));
        assert!(gaps.end(DeviceSlot(0)) <= Timestamp(1_000), "no gap is none");
        assert!(!gaps.ends.contains_key(&DeviceSlot(0)));
    }
}
