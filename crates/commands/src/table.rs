//! The lanes that are in memory, and when each does something by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use base::Timestamp;
use foldhash::fast::FixedState;
use records::{CommandKey, DeviceSlot};

use crate::gaps::Gaps;
use crate::lane::{DeviceLane, LaneMove, PublishPace};
use crate::unanswered::{REMEMBERED_EACH_BYTES_MAX, Unanswered};

/// A map by devices. Slots are numbers of our own: nobody can make up any that meet.
pub(crate) type SlotMap<T> = hashbrown::HashMap<DeviceSlot, T, FixedState>;

/// A map with room for fewer is not worth giving memory back.
const LANES_KEPT: usize = 4_096;

/// Memory for the unanswered commands of a partition, in bytes. Beyond that only their times are
/// kept, and each is read from the store when it moves on.
const REMEMBERED_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(REMEMBERED_EACH_BYTES_MAX < REMEMBERED_BYTES_MAX);

/// The lanes of a partition.
#[derive(Debug, Default)]
pub(crate) struct LaneTable {
    lanes: SlotMap<DeviceLane>,
    /// What the unanswered commands of all lanes take.
    remembered_bytes: usize,
    gaps: Gaps,
    timers: BTreeSet<(Timestamp, DeviceSlot)>,
    /// Lanes with commands whose end was put off for want of room for their outcomes.
    put_off: BTreeSet<DeviceSlot>,
    /// Those of them that go on, since there is room.
    resuming: BTreeSet<DeviceSlot>,
}

impl LaneTable {
    pub(crate) fn get(&self, slot: DeviceSlot) -> Option<&DeviceLane> {
        self.lanes.get(&slot)
    }

    /// How commands go to the device; `None` if it is not reachable.
    pub(crate) fn pace(&self, slot: DeviceSlot) -> Option<PublishPace> {
        self.get(slot).and_then(DeviceLane::pace)
    }

    /// When something may go out to the device again.
    pub(crate) fn gap_end(&self, slot: DeviceSlot) -> Timestamp {
        self.gaps.end(slot)
    }

    /// Something went out to the device at `published_at`.
    pub(crate) fn begin_gap(
        &mut self,
        slot: DeviceSlot,
        now: Timestamp,
        published_at: Timestamp,
        gap: Duration,
    ) {
        self.gaps.begin(slot, now, published_at, gap);
    }

    /// Commands go to the device at another pace from `now` on, whether its lane is open or not.
    pub(crate) fn set_pace(&mut self, slot: DeviceSlot, now: Timestamp, pace: PublishPace) {
        self.gaps.change(slot, now, pace.gap);
        if let Some(published_at) = self.get(slot).and_then(DeviceLane::published_at) {
            self.gaps.begin(slot, now, published_at, pace.gap);
        }
        self.update(slot, |lane| lane.set_pace(pace));
    }

    pub(crate) fn next_move(&self, slot: DeviceSlot, now: Timestamp) -> Option<LaneMove> {
        self.get(slot)?.next_move(now, self.gaps.end(slot))
    }

    /// The pace of a lane in which a new command would go out before any other.
    pub(crate) fn goes_at_once(&self, slot: DeviceSlot, now: Timestamp) -> Option<PublishPace> {
        self.get(slot)?.goes_at_once(now, self.gaps.end(slot))
    }

    /// Opens a lane, with all that its device has not answered.
    pub(crate) fn open(
        &mut self,
        slot: DeviceSlot,
        pace: PublishPace,
        mut unanswered: Vec<Unanswered>,
        waiting: bool,
    ) {
        let mut room = self.room();
        for one in &mut unanswered {
            one.remember_within(room);
            room -= one.remembered_bytes();
        }
        self.lanes.entry(slot).or_default().open(pace, unanswered, waiting);
        self.changed(slot);
    }

    pub(crate) fn close(&mut self, slot: DeviceSlot) {
        self.update(slot, DeviceLane::close);
    }

    /// A lane that is open goes on as one that opens, at this pace.
    pub(crate) fn reopen(&mut self, slot: DeviceSlot, pace: PublishPace) {
        self.update(slot, |lane| lane.reopen(pace));
    }

    /// Notes whether commands of the device wait, if its lane is open.
    pub(crate) fn set_waiting(&mut self, slot: DeviceSlot, waiting: bool) {
        self.update(slot, |lane| lane.set_waiting(waiting));
    }

    /// Notes a command that its device has to answer, if there is a reason to.
    pub(crate) fn put(&mut self, mut unanswered: Unanswered) {
        let slot = unanswered.slot;
        unanswered.remember_within(self.room());
        self.lanes.entry(slot).or_default().put(unanswered);
        self.changed(slot);
    }

    pub(crate) fn take(&mut self, slot: DeviceSlot, key: CommandKey) -> Option<Unanswered> {
        self.update(slot, |lane| lane.take(key)).flatten()
    }

    /// There is no room for the outcome of a command that was to end.
    pub(crate) fn put_off(&mut self, slot: DeviceSlot, key: CommandKey) {
        if self.update(slot, |lane| lane.put_off(key)).is_some() {
            self.put_off.insert(slot);
        }
    }

    /// Whether commands of this lane were put off.
    pub(crate) fn is_put_off(&self, slot: DeviceSlot) -> bool {
        self.put_off.contains(&slot) || self.resuming.contains(&slot)
    }

    /// Whether there are lanes whose commands wait until there is room.
    pub(crate) fn are_put_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    /// Whether there are lanes that go on now.
    pub(crate) fn are_resuming(&self) -> bool {
        !self.resuming.is_empty()
    }

    /// There may be room for the outcomes of a lane's commands.
    pub(crate) fn resume(&mut self, slot: DeviceSlot) {
        self.put_off.remove(&slot);
        self.resuming.remove(&slot);
        self.update(slot, DeviceLane::resume);
    }

    /// There may be room for whatever was put off: see [`LaneTable::resume_some`].
    pub(crate) fn resume_all(&mut self) {
        if self.resuming.is_empty() {
            self.resuming = std::mem::take(&mut self.put_off);
        }
    }

    /// Has some lanes go on that were put off.
    pub(crate) fn resume_some(&mut self, max: usize) {
        for _ in 0..max {
            let Some(slot) = self.resuming.pop_first() else { return };
            self.resume(slot);
        }
    }

    pub(crate) fn forget(&mut self, slot: DeviceSlot) {
        self.put_off.remove(&slot);
        self.resuming.remove(&slot);
        self.remove(slot);
        self.gaps.forget(slot);
    }

    /// The lane that does something first, and when.
    pub(crate) fn first(&self) -> Option<(Timestamp, DeviceSlot)> {
        self.timers.first().copied()
    }

    /// How much more may be remembered.
    fn room(&self) -> usize {
        REMEMBERED_BYTES_MAX.saturating_sub(self.remembered_bytes)
    }

    fn update<T>(&mut self, slot: DeviceSlot, change: impl FnOnce(&mut DeviceLane) -> T) -> Option<T> {
        let done = change(self.lanes.get_mut(&slot)?);
        self.changed(slot);
        Some(done)
    }

    /// Has the lane's timer and memory follow it, and forgets a lane that has nothing to remember.
    fn changed(&mut self, slot: DeviceSlot) {
        let Some(lane) = self.lanes.get_mut(&slot) else { return };
        self.remembered_bytes = self.remembered_bytes - lane.counted_bytes + lane.remembered_bytes();
        lane.counted_bytes = lane.remembered_bytes();
        let moves_at = lane.moves_at(self.gaps.end(slot));
        if lane.timer != moves_at {
            if let Some(at) = lane.timer {
                self.timers.remove(&(at, slot));
            }
            self.timers.extend(moves_at.map(|at| (at, slot)));
            lane.timer = moves_at;
        }
        if lane.is_forgettable() {
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: DeviceSlot) {
        let Some(lane) = self.lanes.remove(&slot) else { return };
        self.remembered_bytes -= lane.counted_bytes;
        if let Some(at) = lane.timer {
            self.timers.remove(&(at, slot));
        }
        let (len, capacity) = (self.lanes.len(), self.lanes.capacity());
        if capacity > LANES_KEPT && len < capacity / 8 {
            self.lanes.shrink_to(2 * len);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use records::Command;

    use super::*;
    use crate::unanswered::tests::{sample, tracked};

    const DEVICE: DeviceSlot = DeviceSlot(1);
    const PACE: PublishPace = PublishPace { in_flight: 1, gap: Duration::from_millis(30) };

    #[test]
    fn the_timer_of_a_lane_follows_what_it_does_next() {
        let mut table = LaneTable::default();
        table.open(DEVICE, PACE, Vec::new(), false);
        assert_eq!(table.first(), None, "an idle lane wakes nobody");
        table.put(sample(1, 0, 1));
        assert_eq!(table.first(), Some((Timestamp(110), DEVICE)));
        table.begin_gap(DEVICE, Timestamp(100), Timestamp(100), PACE.gap);
        table.set_waiting(DEVICE, true);
        assert_eq!(table.first(), Some((Timestamp(130), DEVICE)), "the gap holds the repeat back");
        table.take(DEVICE, sample(1, 0, 1).key());
        assert_eq!(table.first(), Some((Timestamp(130), DEVICE)), "the next one waits for the gap");
        table.close(DEVICE);
        assert_eq!(table.first(), None);
        assert_eq!(table.timers.len(), 0);
    }

    #[test]
    fn a_closed_lane_is_gone_but_for_its_gap_and_a_last_try() {
        let mut table = LaneTable::default();
        table.open(DEVICE, PACE, Vec::new(), false);
        table.begin_gap(DEVICE, Timestamp(100), Timestamp(100), PACE.gap);
        table.put(sample(1, 0, 3));
        table.close(DEVICE);
        assert_eq!(table.first(), Some((Timestamp(110), DEVICE)), "it fails by itself");
        table.take(DEVICE, sample(1, 0, 3).key());
        assert!(table.lanes.is_empty());
        assert_eq!(table.gap_end(DEVICE), Timestamp(130));
        table.set_waiting(DEVICE, true);
        table.put(sample(2, 0, 1));
        assert!(table.lanes.is_empty(), "a command for an absent device takes no memory");
    }

    #[test]
    fn a_device_that_is_gone_leaves_nothing() {
        let mut table = LaneTable::default();
        table.open(DEVICE, PACE, vec![sample(1, 0, 1)], true);
        table.begin_gap(DEVICE, Timestamp(100), Timestamp(100), PACE.gap);
        table.forget(DEVICE);
        assert!(table.lanes.is_empty() && table.timers.is_empty());
        assert!(table.gap_end(DEVICE) <= Timestamp(100));
    }

    #[test]
    fn what_unanswered_commands_take_is_bounded() {
        let mut table = LaneTable::default();
        let (command, state) = tracked(1, 0, 1);
        let payload = Arc::from(vec![b'1'; REMEMBERED_EACH_BYTES_MAX / 2]);
        let command = Command { payload, ..Command::clone(&command) };
        let devices = (2 * REMEMBERED_BYTES_MAX / REMEMBERED_EACH_BYTES_MAX) as u32 + 1_000;
        for device in (0..devices).map(DeviceSlot) {
            table.open(device, PACE, Vec::new(), false);
            let command = Arc::new(Command { slot: device, ..command.clone() });
            table.put(Unanswered::new(command, state.clone()));
        }
        assert!(table.remembered_bytes <= REMEMBERED_BYTES_MAX);
        assert!(table.remembered_bytes > REMEMBERED_BYTES_MAX - REMEMBERED_EACH_BYTES_MAX);
        let last = DeviceSlot(devices - 1);
        assert_eq!(table.next_move(last, Timestamp(110)), Some(LaneMove::Repeat(command.id.into())));
        assert!(table.take(last, command.id.into()).expect("it is there").remembered().is_none());
        (0..devices).for_each(|device| table.close(DeviceSlot(device)));
        assert_eq!((table.lanes.len(), table.remembered_bytes), (0, 0), "nothing is left");
    }

    #[test]
    fn a_crowd_that_left_gives_its_memory_back() {
        let mut table = LaneTable::default();
        for device in 0..20_000 {
            table.open(DeviceSlot(device), PACE, Vec::new(), false);
        }
        for device in 10..20_000 {
            table.close(DeviceSlot(device));
        }
        assert_eq!(table.lanes.len(), 10);
        assert!(table.lanes.capacity() <= LANES_KEPT, "{}", table.lanes.capacity());
    }
}
