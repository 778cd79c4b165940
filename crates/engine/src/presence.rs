//! Which devices have live sessions, and which can be reached, as the MQTT listener tells it.
//!
//! A device is connected while a session of its own lives. It is reachable while a live session has
//! a subscription that covers the topic of its commands.

use std::sync::Arc;

use base::{DeviceId, PartitionId, hash};
use records::DisconnectReason;

use crate::Engine;
use crate::devices::intake::NotAccepting;
use crate::devices::sessions::PresenceChange;

mod kind_set;

pub use kind_set::KindSet;

/// A live session of an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// No other session of this process has it.
    pub number: u64,
    /// Where its client is.
    pub address: Option<Box<str>>,
    /// The label of its login, where that says for which devices it speaks: a key and a value. A
    /// device that loses the label is not connected by this session any more.
    pub label: Option<Arc<(Box<str>, Box<str>)>>,
}

/// Devices that a session reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Those of these kinds.
    pub kind: KindSet,
    /// Among those, whom its login speaks for.
    pub login: LoginDevices,
}

impl From<KindSet> for Reach {
    fn from(kind: KindSet) -> Self {
        Self { kind, login: LoginDevices::All }
    }
}

/// The devices that a login speaks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LoginDevices {
    /// All.
    #[default]
    All,
    /// This one.
    Device(DeviceId),
    /// Those whose ids begin with this.
    Prefix(Box<str>),
    /// Those with this label; as the labels are when something goes out.
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

    /// A session of a device began. It is the device's own only if that is of one of these kinds.
    ///
    /// # Errors
    /// When the server is not accepting; the same for every call.
    pub async fn connected(
        &self,
        device: DeviceId,
        kinds: KindSet,
        session: Session,
    ) -> Result<(), NotAccepting> {
        let since = self.engine.clock().now();
        self.tell(PresenceChange::Connected(device.clone(), kinds, session, since), &device).await
    }

    /// A session of a device ended, and with it its reach.
    pub async fn disconnected(
        &self,
        device: DeviceId,
        session: u64,
        reason: DisconnectReason,
    ) -> Result<(), NotAccepting> {
        self.tell(PresenceChange::Disconnected(device.clone(), session, reason), &device).await
    }

    /// A session has, or no longer has, a subscription that names the topic of this device's
    /// commands, in place of what it said before.
    pub async fn reaches(
        &self,
        device: DeviceId,
        session: u64,
        reach: Option<Reach>,
    ) -> Result<(), NotAccepting> {
        self.tell(PresenceChange::Reaches(device.clone(), session, reach), &device).await
    }

    /// A session reaches devices by wildcards: all that it reaches so, in place of what it said
    /// before; nothing when it has ended.
    pub async fn reaches_widely(&self, session: u64, reach: Vec<Reach>) -> Result<(), NotAccepting> {
        let reach: Arc<[Reach]> = reach.into();
        for partition in (0..self.engine.store().partitions()).map(PartitionId) {
            let change = PresenceChange::ReachesWidely(session, Arc::clone(&reach));
            self.engine.tell_presence(partition, change).await?;
        }
        Ok(())
    }

    async fn tell(&self, change: PresenceChange, device: &DeviceId) -> Result<(), NotAccepting> {
        let partition = hash::device_partition(device, self.engine.store().partitions());
        self.engine.tell_presence(partition, change).await
    }
}
