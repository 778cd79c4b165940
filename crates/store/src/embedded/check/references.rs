//! What devices, events and the quarantine say of each other, and that indexes and rows name each other.
//!
//! What may be missing is missing on purpose: a client that was deleted leaves links that are swept later, and what a partition
//! keeps no longer is removed some rows at a time.

use std::collections::BTreeSet;

use base::hash::device_partition;
use base::{DeviceId, PartitionId};
use records::{
    Counts, DeviceProfile, DeviceSlot, DeviceState, Event, EventKey, QuarantineKey, Quarantined, ReportIds,
};

use super::queues::OF_QUEUES;
use super::rows::{RowCheck, Within, Wrong, same_key, slot_in};
use crate::change::indexed;
use crate::codec::key::{self, Key, Moment};
use crate::codec::{Stored, decode_seen_slice};
use crate::embedded::tables::Table;

/// The indexes over profiles, and what stands before the device's id in their keys.
const INDEXES: [(Table, Prefix); 3] = [
    (Table::DevicesByClient, Prefix::Number),
    (Table::DevicesByLabel, Prefix::Number),
    (Table::DevicesByKind, Prefix::Text),
];

#[derive(Clone, Copy)]
enum Prefix {
    /// Eight bytes.
    Number,
    /// Text and a byte 0.
    Text,
}

impl Prefix {
    fn end(self, key: &[u8]) -> Option<usize> {
        match self {
            Self::Number => (key.len() > 8).then_some(8),
            Self::Text => key.iter().position(|byte| *byte == 0).map(|zero| zero + 1),
        }
    }
}

impl RowCheck<'_, '_> {
    /// Everything of a partition of devices, or of the registry.
    pub(super) fn partition_of_devices(&mut self, within: &mut Within) {
        self.no_rows(within.partition, OF_QUEUES.into_iter());
        self.devices(within);
        for (index, prefix) in INDEXES {
            self.index(within, index, prefix);
        }
        self.of_slots::<DeviceState>(within, Table::States);
        self.of_slots::<ReportIds>(within, Table::ReportIds);
        self.seen(within);
        self.events(within);
        self.pairs_and_deliveries(within);
        self.readings(within);
        self.records(Table::Counts, within.partition, |_, _, _: Counts| Ok(()));
        self.records(Table::Quarantine, within.partition, |_, key, report: Quarantined| {
            same_key(key, &key::moment(QuarantineKey::from(report.id)))
        });
        self.answers(within);
        self.rows(Table::Deleted, within.partition, |_, key, _| {
            let slot = slot_in(key)?;
            within.was_given(slot)?;
            if within.has(slot) { Err(format!("slot {} is that of a device", slot.0)) } else { Ok(()) }
        });
    }

    fn devices(&mut self, within: &mut Within) {
        let partition = within.partition;
        self.records(Table::Devices, partition, |check, key, device: DeviceProfile| {
            same_key(key, &key::device(&device.id))?;
            check.belongs(&device.id, partition)?;
            within.take(device.slot)?;
            if device.incarnation.0 >= within.head.next_incarnation {
                return Err(format!("no device ever had incarnation {}", device.incarnation.0));
            }
            device.clients.iter().try_for_each(|client| check.registered.was(*client))?;
            let rows: BTreeSet<_> = indexed(&device).collect();
            rows.iter().try_for_each(|(table, key)| check.needs(*table, partition, key))
        });
    }

    fn belongs(&self, id: &DeviceId, partition: PartitionId) -> Result<(), Wrong> {
        match device_partition(id, self.partitions) {
            right if right == partition => Ok(()),
            right => Err(format!("the device belongs to partition {right}")),
        }
    }

    /// Every row of an index is asked for by a profile.
    fn index(&mut self, within: &Within, index: Table, prefix: Prefix) {
        self.rows(index, within.partition, |check, key, _| {
            let end = prefix.end(key).ok_or("its key is too short")?;
            let device: Option<DeviceProfile> =
                check.record(Table::Devices, within.partition, &key[end..])?;
            let device = device.ok_or("it names a device that there is not")?;
            let is_asked_for = indexed(&device).any(|(table, row)| (table, &row) == (index, key));
            if is_asked_for { Ok(()) } else { Err(format!("the profile of {} does not say so", device.id)) }
        });
    }

    /// Rows by slot.
    fn of_slots<T: Stored>(&mut self, within: &Within, table: Table) {
        self.records(table, within.partition, |_, key, _: T| {
            let slot = slot_in(key)?;
            same_key(key, &key::slot(slot))?;
            within.is_there(slot)
        });
    }

    fn seen(&mut self, within: &Within) {
        self.rows(Table::Seen, within.partition, |_, key, row| {
            let slice = slot_in(key)?.0;
            same_key(key, &key::slice(slice))?;
            let seen = decode_seen_slice(row).map_err(|error| error.to_string())?;
            let seen = (0..).zip(seen.iter()).filter(|(_, seen)| seen.is_some());
            let mut slots = seen.map(|(place, _)| slice.saturating_mul(DeviceSlot::SLICE_DEVICES) + place);
            slots.try_for_each(|slot| within.is_there(DeviceSlot(slot)))
        });
    }

    fn events(&mut self, within: &Within) {
        let partition = within.partition;
        self.records(Table::Events, partition, |check, key, event: Event| {
            let moment = Moment::from(EventKey::from(event.id));
            same_key(key, &moment.below(&[]))?;
            check.belongs(&event.device, partition)?;
            within.was_given(event.slot)?;
            check.needs(Table::EventsByDevice, partition, &moment.below(&key::slot(event.slot)))
        });
        self.rows(Table::EventsByDevice, partition, |check, key, _| {
            let event: Event = check.named_by(Table::Events, partition, key)?;
            same_slot(key, event.slot)
        });
    }

    /// The record that a row of an index over a feed names.
    pub(super) fn named_by<T: Stored>(
        &self,
        feed: Table,
        partition: PartitionId,
        key: &Key,
    ) -> Result<T, Wrong> {
        let moment = Moment::at_end_of(key).map_err(|error| error.to_string())?;
        let record = self.record(feed, partition, &moment.below(&[]))?;
        record.ok_or_else(|| format!("what it names is not in {}", feed.name()))
    }
}

/// Whether a row of an index by device stands under the device of its record.
pub(super) fn same_slot(key: &Key, slot: DeviceSlot) -> Result<(), Wrong> {
    if slot_in(key)? == slot { Ok(()) } else { Err(format!("what it names is of slot {}", slot.0)) }
}
