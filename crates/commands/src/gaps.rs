//! The least time between two publishes to a device.

use std::collections::BTreeSet;
use std::time::Duration;

use base::Timestamp;
use records::DeviceSlot;

use crate::table::SlotMap;

/// When each device may be published to again. A gap outlasts its lane: a device that comes back
/// soon is spared all the same. Devices without a gap are not here.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    running: SlotMap<Gap>,
    by_end: BTreeSet<(Timestamp, DeviceSlot)>,
}

/// A gap, from a publish on.
#[derive(Clone, Copy, Debug)]
struct Gap {
    began_at: Timestamp,
    end: Timestamp,
}

impl Gaps {
    /// When something may go out to the device again.
    pub(crate) fn end(&self, slot: DeviceSlot) -> Timestamp {
        self.running.get(&slot).map_or(Timestamp(i64::MIN), |gap| gap.end)
    }

    /// Nothing goes out to the device before `span` has passed since `began_at`. Gaps that are over
    /// are dropped, two for each that begins: so there are never more than devices that are in one.
    pub(crate) fn begin(&mut self, slot: DeviceSlot, now: Timestamp, began_at: Timestamp, span: Duration) {
        let end = began_at.after(span);
        // A publish may be noted some milliseconds ahead of the clock. Without a gap, that delays
        // no next command.
        if span.is_zero() || end <= now.max(self.end(slot)) {
            return;
        }
        self.forget(slot);
        self.running.insert(slot, Gap { began_at, end });
        self.by_end.insert((end, slot));
        for _ in 0..2 {
            if let Some((_, over)) = self.by_end.first().copied().filter(|(end, _)| *end <= now) {
                self.forget(over);
            }
        }
    }

    /// The gap of the device that goes on now, if any does, takes `span` from its begin.
    pub(crate) fn change(&mut self, slot: DeviceSlot, now: Timestamp, span: Duration) {
        let running = self.running.get(&slot).filter(|gap| gap.end > now);
        let began_at = running.map(|gap| gap.began_at);
        self.forget(slot);
        if let Some(began_at) = began_at {
            self.begin(slot, now, began_at, span);
        }
    }

    pub(crate) fn forget(&mut self, slot: DeviceSlot) {
        if let Some(gap) = self.running.remove(&slot) {
            self.by_end.remove(&(gap.end, slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceSlot = DeviceSlot(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_publish_makes_no_gap_shorter() {
        let mut gaps = Gaps::default();
        gaps.begin(DEVICE, Timestamp(0), Timestamp(0), ms(10));
        gaps.begin(DEVICE, Timestamp(0), Timestamp(0), ms(5));
        assert_eq!(gaps.end(DEVICE), Timestamp(10));
        gaps.begin(DEVICE, Timestamp(0), Timestamp(5), ms(10));
        assert_eq!(gaps.end(DEVICE), Timestamp(15));
        assert_eq!(gaps.by_end.len(), 1);
    }

    #[test]
    fn a_gap_that_goes_on_takes_another_span_from_its_begin() {
        for (now, span, end) in
            [(8, 15, Some(25)), (12, 5, Some(15)), (12, 2, None), (12, 0, None), (20, 90, None)]
        {
            let mut gaps = Gaps::default();
            gaps.begin(DEVICE, Timestamp(0), Timestamp(10), ms(10));
            gaps.change(DEVICE, Timestamp(now), ms(span));
            assert_eq!(gaps.end(DEVICE), Timestamp(end.unwrap_or(i64::MIN)), "{span} ms, at {now}");
            assert_eq!(gaps.by_end.len(), gaps.running.len());
        }
    }

    #[test]
    fn only_devices_in_a_gap_take_memory() {
        let mut gaps = Gaps::default();
        for time in 0..1_000 {
            gaps.begin(DeviceSlot(time as u32), Timestamp(time), Timestamp(time), ms(10));
            assert!(gaps.running.len() <= 11 && gaps.by_end.len() == gaps.running.len(), "at {time}");
        }
        gaps.begin(DeviceSlot(0), Timestamp(1_000), Timestamp(1_000), ms(0));
        assert!(gaps.end(DeviceSlot(0)) <= Timestamp(1_000), "no gap is none");
        assert!(!gaps.running.contains_key(&DeviceSlot(0)));
    }
}
