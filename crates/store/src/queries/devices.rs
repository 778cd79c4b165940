//! Devices by id and by their indexes, their states, counts, and clients.

use base::hash::label_hash;
use base::{ClientId, DeviceId, Incarnation, Kind};
use records::{Client, CountsKey, DeviceProfile, DeviceSlot, DeviceState, HourlyCounts};

use super::index_of;
use crate::codec::key::{self, TableKey};
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};
use crate::table::Table;

impl dyn View + '_ {
    /// A device's profile.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn device(&self, id: &DeviceId) -> Result<Option<DeviceProfile>, StoreError> {
        self.record(&key::device(id))
    }

    /// A device's state; the default for one that never had any.
    pub fn state(&self, slot: DeviceSlot) -> Result<DeviceState, StoreError> {
        self.record(&key::slot(slot)).map(Option::unwrap_or_default)
    }

    /// Devices in order of id.
    pub fn devices(&self, after: Option<&DeviceId>, limit: usize) -> Result<Vec<DeviceProfile>, StoreError> {
        let range = KeyRange::all().after(after.map(key::device));
        self.records(range, true)?.take(limit).collect()
    }

    /// Devices linked to a client, in order of id.
    pub fn devices_of(
        &self,
        client: Incarnation,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let of = (Table::DevicesByClient, &*key::incarnation(client));
        self.devices_in(of, after, limit, |device| device.clients.contains(&client))
    }

    /// Devices with a label, in order of id.
    pub fn devices_with(
        &self,
        (name, value): (&str, &str),
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let of = (Table::DevicesByLabel, &*key::label(label_hash(name, value), &[]));
        let has = |device: &DeviceProfile| device.labels.iter().any(|(k, v)| k == name && v == value);
        self.devices_in(of, after, limit, has)
    }

    /// Devices of a kind, in order of id.
    pub fn devices_of_kind(
        &self,
        kind: &Kind,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let of = (Table::DevicesByKind, &*key::kind(kind, &[]));
        self.devices_in(of, after, limit, |device| device.kind == *kind)
    }

    /// Devices that an index names behind `prefix`, as far as their profiles agree: it also holds
    /// stale rows.
    fn devices_in(
        &self,
        (table, prefix): (Table, &[u8]),
        after: Option<&DeviceId>,
        limit: usize,
        agrees: impl Fn(&DeviceProfile) -> bool,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let last = after.map(|id| {
            let mut key = TableKey::from_slice(prefix);
            key.extend_from_slice(id.as_str().as_bytes());
            key
        });
        let index = index_of::<DeviceProfile>(table);
        let mut devices = Vec::new();
        for row in self.rows(table, KeyRange::of(prefix).after(last), true)? {
            if devices.len() >= limit {
                break;
            }
            let (key, value) = row?;
            let device = self.named::<DeviceProfile>(index, &key, &value)?;
            devices.extend(device.filter(|device| agrees(device)));
        }
        Ok(devices)
    }

    /// The counts of a day.
    pub fn counts(&self, of: CountsKey) -> Result<Option<HourlyCounts>, StoreError> {
        if CountsKey::start_of(of.day) < self.head().kept_from.events {
            return Ok(None);
        }
        self.record(&key::counts(of))
    }

    /// Clients in order of id; registry partition only.
    pub fn clients(&self, after: Option<&ClientId>, limit: usize) -> Result<Vec<Client>, StoreError> {
        let range = KeyRange::all().after(after.map(key::client));
        self.records(range, true)?.take(limit).collect()
    }
}
