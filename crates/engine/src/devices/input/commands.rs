//! What goes into a device partition about commands, and about who is there to take them.

use base::{DeviceId, EntityId};
use records::{DesiredState, Reservation};

use super::DeviceInput;
use crate::commands::{NewCommand, PublishedCommand, TrackedCommand};
use crate::devices::sessions::PresenceChange;
use crate::kernel::reply::{Answered, Reply};
use crate::outcomes::{OutcomeDue, OutcomeLane, SendResult};

/// An input about commands.
#[derive(Debug)]
pub enum CommandInput {
    /// What an edge tells of its sessions.
    Presence {
        /// What changed.
        change: PresenceChange,
        /// Told when it is durable.
        reply: Reply<()>,
    },
    /// Give a device a command.
    Send {
        /// The device.
        device: DeviceId,
        /// Checked.
        command: Box<NewCommand>,
        /// Gets the command, and how far it has come.
        reply: Reply<Answered<Box<TrackedCommand>>>,
    },
    /// Call a command off.
    Cancel {
        /// The command.
        id: EntityId,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Try a command anew that has ended without success.
    Retry {
        /// The command.
        id: EntityId,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Wait for the end of a command.
    Await {
        /// The command.
        id: EntityId,
        /// Gets the command once it has ended.
        reply: Reply<Answered<Box<TrackedCommand>>>,
    },
    /// A device asks for its next command.
    Poll {
        /// The device.
        device: DeviceId,
        /// By what [`CommandInput::StopPolling`] names this poll; without one it does not wait.
        number: Option<u64>,
        /// Gets the command.
        reply: Reply<Answered<Option<Box<PublishedCommand>>>>,
    },
    /// A poll waits no longer.
    StopPolling {
        /// The device.
        device: DeviceId,
        /// The poll.
        number: u64,
    },
    /// Have an entry of a device be brought to this value.
    SetDesired {
        /// The device.
        device: DeviceId,
        /// The entry's key; checked.
        key: Box<str>,
        /// JSON text; `None` deletes the entry.
        value: Option<Box<str>>,
        /// Gets the entry.
        reply: Reply<Answered<Box<DesiredState>>>,
    },
    /// Lease outcomes of commands that are due.
    LeaseOutcomes {
        /// The lane.
        lane: OutcomeLane,
        /// Most to lease.
        max: usize,
        /// Gets them; fewer than `max` when there are no more.
        reply: Reply<Vec<OutcomeDue>>,
    },
    /// An outcome was told, or not.
    OutcomeTold {
        /// What was shown for it.
        reservation: Reservation,
        /// What came of it.
        result: SendResult,
        /// Told when it is durable.
        reply: Reply<()>,
    },
}

impl From<CommandInput> for DeviceInput {
    fn from(input: CommandInput) -> Self {
        Self::Commands(input)
    }
}
