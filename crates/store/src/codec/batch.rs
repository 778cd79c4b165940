//! A batch as one frame of the log.
//!
//! An equal report is all that most frames hold, so its form is the one that counts: a byte with its way in, flags
//! and a value of 0 or 1, then slot and readings as varints - at most 7 bytes for a lock with two million readings in a partition
//! of two million devices. Everything else is a byte that names the change and the record with its version.

use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, PartitionId, Timestamp, Value, WayIn};
use records::{
    AnswerKey, Batch, DeviceSlot, JobId, Op, PartitionHead, QuarantineKey, QueueKey, Sign, SignReading,
};

use super::bytes::{Reader, put_bytes, put_i64, put_option, put_u64};
use super::counts::{get_counts_key, put_counts_key};
use super::delivery::{get_delivery_key, put_delivery_key};
use super::value::{bit, get_value, put_value};
use super::{CodecError, Stored};

/// The version of the frame: which changes there are and how each begins. To change it: give it the next version
/// and let [`decode_batch`] read this one as long as a log may hold it. Records within have their own versions. Version 1 has
/// no changes after [`DELETE_QUARANTINED`].
const VERSION: u8 = 2;

const PUT_STATE: u8 = 1;
const PUT_DEVICE: u8 = 2;
const DELETE_DEVICE: u8 = 3;
const PUT_EVENT: u8 = 4;
const PUT_PAIR: u8 = 5;
const DELETE_PAIR: u8 = 6;
const PUT_DELIVERY: u8 = 7;
const PUT_PROGRESS: u8 = 8;
const PUT_ATTEMPT: u8 = 9;
const PUT_JOB: u8 = 10;
const DELETE_JOB: u8 = 11;
const PUT_JOB_BODY: u8 = 12;
const PUT_CLIENT: u8 = 13;
const DELETE_CLIENT: u8 = 14;
const PUT_REPORT_IDS: u8 = 15;
const PUT_COUNTS: u8 = 16;
const PUT_QUARANTINED: u8 = 17;
const DELETE_QUARANTINED: u8 = 18;
const DELETE_JOB_HEAD: u8 = 19;
const DELETE_JOB_BODY: u8 = 20;
const PARK_JOB: u8 = 21;
const UNPARK_JOB: u8 = 22;
const PUT_QUEUE: u8 = 23;
const DELETE_QUEUE: u8 = 24;
const PUT_QUEUE_COUNTS: u8 = 25;
const PUT_DEAD: u8 = 26;
const DELETE_DEAD: u8 = 27;
const PUT_ANSWER: u8 = 28;
const DELETE_ANSWER: u8 = 29;

/// A sign of life has this bit; the others of its byte are below. No other change has it.
const SIGN: u8 = 1 << 7;
const SIGN_WAY: u8 = 0b11;
const SIGN_HAS_READING: u8 = 1 << 2;
const SIGN_CHANGED: u8 = 1 << 3;
const SIGN_OWN_TS: u8 = 1 << 4;
const SIGN_VALUE_SHIFT: u32 = 5;
const SIGN_VALUE_ZERO: u8 = 0;
const SIGN_VALUE_ONE: u8 = 1;
const SIGN_VALUE_FOLLOWS: u8 = 2;
/// A reading without a `ts` of its own, of a device that gave one earlier: the newest follows, then the value.
const SIGN_NEWEST_AND_VALUE_FOLLOW: u8 = 3;
/// In a sign without a reading: the newest `ts` follows.
const SIGN_NEWEST_FOLLOWS: u8 = SIGN_OWN_TS;

/// The frame of a batch.
#[must_use]
pub fn encode_batch(batch: &Batch) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + batch.ops.iter().map(likely_bytes).sum::<usize>());
    out.push(VERSION);
    out.extend_from_slice(&batch.partition.0.to_le_bytes());
    batch.head.write(&mut out);
    put_u64(&mut out, batch.ops.len() as u64);
    for op in &batch.ops {
        put_op(&mut out, op);
    }
    out
}

/// About how long a change is, so that most frames are written without growing.
fn likely_bytes(op: &Op) -> usize {
    match op {
        Op::Sign(_) => 8,
        Op::PutJobBody(_, body) => 24 + body.len(),
        _ => 48,
    }
}

/// Reads what [`encode_batch`] wrote.
///
/// # Errors
/// When `frame` is anything else.
pub fn decode_batch(frame: &[u8]) -> Result<Batch, CodecError> {
    const WHAT: &str = "a batch";
    let mut reader = Reader::new(frame);
    let found = reader.u8(WHAT)?;
    match found {
        0 => return Err(CodecError::Invalid { what: WHAT, at: 0 }),
        1..=VERSION => {}
        _ => return Err(CodecError::Version { what: WHAT, at: 0, found, known: VERSION }),
    }
    let partition = PartitionId(u16::from_le_bytes(reader.array("a partition")?));
    let head = PartitionHead::read(&mut reader)?;
    let ops = reader.list("changes", get_op)?;
    reader.end()?;
    Ok(Batch { partition, head, ops })
}

fn put_op(out: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Sign(sign) => put_sign(out, sign),
        Op::PutState(slot, state) => state.write(put_slot(tagged(out, PUT_STATE), *slot)),
        Op::PutDevice(device) => device.write(tagged(out, PUT_DEVICE)),
        Op::DeleteDevice(id, slot) => {
            put_bytes(tagged(out, DELETE_DEVICE), id.as_str().as_bytes());
            put_slot(out, *slot);
        }
        Op::PutReportIds(slot, ids) => ids.write(put_slot(tagged(out, PUT_REPORT_IDS), *slot)),
        Op::PutCounts(key, counts) => {
            put_counts_key(tagged(out, PUT_COUNTS), *key);
            counts.write(out);
        }
        Op::PutQuarantined(report) => report.write(tagged(out, PUT_QUARANTINED)),
        Op::DeleteQuarantined(key) => {
            put_i64(tagged(out, DELETE_QUARANTINED), key.at.0);
            put_u64(out, u64::from(key.number));
        }
        Op::PutEvent(event) => event.write(tagged(out, PUT_EVENT)),
        Op::PutPair(pair) => pair.write(tagged(out, PUT_PAIR)),
        Op::DeletePair(slot, client) => put_u64(put_slot(tagged(out, DELETE_PAIR), *slot), client.0),
        Op::PutDelivery(delivery) => delivery.write(tagged(out, PUT_DELIVERY)),
        Op::PutProgress(key, progress) => {
            put_delivery_key(tagged(out, PUT_PROGRESS), *key);
            progress.write(out);
        }
        Op::PutAttempt(attempt) => attempt.write(tagged(out, PUT_ATTEMPT)),
        Op::PutJob(job) => job.write(tagged(out, PUT_JOB)),
        Op::DeleteJob(id) => put_job_id(tagged(out, DELETE_JOB), *id),
        Op::DeleteJobHead(id) => put_job_id(tagged(out, DELETE_JOB_HEAD), *id),
        Op::DeleteJobBody(id) => put_job_id(tagged(out, DELETE_JOB_BODY), *id),
        Op::ParkJob(job) => job.write(tagged(out, PARK_JOB)),
        Op::UnparkJob(key) => key.write(tagged(out, UNPARK_JOB)),
        Op::PutJobBody(id, body) => {
            put_job_id(tagged(out, PUT_JOB_BODY), *id);
            put_bytes(out, body);
        }
        Op::PutQueue(queue) => queue.write(tagged(out, PUT_QUEUE)),
        Op::DeleteQueue(queue) => put_u64(tagged(out, DELETE_QUEUE), queue.0),
        Op::PutQueueCounts(queue, counts) => {
            put_u64(tagged(out, PUT_QUEUE_COUNTS), queue.0);
            counts.write(out);
        }
        Op::PutDead(dead) => dead.write(tagged(out, PUT_DEAD)),
        Op::DeleteDead(queue, number, id) => put_dead_key(tagged(out, DELETE_DEAD), *queue, *number, *id),
        Op::PutAnswer(answer) => answer.write(tagged(out, PUT_ANSWER)),
        Op::DeleteAnswer(key, at) => put_answer_key(tagged(out, DELETE_ANSWER), *key, *at),
        Op::PutClient(client) => client.write(tagged(out, PUT_CLIENT)),
        Op::DeleteClient(id) => put_bytes(tagged(out, DELETE_CLIENT), id.as_str().as_bytes()),
    }
}

/// Appends what names a change; what follows is appended to the same.
fn tagged(out: &mut Vec<u8>, tag: u8) -> &mut Vec<u8> {
    out.push(tag);
    out
}

fn put_slot(out: &mut Vec<u8>, slot: DeviceSlot) -> &mut Vec<u8> {
    put_u64(out, u64::from(slot.0));
    out
}

fn put_job_id(out: &mut Vec<u8>, id: JobId) {
    out.extend_from_slice(&id.0);
}

fn put_dead_key(out: &mut Vec<u8>, queue: QueueKey, number: u64, id: JobId) {
    put_u64(out, queue.0);
    put_u64(out, number);
    put_job_id(out, id);
}

fn put_answer_key(out: &mut Vec<u8>, key: AnswerKey, at: Timestamp) {
    out.extend_from_slice(&key.0.to_le_bytes());
    put_i64(out, at.0);
}

fn get_op(reader: &mut Reader<'_>) -> Result<Op, CodecError> {
    let tag = reader.u8("a change")?;
    Ok(match tag {
        PUT_STATE => Op::PutState(get_slot(reader)?, Stored::read(reader)?),
        PUT_DEVICE => Op::PutDevice(boxed(reader)?),
        DELETE_DEVICE => Op::DeleteDevice(reader.text_as("a device id", DeviceId::new)?, get_slot(reader)?),
        PUT_REPORT_IDS => Op::PutReportIds(get_slot(reader)?, boxed(reader)?),
        PUT_COUNTS => Op::PutCounts(get_counts_key(reader)?, boxed(reader)?),
        PUT_QUARANTINED => Op::PutQuarantined(boxed(reader)?),
        DELETE_QUARANTINED => {
            let at = get_time(reader)?;
            Op::DeleteQuarantined(QuarantineKey { at, number: reader.u32("a number")? })
        }
        PUT_EVENT => Op::PutEvent(boxed(reader)?),
        PUT_PAIR => Op::PutPair(boxed(reader)?),
        DELETE_PAIR => Op::DeletePair(get_slot(reader)?, Incarnation(reader.u64("an incarnation")?)),
        PUT_DELIVERY => Op::PutDelivery(boxed(reader)?),
        PUT_PROGRESS => Op::PutProgress(get_delivery_key(reader)?, Stored::read(reader)?),
        PUT_ATTEMPT => Op::PutAttempt(Stored::read(reader)?),
        PUT_JOB => Op::PutJob(boxed(reader)?),
        DELETE_JOB => Op::DeleteJob(get_job_id(reader)?),
        DELETE_JOB_HEAD => Op::DeleteJobHead(get_job_id(reader)?),
        DELETE_JOB_BODY => Op::DeleteJobBody(get_job_id(reader)?),
        PARK_JOB => Op::ParkJob(boxed(reader)?),
        UNPARK_JOB => Op::UnparkJob(boxed(reader)?),
        PUT_JOB_BODY => Op::PutJobBody(get_job_id(reader)?, Arc::from(reader.bytes("a job's body")?)),
        PUT_QUEUE => Op::PutQueue(boxed(reader)?),
        DELETE_QUEUE => Op::DeleteQueue(get_queue(reader)?),
        PUT_QUEUE_COUNTS => Op::PutQueueCounts(get_queue(reader)?, Stored::read(reader)?),
        PUT_DEAD => Op::PutDead(boxed(reader)?),
        DELETE_DEAD => Op::DeleteDead(get_queue(reader)?, reader.u64("a number")?, get_job_id(reader)?),
        PUT_ANSWER => Op::PutAnswer(boxed(reader)?),
        DELETE_ANSWER => Op::DeleteAnswer(get_answer_key(reader)?, get_time(reader)?),
        PUT_CLIENT => Op::PutClient(boxed(reader)?),
        DELETE_CLIENT => Op::DeleteClient(reader.text_as("a client id", ClientId::new)?),
        sign if sign & SIGN != 0 => Op::Sign(get_sign(reader, sign)?),
        _ => return Err(reader.invalid("a change")),
    })
}

fn boxed<T: Stored>(reader: &mut Reader<'_>) -> Result<Box<T>, CodecError> {
    T::read(reader).map(Box::new)
}

fn get_queue(reader: &mut Reader<'_>) -> Result<QueueKey, CodecError> {
    Ok(QueueKey(reader.u64("a queue")?))
}

fn get_answer_key(reader: &mut Reader<'_>) -> Result<AnswerKey, CodecError> {
    Ok(AnswerKey(u128::from_le_bytes(reader.array("the key of an answer")?)))
}

fn get_slot(reader: &mut Reader<'_>) -> Result<DeviceSlot, CodecError> {
    Ok(DeviceSlot(reader.u32("a slot")?))
}

fn get_job_id(reader: &mut Reader<'_>) -> Result<JobId, CodecError> {
    Ok(JobId(reader.array("a job id")?))
}

fn put_sign(out: &mut Vec<u8>, sign: &Sign) {
    let way = sign.way.index() as u8;
    let Some(reading) = &sign.reading else {
        out.push(SIGN | way | if sign.newest_ts.is_some() { SIGN_NEWEST_FOLLOWS } else { 0 });
        put_slot(out, sign.slot);
        put_u64(out, u64::from(sign.readings));
        sign.newest_ts.iter().for_each(|ts| put_i64(out, ts.0));
        return;
    };
    let value = match &reading.value {
        _ if reading.ts.is_none() && sign.newest_ts.is_some() => SIGN_NEWEST_AND_VALUE_FOLLOW,
        Value::Number(number) if *number == 0.0 => SIGN_VALUE_ZERO,
        Value::Number(number) if *number == 1.0 => SIGN_VALUE_ONE,
        _ => SIGN_VALUE_FOLLOWS,
    };
    let changed = if reading.changed { SIGN_CHANGED } else { 0 };
    let own_ts = if reading.ts.is_some() { SIGN_OWN_TS } else { 0 };
    out.push(SIGN | way | SIGN_HAS_READING | changed | own_ts | value << SIGN_VALUE_SHIFT);
    put_slot(out, sign.slot);
    put_u64(out, u64::from(sign.readings));
    if let Some(ts) = reading.ts {
        put_i64(out, ts.0);
        let ahead = sign.newest_ts.map(|newest| newest.0.wrapping_sub(ts.0));
        put_option(out, ahead.as_ref(), |out, ahead| put_i64(out, *ahead));
    } else if let Some(newest) = sign.newest_ts {
        put_i64(out, newest.0);
    }
    if value >= SIGN_VALUE_FOLLOWS {
        put_value(out, &reading.value);
    }
}

fn get_sign(reader: &mut Reader<'_>, tag: u8) -> Result<Sign, CodecError> {
    let way = WayIn::ALL.get(usize::from(tag & SIGN_WAY)).copied();
    let way = way.ok_or_else(|| reader.invalid("a way in"))?;
    let slot = get_slot(reader)?;
    let readings = reader.u32("a number of readings")?;
    let bare = SIGN | SIGN_WAY;
    if tag & SIGN_HAS_READING == 0 {
        let newest_ts = match tag & !bare {
            0 => None,
            SIGN_NEWEST_FOLLOWS => Some(get_time(reader)?),
            _ => return Err(reader.invalid("a sign of life")),
        };
        return Ok(Sign { slot, way, readings, newest_ts, reading: None });
    }
    let value_form = (tag & !SIGN) >> SIGN_VALUE_SHIFT;
    let (ts, newest_ts) = match (tag & SIGN_OWN_TS, value_form) {
        (0, SIGN_NEWEST_AND_VALUE_FOLLOW) => (None, Some(get_time(reader)?)),
        (0, _) => (None, None),
        (_, SIGN_NEWEST_AND_VALUE_FOLLOW) => return Err(reader.invalid("a sign of life")),
        _ => {
            let ts = get_time(reader)?;
            let ahead = reader.option("a newest ts", |reader| reader.i64("a newest ts"))?;
            (Some(ts), ahead.map(|ahead| Timestamp(ts.0.wrapping_add(ahead))))
        }
    };
    let value = match value_form {
        SIGN_VALUE_ZERO => bit(false),
        SIGN_VALUE_ONE => bit(true),
        _ => get_value(reader)?,
    };
    let reading = SignReading { ts, value, changed: tag & SIGN_CHANGED != 0 };
    Ok(Sign { slot, way, readings, newest_ts, reading: Some(reading) })
}

fn get_time(reader: &mut Reader<'_>) -> Result<Timestamp, CodecError> {
    Ok(Timestamp(reader.i64("a time")?))
}
