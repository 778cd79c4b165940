//! The calls to the rules.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use records::{Command, CommandKey, CommandState, DeviceSlot};

use crate::lane::{DeviceLane, PublishPace};
use crate::outcome::{AdvanceResult, AnswerOutcome, CommandRefusal, Moved};
use crate::place::StoredTimes;
use crate::step::LaneStep;
use crate::store::CommandStore;
use crate::table::LaneTable;
use crate::unanswered::Unanswered;

mod advance;
mod answering;
mod ending;
mod opening;
mod polling;
mod publishing;
mod sending;

/// What changes for the lane of a device.
#[derive(Clone, Copy, Debug)]
pub enum LaneChange {
    /// The device is reachable from now on. What it owes an answer to goes out again, unless the
    /// device is at work on it; then what waits. Without effect if it was reachable.
    Open(PublishPace),
    /// The device is reachable in another way, or again: as [`LaneChange::Open`], also where its
    /// lane is open. What it owes an answer to may have gone elsewhere.
    Reopen(PublishPace),
    /// Commands go to the device at another pace from now on. A wider window lets out what waits; a
    /// narrower one takes nothing back. A gap that goes on ends as the new one says, or now.
    SetPace(PublishPace),
}

/// The commands of a partition.
#[derive(Debug)]
pub struct CommandLanes {
    keep: Duration,
    lanes: LaneTable,
    times: StoredTimes,
}

impl CommandLanes {
    /// The lanes of a partition that starts: nobody is reachable. Of the `unanswered` commands,
    /// which may be read one by one, those on their last try keep their deadlines. The others take
    /// no memory until their devices are back. Commands that have ended are kept for `keep`.
    pub fn load<S: CommandStore>(
        keep: Duration,
        unanswered: impl Iterator<Item = Result<(Arc<Command>, CommandState), S::Error>>,
        store: &S,
    ) -> Result<Self, S::Error> {
        let mut lanes = LaneTable::default();
        for one in unanswered {
            let (command, state) = one?;
            lanes.put(Unanswered::new(command, state));
        }
        let due = store.due(None, Timestamp::MAX, 1)?.first().and_then(|row| row.due);
        let finished = store.finished(Timestamp::MAX, 1)?.first().map(|row| row.at);
        Ok(Self { keep, lanes, times: StoredTimes { due, finished, put_off: None } })
    }

    /// Takes a new command. A waiting one with its key gives way.
    pub fn send<S: CommandStore>(
        &mut self,
        now: Timestamp,
        command: Arc<Command>,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<(), S::Error> {
        self.step(now, store, moved).send(command)
    }

    /// A device is reachable from now on, or in another way, or commands go to it at another pace.
    pub fn change<S: CommandStore>(
        &mut self,
        now: Timestamp,
        slot: DeviceSlot,
        change: LaneChange,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<(), S::Error> {
        let mut step = self.step(now, store, moved);
        match change {
            LaneChange::Open(pace) => step.open(slot, pace),
            LaneChange::Reopen(pace) => step.reopen(slot, pace),
            LaneChange::SetPace(pace) => step.set_pace(slot, pace),
        }
    }

    /// A device is reachable no longer.
    pub fn close(&mut self, slot: DeviceSlot) {
        self.lanes.close(slot);
    }

    /// Whether the device is reachable as far as is known here.
    #[must_use]
    pub fn is_open(&self, slot: DeviceSlot) -> bool {
        self.lanes.pace(slot).is_some()
    }

    /// Whether a lane could be forgotten without anybody noticing: nothing is unanswered, and
    /// nothing waits. It counts as closed then.
    pub fn forget_idle(&mut self, slot: DeviceSlot) -> bool {
        let is_idle = self.lanes.get(slot).is_none_or(DeviceLane::is_idle);
        if is_idle {
            self.lanes.close(slot);
        }
        is_idle
    }

    /// The command that a polling device is given now. It is the first that the device has not
    /// answered, with a try more if its time to answer is over. Where all are answered, it is the
    /// next that waits. `None` when there is none, or while the gap forbids a try.
    pub fn poll<S: CommandStore>(
        &mut self,
        now: Timestamp,
        slot: DeviceSlot,
        pace: PublishPace,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<Option<Arc<Command>>, S::Error> {
        self.step(now, store, moved).poll(slot, pace)
    }

    /// The device's answer.
    #[expect(clippy::too_many_arguments)]
    pub fn answer<S: CommandStore>(
        &mut self,
        now: Timestamp,
        slot: DeviceSlot,
        key: CommandKey,
        ok: bool,
        result: Option<Box<str>>,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<AnswerOutcome, S::Error> {
        self.step(now, store, moved).answer(slot, key, ok, result)
    }

    /// The device is at work.
    pub fn progress<S: CommandStore>(
        &mut self,
        now: Timestamp,
        slot: DeviceSlot,
        key: CommandKey,
        progress: Box<str>,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<AnswerOutcome, S::Error> {
        self.step(now, store, moved).progress(slot, key, progress)
    }

    /// Calls a command off.
    pub fn cancel<S: CommandStore>(
        &mut self,
        now: Timestamp,
        key: CommandKey,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<Result<(), CommandRefusal>, S::Error> {
        self.step(now, store, moved).cancel(key)
    }

    /// Tries a failed, expired or cancelled command anew. A waiting one with its key gives way if
    /// it is older; if it is newer, the retry is refused.
    pub fn retry<S: CommandStore>(
        &mut self,
        now: Timestamp,
        key: CommandKey,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<Result<(), CommandRefusal>, S::Error> {
        self.step(now, store, moved).retry(key)
    }

    /// The device is gone; its commands are swept with it.
    pub fn forget(&mut self, slot: DeviceSlot) {
        self.lanes.forget(slot);
    }

    /// What the passing of time brings, for `max` commands at most. Answers did not come, gaps
    /// are over, times have come or run out, ended commands are kept no longer.
    pub fn advance<S: CommandStore>(
        &mut self,
        now: Timestamp,
        max: usize,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<AdvanceResult, S::Error> {
        self.step(now, store, moved).advance(max)?;
        let is_due = self.next_wakeup(|| store.has_room_again()).is_some_and(|at| at <= now);
        Ok(if is_due { AdvanceResult::More } else { AdvanceResult::Done })
    }

    /// When the passing of time brings something next. A command that was to expire, and ended
    /// before, may leave its time behind; then [`CommandLanes::advance`] has one look at the store.
    /// Commands whose end was put off bring something only while there is room for their outcomes.
    pub fn next_wakeup(&self, has_room_again: impl FnOnce() -> bool) -> Option<Timestamp> {
        let are_put_off = self.times.put_off.is_some() || self.lanes.are_put_off();
        let goes_on = self.lanes.are_resuming() || are_put_off && has_room_again();
        let put_off = goes_on.then_some(Timestamp(i64::MIN));
        let lane = self.lanes.first().map(|(at, _)| at);
        let forgotten_at = self.times.finished.map(|at| at.after(self.keep));
        [put_off, lane, self.times.due, forgotten_at].into_iter().flatten().min()
    }

    fn step<'a, S>(
        &'a mut self,
        now: Timestamp,
        store: &'a mut S,
        moved: &'a mut Vec<Moved>,
    ) -> LaneStep<'a, S> {
        let Self { keep, lanes, times } = self;
        LaneStep { now, keep: *keep, lanes, times, store, moved }
    }
}
