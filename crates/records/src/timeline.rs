//! The timeline of a device: what happened to it besides its events.

use base::{ClientId, EntityId, Timestamp};

use crate::weight::{RECORD_BYTES, weighs};
use crate::{Attempt, CommandStatus, DeliveryStatus, DeviceSlot};

/// An entry of a device's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineEntry {
    /// The device.
    pub slot: DeviceSlot,
    /// When it happened.
    pub at: Timestamp,
    /// Its number among the partition's entries, modulo 2^32.
    pub number: u32,
    /// What happened.
    pub what: Happening,
}

weighs!(TimelineEntry: |_| RECORD_BYTES);

/// Where an entry stands in the timeline of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineEntryKey {
    /// When it happened.
    pub at: Timestamp,
    /// Its number among the partition's entries, modulo 2^32.
    pub number: u32,
}

impl From<&TimelineEntry> for TimelineEntryKey {
    fn from(entry: &TimelineEntry) -> Self {
        Self { at: entry.at, number: entry.number }
    }
}

/// What happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A session of the device began.
    Connected {
        /// Where the device is.
        address: Option<Box<str>>,
    },
    /// A session of the device ended.
    Disconnected {
        /// Why.
        reason: DisconnectReason,
        /// Where the device was.
        address: Option<Box<str>>,
        /// When it had begun.
        since: Timestamp,
    },
    /// An attempt to deliver a notification ended.
    DeliveryAttempt(EntityId, Box<Attempt>),
    /// A delivery ended.
    Delivery(EntityId, DeliveryStatus),
    /// A command moved on.
    Command {
        /// The command.
        id: EntityId,
        /// To this status.
        status: CommandStatus,
        /// How often it had gone out.
        tries: u32,
    },
    /// A client was linked, or unlinked.
    Link {
        /// The client.
        client: ClientId,
        /// Whether it is linked now.
        linked: bool,
    },
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DisconnectReason {
    /// The client said goodbye.
    ClientDisconnect,
    /// The connection broke.
    ConnectionLost,
    /// The client was silent for too long.
    KeepAlive,
    /// Another connection has its client id.
    TakenOver,
    /// The server stopped.
    ServerStopped,
    /// An operator ended it, or its login.
    Kicked,
    /// The client broke the protocol.
    ProtocolError,
}

base::names! {
    /// Every reason, in the order of their stored numbers.
    pub DisconnectReason: ClientDisconnect = "client_disconnect", ConnectionLost = "connection_lost",
        KeepAlive = "keep_alive", TakenOver = "taken_over", ServerStopped = "server_stopped",
        Kicked = "kicked", ProtocolError = "protocol_error"
}
