//! What goes into a device partition.

use base::{ClientId, DeviceId, EntityId, Incarnation, WayIn};
use fleet::{CheckedDevice, DevicePatch};
use records::Reservation;

use crate::effect::{Answered, Reply};
use crate::intake::{Report, SlicePart};
use crate::lanes::{AttemptDue, AttemptEnd};
use crate::queries::Device;

/// An input to a device partition. Everything that happens to it comes as one of these.
#[derive(Debug)]
pub enum Input {
    /// A partition's part of a slice of reports.
    Reports {
        /// The way in.
        way: WayIn,
        /// In order.
        reports: Vec<Addressed>,
        /// Told when they are durable.
        part: SlicePart,
    },
    /// A way in listens from now on, or no longer.
    Attend {
        /// The way in.
        way: WayIn,
        /// Whether it listens.
        attended: bool,
    },
    /// Register a device.
    CreateDevice {
        /// Checked.
        device: Box<CheckedDevice>,
        /// Gets the device.
        reply: Reply<Answered<Device>>,
    },
    /// Change what was registered of a device.
    PatchDevice {
        /// The device.
        id: DeviceId,
        /// What to change.
        patch: Box<DevicePatch>,
        /// Gets the device.
        reply: Reply<Answered<Device>>,
    },
    /// Remove a device.
    DeleteDevice {
        /// The device.
        id: DeviceId,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Link a device to a client, or unlink them.
    Link {
        /// The device.
        id: DeviceId,
        /// The client.
        client: LinkedClient,
        /// Whether they are to be linked.
        linked: bool,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// The client is gone: unlink it from devices and cancel what is pending, a bounded number at a time.
    SweepClient {
        /// The client.
        client: Incarnation,
        /// Gets whether there is more to sweep.
        reply: Reply<bool>,
    },
    /// Lease due notifications of a client.
    Lease {
        /// The client.
        client: Incarnation,
        /// Most to lease.
        max: usize,
        /// Gets them; fewer than `max` when there are no more.
        reply: Reply<Vec<AttemptDue>>,
    },
    /// An attempt ended.
    AttemptEnded {
        /// What was shown for it.
        reservation: Reservation,
        /// How.
        end: AttemptEnd,
    },
    /// Send a delivery again now.
    RetryDelivery {
        /// The delivery.
        id: EntityId,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
}

/// A report with what its way to the partition already cost.
#[derive(Debug)]
pub struct Addressed {
    /// Its place in the slice.
    pub index: u32,
    /// [`base::hash::device_hash`] of the device id.
    pub hash: u64,
    /// The report.
    pub report: Report,
}

/// A client as a device partition knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedClient {
    /// The registration.
    pub incarnation: Incarnation,
    /// Its id, for the history of deliveries.
    pub id: ClientId,
}
