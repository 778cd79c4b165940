//! Devices found by what they have in common: a label, a kind, a client.

use std::collections::BTreeSet;

use base::{DeviceId, Kind};
use records::DeviceProfile;
use store::{StoreError, View};

use crate::devices::model::device::Device;
use crate::devices::model::partition::Partition;
use crate::harness::feed::paged;
use crate::harness::violation::{Checked, Invariant};

/// Holds each list against the devices that belong in it. One of which no device has anything is
/// left out.
pub(super) fn check(view: &dyn View, model: &Partition) -> Checked {
    let devices = || model.devices.values();
    let labels: BTreeSet<(&String, &String)> = devices().flat_map(|device| &device.labels).collect();
    for (key, value) in labels {
        let has = |device: &Device| device.labels.get(key) == Some(value);
        check_list(model, &has, |after, limit| view.devices_with((key, value), after, limit))?;
    }
    let kinds: BTreeSet<&String> = devices().map(|device| &device.kind).collect();
    for kind in kinds {
        let name = Kind::new(kind).expect("a device has it");
        let is = |device: &Device| device.kind == *kind;
        check_list(model, &is, |after, limit| view.devices_of_kind(&name, after, limit))?;
    }
    let clients: BTreeSet<_> = devices().flat_map(|device| &device.links).copied().collect();
    for client in clients {
        let is = |device: &Device| device.links.contains(&client);
        check_list(model, &is, |after, limit| view.devices_of(client, after, limit))?;
    }
    Ok(())
}

fn check_list(
    model: &Partition,
    belongs: &dyn Fn(&Device) -> bool,
    read: impl Fn(Option<&DeviceId>, usize) -> Result<Vec<DeviceProfile>, StoreError>,
) -> Checked {
    let found = paged(|after: Option<DeviceId>, limit| {
        let found = read(after.as_ref(), limit)?;
        Ok(found.into_iter().map(|profile| (profile.id.clone(), profile.id)).collect())
    })?;
    let expected: Vec<DeviceId> =
        model.devices.values().filter(|device| belongs(device)).map(|device| device.id.clone()).collect();
    Invariant::AS_THE_MODEL.same("devices that have something in common", &found, &expected)
}
