//! A device asks for its next command.

use std::sync::Arc;
use std::time::Duration;

use records::{Command, CommandPhase, CommandStatus, DeviceSlot};

use crate::lane::{DeviceLane, Pace};
use crate::place::CommandPlace;
use crate::step::{LaneStep, MOVES_MAX};
use crate::store::CommandStore;
use crate::unanswered::{Unanswered, has_expired};

impl<S: CommandStore> LaneStep<'_, S> {
    pub(crate) fn poll(&mut self, slot: DeviceSlot, pace: Pace) -> Result<Option<Arc<Command>>, S::Error> {
        for _ in 0..MOVES_MAX {
            let Some(next) = self.next_for_poll(slot, pace.gap)? else { return Ok(None) };
            let was_sent = next.state.phase() == Some(CommandPhase::Unanswered);
            let is_late = was_sent && next.deadline() <= self.now;
            if has_expired(&next.state, self.now) {
                self.end(&next.command, next.state, CommandStatus::Expired)?;
            } else if was_sent && !is_late {
                return Ok(Some(next.command));
            } else if is_late && next.is_on_last_try() {
                self.end(&next.command, next.state, CommandStatus::Failed)?;
            } else {
                return Ok(self.publish_to_poll(next, pace.gap));
            }
        }
        Ok(None)
    }

    /// What the device has not answered comes first, then what waits.
    fn next_for_poll(&mut self, slot: DeviceSlot, gap: Duration) -> Result<Option<Unanswered>, S::Error> {
        let unanswered = match self.lanes.pace(slot) {
            Some(_) => self.lanes.get(slot).and_then(DeviceLane::first).cloned(),
            None => self.read_unanswered(slot, gap)?.into_iter().min_by_key(Unanswered::rank),
        };
        if unanswered.is_some() || self.lanes.gap_end(slot) > self.now {
            return Ok(unanswered);
        }
        let waiting = self.first_waiting(slot)?;
        Ok(waiting.map(|(command, state)| Unanswered::new(command, state)))
    }

    fn publish_to_poll(&mut self, next: Unanswered, gap: Duration) -> Option<Arc<Command>> {
        let Unanswered { command, state, .. } = next;
        if self.lanes.gap_end(command.slot) > self.now {
            return None;
        }
        self.lanes.take(command.slot, command.id.into());
        self.publish(CommandPlace::of(&command, &state), Arc::clone(&command), state, gap);
        Some(command)
    }
}
