//! Everything that one step of a partition changes, kept whole or not at all.

use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, PartitionId, Timestamp, Value, WayIn};

use crate::{
    Attempt, Client, Delivery, DeliveryKey, DeliveryProgress, DeviceProfile, DeviceSlot, DeviceState, Event,
    JobHead, JobId, Pair, PartitionHead,
};

/// The changes of one step. Applied in order, atomically, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Whose step it was.
    pub partition: PartitionId,
    /// Counters and clocks after it; `head.seq` numbers the batch and `head.now` is the time of all its changes.
    pub head: PartitionHead,
    /// The changes.
    pub ops: Vec<Op>,
}

impl Batch {
    /// An empty batch; its head is filled in when it is sealed.
    #[must_use]
    pub fn new(partition: PartitionId) -> Self {
        Self { partition, head: PartitionHead::default(), ops: Vec::new() }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A sign of life, with or without a reading: the hot one, and for an equal report the only one.
    Sign(Sign),
    /// A device's state is now this.
    PutState(DeviceSlot, DeviceState),
    /// A device is registered, or its profile is now this. Its links are its `clients`; the index by client follows them.
    PutDevice(Box<DeviceProfile>),
    /// A device is gone, with its state, pairs, readings and events.
    DeleteDevice(DeviceId, DeviceSlot),
    /// An event happened.
    PutEvent(Box<Event>),
    /// What a client was not told of a device is now this.
    PutPair(Box<Pair>),
    /// A client was told all of a device.
    DeletePair(DeviceSlot, Incarnation),
    /// A delivery is new.
    PutDelivery(Box<Delivery>),
    /// A delivery has come this far.
    PutProgress(DeliveryKey, DeliveryProgress),
    /// An attempt was made.
    PutAttempt(Attempt),
    /// A job is new, or stands elsewhere.
    PutJob(Box<JobHead>),
    /// A job is done, dead or cancelled; its body goes with it.
    DeleteJob(JobId),
    /// A job carries this.
    PutJobBody(JobId, Arc<[u8]>),
    /// A client is registered or changed. Registry partition only.
    PutClient(Box<Client>),
    /// A client is gone. Registry partition only.
    DeleteClient(ClientId),
}

/// A sign of life of a device. Its time is the batch's, its attended reading the head's for `way`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sign {
    /// The device.
    pub slot: DeviceSlot,
    /// The way it came in.
    pub way: WayIn,
    /// Readings kept of the device after it; with `reading`, the number of that reading.
    pub readings: u32,
    /// The newest `ts` that any report of the device carried, this one included.
    pub newest_ts: Option<Timestamp>,
    /// What was reported; `None` for a heartbeat or a refused report.
    pub reading: Option<SignReading>,
}

/// The reading in a sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct SignReading {
    /// The report's own `ts`; `None` is the time of receipt.
    pub ts: Option<Timestamp>,
    /// What was reported.
    pub value: Value,
    /// Whether it changed the device's value.
    pub changed: bool,
}
