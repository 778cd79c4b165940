//! What was handed in, as the model understands it.

use base::{DeviceId, EntityId};
use engine::devices::sessions::PresenceChange;

use crate::harness::calls::CallId;

/// An input to a partition of devices.
#[derive(Clone, Debug)]
pub(crate) enum Meant {
    Create { call: CallId, device: DeviceId },
    Send { call: CallId, device: DeviceId, number: u64, key: Option<String> },
    Cancel { call: CallId, id: EntityId },
    Retry { call: CallId, id: EntityId },
    Await { call: CallId },
    Poll { call: CallId },
    StopPolling,
    Presence { call: CallId, change: PresenceChange },
    Said { call: CallId, device: DeviceId, id: EntityId, said: Word },
}

/// What a device says of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Whether it did it.
    Answer(bool),
    AtWork,
}

impl Meant {
    /// The call that is answered.
    pub(crate) fn call(&self) -> Option<CallId> {
        match self {
            Self::Create { call, .. }
            | Self::Send { call, .. }
            | Self::Cancel { call, .. }
            | Self::Retry { call, .. }
            | Self::Await { call }
            | Self::Poll { call }
            | Self::Presence { call, .. }
            | Self::Said { call, .. } => Some(*call),
            Self::StopPolling => None,
        }
    }
}
