//! What the engine has for commands: who carries them, who is there to take them, and the
//! partitions that they concern.

use std::sync::Arc;

use base::{DeviceId, EntityId, PartitionId};

use super::Engine;
use crate::devices::input::{CommandInput, DeviceInput};
use crate::devices::lanes::DueWork;
use crate::devices::sessions::PresenceChange;
use crate::kernel::partition_handle::{NotAccepting, PartitionHandle};
use crate::outcomes::OutcomeLane;
use crate::{CommandCalls, Downlink, FleetIndexes, Presence};

impl Engine {
    /// The calls about commands.
    #[must_use]
    pub fn commands(&self) -> CommandCalls {
        CommandCalls::new(self.clone())
    }

    /// Has commands carried to devices by this one. There is one: a second is not taken.
    pub fn carry_commands_by(&self, downlink: Arc<dyn Downlink>) {
        self.shared.context.devices.carry_commands_by(downlink);
    }

    /// Where the listener tells who is there.
    #[must_use]
    pub fn presence(&self) -> Presence {
        Presence::new(self.clone())
    }

    /// The handle of a device's partition.
    pub(crate) fn partition_of_device(&self, id: &DeviceId) -> &PartitionHandle<DeviceInput> {
        self.partition_with(id)
    }

    /// The partition of what belongs to a device.
    pub(crate) fn partition_of_entity(&self, id: EntityId) -> &PartitionHandle<DeviceInput> {
        &self.shared.partitions[usize::from(self.partition_of(id.routing).0)]
    }

    /// Lanes with outcomes of commands that are due.
    #[must_use]
    pub fn due_outcomes(&self) -> &DueWork<(PartitionId, OutcomeLane)> {
        &self.shared.context.devices.outcomes
    }

    /// The devices by their attributes.
    #[must_use]
    pub fn fleet(&self) -> &FleetIndexes {
        &self.shared.context.devices.fleet
    }

    /// An edge tells of its sessions: it is noted at once, and durable on return.
    pub(crate) async fn tell_presence(
        &self,
        partition: PartitionId,
        change: PresenceChange,
    ) -> Result<(), NotAccepting> {
        self.shared.context.devices.note_presence(partition, &change);
        let handle = &self.shared.partitions[usize::from(partition.0)];
        handle.ask(|reply| CommandInput::Presence { change: change.clone(), reply }.into()).await?;
        self.shared.context.tell_rollouts_who_came(&change);
        Ok(())
    }
}
