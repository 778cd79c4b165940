//! Which devices have live sessions, and which can be reached, as the MQTT listener tells it.
//!
//! A device is connected while a session of its own lives, and reachable while a live session has
//! a subscription that covers the topic of its commands.

use base::{DeviceId, Kind};
use records::DisconnectReason;

use crate::Engine;
use crate::devices::intake::NotAccepting;

/// A live session of an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// No other session of this process has it.
    pub number: u64,
    /// Where its client is.
    pub address: Option<Box<str>>,
}

/// Devices that a session reaches by a wildcard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Those of this kind; all if `None`.
    pub kind: Option<Kind>,
    /// Among those, whom its login speaks for.
    pub who: Who,
}

/// The devices that a login speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// All.
    Everybody,
    /// This one.
    Device(DeviceId),
    /// Those whose ids begin with this.
    Prefix(Box<str>),
    /// Those with this label.
    Label(Box<str>, Box<str>),
}

/// Tells the engine who is there. Cheap to clone. Every call returns when what it says is durable,
/// and shown by [`crate::Queries`].
#[derive(Clone, Debug)]
pub struct Presence {
    engine: Engine,
}

impl Presence {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// A session of a device began.
    ///
    /// # Errors
    /// When the server is not accepting; the same for every call.
    pub async fn connected(&self, device: DeviceId, session: Session) -> Result<(), NotAccepting> {
        let _ = (&self.engine, device, session);
        todo!()
    }

    /// A session of a device ended, and with it its reach.
    pub async fn disconnected(
        &self,
        device: DeviceId,
        session: u64,
        reason: DisconnectReason,
    ) -> Result<(), NotAccepting> {
        let _ = (device, session, reason);
        todo!()
    }

    /// A session has, or no longer has, a subscription that names the topic of this device's commands.
    pub async fn reaches(&self, device: DeviceId, session: u64, reachable: bool) -> Result<(), NotAccepting> {
        let _ = (device, session, reachable);
        todo!()
    }

    /// A session reaches devices by wildcards: all that it reaches so, in place of what it said
    /// before; nothing when it has ended.
    pub async fn reaches_widely(&self, session: u64, reach: Vec<Reach>) -> Result<(), NotAccepting> {
        let _ = (session, reach);
        todo!()
    }
}
