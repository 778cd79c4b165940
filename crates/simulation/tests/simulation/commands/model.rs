//! The naive model: every command of a partition as its batches tell it, and who can be reached.
//!
//! It knows no lanes and no timers. It does not say what comes next. It looks at each step that a
//! command takes, and at what was handed in, and says whether that step may be.

mod presence;
mod rollouts;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use base::DeviceId;
use records::{Command, CommandKey, CommandState, CommandStatus};

use crate::commands::counts::Counts;
pub(crate) use presence::Presence;
pub(crate) use rollouts::{KnownRollout, Ledger};
pub(crate) use steps::{Stepped, number_in, payload, rollout_payload};

/// A partition.
#[derive(Clone, Default)]
pub(crate) struct Partition {
    pub(crate) devices: BTreeSet<DeviceId>,
    pub(crate) commands: BTreeMap<CommandKey, Rc<Known>>,
    pub(crate) presence: Presence,
    /// What devices said of commands, in inputs that were taken in.
    replies: BTreeMap<CommandKey, DeviceReplies>,
    pub(crate) counts: Counts,
}

/// What a device has said of a command.
#[derive(Clone, Copy, Default)]
struct DeviceReplies {
    done: bool,
    refused: bool,
    at_work: bool,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) command: Arc<Command>,
    pub(crate) state: CommandState,
    /// What its device's timeline has of it.
    pub(crate) timeline: Vec<(CommandStatus, u32)>,
    pub(crate) was_cancelled: bool,
    pub(crate) was_retried: bool,
}

impl Known {
    fn rank(&self) -> (std::cmp::Reverse<i8>, CommandKey) {
        (std::cmp::Reverse(self.command.terms.priority), self.command.id.into())
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.state.status, CommandStatus::Published | CommandStatus::Running)
    }

    fn is_waiting(&self) -> bool {
        self.state.status == CommandStatus::Scheduled && !self.state.is_held
    }
}

impl Partition {
    fn of_device<'a>(&'a self, device: &'a DeviceId) -> impl Iterator<Item = &'a Rc<Known>> {
        self.commands.values().filter(move |known| known.command.device == *device)
    }

    /// A partition was loaded: it goes on with the sessions that live.
    pub(crate) fn loaded(&mut self, presence: &Presence) {
        self.presence = presence.clone();
    }
}
