//! What the outside sees of a step, held until its batch is durable. Dropping an effect tells its receiver that the outcome is
//! unknown.

use base::{ClientId, Incarnation, PartitionId, Problem};
use records::Client;
use tokio::sync::oneshot;

use crate::Directory;
use crate::intake::SlicePart;
use crate::lanes::{AttemptDue, DueLanes};
use crate::queries::Device;

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

    fn send(self, answer: T) {
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
    /// A client was registered or changed, or that was refused.
    Client(Reply<Answered<Client>>, Answered<Box<Client>>),
    /// Something was done, or refused.
    Done(Reply<Answered<()>>, Answered<()>),
    /// A sweep went this far; whether there is more.
    Swept(Reply<bool>, bool),
    /// Attempts may be made.
    Leased(Reply<Vec<AttemptDue>>, Vec<AttemptDue>),
    /// Lanes have due work.
    LanesDue(PartitionId, Vec<Incarnation>),
    /// A client is now this.
    DirectoryPut(Box<Client>),
    /// A client is gone.
    DirectoryRemove(ClientId),
}

impl Effect {
    /// Lets the effect go.
    pub fn release(self, directory: &Directory, lanes: &DueLanes) {
        match self {
            Self::Accepted(part) => part.finish(),
            Self::Device(reply, answer) => reply.send(answer.map(|device| *device)),
            Self::Client(reply, answer) => reply.send(answer.map(|client| *client)),
            Self::Done(reply, answer) => reply.send(answer),
            Self::Swept(reply, more) => reply.send(more),
            Self::Leased(reply, due) => reply.send(due),
            Self::LanesDue(partition, clients) => {
                lanes.mark(clients.into_iter().map(|client| (partition, client)));
            }
            Self::DirectoryPut(client) => directory.put(*client),
            Self::DirectoryRemove(id) => directory.remove(&id),
        }
    }
}
