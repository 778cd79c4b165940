//! What devices and events say of each other.
//!
//! What may be missing is missing on purpose. A client that was deleted leaves links that are swept
//! later. What a partition keeps no longer is removed some rows at a time.

use base::hash::device_partition;
use base::{DeviceId, PartitionId};
use records::{DeviceProfile, DeviceSlot, DeviceState, Event, ReportIds};

use super::rows::{CheckedPartition, RowCheck, Wrong, same_key, slot_in};
use crate::codec::decode_seen_slice;
use crate::codec::key;
use crate::record::Record;
use crate::table::Table;

impl RowCheck<'_, '_> {
    /// Everything of a partition of devices, or of the registry.
    pub(super) fn partition_of_devices(&mut self, within: &mut CheckedPartition) {
        self.devices(within);
        self.of_slots::<DeviceState>(within);
        self.of_slots::<ReportIds>(within);
        self.seen(within);
        self.events(within);
        self.states_and_deliveries(within);
        self.commands(within);
        self.beside_commands(within);
        self.readings(within);
        self.gathered(within);
        self.rows(Table::Deleted, within.partition, |_, key, _| {
            let slot = slot_in(key)?;
            within.was_given(slot)?;
            if within.has(slot) { Err(format!("slot {} is that of a device", slot.0)) } else { Ok(()) }
        });
    }

    fn devices(&mut self, within: &mut CheckedPartition) {
        let partition = within.partition;
        self.indexed(partition, |check, device: &DeviceProfile| {
            check.belongs(&device.id, partition)?;
            within.take(device.slot)?;
            if device.incarnation.0 >= within.head.next_incarnation {
                return Err(format!("no device ever had incarnation {}", device.incarnation.0));
            }
            device.clients.iter().try_for_each(|client| check.registered.was(*client))
        });
    }

    pub(super) fn belongs(&self, id: &DeviceId, partition: PartitionId) -> Result<(), Wrong> {
        match device_partition(id, self.partitions) {
            right if right == partition => Ok(()),
            right => Err(format!("the device belongs to partition {right}")),
        }
    }

    /// Rows by slot.
    fn of_slots<R: Record<Place = DeviceSlot>>(&mut self, within: &CheckedPartition) {
        self.records(R::TABLE, within.partition, |_, key, _: R| {
            let slot = slot_in(key)?;
            same_key(key, &R::key(&slot))?;
            within.is_there(slot)
        });
    }

    fn seen(&mut self, within: &CheckedPartition) {
        self.rows(Table::Seen, within.partition, |_, key, row| {
            let slice = slot_in(key)?.0;
            same_key(key, &key::slice(slice))?;
            let seen = decode_seen_slice(row).map_err(|error| error.to_string())?;
            let seen = (0..).zip(seen.iter()).filter(|(_, seen)| seen.is_some());
            let mut slots = seen.map(|(place, _)| slice.saturating_mul(DeviceSlot::SLICE_DEVICES) + place);
            slots.try_for_each(|slot| within.is_there(DeviceSlot(slot)))
        });
    }

    fn events(&mut self, within: &CheckedPartition) {
        let partition = within.partition;
        self.indexed(partition, |check, event: &Event| {
            check.belongs(&event.device, partition)?;
            within.was_given(event.slot)
        });
    }
}
