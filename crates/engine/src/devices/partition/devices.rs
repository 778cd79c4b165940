//! The devices of a partition, as far as they are resident: found by id, kept by slot.

use base::{DeviceId, Incarnation, Kind, Problem, hash};
use hashbrown::HashTable;
use records::{BySlot, DeviceProfile, DeviceSlot, PaceOverride, ReportIds};

use super::counts::Group;
use crate::kernel::hashed::HashMap;

/// Kinds of device that a partition knows at most: a device keeps a small index in place of the
/// name.
const KINDS_MAX: usize = 1_000;

/// A resident device. What reports change is kept by `watch`.
#[derive(Debug)]
pub(super) struct ResidentDevice {
    pub(super) id: DeviceId,
    pub(super) incarnation: Incarnation,
    /// The devices with the same labels and linked clients.
    pub(super) group: Group,
    kind: u16,
    /// Whether its profile has an address: only then the profile is read to tell a client of it.
    pub(super) has_address: bool,
}

const _: () = assert!(size_of::<Option<ResidentDevice>>() == 40, "a million of these are resident");

/// All devices of a partition.
#[derive(Debug, Default)]
pub(super) struct ResidentDevices {
    by_slot: BySlot<ResidentDevice>,
    /// Slots by the hash of the id.
    by_id: HashTable<u32>,
    /// The ids of a device's latest reports. Apart from it, as most fleets send none.
    report_ids: BySlot<Box<ReportIds>>,
    /// How many desired entries a device has, once somebody had to know.
    desired_state_counts: BySlot<u16>,
    /// Kinds are few; a device keeps an index.
    kinds: Vec<Kind>,
    /// How commands go to devices that say so themselves, which few do.
    paces: HashMap<DeviceSlot, PaceOverride>,
}

impl ResidentDevices {
    pub(super) fn insert(&mut self, profile: &DeviceProfile, group: Group) {
        let device = ResidentDevice {
            id: profile.id.clone(),
            incarnation: profile.incarnation,
            group,
            kind: self.kind_index(&profile.kind),
            has_address: profile.address.is_some(),
        };
        self.by_slot.put(profile.slot, device);
        self.set_pace(profile.slot, profile.pace);
        let by_slot = &self.by_slot;
        self.by_id.insert_unique(hash::device_hash(profile.id.as_str()), profile.slot.0, |slot| {
            hash_of(by_slot, *slot)
        });
    }

    pub(super) fn remove(&mut self, slot: DeviceSlot) -> Option<ResidentDevice> {
        let device = self.by_slot.remove(slot)?;
        self.report_ids.remove(slot);
        self.desired_state_counts.remove(slot);
        self.paces.remove(&slot);
        if let Ok(entry) = self.by_id.find_entry(hash::device_hash(device.id.as_str()), |at| *at == slot.0) {
            entry.remove();
        }
        Some(device)
    }

    /// The slot of the device of that id, whose hash the caller knows.
    pub(super) fn slot_of_hashed(&self, id: &DeviceId, hash: u64) -> Option<DeviceSlot> {
        let has_id = |slot: &u32| self.get(DeviceSlot(*slot)).is_some_and(|device| device.id == *id);
        self.by_id.find(hash, has_id).copied().map(DeviceSlot)
    }

    pub(super) fn slot_of(&self, id: &DeviceId) -> Option<DeviceSlot> {
        self.slot_of_hashed(id, hash::device_hash(id.as_str()))
    }

    pub(super) fn find(&self, id: &DeviceId) -> Option<(DeviceSlot, &ResidentDevice)> {
        let slot = self.slot_of(id)?;
        Some((slot, self.get(slot)?))
    }

    pub(super) fn get(&self, slot: DeviceSlot) -> Option<&ResidentDevice> {
        self.by_slot.get(slot)
    }

    pub(super) fn get_mut(&mut self, slot: DeviceSlot) -> Option<&mut ResidentDevice> {
        self.by_slot.get_mut(slot)
    }

    pub(super) fn kind(&self, device: &ResidentDevice) -> &Kind {
        &self.kinds[usize::from(device.kind)]
    }

    /// The ids of a device's latest reports, if they carry any.
    pub(super) fn report_ids(&self, slot: DeviceSlot) -> Option<&ReportIds> {
        self.report_ids.get(slot).map(|ids| &**ids)
    }

    pub(super) fn set_report_ids(&mut self, slot: DeviceSlot, ids: Box<ReportIds>) {
        self.report_ids.put(slot, ids);
    }

    /// Remembers the id of a report, and gives all that are remembered.
    pub(super) fn add_report_id(&mut self, slot: DeviceSlot, id: u64) -> Box<ReportIds> {
        let ids = self.report_ids.get_or_default(slot);
        ids.push(id);
        ids.clone()
    }

    /// How many desired entries a device has, if they were counted.
    pub(super) fn desired_state_count(&self, slot: DeviceSlot) -> Option<u16> {
        self.desired_state_counts.get(slot).copied()
    }

    pub(super) fn desired_state_count_mut(&mut self, slot: DeviceSlot) -> Option<&mut u16> {
        self.desired_state_counts.get_mut(slot)
    }

    pub(super) fn set_desired_state_count(&mut self, slot: DeviceSlot, count: u16) {
        self.desired_state_counts.put(slot, count);
    }

    /// How commands go to the device, as far as it says so itself.
    pub(super) fn pace(&self, slot: DeviceSlot) -> PaceOverride {
        self.paces.get(&slot).copied().unwrap_or_default()
    }

    pub(super) fn set_pace(&mut self, slot: DeviceSlot, pace: PaceOverride) {
        if pace == PaceOverride::default() {
            self.paces.remove(&slot);
        } else {
            self.paces.insert(slot, pace);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Refuses a kind that would be one too many.
    pub(super) fn check_room(&self, kind: &Kind) -> Result<(), Problem> {
        if self.kinds.len() < KINDS_MAX || self.kinds.contains(kind) {
            return Ok(());
        }
        let detail = format!("there are {KINDS_MAX} kinds of device already; use one of them");
        Err(Problem::not_allowed("too_many_kinds", detail))
    }

    /// Those in slots behind `after`, in order of slot.
    pub(super) fn behind(
        &self,
        after: Option<DeviceSlot>,
    ) -> impl Iterator<Item = (DeviceSlot, &ResidentDevice)> {
        self.by_slot.behind(after)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ResidentDevice> {
        self.by_slot.behind(None).map(|(_, device)| device)
    }

    fn kind_index(&mut self, kind: &Kind) -> u16 {
        let index = self.kinds.iter().position(|known| known == kind).unwrap_or_else(|| {
            self.kinds.push(kind.clone());
            self.kinds.len() - 1
        });
        u16::try_from(index).expect("a registration that would make more than KINDS_MAX kinds is refused")
    }
}

fn hash_of(by_slot: &BySlot<ResidentDevice>, slot: u32) -> u64 {
    by_slot.get(DeviceSlot(slot)).map_or(0, |device| hash::device_hash(device.id.as_str()))
}
