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

    /// A command goes out, whose place was `before`.
    pub(crate) fn publish(
        &mut self,
        before: CommandPlace,
        command: Arc<Command>,
        state: CommandState,
        gap: Duration,
    ) {
        let tries = state.tries.saturating_add(1);
        let (status, published_at) = (CommandStatus::Published, Some(self.now));
        let state = CommandState { status, tries, published_at, ..state };
        self.write(before, &command, &state);
        self.tell(&command, &state, How::Published);
        self.lanes.begin_gap(command.slot, self.now, self.now, gap);
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
        match self.take(slot, key)? {
            Some((command, state)) => self.publish_or_expire(command, state),
            None => Ok(()),
        }
    }

    fn fail(&mut self, slot: DeviceSlot, key: CommandKey) -> Result<(), S::Error> {
        let Some((command, state)) = self.take(slot, key)? else { return Ok(()) };
        let is_over = has_expired(&state, self.now);
        let status = if is_over { CommandStatus::Expired } else { CommandStatus::Failed };
        self.end(&command, state, status)
    }

    /// Takes an unanswered command out of its lane. One that went with its device is not there.
    fn take(&mut self, slot: DeviceSlot, key: CommandKey) -> Result<Option<Tracked>, S::Error> {
        match self.lanes.take(slot, key) {
            Some(unanswered) => self.known(unanswered),
            None => Ok(None),
        }
    }

    /// Nothing goes out after its time, also when nobody has noticed yet that it is over.
    fn publish_or_expire(&mut self, command: Arc<Command>, state: CommandState) -> Result<(), S::Error> {
        if has_expired(&state, self.now) {
            return self.end(&command, state, CommandStatus::Expired);
        }
        let pace = self.lanes.pace(command.slot).expect("only an open lane lets commands out");
        self.publish(CommandPlace::of(&command, &state), command, state, pace.gap);
        Ok(())
    }
}
