//! What goes into a device partition.

use std::sync::Arc;

use base::{ClientId, DeviceId, EntityId, Incarnation, Problem, WayIn};
use fleet::{CheckedDevice, CheckedImport, DevicePatch};
use records::{DeviceSlot, Reservation};

use crate::campaigns::{PickOrder, PickReport};
use crate::commands::{NewCommand, TrackedCommand};
use crate::devices::intake::{Report, SlicePart};
use crate::devices::lanes::{AttemptDue, AttemptEnd};
use crate::kernel::idempotency::AnswerForm;
use crate::kernel::reply::{Answered, Reply};
use crate::queries::DeviceDetails;
use crate::rollouts::{OrderReport, RolloutOrder};
use crate::version::OnlyIf;

mod commands;

pub use commands::CommandInput;

/// An input to a device partition. Everything that happens to it comes as one of these.
#[derive(Debug)]
pub enum DeviceInput {
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
        reply: Reply<Answered<DeviceDetails>>,
    },
    /// Register devices, or bring them to what their lines say.
    Import {
        /// Checked, their clients looked up.
        lines: Vec<ToImport>,
        /// Gets what became of each, by its place.
        reply: Reply<Vec<(u32, Answered<ImportOutcome>)>>,
    },
    /// Change what was registered of a device.
    PatchDevice {
        /// The device.
        id: DeviceId,
        /// What to change.
        patch: Box<DevicePatch>,
        /// On which versions of it.
        only_if: OnlyIf,
        /// Gets the device.
        reply: Reply<Answered<DeviceDetails>>,
    },
    /// Remove a device.
    DeleteDevice {
        /// The device.
        id: DeviceId,
        /// On which versions of it.
        only_if: OnlyIf,
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
    /// The client is gone: unlink it from devices and cancel what is pending, a bounded number at a
    /// time.
    SweepClient {
        /// The client.
        client: Incarnation,
        /// Gets whether there is more to sweep.
        reply: Reply<bool>,
    },
    /// Lease due notifications of clients.
    Lease {
        /// The clients, and the most to lease of each.
        wanted: Vec<(Incarnation, usize)>,
        /// Gets them in that order; fewer than wanted of a client that has no more.
        reply: Reply<Vec<Vec<AttemptDue>>>,
    },
    /// Attempts ended.
    AttemptsEnded {
        /// What was shown for each, and how it ended. All are recorded in one batch.
        ended: Arc<[(Reservation, AttemptEnd)]>,
        /// Told when they are durable.
        reply: Reply<()>,
    },
    /// Tell a client again of devices whose newest notification to it has failed for good.
    TellStale {
        /// The client.
        client: Incarnation,
        /// Only of one.
        probe: bool,
    },
    /// Tell a client again of all its devices that have events, a bounded number at a time.
    Resend {
        /// The client.
        client: Incarnation,
        /// Where the call before ended.
        after: Option<DeviceSlot>,
        /// Gets where to go on, if there is more.
        reply: Reply<Option<DeviceSlot>>,
    },
    /// Keep refused reports as they were received.
    Quarantine {
        /// The way they came in.
        way: WayIn,
        /// In order.
        messages: Vec<RefusedMessage>,
        /// Told when they are durable.
        reply: Reply<()>,
    },
    /// Keep a refused report no longer.
    Discard {
        /// The report.
        id: EntityId,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Show the body of a notification that waits for another attempt or has one under way.
    ShowBody {
        /// The device that it tells of.
        slot: DeviceSlot,
        /// The client it is for.
        client: Incarnation,
        /// The notification.
        delivery: EntityId,
        /// Gets it, if it is kept.
        reply: Reply<Option<Arc<[u8]>>>,
    },
    /// Send a delivery again now.
    RetryDelivery {
        /// The delivery.
        id: EntityId,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// What concerns commands to devices, and who is there to take them.
    Commands(CommandInput),
    /// Do what rollouts order.
    RolloutOrders {
        /// The orders.
        orders: Vec<RolloutOrder>,
        /// Gets what became of each.
        reply: Reply<Vec<OrderReport>>,
    },
    /// Do what tasks and campaigns order.
    PickOrders {
        /// The orders.
        orders: Vec<PickOrder>,
        /// Gets what became of each.
        reply: Reply<Vec<PickReport>>,
    },
    /// About reports that are gathered for copies.
    Gathered(GatheredInput),
    /// What a request asks that may come again.
    Repeatable {
        /// What to do, and how it is answered.
        act: Repeatable,
        /// Gets the answer in that form.
        reply: Reply<Answered<Arc<[u8]>>>,
    },
}

/// What may be asked of devices by requests that may come again.
#[derive(Debug)]
pub enum Repeatable {
    /// Register a device.
    CreateDevice(Box<CheckedDevice>, AnswerForm<DeviceDetails>),
    /// Send a delivery again now.
    RetryDelivery(EntityId, AnswerForm<()>),
    /// Give a device a command.
    SendCommand(DeviceId, Box<NewCommand>, AnswerForm<TrackedCommand>),
    /// Try a command anew.
    RetryCommand(EntityId, AnswerForm<()>),
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

/// A report that was refused, as it was received.
#[derive(Clone, Debug)]
pub struct RefusedMessage {
    /// The routing hash of its id. What was refused together has the same: of the first one's
    /// device, or of what was received.
    pub routing: u32,
    /// Who it is from, if that can be said.
    pub device: Option<DeviceId>,
    /// The topic it was published to.
    pub topic: Option<String>,
    /// Why it was refused.
    pub problem: Problem,
    /// What was received.
    pub payload: Vec<u8>,
    /// More was received, and cut off.
    pub cut: bool,
}

/// A line of an import.
#[derive(Debug)]
pub struct ToImport {
    /// Its place among all.
    pub index: u32,
    /// The device.
    pub import: CheckedImport,
    /// The clients that it names.
    pub clients: Option<Vec<LinkedClient>>,
}

/// What became of an imported device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// It is new.
    Created,
    /// It was registered already.
    Updated,
}

/// A client as a device partition knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedClient {
    /// The registration.
    pub incarnation: Incarnation,
    /// Its id, for the history of deliveries.
    pub id: ClientId,
}

/// What is asked about reports that are gathered for copies.
#[derive(Debug)]
pub enum GatheredInput {
    /// The stream of a copy has the gathered reports in front of this number.
    Taken {
        /// Names the gathered reports.
        gather: Incarnation,
        /// The number behind the last one.
        next: u64,
        /// Told when their rows are gone.
        reply: Reply<()>,
    },
    /// Delete what was gathered for copies that are gone.
    Forget {
        /// Whether there is more of it.
        reply: Reply<bool>,
    },
}
