//! What was handed in, as the model understands it.

use base::{DeviceId, EntityId, Incarnation};
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
    Orders { call: CallId, orders: Vec<MeantOrder> },
}

/// An order about a device of a rollout.
#[derive(Clone, Debug)]
pub(crate) struct MeantOrder {
    pub(crate) device: DeviceId,
    pub(crate) rollout: Incarnation,
    pub(crate) turn: u32,
    /// Its command is taken back; else it is given.
    pub(crate) takes_back: bool,
}

/// An input to the registry.
#[derive(Clone, Debug)]
pub(crate) enum MeantRollout {
    /// Somebody asks for something, and is answered.
    Asked { call: CallId },
    /// The courier has something to tell.
    Update,
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
            | Self::Said { call, .. }
            | Self::Orders { call, .. } => Some(*call),
            Self::StopPolling => None,
        }
    }
}
