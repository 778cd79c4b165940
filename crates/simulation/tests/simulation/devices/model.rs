//! The naive model: what the server should have, after the inputs that it took.
//!
//! It shares ids and the types of inputs with production, never its code. It follows every step as
//! it is made, and goes back with the store when batches are lost. So it never has to guess what
//! became of an input.

pub(crate) mod breaker;
mod counting;
mod deliveries;
pub(crate) mod device;
pub(crate) mod evidence;
mod importing;
mod listening;
mod loading;
pub(crate) mod notifications;
pub(crate) mod partition;
pub(crate) mod quarantine;
pub(crate) mod registry;
mod reports;
mod retention;
mod stale;

use base::{DeviceId, EntityId, Incarnation, Timestamp};
use engine::devices::input::ImportOutcome;
use records::DeviceSlot;

use device::Shown;
use registry::KnownClient;

/// What a call should be answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    /// Of a slice's reports these are refused, with their codes.
    Refused(Vec<(u32, &'static str)>),
    Device(Result<Shown, &'static str>),
    Client(Result<KnownClient, &'static str>),
    Done(Result<(), &'static str>),
    Swept(bool),
    /// A client was told again of some devices: where to go on.
    Resent(Option<DeviceSlot>),
    Leased(Vec<ExpectedAttempt>),
    /// What became of each line of an import, by its place.
    Imported(Vec<(u32, Result<ImportOutcome, &'static str>)>),
    /// Refused reports are in quarantine.
    Kept,
}

/// An attempt that was leased.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpectedAttempt {
    pub(crate) device: DeviceId,
    pub(crate) client: Incarnation,
    pub(crate) delivery: EntityId,
    pub(crate) number: u32,
    pub(crate) due: Timestamp,
    /// When the one before it for the same device and client ended.
    pub(crate) free_since: Timestamp,
    pub(crate) lease_end: Timestamp,
    pub(crate) body: serde_json::Value,
}
