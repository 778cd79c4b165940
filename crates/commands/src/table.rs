//! The lanes that are in memory, and when each does something by itself.

use std::collections::BTreeSet;

use base::Timestamp;
use foldhash::fast::FixedState;
use records::{CommandKey, DeviceSlot};

use crate::gaps::Gaps;
use crate::lane::{Lane, LaneMove, Pace};
use crate::unanswered::Unanswered;

/// A map by devices. Slots are numbers of our own: nobody can make up any that meet.
pub(crate) type BySlot<T> = hashbrown::HashMap<DeviceSlot, T, FixedState>;

/// A map with room for fewer is not worth giving memory back.
const LANES_KEPT: usize = 4_096;

/// The lanes of a partition.
#[derive(Debug, Default)]
pub(crate) struct LaneTable {
    lanes: BySlot<Lane>,
    gaps: Gaps,
    timers: BTreeSet<(Timestamp, DeviceSlot)>,
}

impl LaneTable {
    pub(crate) fn get(&self, slot: DeviceSlot) -> Option<&Lane> {
        self.lanes.get(&slot)
    }

    /// How commands go to the device; `None` if it is not reachable.
    pub(crate) fn pace(&self, slot: DeviceSlot) -> Option<Pace> {
        self.get(slot).and_then(Lane::pace)
    }

    /// When something may go out to the device again.
    pub(crate) fn gap_end(&self, slot: DeviceSlot) -> Timestamp {
        self.gaps.end(slot)
    }

    pub(crate) fn begin_gap(&mut self, slot: DeviceSlot, now: Timestamp, end: Timestamp) {
        self.gaps.begin(slot, now, end);
    }

    pub(crate) fn next_move(&self, slot: DeviceSlot, now: Timestamp) -> Option<LaneMove> {
        self.get(slot)?.next_move(now, self.gaps.end(slot))
    }

    /// The pace of a lane in which a new command would go out before any other.
    pub(crate) fn goes_at_once(&self, slot: DeviceSlot, now: Timestamp) -> Option<Pace> {
        self.get(slot)?.goes_at_once(now, self.gaps.end(slot))
    }

    /// Opens a lane, with all that its device has not answered.
    pub(crate) fn open(&mut self, slot: DeviceSlot, pace: Pace, unanswered: Vec<Unanswered>, waiting: bool) {
        self.lanes.entry(slot).or_default().open(pace, unanswered, waiting);
        self.changed(slot);
    }

    pub(crate) fn close(&mut self, slot: DeviceSlot) {
        self.update(slot, Lane::close);
    }

    /// Notes whether commands of the device wait, if its lane is open.
    pub(crate) fn set_waiting(&mut self, slot: DeviceSlot, waiting: bool) {
        self.update(slot, |lane| lane.set_waiting(waiting));
    }

    /// Notes a command that its device has to answer, if there is a reason to.
    pub(crate) fn put(&mut self, unanswered: Unanswered) {
        let slot = unanswered.command.slot;
        self.lanes.entry(slot).or_default().put(unanswered);
        self.changed(slot);
    }

    pub(crate) fn take(&mut self, slot: DeviceSlot, key: CommandKey) -> Option<Unanswered> {
        self.update(slot, |lane| lane.take(key)).flatten()
    }

    pub(crate) fn forget(&mut self, slot: DeviceSlot) {
        self.remove(slot);
        self.gaps.forget(slot);
    }

    /// The lane that does something first, and when.
    pub(crate) fn first(&self) -> Option<(Timestamp, DeviceSlot)> {
        self.timers.first().copied()
    }

    fn update<T>(&mut self, slot: DeviceSlot, change: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        let done = change(self.lanes.get_mut(&slot)?);
        self.changed(slot);
        Some(done)
    }

    /// Has the lane's timer follow it, and forgets a lane that has nothing to remember.
    fn changed(&mut self, slot: DeviceSlot) {
        let Some(lane) = self.lanes.get_mut(&slot) else { return };
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
        if let Some(at) = lane.timer {
            self.timers.remove(&(at, slot));
        }
        let (len, capacity) = (self.lanes.len(), self.lanes.capacity());
        if capacity > LANES_KEPT && len < capacity / 8 {
            self.lanes.shrink_to(2 * len);
        }
    }
}
