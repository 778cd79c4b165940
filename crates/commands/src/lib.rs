//! Commands to devices: each waits for its turn, goes out while its device is reachable, and goes out
//! again until the device answers.
//!
//! [`CommandLanes`] decides what becomes of each command of a partition. What it decides from is in
//! the store ([`CommandStore`]); in memory are only the lanes of devices that are reachable or owe an
//! answer. A command for an absent device costs no memory.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use records::{
    Command, CommandKey, CommandPhase, CommandState, CommandStatus, DeviceSlot, FinishedCommand, Op,
    OpenCommand,
};

/// What the rules read and write. Reads see what was written before, in this step too.
pub trait CommandStore {
    /// Why a read failed.
    type Error;

    /// A command as it was given.
    fn command(&self, key: CommandKey) -> Result<Option<Arc<Command>>, Self::Error>;
    /// How far it has come.
    fn state(&self, key: CommandKey) -> Result<Option<CommandState>, Self::Error>;
    /// The first commands of a device in a phase: by priority, the highest first, then by key.
    fn first(
        &self,
        slot: DeviceSlot,
        phase: CommandPhase,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, Self::Error>;
    /// The waiting or held commands of a device whose keys have this hash.
    fn with_key(&self, slot: DeviceSlot, key_hash: u64) -> Result<Vec<OpenCommand>, Self::Error>;
    /// The first open commands by `due`, up to this time.
    fn due(&self, until: Timestamp, limit: usize) -> Result<Vec<OpenCommand>, Self::Error>;
    /// The first finished commands by when they ended, up to this time.
    fn finished(&self, until: Timestamp, limit: usize) -> Result<Vec<FinishedCommand>, Self::Error>;
    /// Puts a change into the step's batch.
    fn write(&mut self, op: Op);
}

/// How commands go to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How many may be unanswered at a time.
    pub in_flight: u32,
    /// Least time from one publish to the next.
    pub gap: Duration,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The command.
    pub command: Arc<Command>,
    /// How far it has come.
    pub state: CommandState,
    /// What happened to it.
    pub how: How,
}

/// What happened to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was given, or is tried anew by hand.
    Scheduled,
    /// It goes out.
    Published,
    /// The device says that it is at work.
    Progressed,
    /// It has ended.
    Ended,
    /// The device answered after the end.
    Late,
}

/// What an answer, or progress, was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The command moved on.
    Moved,
    /// The command had ended: the first such answer is kept.
    Late,
    /// It had been answered before.
    Repeated,
    /// The device was never sent such a command.
    Unknown,
}

/// Why a command cannot be called off or tried anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is none.
    Unknown,
    /// It stands here.
    Stands(CommandStatus),
}

/// Whether there is more to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All that is due was done.
    Done,
    /// There is more.
    More,
}

/// The commands of a partition.
#[derive(Debug)]
pub struct CommandLanes {
    keep: Duration,
}

impl CommandLanes {
    /// The lanes of a partition that starts: nobody is reachable. Commands that wait for an answer
    /// (`unanswered`) go on from where they were; `due` and `finished` tell when time brings
    /// something first.
    pub fn load<S: CommandStore>(
        keep: Duration,
        unanswered: Vec<(Arc<Command>, CommandState)>,
        store: &S,
    ) -> Result<Self, S::Error> {
        let _ = (unanswered, store);
        Ok(Self { keep })
    }

    /// Takes a new command. A waiting one with its key gives way.
    pub fn send<S: CommandStore>(
        &mut self,
        now: Timestamp,
        command: Arc<Command>,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<(), S::Error> {
        let _ = (now, command, store, moved, self.keep);
        todo!()
    }

    /// A device is reachable from now on: what it owes an answer to goes out again, then what waits.
    /// Without effect if it was.
    pub fn open<S: CommandStore>(
        &mut self,
        now: Timestamp,
        slot: DeviceSlot,
        pace: Pace,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<(), S::Error> {
        let _ = (now, slot, pace, store, moved);
        todo!()
    }

    /// A device is reachable no longer.
    pub fn close(&mut self, slot: DeviceSlot) {
        let _ = slot;
        todo!()
    }

    /// Whether the device is reachable as far as is known here.
    #[must_use]
    pub fn is_open(&self, slot: DeviceSlot) -> bool {
        let _ = slot;
        todo!()
    }

    /// Whether a lane could be forgotten without anybody noticing: nothing is unanswered and nothing
    /// waits. It counts as closed then.
    pub fn forget_idle(&mut self, slot: DeviceSlot) -> bool {
        let _ = slot;
        todo!()
    }

    /// The command that a device that polls is given now: the first that it has not answered, a try
    /// more if its `ack_timeout` has passed, else the next that waits. `None` while its gap lasts, or
    /// when there is none.
    pub fn poll<S: CommandStore>(
        &mut self,
        now: Timestamp,
        slot: DeviceSlot,
        pace: Pace,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<Option<Arc<Command>>, S::Error> {
        let _ = (now, slot, pace, store, moved);
        todo!()
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
        let _ = (now, slot, key, ok, result, store, moved);
        todo!()
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
        let _ = (now, slot, key, progress, store, moved);
        todo!()
    }

    /// Calls a command off.
    pub fn cancel<S: CommandStore>(
        &mut self,
        now: Timestamp,
        key: CommandKey,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<Result<(), Refused>, S::Error> {
        let _ = (now, key, store, moved);
        todo!()
    }

    /// Tries a failed, expired or cancelled command anew.
    pub fn retry<S: CommandStore>(
        &mut self,
        now: Timestamp,
        key: CommandKey,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<Result<(), Refused>, S::Error> {
        let _ = (now, key, store, moved);
        todo!()
    }

    /// The device is gone; its commands are swept with it.
    pub fn forget(&mut self, slot: DeviceSlot) {
        let _ = slot;
        todo!()
    }

    /// What the passing of time brings, for `max` commands at most: answers that did not come, gaps
    /// that are over, times that have come or run out, ended commands that are kept no longer.
    pub fn advance<S: CommandStore>(
        &mut self,
        now: Timestamp,
        max: usize,
        store: &mut S,
        moved: &mut Vec<Moved>,
    ) -> Result<Progress, S::Error> {
        let _ = (now, max, store, moved);
        todo!()
    }

    /// When the passing of time brings something next.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        todo!()
    }
}
