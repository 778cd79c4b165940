//! An index that is filled with all devices of a partition at once. They come in whatever order,
//! and without the price of putting each into its place.

use records::{Connection, DeviceProfile};

use super::{FleetIndex, SlotSet, at, of_connection};

/// An index that gets its devices. Nothing can be asked of it before it has all.
#[derive(Debug, Default)]
pub struct LoadingIndex(FleetIndex);

impl LoadingIndex {
    /// Adds a device. Each comes once.
    pub fn add(&mut self, profile: &DeviceProfile, connection: Connection) {
        let (index, slot) = (&mut self.0, profile.slot.0);
        index.all.gather(slot);
        index.ids.put(slot, profile.id.as_str());
        at(&mut index.kinds, profile.kind.as_str()).gather(slot);
        for (key, value) in &profile.labels {
            let label = at(&mut index.labels, key);
            label.with.gather(slot);
            at(&mut label.values, value).gather(slot);
        }
        for client in &profile.clients {
            index.clients.entry(*client).or_default().gather(slot);
        }
        index.connections[of_connection(connection)].gather(slot);
    }

    /// The index of these devices: none of them is connected, and each is answering.
    #[must_use]
    pub fn loaded(mut self) -> FleetIndex {
        let FleetIndex { all, kinds, labels, clients, connections, .. } = &mut self.0;
        let values = labels.values_mut().flat_map(|label| label.values.values_mut().chain([&mut label.with]));
        let others = kinds.values_mut().chain(clients.values_mut()).chain(connections).chain([all]);
        values.chain(others).for_each(SlotSet::gathered);
        self.0
    }
}
