//! A batch made ready on its caller's thread: the frame for the log, and its changes as rows, so that the one committer
//! neither encodes nor decodes.

mod queues;

use std::sync::Arc;

use records::{
    Batch, Delivery, DeliveryKey, DeliveryProgress, DeviceProfile, DeviceSlot, Event, JobId, Op,
    PartitionHead, QuarantineKey, Reading, Seen, Sign,
};

use crate::codec::key::{self, Key, Moment};
use crate::codec::{Stored, encode_batch};
use crate::table::Table;
pub(crate) use queues::places;

/// A batch on its way to the log and the overlay.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) head: PartitionHead,
    /// In order.
    pub(crate) changes: Vec<Change>,
}

/// One change, as an overlay takes it.
#[derive(Debug)]
pub(crate) enum Change {
    Sign(SlotSign),
    Put {
        table: Table,
        key: Key,
        value: Box<[u8]>,
    },
    Delete {
        table: Table,
        key: Key,
    },
    /// All of a device that no key of its own names.
    DropDevice(DeviceSlot),
}

/// A sign of life with everything known that it says.
#[derive(Debug)]
pub(crate) struct SlotSign {
    pub(crate) slot: DeviceSlot,
    pub(crate) seen: Seen,
    pub(crate) reading: Option<Reading>,
}

impl Prepared {
    /// The changes of a batch, and its frame.
    pub(crate) fn with_frame(batch: Batch) -> (Self, Vec<u8>) {
        let frame = encode_batch(&batch);
        (Self::of(batch), frame)
    }

    /// The changes of a batch.
    pub(crate) fn of(batch: Batch) -> Self {
        let Batch { partition: _, head, ops } = batch;
        let mut changes = Vec::with_capacity(ops.len());
        for op in ops {
            changes_of(op, &head, &mut changes);
        }
        Self { head, changes }
    }
}

fn put(table: Table, key: Key, record: &impl Stored) -> Change {
    Change::Put { table, key, value: record.to_boxed_row() }
}

/// A row that is all key.
fn mark(table: Table, key: Key) -> Change {
    Change::Put { table, key, value: Box::default() }
}

fn delete(table: Table, key: Key) -> Change {
    Change::Delete { table, key }
}

fn changes_of(op: Op, head: &PartitionHead, out: &mut Vec<Change>) {
    match op {
        Op::Sign(sign) => out.push(Change::Sign(slot_sign(sign, head))),
        Op::PutState(slot, state) => out.push(put(Table::States, key::slot(slot), &state)),
        Op::PutDevice(device) => put_device(&device, out),
        Op::DeleteDevice(id, slot) => {
            out.push(delete(Table::Devices, key::device(&id)));
            out.push(delete(Table::States, key::slot(slot)));
            out.push(delete(Table::ReportIds, key::slot(slot)));
            out.push(mark(Table::Deleted, key::slot(slot)));
            out.push(Change::DropDevice(slot));
        }
        Op::PutReportIds(slot, ids) => out.push(put(Table::ReportIds, key::slot(slot), &*ids)),
        Op::PutCounts(of, counts) => out.push(put(Table::Counts, key::counts(of), &*counts)),
        Op::PutQuarantined(report) => {
            let key = key::moment(QuarantineKey::from(report.id));
            out.push(put(Table::Quarantine, key, &*report));
        }
        Op::DeleteQuarantined(key) => out.push(delete(Table::Quarantine, key::moment(key))),
        Op::PutEvent(event) => put_event(&event, out),
        Op::PutPair(pair) => out.push(put(Table::Pairs, key::pair(pair.slot, pair.client), &*pair)),
        Op::DeletePair(slot, client) => out.push(delete(Table::Pairs, key::pair(slot, client))),
        Op::PutDelivery(delivery) => put_delivery(&delivery, out),
        Op::PutProgress(delivery, progress) => out.push(put_progress(delivery, &progress)),
        Op::PutAttempt(attempt) => {
            out.push(put(Table::Attempts, key::attempt(attempt.delivery, attempt.number), &attempt));
        }
        Op::PutJob(job) => out.push(put(Table::JobHeads, key::job(job.id), &*job)),
        Op::DeleteJob(id) => {
            out.push(delete(Table::JobHeads, key::job(id)));
            out.push(delete(Table::JobBodies, key::job(id)));
        }
        Op::DeleteJobHead(id) => out.push(delete(Table::JobHeads, key::job(id))),
        Op::DeleteJobBody(id) => out.push(delete(Table::JobBodies, key::job(id))),
        Op::PutJobBody(id, body) => out.push(put_body(id, &body)),
        Op::ParkJob(job) => queues::park(&job, out),
        Op::UnparkJob(key) => queues::unpark(&key, out),
        Op::PutQueue(queue) => out.push(put(Table::Queues, key::queue(queue.key), &*queue)),
        Op::DeleteQueue(queue) => queues::delete_queue(queue, out),
        Op::PutQueueCounts(queue, counts) => {
            out.push(put(Table::QueueCounts, key::queue(queue), &counts));
        }
        Op::PutDead(dead) => queues::put_dead(&dead, out),
        Op::DeleteDead(queue, number, id) => queues::delete_dead(queue, number, id, out),
        Op::PutAnswer(answer) => queues::put_answer(&answer, out),
        Op::DeleteAnswer(key, at) => queues::delete_answer(key, at, out),
        Op::PutClient(client) => out.push(put(Table::Clients, key::client(&client.id), &*client)),
        Op::DeleteClient(id) => out.push(delete(Table::Clients, key::client(&id))),
    }
}

fn slot_sign(sign: Sign, head: &PartitionHead) -> SlotSign {
    let Sign { slot, way, readings, newest_ts, reading } = sign;
    let seen = Seen { at: head.now, way, attended: head.attended.ways[way.index()], readings, newest_ts };
    let reading = reading.map(|reading| Reading {
        number: readings,
        ts: reading.ts.unwrap_or(head.now),
        value: reading.value,
        changed: reading.changed,
    });
    SlotSign { slot, seen, reading }
}

/// The indexes here only add: what they say is looked up in the profile, and a checkpoint writes the difference of the
/// profiles.
fn put_device(device: &DeviceProfile, out: &mut Vec<Change>) {
    out.extend(indexed(device).map(|(table, key)| mark(table, key)));
    out.push(put(Table::Devices, key::device(&device.id), device));
}

/// The rows of the indexes by client, label and kind that a device has.
pub(crate) fn indexed(device: &DeviceProfile) -> impl Iterator<Item = (Table, Key)> {
    let id = device.id.as_str().as_bytes();
    let clients = device.clients.iter().map(|client| (Table::DevicesByClient, key::link(*client, id)));
    let labels = device
        .labels
        .iter()
        .map(|(name, value)| (Table::DevicesByLabel, key::label(base::hash::label_hash(name, value), id)));
    let kind = (Table::DevicesByKind, key::kind(&device.kind, id));
    clients.chain(labels).chain(std::iter::once(kind))
}

fn put_event(event: &Event, out: &mut Vec<Change>) {
    let moment = Moment { at: event.id.at, number: event.id.number };
    out.push(put(Table::Events, moment.below(&[]), event));
    out.push(mark(Table::EventsByDevice, moment.below(&key::slot(event.slot))));
}

fn put_delivery(delivery: &Delivery, out: &mut Vec<Change>) {
    let moment = Moment { at: delivery.id.at, number: delivery.id.number };
    out.push(put(Table::Deliveries, moment.below(&[]), delivery));
    out.push(put_progress(delivery.id.into(), &delivery.progress));
    out.push(mark(Table::DeliveriesByClient, moment.below(&key::incarnation(delivery.client))));
    out.push(mark(Table::DeliveriesByDevice, moment.below(&key::slot(delivery.slot))));
}

fn put_progress(delivery: DeliveryKey, progress: &DeliveryProgress) -> Change {
    put(Table::Progress, key::moment(delivery), progress)
}

/// Bytes as they were given: what a job carries has no form that could change.
fn put_body(id: JobId, body: &Arc<[u8]>) -> Change {
    Change::Put { table: Table::JobBodies, key: key::job(id), value: Box::from(&**body) }
}
