//! What was handed in, as the model understands it: the same content as the production input,
//! without its replies.

use base::{ClientId, DeviceId, EntityId, Incarnation, Timestamp, WayIn};
use engine::devices::input::RefusedMessage;
use engine::records::DeviceSlot;
use engine::{AttemptOutcome, ClientPatch, DevicePatch, ImportDevice, NewClient, NewDevice, Report};

use crate::harness::calls::CallId;

/// An input to a device partition.
#[derive(Clone, Debug)]
pub(crate) enum Meant {
    Reports { call: CallId, way: WayIn, reports: Vec<(u32, Report)> },
    Attend { way: WayIn, attended: bool },
    Create { call: CallId, device: NewDevice },
    Patch { call: CallId, id: DeviceId, patch: DevicePatch },
    Delete { call: CallId, id: DeviceId },
    Link { call: CallId, id: DeviceId, client: (Incarnation, ClientId), linked: bool },
    Sweep { call: CallId, client: Incarnation },
    Lease { call: CallId, client: Incarnation, max: usize },
    Ended { attempt: AttemptRef, at: Timestamp, took_ms: u32, answer: AttemptOutcome },
    Retry { call: CallId, id: EntityId },
    Import { call: CallId, lines: Vec<ImportLine> },
    Quarantine { call: CallId, way: WayIn, messages: Vec<RefusedMessage> },
    Discard { call: CallId, id: EntityId },
    TellStale { client: Incarnation, probe: bool },
    Resend { call: CallId, client: Incarnation, after: Option<DeviceSlot> },
}

/// A line of an import, its clients looked up.
#[derive(Clone, Debug)]
pub(crate) struct ImportLine {
    pub(crate) index: u32,
    pub(crate) id: DeviceId,
    pub(crate) asked: ImportDevice,
    pub(crate) clients: Option<Vec<Incarnation>>,
}

/// An attempt, as everybody outside knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AttemptRef {
    pub(crate) device: DeviceId,
    pub(crate) client: Incarnation,
    pub(crate) delivery: EntityId,
    /// Counts the delivery's attempts from 1.
    pub(crate) number: u32,
}

/// An input to the registry partition.
#[derive(Clone, Debug)]
pub(crate) enum MeantClient {
    Create { call: CallId, client: NewClient, secret: [u8; 32] },
    Patch { call: CallId, id: ClientId, patch: ClientPatch },
    Rotate { call: CallId, id: ClientId, secret: [u8; 32] },
    Disable { call: CallId, client: Incarnation, url: String },
    Delete { call: CallId, id: ClientId },
}
