//! A device is reachable.

use std::time::Duration;

use records::{CommandPhase, DeviceSlot};

use crate::lane::{PublishPace, UNANSWERED_MAX};
use crate::step::{LaneStep, MOVES_MAX};
use crate::store::CommandStore;
use crate::unanswered::Unanswered;

impl<S: CommandStore> LaneStep<'_, S> {
    pub(crate) fn open(&mut self, slot: DeviceSlot, pace: PublishPace) -> Result<(), S::Error> {
        if self.lanes.pace(slot).is_some() {
            return Ok(());
        }
        let unanswered = self.read_unanswered(slot, pace.gap)?;
        let has_waiting = !self.store.first(slot, CommandPhase::Waiting, 1)?.is_empty();
        self.lanes.open(slot, pace, unanswered, has_waiting);
        self.move_on(slot, MOVES_MAX).map(drop)
    }

    pub(crate) fn reopen(&mut self, slot: DeviceSlot, pace: PublishPace) -> Result<(), S::Error> {
        if self.lanes.pace(slot).is_none() {
            return self.open(slot, pace);
        }
        self.lanes.reopen(slot, pace);
        self.move_on(slot, MOVES_MAX).map(drop)
    }

    pub(crate) fn set_pace(&mut self, slot: DeviceSlot, pace: PublishPace) -> Result<(), S::Error> {
        self.lanes.set_pace(slot, self.now, pace);
        self.move_on(slot, MOVES_MAX).map(drop)
    }

    /// What a device has not answered. Its gap goes on where it was, also after a restart.
    fn read_unanswered(&mut self, slot: DeviceSlot, gap: Duration) -> Result<Vec<Unanswered>, S::Error> {
        let mut unanswered = Vec::new();
        for row in self.store.first(slot, CommandPhase::Unanswered, UNANSWERED_MAX)? {
            let Some((command, state)) = self.read_row(&row)? else { continue };
            if let Some(at) = state.published_at {
                self.lanes.begin_gap(slot, self.now, at, gap);
            }
            unanswered.push(Unanswered::new(command, state));
        }
        Ok(unanswered)
    }
}
