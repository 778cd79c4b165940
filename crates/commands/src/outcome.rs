//! What the rules tell their caller.

use std::sync::Arc;

use records::{Command, CommandState, CommandStatus};

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
    /// Its `not_before` has come: it goes out in its turn, once its lane is open.
    Ready,
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
    /// The command had ended, without an answer or with another one. The first such answer is kept;
    /// progress is not.
    Late,
    /// It had been answered so before, or had a late answer already.
    Repeated,
    /// The device was never sent such a command.
    Unknown,
}

/// Why a command cannot be called off or tried anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandRefusal {
    /// There is none.
    Unknown,
    /// It stands here.
    Stands(CommandStatus),
    /// A newer command with its key waits: it would take the place of that one.
    GivesWay,
}

/// Whether there is more to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvanceResult {
    /// All that is due was done.
    Done,
    /// There is more.
    More,
}
