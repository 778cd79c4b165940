//! What a batch tells of the choices that were made in its step: the model follows them if they
//! were allowed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{DeviceId, EntityId, Incarnation};
use records::{
    Batch, Delivery, DeliveryKey, DeliveryProgress, DeviceSlot, Event, Op, PartitionHead, Quarantined,
};

/// A notification that took off: device, client, delivery, attempts.
type TakenOff = (DeviceSlot, Incarnation, EntityId, u32);

/// The choices of one step; empty for a step without a batch.
#[derive(Default)]
pub(crate) struct Evidence {
    pub(crate) head: Option<PartitionHead>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) deliveries: VecDeque<Delivery>,
    pub(crate) progress: BTreeMap<DeliveryKey, DeliveryProgress>,
    pub(crate) quarantined: VecDeque<Quarantined>,
    /// Attempts that were recorded, with their numbers.
    pub(crate) attempts: Vec<(DeliveryKey, u32)>,
    /// Signs of life.
    pub(crate) signs: usize,
    taken_off: BTreeSet<TakenOff>,
    profiles: Vec<(DeviceId, DeviceSlot)>,
}

impl Evidence {
    pub(crate) fn of(batch: Option<Batch>) -> Self {
        let mut evidence = Self::default();
        let Some(batch) = batch else { return evidence };
        for op in batch.ops {
            match op {
                Op::Sign(_) => evidence.signs += 1,
                Op::PutEvent(event) => evidence.events.push_back(*event),
                Op::PutDelivery(delivery) => evidence.deliveries.push_back(*delivery),
                Op::PutQuarantined(report) => evidence.quarantined.push_back(*report),
                Op::PutAttempt(attempt) => evidence.attempts.push((attempt.delivery, attempt.number)),
                Op::PutProgress(key, progress) => drop(evidence.progress.insert(key, progress)),
                Op::PutDevice(profile) => evidence.profiles.push((profile.id, profile.slot)),
                Op::PutNotificationState(pair) => {
                    let flight = pair.in_flight.as_ref();
                    let taken =
                        flight.map(|flight| (pair.slot, pair.client, flight.delivery, flight.attempts));
                    evidence.taken_off.extend(taken);
                }
                _ => {}
            }
        }
        evidence.head = Some(batch.head);
        evidence
    }

    /// Whether this attempt was leased in the step.
    pub(crate) fn took_off(
        &self,
        slot: DeviceSlot,
        client: Incarnation,
        delivery: EntityId,
        attempts: u32,
    ) -> bool {
        self.taken_off.contains(&(slot, client, delivery, attempts))
    }

    /// The slot that a device got which is new: one that no device had before.
    pub(crate) fn new_slot(&self, device: &DeviceId, unused: DeviceSlot) -> Option<DeviceSlot> {
        let fits = |(id, slot): &&(DeviceId, DeviceSlot)| id == device && *slot >= unused;
        self.profiles.iter().find(fits).map(|(_, slot)| *slot)
    }
}
