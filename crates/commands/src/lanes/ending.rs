//! A command ends.

use std::sync::Arc;

use records::{Command, CommandKey, CommandPhase, CommandState, CommandStatus, DeviceSlot};

use crate::lane::DeviceLane;
use crate::outcome::{CommandRefusal, How};
use crate::place::CommandPlace;
use crate::step::{LaneStep, MOVES_MAX};
use crate::store::CommandStore;

impl<S: CommandStore> LaneStep<'_, S> {
    pub(crate) fn cancel(&mut self, key: CommandKey) -> Result<Result<(), CommandRefusal>, S::Error> {
        let Some((command, state)) = self.read(key)? else { return Ok(Err(CommandRefusal::Unknown)) };
        if state.status.has_ended() {
            return Ok(Err(CommandRefusal::Stands(state.status)));
        }
        self.end(&command, state, CommandStatus::Cancelled)?;
        self.move_on(command.slot, MOVES_MAX)?;
        Ok(Ok(()))
    }

    /// Ends an open command. The next one may go out from now on, by [`LaneStep::move_on`].
    pub(crate) fn end(
        &mut self,
        command: &Arc<Command>,
        state: CommandState,
        status: CommandStatus,
    ) -> Result<(), S::Error> {
        let (before, phase) = (CommandPlace::of(command, &state), state.phase());
        let finished_at = Some(self.time_for(command));
        let state = CommandState { status, is_held: false, finished_at, ..state };
        self.write(before, command, &state);
        self.tell(command, &state, How::Ended);
        self.lanes.take(command.slot, command.id.into());
        if phase == Some(CommandPhase::Waiting) {
            self.look_for_waiting(command.slot)?;
        }
        Ok(())
    }

    /// Ends an open command that nobody has ended, if there is room for its outcome. Else its end
    /// is put off, and it does not go out. One that waits leaves its line, one that is unanswered
    /// stays in its lane. Whether there was room.
    pub(crate) fn end_or_put_off(
        &mut self,
        command: &Arc<Command>,
        state: CommandState,
        status: CommandStatus,
    ) -> Result<bool, S::Error> {
        if self.store.has_room_for_outcome(command, status) {
            self.end(command, state, status)?;
            return Ok(true);
        }
        match state.phase() {
            Some(CommandPhase::Waiting) => self.hold_expired(command, state)?,
            _ => self.lanes.put_off(command.slot, command.id.into()),
        }
        Ok(false)
    }

    /// A waiting command whose time is over leaves its line. It is found by its time as before.
    fn hold_expired(&mut self, command: &Arc<Command>, state: CommandState) -> Result<(), S::Error> {
        let (before, times) = (CommandPlace::of(command, &state), *self.times);
        let state = CommandState { is_held: true, ..state };
        self.write(before, command, &state);
        if times.put_off.is_some() {
            // All that were put off are looked at once there is room, this one too: not before.
            *self.times = times;
        }
        self.look_for_waiting(command.slot)
    }

    /// A waiting command left its line without going out: an open lane has to know if it was the
    /// last.
    pub(crate) fn look_for_waiting(&mut self, slot: DeviceSlot) -> Result<(), S::Error> {
        if self.lanes.get(slot).is_some_and(DeviceLane::has_waiting) {
            let has_waiting = !self.store.first(slot, CommandPhase::Waiting, 1)?.is_empty();
            self.lanes.set_waiting(slot, has_waiting);
        }
        Ok(())
    }
}
