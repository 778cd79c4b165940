//! Clients told again, as the contract words it: of devices whose newest notification failed for
//! good, or of all by hand.

use base::{DeviceId, Incarnation};
use records::DeviceSlot;

use super::device::Device;
use super::evidence::Evidence;
use super::notifications::ExpectedNotifications;
use super::partition::Partition;
use crate::harness::violation::Checked;

/// Devices that are told again of at once.
const TOLD_AT_ONCE: usize = 200;

impl Partition {
    /// Devices whose newest notification to this client has failed for good, the earliest
    /// registered first.
    pub(crate) fn stale(&self, client: Incarnation) -> Vec<DeviceId> {
        let failed = |device: &&Device| device.pairs.get(&client).is_some_and(|pair| pair.failed.is_some());
        in_order(self.devices.values().filter(failed)).into_iter().map(|(_, id)| id).collect()
    }

    pub(super) fn tell_stale(
        &mut self,
        client: Incarnation,
        probe: bool,
        evidence: &mut Evidence,
    ) -> Checked {
        let most = if probe { 1 } else { TOLD_AT_ONCE };
        for id in self.stale(client).into_iter().take(most) {
            self.tell_again(&id, client, evidence)?;
            let count = if probe { &mut self.counts.told_by_probe } else { &mut self.counts.told_by_success };
            *count += 1;
        }
        Ok(())
    }

    /// What is still untold, or told again, is told by a new notification.
    fn tell_again(&mut self, id: &DeviceId, client: Incarnation, evidence: &mut Evidence) -> Checked {
        let (kind, _) = self.devices[id].pairs[&client].to_tell().last().expect("something").clone();
        self.notify(id, client, kind, None, evidence)
    }

    pub(super) fn resend(
        &mut self,
        client: Incarnation,
        after: Option<DeviceSlot>,
        evidence: &mut Evidence,
    ) -> Checked<Option<DeviceSlot>> {
        let linked = |device: &&Device| device.links.contains(&client) && Some(device.slot) > after;
        let mut some = in_order(self.devices.values().filter(linked));
        some.truncate(TOLD_AT_ONCE);
        for (_, id) in &some {
            self.send_again(id, client, evidence)?;
        }
        Ok(some.last().map(|(slot, _)| *slot).filter(|_| some.len() == TOLD_AT_ONCE))
    }

    fn send_again(&mut self, id: &DeviceId, client: Incarnation, evidence: &mut Evidence) -> Checked {
        let newest = self.events_of(&self.devices[id]).last();
        let newest = newest.map(|newest| (newest.kind, newest.previous.clone()));
        let device = self.devices.get_mut(id).expect("it is there");
        if newest.is_none() && device.pairs.get(&client).is_none_or(ExpectedNotifications::is_told) {
            // Nothing ever happened to it, or so long ago that nobody knows any more what.
            return Ok(());
        }
        let pair = device.pairs.entry(client).or_default();
        if let Some(number) = pair.pending {
            self.due_now(number);
        } else if pair.flight.as_ref().is_none_or(|flight| flight.is_cancelled) {
            if pair.is_told() {
                pair.again = newest;
            }
            self.counts.resent += 1;
            self.tell_again(id, client, evidence)?;
        }
        Ok(())
    }
}

fn in_order<'a>(devices: impl Iterator<Item = &'a Device>) -> Vec<(DeviceSlot, DeviceId)> {
    let mut some: Vec<_> = devices.map(|device| (device.slot, device.id.clone())).collect();
    some.sort_unstable();
    some
}
