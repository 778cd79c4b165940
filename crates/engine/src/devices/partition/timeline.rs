//! What happened to a device besides its events, by time.

use records::{DeviceSlot, Happening, Op, TimelineEntry};

use super::{DevicePartition, DeviceStep};

impl DevicePartition {
    pub(super) fn put_timeline(&mut self, slot: DeviceSlot, what: Happening, step: &mut DeviceStep<'_>) {
        let number = self.head.next_timeline;
        self.head.next_timeline = number.wrapping_add(1);
        step.push(Op::PutTimelineEntry(Box::new(TimelineEntry { slot, at: self.head.stamp, number, what })));
    }
}
