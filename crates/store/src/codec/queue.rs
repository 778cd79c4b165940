//! Stored forms of a queue, its counts and its dead letters.

use std::borrow::Cow;

use compact_str::CompactString;
use records::{DeadJob, JobId, Queue, QueueCounts, QueueKey, QueueOrder, QueueSettings};

use super::bytes::{ByteReader, put_bytes, put_option, put_u64};
use super::field::stored;
use super::key;
use super::{CodecError, Stored};
use crate::record::{Index, record};
use crate::table::Table;

const PAUSED: u8 = 1 << 0;
const DELETED: u8 = 1 << 1;
const FLAGS_END: u8 = 1 << 2;

const ORDERS: [QueueOrder; 2] = [QueueOrder::Fifo, QueueOrder::Lifo];

/// Version 1: the fields in order, paused and deleted in one byte.
impl Stored for Queue {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a queue";

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.key.0);
        put_bytes(out, self.namespace.as_bytes());
        put_bytes(out, self.name.as_bytes());
        let paused = if self.paused { PAUSED } else { 0 };
        out.push(paused | if self.deleted { DELETED } else { 0 });
        put_settings(out, &self.settings);
    }

    fn get(reader: &mut ByteReader<'_>, _version: u8) -> Result<Self, CodecError> {
        let key = QueueKey(reader.u64("a queue's key")?);
        let namespace = CompactString::new(reader.text("a namespace")?);
        let name = CompactString::new(reader.text("a queue's name")?);
        let flags = reader.u8(Self::NAME)?;
        if flags >= FLAGS_END {
            return Err(reader.invalid(Self::NAME));
        }
        let (deleted, paused) = (flags & DELETED != 0, flags & PAUSED != 0);
        Ok(Self { key, namespace, name, deleted, paused, settings: get_settings(reader)? })
    }
}

fn put_settings(out: &mut Vec<u8>, settings: &QueueSettings) {
    out.push(match settings.order {
        QueueOrder::Fifo => 0,
        QueueOrder::Lifo => 1,
    });
    put_option(out, settings.concurrency.as_ref(), |out, most| put_u64(out, u64::from(*most)));
    put_option(out, settings.rate.as_ref(), |out, rate| out.extend_from_slice(&rate.to_bits().to_le_bytes()));
    for most in [settings.jobs_max, settings.dead_max, settings.dead_max_age_ms] {
        put_option(out, most.as_ref(), |out, most| put_u64(out, *most));
    }
}

fn get_settings(reader: &mut ByteReader<'_>) -> Result<QueueSettings, CodecError> {
    let order = reader.choice("an order", &ORDERS)?;
    let concurrency = reader.option("a concurrency", |reader| reader.u32("a concurrency"))?;
    let rate = reader.option("a rate", get_rate)?;
    let jobs_max = reader.option("a count", |reader| reader.u64("a count"))?;
    let dead_max = reader.option("a count", |reader| reader.u64("a count"))?;
    let dead_max_age_ms = reader.option("an age", |reader| reader.u64("an age"))?;
    Ok(QueueSettings { order, concurrency, rate, jobs_max, dead_max, dead_max_age_ms })
}

fn get_rate(reader: &mut ByteReader<'_>) -> Result<f64, CodecError> {
    let rate = f64::from_bits(u64::from_le_bytes(reader.array("a rate")?));
    if rate.is_finite() { Ok(rate) } else { Err(reader.invalid("a rate")) }
}

stored!(
    QueueCounts, "a queue's counts", version 1:
    parked_scheduled, parked_ready, dead
);

stored!(
    DeadJob, "a dead letter", version 1:
    queue, number, id, attempt, tries, reason, error, died_at, group
);

record!(
    Queue: Queues by QueueKey,
    key: |queue| key::queue(*queue),
    place: |queue| Cow::Borrowed(&queue.key),
);

record!(
    QueueCounts: QueueCounts by QueueKey,
    key: |queue| key::queue(*queue),
);

record!(
    DeadJob: Dead by (QueueKey, u64, JobId),
    key: |(queue, number, _)| key::dead(*queue, *number),
    place: |dead| Cow::Owned((dead.queue, dead.number, dead.id)),
    indexes: [Index {
        table: Table::DeadIds,
        rows: |(queue, number, id), row| row(key::job_of(*queue, *id), &number.to_be_bytes()),
        names: |row, number| key::dead_from(row, number),
    }],
);
