//! Commands go out: again for want of an answer, or for the first time because there is room.

use std::sync::Arc;
use std::time::Duration;

use records::{Command, CommandKey, CommandPhase, CommandState, CommandStatus, DeviceSlot};

use crate::lane::LaneMove;
use crate::outcome::How;
use crate::place::CommandPlace;
use crate::step::{LaneStep, MOVED_BYTES_MAX, Tracked};
use crate::store::CommandStore;
use crate::unanswered::{Unanswered, has_expired};

impl<S: CommandStore> LaneStep<'_, S> {
    /// Has a lane do what it can do now, for `max` commands at most, or [`MOVED_BYTES_MAX`]. How
    /// many it was.
    pub(crate) fn move_on(&mut self, slot: DeviceSlot, max: usize) -> Result<usize, S::Error> {
        self.resume_if_room(slot);
        let mut bytes = 0;
        for done in 0..max {
            let next = self.lanes.next_move(slot, self.now).filter(|_| bytes < MOVED_BYTES_MAX);
            let Some(next) = next else { return Ok(done) };
            let before = self.moved.len();
            match next {
                LaneMove::Fail(key) => self.fail(slot, key)?,
                LaneMove::Repeat(key) => self.repeat(slot, key)?,
                LaneMove::Fill => self.publish_next(slot)?,
            }
            bytes += self.moved[before..].iter().map(|moved| moved.command.payload.len()).sum::<usize>();
        }
        Ok(max)
    }

    /// Commands of a lane whose end was put off go on, if there is room for their outcomes.
    pub(crate) fn resume_if_room(&mut self, slot: DeviceSlot) {
        if self.lanes.is_put_off(slot) && self.store.has_room_again() {
            self.lanes.resume(slot);
        }
    }

    /// A command goes out, whose place was `before`.
    pub(crate) fn publish(
        &mut self,
        before: CommandPlace,
        command: Arc<Command>,
        state: CommandState,
        gap: Duration,
    ) {
        let tries = state.tries.saturating_add(1);
        let (status, published_at) = (CommandStatus::Published, self.time_for(&command));
        // From then on its device has the time to answer, and all of it.
        let expires_at = state.expires_at.filter(|_| command.cause.pick().is_none());
        let state = CommandState { status, tries, published_at: Some(published_at), expires_at, ..state };
        self.write(before, &command, &state);
        self.tell(&command, &state, How::Published);
        self.lanes.begin_gap(command.slot, self.now, published_at, gap);
        self.lanes.put(Unanswered::new(command, state));
    }

    /// The first command that waits for the device. Its lane learns whether there are more.
    pub(crate) fn first_waiting(&mut self, slot: DeviceSlot) -> Result<Option<Tracked>, S::Error> {
        let rows = self.store.first(slot, CommandPhase::Waiting, 2)?;
        self.lanes.set_waiting(slot, rows.len() > 1);
        let Some(row) = rows.first() else { return Ok(None) };
        self.read_row(row)
    }

    fn publish_next(&mut self, slot: DeviceSlot) -> Result<(), S::Error> {
        match self.first_waiting(slot)? {
            Some((command, state)) => self.publish_or_expire(command, state),
            None => Ok(()),
        }
    }

    fn repeat(&mut self, slot: DeviceSlot, key: CommandKey) -> Result<(), S::Error> {
        match self.unanswered(slot, key)? {
            Some((command, state)) => self.publish_or_expire(command, state),
            None => Ok(()),
        }
    }

    fn fail(&mut self, slot: DeviceSlot, key: CommandKey) -> Result<(), S::Error> {
        let Some((command, state)) = self.unanswered(slot, key)? else { return Ok(()) };
        let is_over = has_expired(&state, self.now);
        let status = if is_over { CommandStatus::Expired } else { CommandStatus::Failed };
        self.end_or_put_off(&command, state, status).map(drop)
    }

    /// An unanswered command of a lane. One that went with its device leaves the lane.
    fn unanswered(&mut self, slot: DeviceSlot, key: CommandKey) -> Result<Option<Tracked>, S::Error> {
        let Some(unanswered) = self.lanes.get(slot).and_then(|lane| lane.unanswered(key)) else {
            return Ok(None);
        };
        let known = self.known(unanswered.clone())?;
        if known.is_none() {
            self.lanes.take(slot, key);
        }
        Ok(known)
    }

    /// Nothing goes out after its time, also when nobody has noticed yet that it is over.
    fn publish_or_expire(&mut self, command: Arc<Command>, state: CommandState) -> Result<(), S::Error> {
        if has_expired(&state, self.now) {
            return self.end_or_put_off(&command, state, CommandStatus::Expired).map(drop);
        }
        if state.phase() == Some(CommandPhase::Unanswered) {
            self.lanes.take(command.slot, command.id.into());
        }
        let pace = self.lanes.pace(command.slot).expect("only an open lane lets commands out");
        self.publish(CommandPlace::of(&command, &state), command, state, pace.gap);
        Ok(())
    }
}
