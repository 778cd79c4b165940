//! A device asks for its next command.

use std::sync::Arc;
use std::time::Duration;

use records::{Command, CommandPhase, CommandStatus, DeviceSlot};

use crate::lane::{DeviceLane, PublishPace, UNANSWERED_MAX};
use crate::place::CommandPlace;
use crate::step::{LaneStep, MOVES_MAX, Tracked};
use crate::store::CommandStore;
use crate::unanswered::{deadline, has_expired, is_on_last_try};

impl<S: CommandStore> LaneStep<'_, S> {
    pub(crate) fn poll(
        &mut self,
        slot: DeviceSlot,
        pace: PublishPace,
    ) -> Result<Option<Arc<Command>>, S::Error> {
        for _ in 0..MOVES_MAX {
            let Some(next) = self.next_for_poll(slot, pace.gap)? else { return Ok(None) };
            let (command, state) = next;
            let was_sent = state.phase() == Some(CommandPhase::Unanswered);
            let is_late = was_sent && deadline(&command, &state) <= self.now;
            let end = if has_expired(&state, self.now) {
                CommandStatus::Expired
            } else if was_sent && !is_late {
                return Ok(Some(command));
            } else if is_late && is_on_last_try(&command, &state) {
                CommandStatus::Failed
            } else {
                return Ok(self.publish_to_poll((command, state), pace.gap));
            };
            if was_sent && !self.store.has_room_for_outcome(&command, end) {
                // Nothing goes before what the device owes an answer to.
                return Ok(None);
            }
            self.end_or_put_off(&command, state, end)?;
        }
        Ok(None)
    }

    /// What the device has not answered comes first, then what waits.
    fn next_for_poll(&mut self, slot: DeviceSlot, gap: Duration) -> Result<Option<Tracked>, S::Error> {
        let unanswered = match self.lanes.pace(slot) {
            Some(_) => self.lanes.get(slot).and_then(DeviceLane::first).cloned(),
            None => None,
        };
        if let Some(unanswered) = unanswered {
            return self.known(unanswered);
        }
        if self.lanes.pace(slot).is_none()
            && let Some(first) = self.read_first_unanswered(slot, gap)?
        {
            return Ok(Some(first));
        }
        if self.lanes.gap_end(slot) > self.now {
            return Ok(None);
        }
        self.first_waiting(slot)
    }

    /// The first command that a device has not answered whose lane is closed. Of the others only
    /// their states are read, and those only if a gap may go on since one of them went out.
    fn read_first_unanswered(
        &mut self,
        slot: DeviceSlot,
        gap: Duration,
    ) -> Result<Option<Tracked>, S::Error> {
        let limit = if gap.is_zero() { 1 } else { UNANSWERED_MAX };
        loop {
            let rows = self.store.first(slot, CommandPhase::Unanswered, limit)?;
            let Some(row) = rows.first() else { return Ok(None) };
            for row in rows.iter().filter(|_| !gap.is_zero()) {
                if let Some(at) = self.store.state(row.key)?.and_then(|state| state.published_at) {
                    self.lanes.begin_gap(slot, self.now, at, gap);
                }
            }
            // A row without a command goes.
            if let Some(first) = self.read_row(row)? {
                return Ok(Some(first));
            }
        }
    }

    fn publish_to_poll(&mut self, (command, state): Tracked, gap: Duration) -> Option<Arc<Command>> {
        if self.lanes.gap_end(command.slot) > self.now {
            return None;
        }
        self.lanes.take(command.slot, command.id.into());
        self.publish(CommandPlace::of(&command, &state), Arc::clone(&command), state, gap);
        Some(command)
    }
}
