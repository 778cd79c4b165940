//! A batch made ready on its caller's thread: the frame for the log, and its changes as rows. So
//! the one committer neither encodes nor decodes.
//!
//! Which rows a record has follows from its declaration ([`Record`]), and which record a change
//! puts or deletes from the list of changes ([`records::all_changes`]).

use std::sync::Arc;

use base::DeviceId;
use records::{
    Batch, Delivery, DeliveryProgress, DeviceSlot, DeviceState, JobHead, JobId, LastSeen, Lock, Op,
    ParkedJob, PartitionHead, Reading, ReportIds, Sign, StreamSubscription, WorkerControl,
};

use crate::codec::key::{self, TableKey};
use crate::codec::{SubscriptionPlace, encode_batch};
use crate::record::{Placed, Record, index_rows};
use crate::table::Table;

/// A batch on its way to the log and the tables.
#[derive(Debug)]
pub(crate) struct PreparedBatch {
    pub(crate) head: PartitionHead,
    /// In order.
    pub(crate) changes: Vec<TableChange>,
}

/// One change, as a store takes it.
#[derive(Debug)]
pub(crate) enum TableChange {
    Sign(SlotSign),
    Put {
        table: Table,
        key: TableKey,
        value: Box<[u8]>,
    },
    Delete {
        table: Table,
        key: TableKey,
    },
    /// All of a device that no key of its own names.
    DropDevice(DeviceSlot),
}

/// A sign of life with everything known that it says.
#[derive(Debug)]
pub(crate) struct SlotSign {
    pub(crate) slot: DeviceSlot,
    pub(crate) seen: LastSeen,
    pub(crate) reading: Option<Reading>,
}

impl PreparedBatch {
    /// The changes of a batch, and its frame.
    pub(crate) fn with_frame(batch: Batch) -> (Self, Vec<u8>) {
        let frame = encode_batch(&batch);
        (Self::of(batch), frame)
    }

    /// The changes of a batch.
    pub(crate) fn of(batch: Batch) -> Self {
        let Batch { partition: _, head, ops } = batch;
        let mut changes = Vec::with_capacity(ops.iter().map(usual_changes).sum());
        for op in ops {
            changes_of(op, &head, &mut changes);
        }
        Self { head, changes }
    }
}

/// How many changes an op usually is, so that room for all of a batch is made once.
fn usual_changes(op: &Op) -> usize {
    match op {
        Op::Sign(_) | Op::PutJob(_) | Op::PutState(..) => 1,
        Op::UnparkJob(_) => 3,
        Op::ParkJob(_) | Op::PutDelivery(_) => 4,
        _ => 2,
    }
}

/// A record under the place that it says itself, and nowhere else.
pub(crate) fn put<R: Placed>(record: &R, out: &mut Vec<TableChange>) {
    out.extend(record.left().map(|(table, key)| TableChange::Delete { table, key }));
    put_at::<R>(&record.place(), record, out);
}

fn put_at<R: Record>(place: &R::Place, record: &R, out: &mut Vec<TableChange>) {
    out.push(TableChange::Put { table: R::TABLE, key: R::key(place), value: record.to_boxed_row() });
    index_rows::<R>(place, |table, key, value| {
        out.push(TableChange::Put { table, key, value: Box::from(value) });
    });
}

fn delete<R: Record>(place: &R::Place, out: &mut Vec<TableChange>) {
    out.push(TableChange::Delete { table: R::TABLE, key: R::key(place) });
    index_rows::<R>(place, |table, key, _| out.push(TableChange::Delete { table, key }));
}

/// A change with its parts by their names.
macro_rules! named {
    ($change:ident ($($part:ident: $type:ty),+)) => { Op::$change($($part),+) };
}

/// What a change does that puts a record.
macro_rules! puts {
    (($part:ident: $type:ty), $out:ident, $record:ident) => {
        put::<records::$record>(&$part, $out)
    };
    (($first:ident: $key:ty, $part:ident: $type:ty), $out:ident, $record:ident at $place:ident) => {
        put_at::<records::$record>(&$place, &$part, $out)
    };
}

/// What a change does that deletes records.
macro_rules! deletes {
    ($parts:tt, $out:ident, $($record:ident at $place:tt),+) => {{
        $(delete::<records::$record>(&$place, $out);)+
    }};
    ($parts:tt, $out:ident, $($record:ident as $part:ident),+) => {{
        $(delete::<records::$record>(&$part.place(), $out);)+
    }};
    (($part:ident: $type:ty), $out:ident, $record:ident) => {
        delete::<records::$record>(&$part, $out)
    };
    (($($part:ident: $type:ty),+), $out:ident, $record:ident) => {
        delete::<records::$record>(&($($part),+), $out)
    };
}

/// One match over all changes. Those that only put or delete records follow from the list. By hand
/// are those that are `apart` there: they have other rows than a record of their own.
macro_rules! changes_of {
    ($(
        $(#[$doc:meta])* $number:literal $change:ident $parts:tt
        { $(puts $put:ident $(at $at:ident)?)? $(deletes $($deleted:tt)+)? $(apart $(puts $apart:ident)?)? }
    )*) => {
        fn changes_of(op: Op, head: &PartitionHead, out: &mut Vec<TableChange>) {
            match op {
                Op::Sign(sign) => out.push(TableChange::Sign(slot_sign(sign, head))),
                Op::DeleteDevice(id, slot) => delete_device(&id, slot, out),
                Op::PutDelivery(delivery) => put_delivery(&delivery, out),
                Op::DeleteJob(id) => delete_job(id, out),
                Op::PutJobBody(id, body) => out.push(put_body(id, &body)),
                Op::DeleteJobBody(id) => out.push(delete_body(id)),
                Op::ParkJob(job) => park_job(&job, out),
                Op::DeleteSubscription(stream, name) => {
                    delete::<StreamSubscription>(&SubscriptionPlace::anywhere(stream, &name), out);
                }
                Op::DeleteLock(namespace, name) => delete::<Lock>(&key::named(&namespace, &name), out),
                Op::DeleteQueueControl(namespace, queue) => {
                    delete::<WorkerControl>(&key::named(&namespace, &queue), out);
                }
                $($(named!($change $parts) => puts!($parts, out, $put $(at $at)?),)?)*
                $($(named!($change $parts) => deletes!($parts, out, $($deleted)+),)?)*
            }
        }
    };
}

records::all_changes!(changes_of);

fn delete_job(id: JobId, out: &mut Vec<TableChange>) {
    delete::<JobHead>(&id, out);
    out.push(delete_body(id));
}

fn park_job(job: &ParkedJob, out: &mut Vec<TableChange>) {
    delete::<JobHead>(&job.head.id, out);
    put(job, out);
}

/// Its profile, its state and the ids of its reports; the rest is hidden, and swept later.
fn delete_device(id: &DeviceId, slot: DeviceSlot, out: &mut Vec<TableChange>) {
    out.push(TableChange::Delete { table: Table::Devices, key: key::device(id) });
    delete::<DeviceState>(&slot, out);
    delete::<ReportIds>(&slot, out);
    out.push(TableChange::Put { table: Table::Deleted, key: key::slot(slot), value: Box::default() });
    out.push(TableChange::DropDevice(slot));
}

fn put_delivery(delivery: &Delivery, out: &mut Vec<TableChange>) {
    put_at::<DeliveryProgress>(&delivery.id.into(), &delivery.progress, out);
    put(delivery, out);
}

fn slot_sign(sign: Sign, head: &PartitionHead) -> SlotSign {
    let Sign { slot, way, readings, newest_ts, reading } = sign;
    let seen = LastSeen { at: head.now, way, attended: head.attended.ways[way.index()], readings, newest_ts };
    let reading = reading.map(|reading| Reading {
        number: readings,
        ts: reading.ts.unwrap_or(head.now),
        value: reading.value,
        changed: reading.changed,
    });
    SlotSign { slot, seen, reading }
}

/// Bytes as they were given: what a job carries has no form that could change.
fn put_body(id: JobId, body: &Arc<[u8]>) -> TableChange {
    TableChange::Put { table: Table::JobBodies, key: key::job(id), value: Box::from(&**body) }
}

fn delete_body(id: JobId) -> TableChange {
    TableChange::Delete { table: Table::JobBodies, key: key::job(id) }
}
