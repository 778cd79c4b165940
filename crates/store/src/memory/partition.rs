//! One partition in memory, and what each change does to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, Timestamp};
use records::{
    Attempt, Batch, Client, Counts, CountsKey, Delivery, DeliveryKey, DeviceProfile, DeviceSlot, DeviceState,
    Event, EventKey, JobHead, JobId, KeptFrom, Op, Pair, PartitionHead, QuarantineKey, Quarantined, Reading,
    ReportIds, Seen, Sign,
};

use super::queues::MemoryQueues;
use crate::port::{ReadingKey, Resident};

/// Everything kept of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryPartition {
    pub(super) head: PartitionHead,
    pub(super) devices: BTreeMap<DeviceId, DeviceProfile>,
    pub(super) states: BTreeMap<DeviceSlot, DeviceState>,
    pub(super) seen: BTreeMap<DeviceSlot, Seen>,
    pub(super) pairs: BTreeMap<(DeviceSlot, Incarnation), Pair>,
    /// With when each was received.
    pub(super) readings: BTreeMap<(DeviceSlot, ReadingKey), (Reading, Timestamp)>,
    pub(super) events: BTreeMap<EventKey, Event>,
    pub(super) deliveries: BTreeMap<DeliveryKey, Delivery>,
    pub(super) attempts: BTreeMap<(DeliveryKey, u32), Attempt>,
    pub(super) jobs: BTreeMap<JobId, JobHead>,
    pub(super) job_bodies: BTreeMap<JobId, Arc<[u8]>>,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) report_ids: BTreeMap<DeviceSlot, ReportIds>,
    pub(super) counts: BTreeMap<CountsKey, Counts>,
    pub(super) quarantine: BTreeMap<QuarantineKey, Quarantined>,
    pub(super) queues: MemoryQueues,
}

impl MemoryPartition {
    pub(super) fn apply(&mut self, batch: Batch) {
        let before = std::mem::replace(&mut self.head, batch.head).kept_from;
        for op in batch.ops {
            self.change(op);
        }
        if self.head.kept_from != before {
            self.expire(self.head.kept_from);
        }
    }

    /// Drops what is too old to be kept; what comes later with an old time is hidden by views until the next time.
    fn expire(&mut self, kept: KeptFrom) {
        self.readings.retain(|(_, key), (_, received)| key.ts.max(*received) >= kept.readings);
        self.events.retain(|key, _| key.at >= kept.events);
        self.counts.retain(|key, _| CountsKey::start_of(key.day) >= kept.events);
        self.deliveries.retain(|key, _| key.at >= kept.deliveries);
        self.attempts.retain(|(key, _), _| key.at >= kept.deliveries);
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
            Op::PutJob(job) => {
                self.queues.assert_not_parked(job.id);
                self.jobs.insert(job.id, *job);
            }
            Op::DeleteJob(id) => {
                self.delete_job_head(id);
                self.job_bodies.remove(&id);
            }
            Op::DeleteJobHead(id) => self.delete_job_head(id),
            Op::DeleteJobBody(id) => drop(self.job_bodies.remove(&id)),
            Op::PutJobBody(id, body) => drop(self.job_bodies.insert(id, body)),
            Op::ParkJob(job) => {
                self.jobs.remove(&job.head.id);
                self.queues.park(*job);
            }
            Op::UnparkJob(key) => self.queues.unpark(&key),
            Op::PutQueue(queue) => self.queues.put(*queue),
            Op::DeleteQueue(queue) => self.queues.delete(queue),
            Op::PutQueueCounts(queue, counts) => self.queues.count(queue, counts),
            Op::PutDead(dead) => {
                assert!(dead.number < self.head.next_dead, "{} is a number to come", dead.number);
                self.queues.put_dead(*dead);
            }
            Op::DeleteDead(queue, number, id) => self.queues.delete_dead(queue, number, id),
            Op::PutAnswer(answer) => self.queues.put_answer(*answer),
            Op::DeleteAnswer(key, at) => self.queues.delete_answer(key, at),
            Op::PutReportIds(slot, ids) => drop(self.report_ids.insert(slot, *ids)),
            Op::PutCounts(key, counts) => drop(self.counts.insert(key, *counts)),
            Op::PutQuarantined(report) => drop(self.quarantine.insert(report.id.into(), *report)),
            Op::DeleteQuarantined(key) => drop(self.quarantine.remove(&key)),
            Op::PutClient(client) => drop(self.clients.insert(client.id.clone(), *client)),
            Op::DeleteClient(id) => drop(self.clients.remove(&id)),
        }
    }

    fn delete_job_head(&mut self, id: JobId) {
        self.queues.assert_not_parked(id);
        self.jobs.remove(&id);
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
            self.readings.insert((sign.slot, key), (reading, self.head.now));
        }
    }

    fn delete_device(&mut self, id: &DeviceId, slot: DeviceSlot) {
        self.devices.remove(id);
        self.states.remove(&slot);
        self.report_ids.remove(&slot);
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
        for (slot, ids) in &self.report_ids {
            resident(Resident::ReportIds(*slot, Box::new(ids.clone())));
        }
        self.quarantine.iter().for_each(|(key, report)| resident(Resident::Quarantined(*key, report.cost())));
        self.pairs.values().for_each(|pair| resident(Resident::Pair(Box::new(pair.clone()))));
        self.queues.load(resident);
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

impl FeedKey for QuarantineKey {
    fn first_at(at: Timestamp) -> Self {
        Self { at, number: 0 }
    }
}

impl FeedKey for DeliveryKey {
    fn first_at(at: Timestamp) -> Self {
        Self { at, number: 0 }
    }
}
