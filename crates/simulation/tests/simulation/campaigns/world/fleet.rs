//! Devices: which are there, and what they do with the commands of picks. What their partitions
//! know outlives the process.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard};

use base::locks::locked;
use base::{DeviceId, EntityId, Incarnation, PartitionId, Timestamp};
use engine::campaigns::{
    FleetView, FoundDevices, OrderKind, PickMove, PickOrder, PickOrderOutcome, PickStanding, PickUpdate,
};
use records::{CommandStatus, DevicePlace, DeviceSlot, LateAnswer};

use super::World;
use crate::campaigns::fault_injection::{DEVICE_NOT_FOUND, ORDER_CARRIED_TWICE_AS_NEW, VALUES_NOT_KNOWN};
use crate::campaigns::plan::VALUES;
use crate::harness::track::AnyTrack;
use crate::harness::violation::{Checked, Invariant};

/// The devices that are connected, and those that are deleted.
#[derive(Debug)]
pub(crate) struct SimulatedFleet {
    devices: u32,
    connected: Mutex<BTreeSet<DevicePlace>>,
    deleted: Mutex<BTreeSet<DevicePlace>>,
    /// It is broken: it shows devices that are deleted.
    shows_deleted: bool,
}

/// The commands of picks.
pub(crate) type GivenPicks = BTreeMap<(Incarnation, u32), GivenPick>;

/// The command of a pick.
#[derive(Clone, Debug)]
pub(crate) struct GivenPick {
    place: DevicePlace,
    standing: PickStanding,
}

impl GivenPick {
    fn has_ended(&self) -> bool {
        self.standing.status.has_ended()
    }
}

pub(crate) fn place(device: u32) -> DevicePlace {
    DevicePlace { partition: PartitionId(0), slot: DeviceSlot(device) }
}

impl SimulatedFleet {
    pub(crate) fn new(devices: u64, shows_deleted: bool) -> Self {
        let (connected, deleted) = (Mutex::default(), Mutex::default());
        Self { devices: devices as u32, connected, deleted, shows_deleted }
    }

    fn connected(&self) -> MutexGuard<'_, BTreeSet<DevicePlace>> {
        locked(&self.connected)
    }

    fn deleted(&self) -> MutexGuard<'_, BTreeSet<DevicePlace>> {
        locked(&self.deleted)
    }

    /// Devices that are deleted.
    pub(super) fn gone(&self) -> Rc<BTreeSet<DevicePlace>> {
        Rc::new(self.deleted().clone())
    }

    fn is_shown(&self, place: DevicePlace) -> bool {
        self.shows_deleted || !self.deleted().contains(&place)
    }

    pub(super) fn all_come(&self) {
        let shown: Vec<_> = (0..self.devices).map(place).filter(|place| self.is_shown(*place)).collect();
        self.connected().extend(shown);
    }

    pub(super) fn all_go(&self) {
        self.connected().clear();
    }

    fn has(&self, place: DevicePlace) -> bool {
        self.connected().contains(&place)
    }

    /// The devices whose numbers leave this rest, but for those that are deleted.
    pub(crate) fn every(&self, divisor: u32, rest: u32) -> Vec<DevicePlace> {
        let deleted = self.deleted();
        let of_rest = (0..self.devices).filter(|device| device % divisor == rest).map(place);
        of_rest.filter(|place| !deleted.contains(place)).collect()
    }

    /// The devices that are connected, and among those that are named.
    pub(super) fn found(&self, named: Option<&[DeviceId]>) -> Vec<DevicePlace> {
        let is_named =
            |place: &DevicePlace| named.is_none_or(|named| named.contains(&device_id(place.slot.0)));
        self.connected().iter().copied().filter(is_named).collect()
    }
}

/// The id of a device.
pub(crate) fn device_id(number: u32) -> DeviceId {
    DeviceId::new(&format!("0xa{number:03}")).expect("an id")
}

impl FleetView for SimulatedFleet {
    fn connected(&self) -> u64 {
        self.connected().len() as u64
    }

    fn device_id(&self, place: DevicePlace) -> Option<DeviceId> {
        (place.slot.0 < self.devices && self.is_shown(place)).then(|| device_id(place.slot.0))
    }

    fn mute(&self) -> campaigns::DeviceSet {
        campaigns::DeviceSet::new()
    }

    fn set_answering(&self, _: DevicePlace, _: bool) {}
}

impl World {
    /// A device's partition carries an order out.
    pub(super) fn carry_out(&mut self, order: &PickOrder) -> Checked<PickOrderOutcome> {
        let key = (order.task, order.number);
        if self.model.present.deleted.contains(&order.task) {
            // The courier was a day late.
            return Ok(PickOrderOutcome::Nobody);
        }
        let tracked = self.model.present.tasks.get(&order.task);
        let pick = tracked.and_then(|tracked| tracked.picks.get(&order.number));
        let is_right = pick.is_some_and(|pick| pick.place == order.place && pick.device == order.device);
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED
            .check(is_right, || format!("{order:?} is of a pick that is not there: {pick:?}"))?;
        if !self.fleet.is_shown(order.place) {
            return Ok(PickOrderOutcome::Nobody);
        }
        // Who is told of it may know of the batch that made it.
        let made_in = tracked.and_then(|tracked| tracked.made_in.get(&order.number)).copied();
        made_in.into_iter().for_each(|seq| self.model.shown(seq));
        let is_known = self.given.contains_key(&key) && !self.machine.injects(ORDER_CARRIED_TWICE_AS_NEW);
        let is_away = !self.fleet.has(order.place);
        match order.what {
            OrderKind::Give if !is_known && is_away => return Ok(PickOrderOutcome::Away),
            OrderKind::Give | OrderKind::Ensure if !is_known => self.give(order)?,
            OrderKind::TakeBack if !is_known => return Ok(PickOrderOutcome::TakenBack),
            _ => {}
        }
        let Some(given) = self.given.get_mut(&key) else { return Ok(PickOrderOutcome::Nobody) };
        let standing = &mut given.standing;
        let is_unsent = matches!(standing.status, CommandStatus::Scheduled | CommandStatus::Cancelled);
        if order.what == OrderKind::TakeBack && is_unsent {
            standing.status = CommandStatus::Cancelled;
            return Ok(PickOrderOutcome::TakenBack);
        }
        Ok(PickOrderOutcome::Stands(standing.clone()))
    }

    fn give(&mut self, order: &PickOrder) -> Checked {
        let key = (order.task, order.number);
        let mut of_task = self.given.range((order.task, 0)..=(order.task, u32::MAX));
        let is_twice = of_task.any(|(_, given)| given.place == order.place);
        Invariant::ONE_EFFECT_PER_CAUSE
            .check(!is_twice, || format!("a device gets two commands of a task: {order:?}"))?;
        self.last_number += 1;
        let command = EntityId { routing: 0, at: self.machine.now(), number: self.last_number, tag: 2 };
        let standing = PickStanding {
            command,
            status: CommandStatus::Scheduled,
            is_connected: true,
            was_sent: false,
            was_answered: false,
            result: None,
            late: None,
        };
        self.given.insert(key, GivenPick { place: order.place, standing });
        Ok(())
    }

    /// Something happens to one of the commands. Whether there was any.
    pub(super) fn command_moves(&mut self) -> bool {
        let goes_on = |given: &GivenPick| !given.has_ended() && self.fleet.has(given.place);
        let open: Vec<_> =
            self.given.iter().filter(|(_, given)| goes_on(given)).map(|(key, _)| *key).collect();
        if open.is_empty() || self.server.is_none() {
            return false;
        }
        let key = self.machine.random.one_of(&open);
        let (all_answer, now) = (self.phase.is_quiet || self.plan.all_stay(), self.machine.now());
        let drawn = if all_answer { 0 } else { self.machine.random.below(8) };
        let result = self.machine.random.chance(1, 2).then(|| "7".into());
        let Some(given) = self.given.get_mut(&key) else { return false };
        let standing = &mut given.standing;
        let ended = |status| (status, true, None);
        (standing.status, standing.was_answered, standing.result) = match (standing.status, drawn) {
            (CommandStatus::Scheduled, _) => (CommandStatus::Published, false, None),
            (_, 5) => ended(CommandStatus::Failed),
            (_, 6) => (CommandStatus::Failed, false, None),
            (_, 7) => (CommandStatus::Expired, false, None),
            _ => (CommandStatus::Acknowledged, true, result),
        };
        standing.was_sent = true;
        let is_late = standing.status == CommandStatus::Expired;
        self.tell_of(key);
        if is_late {
            self.answer_late(key, now);
        }
        true
    }

    /// A device answers when its pick has ended.
    fn answer_late(&mut self, key: (Incarnation, u32), at: Timestamp) {
        if let Some(given) = self.given.get_mut(&key) {
            given.standing.late = Some(LateAnswer { ok: true, at, result: None });
            self.tell_of(key);
        }
    }

    /// The machine is told where the command of a pick stands.
    fn tell_of(&mut self, key: (Incarnation, u32)) {
        let (Some(server), Some(given)) = (&mut self.server, self.given.get(&key)) else { return };
        let (task, number) = key;
        server.moves.push_back(PickMove { task, number, standing: given.standing.clone() });
    }

    /// The devices that a search finds: each value by itself where they are spread over values.
    pub(super) fn find(&self, named: Option<&[DeviceId]>, is_spread: bool) -> FoundDevices {
        let mut found = self.fleet.found(named);
        if self.machine.injects(DEVICE_NOT_FOUND) && !found.is_empty() {
            found.remove(self.machine.random.below(found.len() as u64) as usize);
        }
        let values = if is_spread && !self.machine.injects(VALUES_NOT_KNOWN) { VALUES } else { 1 };
        let of_value = |value| found.iter().copied().filter(move |place| place.slot.0 % values == value);
        let strata = (0..values).map(|value| campaigns::device_set::of_places(of_value(value)));
        FoundDevices { strata: strata.collect() }
    }

    /// A device is deleted, while there are enough others.
    pub(super) fn delete_device(&mut self) {
        let place = place(self.machine.random.below(u64::from(self.fleet.devices)) as u32);
        let most = self.fleet.devices as usize / 2;
        let (deleted, is_deleted) = (self.fleet.gone().len(), !self.fleet.deleted().insert(place));
        if is_deleted || deleted >= most {
            if !is_deleted {
                self.fleet.deleted().remove(&place);
            }
            return;
        }
        self.counts.devices_deleted += 1;
        self.counts.deleted_while_asked += u64::from(self.model.present.is_asked(place));
        if !self.fleet.shows_deleted {
            self.fleet.connected().remove(&place);
        }
        if let Some(server) = &mut self.server {
            server.updates.push_back(PickUpdate::Gone(vec![place]));
        }
    }

    /// A device connects, or goes.
    pub(super) fn change_presence(&mut self) {
        let place = place(self.machine.random.below(u64::from(self.fleet.devices)) as u32);
        if !self.fleet.is_shown(place) {
            return;
        }
        let comes = !self.fleet.has(place);
        self.counts.devices_came += u64::from(comes);
        self.counts.devices_left += u64::from(!comes);
        if comes {
            self.fleet.connected().insert(place);
        } else {
            self.fleet.connected().remove(&place);
        }
        if let Some(server) = &mut self.server {
            let update =
                if comes { PickUpdate::Came(vec![place]) } else { PickUpdate::WentAway(vec![place]) };
            server.updates.push_back(update);
        }
    }

    /// Every device connects.
    pub(super) fn all_come(&mut self) {
        self.fleet.all_come();
        let places: Vec<_> = self.fleet.found(None);
        if let Some(server) = &mut self.server {
            server.updates.push_back(PickUpdate::Came(places));
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.machine.now()
    }
}
