//! What a partition keeps in memory, streamed: devices with state and signs of life, or queues with their counts, then what
//! belongs to them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use records::{
    Client, DeviceProfile, DeviceSlot, DeviceState, JobHead, Pair, QuarantineKey, Quarantined, Queue,
    QueueCounts, ReportIds, Seen,
};

use super::tables::Table;
use super::view::EmbeddedView;
use crate::codec::{CodecError, Reader, SeenSlice};
use crate::port::{Resident, StoreError};

/// Streams a partition. States and signs of life are read first, in order of slot, as devices are in order of id: a
/// look-up each would take longer than all of them in order.
pub(super) fn load(view: &EmbeddedView, resident: &mut dyn FnMut(Resident)) -> Result<(), StoreError> {
    let mut states = States::read(view)?;
    view.each::<DeviceProfile>(Table::Devices, |_, device| {
        let (state, seen) = (states.take(device.slot), states.seen(view, device.slot)?);
        resident(Resident::Device(Box::new(device), state, seen));
        Ok(())
    })?;
    view.each::<ReportIds>(Table::ReportIds, |key, ids| {
        let slot = slot_of(key).map_err(|error| view.damaged(Table::ReportIds, key, &error))?;
        resident(Resident::ReportIds(slot, Box::new(ids)));
        Ok(())
    })?;
    view.each::<Quarantined>(Table::Quarantine, |_, report| {
        resident(Resident::Quarantined(QuarantineKey::from(report.id), report.cost()));
        Ok(())
    })?;
    view.each::<Pair>(Table::Pairs, |_, pair| {
        if !view.is_deleted(pair.slot)? {
            resident(Resident::Pair(Box::new(pair)));
        }
        Ok(())
    })?;
    queues(view, resident)?;
    view.each::<JobHead>(Table::JobHeads, |_, job| {
        resident(Resident::Job(Box::new(job)));
        Ok(())
    })?;
    view.each::<Client>(Table::Clients, |_, client| {
        resident(Resident::Client(Box::new(client)));
        Ok(())
    })
}

/// Queues with their counts, which are read first, in order.
fn queues(view: &EmbeddedView, resident: &mut dyn FnMut(Resident)) -> Result<(), StoreError> {
    let mut counts = HashMap::new();
    view.each::<QueueCounts>(Table::QueueCounts, |key, of_queue| {
        counts.insert(key.clone(), of_queue);
        Ok(())
    })?;
    view.each::<Queue>(Table::Queues, |key, queue| {
        let counts = counts.remove(key).unwrap_or_default();
        resident(Resident::Queue(Box::new(queue), counts));
        Ok(())
    })
}

/// States and signs of life by slot.
struct States {
    states: HashMap<DeviceSlot, DeviceState>,
    seen: HashMap<u32, Box<SeenSlice>>,
}

impl States {
    fn read(view: &EmbeddedView) -> Result<Self, StoreError> {
        let mut states = HashMap::new();
        view.each::<DeviceState>(Table::States, |key, state| {
            let slot = slot_of(key).map_err(|error| view.damaged(Table::States, key, &error))?;
            states.insert(slot, state);
            Ok(())
        })?;
        Ok(Self { states, seen: HashMap::new() })
    }

    fn take(&mut self, slot: DeviceSlot) -> DeviceState {
        self.states.remove(&slot).unwrap_or_default()
    }

    fn seen(&mut self, view: &EmbeddedView, slot: DeviceSlot) -> Result<Option<Seen>, StoreError> {
        let slice = match self.seen.entry(slot.slice()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(view.seen_slice(slot.slice())?),
        };
        Ok(slice[usize::from(slot.within_slice())])
    }
}

/// The slot that a row's key is.
fn slot_of(key: &[u8]) -> Result<DeviceSlot, CodecError> {
    let mut reader = Reader::new(key);
    let slot = u32::from_be_bytes(reader.array("a slot")?);
    reader.end().map(|()| DeviceSlot(slot))
}
