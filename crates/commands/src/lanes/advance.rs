//! Time moves on.

use base::Timestamp;
use records::{CommandState, CommandStatus, Op, OpenCommand};

use crate::outcome::How;
use crate::place::CommandPlace;
use crate::step::LaneStep;
use crate::store::CommandStore;
use crate::unanswered::has_expired;

impl<S: CommandStore> LaneStep<'_, S> {
    /// Commands whose time is over come first, so that they do not go out; then what goes out. A
    /// flood of the former leaves half of the room to the lanes.
    pub(crate) fn advance(&mut self, max: usize) -> Result<(), S::Error> {
        self.lanes.resume_some(max);
        let left = max - self.come_due(max.div_ceil(2))?;
        let left = left - self.move_lanes(left)?;
        self.forget_finished(left)
    }

    fn come_due(&mut self, max: usize) -> Result<usize, S::Error> {
        self.look_at_put_off()?;
        if self.times.due.is_none_or(|at| at > self.now) {
            return Ok(0);
        }
        let rows = self.store.due(self.times.put_off, self.now, max)?;
        for row in &rows {
            self.expire_or_release(row)?;
        }
        if rows.len() < max {
            self.look_for_due()?;
        }
        Ok(rows.len())
    }

    /// Commands that were put off come due again, once there may be room for their outcomes.
    fn look_at_put_off(&mut self) -> Result<(), S::Error> {
        let are_put_off = self.times.put_off.is_some() || self.lanes.are_put_off();
        if !are_put_off || self.lanes.are_resuming() || !self.store.has_room_again() {
            return Ok(());
        }
        self.times.put_off = None;
        self.store.forget_refused();
        self.lanes.resume_all();
        self.look_for_due()
    }

    fn look_for_due(&mut self) -> Result<(), S::Error> {
        let first = self.store.due(self.times.put_off, Timestamp::MAX, 1)?;
        self.times.due = first.first().and_then(|row| row.due);
        Ok(())
    }

    /// The time of a command is over, or has come.
    fn expire_or_release(&mut self, row: &OpenCommand) -> Result<(), S::Error> {
        let Some((command, state)) = self.read_row(row)? else { return Ok(()) };
        if has_expired(&state, self.now) {
            if !self.store.has_room_for_outcome(&command, CommandStatus::Expired) {
                self.times.put_off = row.due.map(|due| (due, row.key));
                return Ok(());
            }
            return self.end(&command, state, CommandStatus::Expired);
        }
        let before = CommandPlace::of(&command, &state);
        let state = CommandState { is_held: false, ..state };
        self.write(before, &command, &state);
        self.tell(&command, &state, How::Ready);
        self.lanes.set_waiting(command.slot, true);
        Ok(())
    }

    fn move_lanes(&mut self, max: usize) -> Result<usize, S::Error> {
        let mut done = 0;
        while let Some((at, slot)) = self.lanes.first()
            && at <= self.now
            && done < max
        {
            let moved = self.move_on(slot, max - done)?;
            assert!(moved > 0, "a lane has something to do when its timer says so");
            done += moved;
        }
        Ok(done)
    }

    fn forget_finished(&mut self, max: usize) -> Result<(), S::Error> {
        let until = self.now.before(self.keep);
        if self.times.finished.is_none_or(|at| at > until) {
            return Ok(());
        }
        let rows = self.store.finished(until, max)?;
        for row in &rows {
            if self.store.state(row.key)?.is_some() {
                self.store.write(Op::DeleteCommand(row.key, row.slot));
            }
            self.store.write(Op::DeleteFinishedCommand(*row));
        }
        if rows.len() < max {
            self.times.finished = self.store.finished(Timestamp::MAX, 1)?.first().map(|row| row.at);
        }
        Ok(())
    }
}
