//! What the outside sees of a step, held until its batch is durable. Dropping an effect tells its receiver that the outcome is
//! unknown.

use std::sync::Arc;
use std::time::Instant;

use base::id::DELIVERY_ID_PREFIX;
use base::{ClientId, DeviceId, EntityId, Incarnation, PartitionId, Problem};
use records::{Client, DeviceSlot};
use tokio::sync::oneshot;

use crate::devices::input::Imported;
use crate::devices::intake::SlicePart;
use crate::devices::lanes::AttemptDue;
use crate::devices::stats::DeviceStanding;
use crate::kernel::runner::Outside;
use crate::queries::Device;
use crate::queues::QueueEffect;

/// An answer, and who waits for it.
#[derive(Debug)]
pub struct Reply<T> {
    to: oneshot::Sender<T>,
}

impl<T> Reply<T> {
    /// A reply, and where its answer arrives: an error there says that the outcome is unknown.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<T>) {
        let (to, from) = oneshot::channel();
        (Self { to }, from)
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.to.is_closed()
    }

    pub(crate) fn send(self, answer: T) {
        // Nobody waits any more: the caller has gone, and what was done stays done.
        let _gone = self.to.send(answer);
    }
}

/// The answer to a call.
pub(crate) type Answered<T> = Result<T, Problem>;

/// What the outside may see once it is durable.
#[derive(Debug)]
pub enum Effect {
    /// A slice's part is done: its reports can be acknowledged.
    Accepted(SlicePart),
    /// A device was registered or changed, or that was refused.
    Device(Reply<Answered<Device>>, Answered<Box<Device>>),
    /// Devices were imported.
    Imported(Reply<Vec<(u32, Answered<Imported>)>>, Vec<(u32, Answered<Imported>)>),
    /// A client was registered or changed, or that was refused.
    Client(Reply<Answered<Client>>, Answered<Box<Client>>),
    /// What a request that may come again is answered, in its form.
    Written(Reply<Answered<Arc<[u8]>>>, Answered<Arc<[u8]>>),
    /// Something was done, or refused.
    Done(Reply<Answered<()>>, Answered<()>),
    /// Refused reports, or the ends of attempts, are kept.
    Kept(Reply<()>),
    /// A sweep went this far; whether there is more.
    Swept(Reply<bool>, bool),
    /// Attempts may be made.
    Leased(Reply<Vec<AttemptDue>>, Vec<AttemptDue>),
    /// Lanes have due work.
    LanesDue(PartitionId, Vec<Incarnation>),
    /// A client has stale devices in a partition, or none any more.
    Stale(PartitionId, Incarnation, bool),
    /// A partition has more stale devices of a client than it told of at once.
    StaleGoOn(PartitionId, Incarnation),
    /// A notification got through to a client, or it is enabled again.
    Reached(Incarnation),
    /// A notification failed for good.
    GivenUp(Box<GivenUp>),
    /// A client is told again of its devices up to this one.
    Resent(Reply<Option<DeviceSlot>>, Option<DeviceSlot>),
    /// A client is now this.
    DirectoryPut(Box<Client>),
    /// A client is gone.
    DirectoryRemove(ClientId),
    /// A partition of devices stands otherwise than before.
    Stands(PartitionId, DeviceStanding),
    /// Something of a queue.
    Queue(QueueEffect),
}

/// A notification that failed for good, for the log.
#[derive(Debug)]
pub struct GivenUp {
    pub(crate) delivery: EntityId,
    pub(crate) client: Incarnation,
    pub(crate) device: Option<DeviceId>,
    pub(crate) attempts: u32,
}

impl GivenUp {
    fn log(&self, outside: &Outside) {
        let Some(left_out) = outside.given_up.take(self.client, Instant::now()) else { return };
        let client = outside.directory.get(self.client);
        tracing::warn!(
            delivery = self.delivery.to_text(DELIVERY_ID_PREFIX),
            client = client.as_ref().map(|client| client.id.as_str()),
            device = self.device.as_ref().map(DeviceId::as_str),
            attempts = self.attempts,
            left_out,
            "a notification failed for good"
        );
    }
}

impl Effect {
    /// Lets the effect go.
    pub fn release(self, outside: &Outside) {
        let Outside { directory, lanes, stale, .. } = outside;
        match self {
            Self::Accepted(part) => part.finish(),
            Self::Device(reply, answer) => reply.send(answer.map(|device| *device)),
            Self::Imported(reply, outcomes) => reply.send(outcomes),
            Self::Client(reply, answer) => reply.send(answer.map(|client| *client)),
            Self::Written(reply, answer) => reply.send(answer),
            Self::Done(reply, answer) => reply.send(answer),
            Self::Kept(reply) => reply.send(()),
            Self::Swept(reply, more) => reply.send(more),
            Self::Leased(reply, due) => reply.send(due),
            Self::LanesDue(partition, clients) => {
                lanes.mark(clients.into_iter().map(|client| (partition, client)));
            }
            Self::Stale(partition, client, is) => stale.set(partition, client, is, outside.clock.now()),
            Self::StaleGoOn(partition, client) => stale.go_on(partition, client),
            Self::Reached(client) => stale.reached(client),
            Self::GivenUp(given_up) => given_up.log(outside),
            Self::Resent(reply, next) => reply.send(next),
            Self::DirectoryPut(client) => directory.put(*client),
            Self::DirectoryRemove(id) => directory.remove(&id),
            Self::Stands(partition, standing) => outside.device_standings().set(partition, standing),
            Self::Queue(effect) => effect.release(outside),
        }
    }
}
