//! Devices that poll for commands in place of holding a session.

use base::{DeviceId, Problem};
use commands::PublishPace;
use records::DeviceSlot;
use smallvec::SmallVec;
use store::StoreError;

use super::super::{DevicePartition, DeviceStep};
use crate::commands::PublishedCommand;
use crate::devices::effect::DeviceEffect;
use crate::kernel::hashed::HashMap;
use crate::kernel::reply::{Answered, Reply};
use crate::refusals::unknown_device;

/// Polls that wait in a partition.
const POLLERS_MAX: usize = 4_096;
/// Polls of one device that wait; a newer one sends the oldest home.
const OF_A_DEVICE_MAX: usize = 4;

type PollReply = Reply<Answered<Option<Box<PublishedCommand>>>>;

/// The polls that wait for a command.
#[derive(Debug, Default)]
pub(in crate::devices::partition) struct Pollers {
    by_slot: HashMap<DeviceSlot, SmallVec<[(u64, PollReply); 1]>>,
    waiting: usize,
}

impl Pollers {
    pub(super) fn has(&self, slot: DeviceSlot) -> bool {
        self.by_slot.contains_key(&slot)
    }

    fn push(&mut self, slot: DeviceSlot, number: u64, reply: PollReply) {
        self.by_slot.entry(slot).or_default().push((number, reply));
        self.waiting += 1;
    }

    /// The poll that has to go before the device may have another.
    fn take_crowded_out(&mut self, slot: DeviceSlot) -> Option<PollReply> {
        let is_full = self.by_slot.get(&slot).is_some_and(|polls| polls.len() >= OF_A_DEVICE_MAX);
        is_full.then(|| self.take(slot)).flatten()
    }

    /// The poll that has waited longest.
    pub(super) fn take(&mut self, slot: DeviceSlot) -> Option<PollReply> {
        self.remove(slot, |_| true)
    }

    fn remove(&mut self, slot: DeviceSlot, is: impl Fn(u64) -> bool) -> Option<PollReply> {
        let polls = self.by_slot.get_mut(&slot)?;
        let at = polls.iter().position(|(number, _)| is(*number))?;
        let (_, reply) = polls.remove(at);
        if polls.is_empty() {
            self.by_slot.remove(&slot);
        }
        self.waiting -= 1;
        Some(reply)
    }

    pub(super) fn forget(&mut self, slot: DeviceSlot) -> impl Iterator<Item = PollReply> + use<> {
        let polls = self.by_slot.remove(&slot).unwrap_or_default();
        self.waiting -= polls.len();
        polls.into_iter().map(|(_, reply)| reply)
    }
}

impl DevicePartition {
    /// The command that a device that polls is to carry out; without one it waits.
    pub(in crate::devices::partition) fn poll(
        &mut self,
        id: &DeviceId,
        number: Option<u64>,
        reply: PollReply,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(slot) = self.devices.slot_of(id) else {
            step.emit(DeviceEffect::Polled(reply, Err(unknown_device(id))));
            return Ok(());
        };
        step.emit(DeviceEffect::DevicePolls(id.clone()));
        let pace = PublishPace { in_flight: 1, ..self.pace(slot) };
        let given =
            self.with_lanes(step, |lanes, now, store, moved| lanes.poll(now, slot, pace, store, moved))?;
        if let Some(command) = given {
            let published = self.published(&command).map(Box::new);
            step.emit(DeviceEffect::Polled(reply, Ok(published)));
            return Ok(());
        }
        let Some(number) = number else {
            step.emit(DeviceEffect::Polled(reply, Ok(None)));
            return Ok(());
        };
        if let Some(oldest) = self.commands.pollers.take_crowded_out(slot) {
            step.emit(DeviceEffect::Polled(oldest, Ok(None)));
        }
        if self.commands.pollers.waiting >= POLLERS_MAX {
            let detail = "too many devices wait for commands; poll without wait";
            step.emit(DeviceEffect::Polled(reply, Err(Problem::new(503, "too_many_waiting", detail))));
            return Ok(());
        }
        self.commands.pollers.push(slot, number, reply);
        self.open_lane(slot, step)
    }

    /// A device that polls waits no longer.
    pub(in crate::devices::partition) fn stop_polling(
        &mut self,
        id: &DeviceId,
        number: u64,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(slot) = self.devices.slot_of(id) else { return Ok(()) };
        if let Some(reply) = self.commands.pollers.remove(slot, |one| one == number) {
            step.emit(DeviceEffect::Polled(reply, Ok(None)));
        }
        self.close_if_unreachable(slot, step)
    }
}
