//! What rollouts and campaigns share of the orders that they give to partitions of devices.

use base::{DeviceId, PartitionId, hash};

use crate::context::EngineContext;

/// What is to be done for a device's turn or pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// Give the device its command.
    Give,
    /// The same, unless it was done before.
    Ensure,
    /// Call the command off, unless it went out.
    TakeBack,
}

/// The partition that carries out orders for a device.
pub(crate) fn partition_of(context: &EngineContext, id: &DeviceId) -> PartitionId {
    hash::device_partition(id, context.kernel.store.partitions())
}
