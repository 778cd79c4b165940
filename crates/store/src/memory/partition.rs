//! One partition in memory, and what each change does to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, Timestamp};
use records::{
    Attempt, Batch, Client, Delivery, DeliveryKey, DeviceProfile, DeviceSlot, DeviceState, Event, EventKey,
    JobHead, JobId, Op, Pair, PartitionHead, Reading, Seen, Sign,
};

use crate::port::{ReadingKey, Resident};

/// Everything kept of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryPartition {
    pub(super) head: PartitionHead,
    pub(super) devices: BTreeMap<DeviceId, DeviceProfile>,
    pub(super) states: BTreeMap<DeviceSlot, DeviceState>,
    pub(super) seen: BTreeMap<DeviceSlot, Seen>,
    pub(super) pairs: BTreeMap<(DeviceSlot, Incarnation), Pair>,
    pub(super) readings: BTreeMap<(DeviceSlot, ReadingKey), Reading>,
    pub(super) events: BTreeMap<EventKey, Event>,
    pub(super) deliveries: BTreeMap<DeliveryKey, Delivery>,
    pub(super) attempts: BTreeMap<(DeliveryKey, u32), Attempt>,
    pub(super) jobs: BTreeMap<JobId, JobHead>,
    pub(super) job_bodies: BTreeMap<JobId, Arc<[u8]>>,
    pub(super) clients: BTreeMap<ClientId, Client>,
}

impl MemoryPartition {
    pub(super) fn apply(&mut self, batch: Batch) {
        self.head = batch.head;
        for op in batch.ops {
            self.change(op);
        }
    }

    fn change(&mut self, op: Op) {
        match op {
            Op::Sign(sign) => self.sign(sign),
            Op::PutState(slot, state) => drop(self.states.insert(slot, state)),
            Op::PutDevice(device) => drop(self.devices.insert(device.id.clone(), *device)),
            Op::DeleteDevice(id, slot) => self.delete_device(&id, slot),
            Op::PutEvent(event) => drop(self.events.insert(event.id.into(), *event)),
            Op::PutPair(pair) => drop(self.pairs.insert((pair.slot, pair.client), *pair)),
            Op::DeletePair(slot, client) => drop(self.pairs.remove(&(slot, client))),
            Op::PutDelivery(delivery) => drop(self.deliveries.insert(delivery.id.into(), *delivery)),
            Op::PutProgress(key, progress) => {
                if let Some(delivery) = self.deliveries.get_mut(&key) {
                    delivery.progress = progress;
                }
            }
            Op::PutAttempt(attempt) => {
                self.attempts.insert((attempt.delivery, attempt.number), attempt);
            }
            Op::PutJob(job) => drop(self.jobs.insert(job.id, *job)),
            Op::DeleteJob(id) => {
                self.jobs.remove(&id);
                self.job_bodies.remove(&id);
            }
            Op::PutJobBody(id, body) => drop(self.job_bodies.insert(id, body)),
            Op::PutClient(client) => drop(self.clients.insert(client.id.clone(), *client)),
            Op::DeleteClient(id) => drop(self.clients.remove(&id)),
        }
    }

    fn sign(&mut self, sign: Sign) {
        let attended = self.head.attended.ways[sign.way.index()];
        let seen = Seen {
            at: self.head.now,
            way: sign.way,
            attended,
            readings: sign.readings,
            newest_ts: sign.newest_ts,
        };
        self.seen.insert(sign.slot, seen);
        if let Some(reading) = sign.reading {
            let ts = reading.ts.unwrap_or(self.head.now);
            let key = ReadingKey { ts, number: sign.readings };
            let reading =
                Reading { number: sign.readings, ts, value: reading.value, changed: reading.changed };
            self.readings.insert((sign.slot, key), reading);
        }
    }

    fn delete_device(&mut self, id: &DeviceId, slot: DeviceSlot) {
        self.devices.remove(id);
        self.states.remove(&slot);
        self.seen.remove(&slot);
        self.pairs.retain(|(owner, _), _| *owner != slot);
        self.readings.retain(|(owner, _), _| *owner != slot);
        self.events.retain(|_, event| event.slot != slot);
    }

    pub(super) fn load(&self, resident: &mut dyn FnMut(Resident)) {
        for device in self.devices.values() {
            let state = self.states.get(&device.slot).cloned().unwrap_or_default();
            let seen = self.seen.get(&device.slot).copied();
            resident(Resident::Device(Box::new(device.clone()), state, seen));
        }
        self.pairs.values().for_each(|pair| resident(Resident::Pair(Box::new(pair.clone()))));
        self.jobs.values().for_each(|job| resident(Resident::Job(Box::new(job.clone()))));
        self.clients.values().for_each(|client| resident(Resident::Client(Box::new(client.clone()))));
    }
}

/// The first key of a time, in each feed's order.
pub(super) trait FeedKey: Copy + Ord {
    fn first_at(at: Timestamp) -> Self;
}

impl FeedKey for ReadingKey {
    fn first_at(ts: Timestamp) -> Self {
        Self { ts, number: 0 }
    }
}

impl FeedKey for EventKey {
    fn first_at(at: Timestamp) -> Self {
        Self { at, number: 0 }
    }
}

impl FeedKey for DeliveryKey {
    fn first_at(at: Timestamp) -> Self {
        Self { at, number: 0 }
    }
}
