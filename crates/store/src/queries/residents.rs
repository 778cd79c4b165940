//! What a partition keeps in memory, streamed, one type for each machine. Devices with state and
//! signs of life, or queues with their counts, come first, then what belongs to them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use records::{
    DeviceProfile, DeviceSlot, DeviceState, JobHead, LastSeen, NotificationState, QuarantineKey, Quarantined,
    Queue, QueueCounts, ReportIds,
};

use crate::codec::key::TableKey;
use crate::codec::{ByteReader, CodecError};
use crate::key_range::KeyRange;
use crate::port::{DeviceResident, QueueResident, SeenSlice, StoreError, View};
use crate::record::Record;
use crate::table::Table;

impl dyn View + '_ {
    /// Streams a partition of devices: devices before what belongs to them.
    ///
    /// States and signs of life are read first, in order of slot, because devices are in order of
    /// id. A look-up each would take longer than all of them in order.
    pub fn device_residents(&self, resident: &mut dyn FnMut(DeviceResident)) -> Result<(), StoreError> {
        let mut states = States::read(self)?;
        self.each::<DeviceProfile>(|_, device| {
            let (state, seen) = (states.take(device.slot), states.seen(self, device.slot)?);
            resident(DeviceResident::Device(Box::new(device), state, seen));
            Ok(())
        })?;
        self.each::<ReportIds>(|key, ids| {
            let slot = slot_of(key).map_err(|error| self.unreadable(Table::ReportIds, key, &error))?;
            resident(DeviceResident::ReportIds(slot, Box::new(ids)));
            Ok(())
        })?;
        self.each::<Quarantined>(|_, report| {
            resident(DeviceResident::Quarantined(QuarantineKey::from(report.id), report.cost()));
            Ok(())
        })?;
        self.each::<NotificationState>(|_, state| {
            if !self.is_deleted(state.slot)? {
                resident(DeviceResident::NotificationState(Box::new(state)));
            }
            Ok(())
        })?;
        self.each::<JobHead>(|_, job| {
            resident(DeviceResident::Job(Box::new(job)));
            Ok(())
        })
    }

    /// Streams a partition of queues: queues with their counts, then jobs. The counts are read
    /// first, in order.
    pub fn queue_residents(&self, resident: &mut dyn FnMut(QueueResident)) -> Result<(), StoreError> {
        let mut counts = BTreeMap::new();
        self.each::<QueueCounts>(|key, of_queue| {
            counts.insert(key.clone(), of_queue);
            Ok(())
        })?;
        self.each::<Queue>(|key, queue| {
            let counts = counts.remove(key).unwrap_or_default();
            resident(QueueResident::Queue(Box::new(queue), counts));
            Ok(())
        })?;
        self.each::<JobHead>(|_, job| {
            resident(QueueResident::Job(Box::new(job)));
            Ok(())
        })
    }

    /// Hands out every record of a table.
    fn each<R: Record>(
        &self,
        mut take: impl FnMut(&TableKey, R) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for row in self.rows(R::TABLE, KeyRange::all(), true)? {
            let (key, row) = row?;
            take(&key, self.decoded(R::TABLE, &key, &row)?)?;
        }
        Ok(())
    }
}

/// States and signs of life by slot.
struct States {
    states: HashMap<DeviceSlot, DeviceState>,
    seen: HashMap<u32, Box<SeenSlice>>,
}

impl States {
    fn read(view: &dyn View) -> Result<Self, StoreError> {
        let mut states = HashMap::new();
        view.each::<DeviceState>(|key, state| {
            let slot = slot_of(key).map_err(|error| view.unreadable(Table::States, key, &error))?;
            states.insert(slot, state);
            Ok(())
        })?;
        Ok(Self { states, seen: HashMap::new() })
    }

    fn take(&mut self, slot: DeviceSlot) -> DeviceState {
        self.states.remove(&slot).unwrap_or_default()
    }

    fn seen(&mut self, view: &dyn View, slot: DeviceSlot) -> Result<Option<LastSeen>, StoreError> {
        let slice = match self.seen.entry(slot.slice()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(view.seen_slice(slot.slice())?),
        };
        Ok(slice[usize::from(slot.within_slice())])
    }
}

/// The slot that a row's key is.
fn slot_of(key: &[u8]) -> Result<DeviceSlot, CodecError> {
    let mut reader = ByteReader::new(key);
    let slot = u32::from_be_bytes(reader.array("a slot")?);
    reader.end().map(|()| DeviceSlot(slot))
}
