//! A batch as one frame of the log.
//!
//! An equal report is all that most frames hold, so its form is the one that counts. It is a byte
//! with its way in, flags and a value of 0 or 1, then slot and readings as varints. That is at most
//! 7 bytes for a lock with two million readings in a partition of two million devices. Everything
//! else is a byte that names the change and the record with its version.

use base::{PartitionId, Timestamp, Value, WayIn};
use records::{Batch, DeviceSlot, Op, PartitionHead, Sign, SignReading};

use super::bytes::{ByteReader, put_i64, put_option, put_u64};
use super::field::Field;
use super::value::{bit, get_value, put_value};
use super::{CodecError, Stored};

/// The version of the frame: which changes there are ([`records::all_changes`]) and how each
/// begins. To change it: give it the next version and let [`decode_batch`] read this one as long
/// as a log may hold it. Records within have their own versions. Version 1 has no changes behind
/// number 18, version 2 none behind 29, version 3 none behind 48. Version 4 has none behind 57,
/// version 5 none behind 70, version 6 none behind 98.
const VERSION: u8 = 7;

/// Every change besides a sign of life: its number as a byte, and its parts in their order.
macro_rules! frame_of_changes {
    ($($(#[$doc:meta])* $number:literal $change:ident($($part:ident: $type:ty),+) $does:tt)*) => {
        const _: () = assert!($($number < SIGN)&&*, "a sign of life has the other numbers");

        fn put_op(out: &mut Vec<u8>, op: &Op) {
            match op {
                Op::Sign(sign) => put_sign(out, sign),
                $(Op::$change($($part),+) => {
                    out.push($number);
                    $($part.put_field(out);)+
                })*
            }
        }

        // Not inlined: signs of life would save the registers that any change needs.
        #[inline(never)]
        #[deny(unreachable_patterns, reason = "no two changes have the same number")]
        fn get_change(reader: &mut ByteReader<'_>, number: u8) -> Result<Op, CodecError> {
            Ok(match number {
                $($number => {
                    $(let $part = Field::get_field(reader)?;)+
                    Op::$change($($part),+)
                })*
                _ => return Err(reader.invalid("a change")),
            })
        }
    };
}

records::all_changes!(frame_of_changes);

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
/// A reading without a `ts` of its own, of a device that gave one earlier: the newest follows, then
/// the value.
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
        Op::ParkJob(job) => 64 + job.body.as_ref().map_or(0, |body| body.len()),
        Op::PutStreamChunk(chunk) => 32 + chunk.bytes.len(),
        Op::PutPick(_) => 128,
        Op::PutCommand(command) => 96 + command.payload.len(),
        _ => 48,
    }
}

/// Reads what [`encode_batch`] wrote.
///
/// # Errors
/// When `frame` is anything else.
pub fn decode_batch(frame: &[u8]) -> Result<Batch, CodecError> {
    const WHAT: &str = "a batch";
    let mut reader = ByteReader::new(frame);
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

fn get_op(reader: &mut ByteReader<'_>) -> Result<Op, CodecError> {
    match reader.u8("a change")? {
        sign if sign & SIGN != 0 => get_sign(reader, sign).map(Op::Sign),
        number => get_change(reader, number),
    }
}

fn put_sign(out: &mut Vec<u8>, sign: &Sign) {
    let way = sign.way.index() as u8;
    let Some(reading) = &sign.reading else {
        out.push(SIGN | way | if sign.newest_ts.is_some() { SIGN_NEWEST_FOLLOWS } else { 0 });
        sign.slot.put_field(out);
        put_u64(out, u64::from(sign.readings));
        sign.newest_ts.iter().for_each(|ts| put_i64(out, ts.0));
        return;
    };
    let value = match &reading.value {
        _ if sign.newest_ts.is_some() && reading.ts.is_none() => SIGN_NEWEST_AND_VALUE_FOLLOW,
        Value::Number(number) if *number == 0.0 => SIGN_VALUE_ZERO,
        Value::Number(number) if *number == 1.0 => SIGN_VALUE_ONE,
        _ => SIGN_VALUE_FOLLOWS,
    };
    let changed = if reading.changed { SIGN_CHANGED } else { 0 };
    let own_ts = if reading.ts.is_some() { SIGN_OWN_TS } else { 0 };
    out.push(SIGN | way | SIGN_HAS_READING | changed | own_ts | value << SIGN_VALUE_SHIFT);
    sign.slot.put_field(out);
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

fn get_sign(reader: &mut ByteReader<'_>, tag: u8) -> Result<Sign, CodecError> {
    let way = WayIn::ALL.get(usize::from(tag & SIGN_WAY)).copied();
    let way = way.ok_or_else(|| reader.invalid("a way in"))?;
    let slot = DeviceSlot::get_field(reader)?;
    let readings = reader.u32("a number of readings")?;
    let bare = SIGN | SIGN_WAY;
    if tag & SIGN_HAS_READING == 0 {
        let newest_ts = match tag & !bare {
            0 => None,
            SIGN_NEWEST_FOLLOWS => Some(Timestamp::get_field(reader)?),
            _ => return Err(reader.invalid("a sign of life")),
        };
        return Ok(Sign { slot, way, readings, newest_ts, reading: None });
    }
    let value_form = (tag & !SIGN) >> SIGN_VALUE_SHIFT;
    let (ts, newest_ts) = match (tag & SIGN_OWN_TS, value_form) {
        (0, SIGN_NEWEST_AND_VALUE_FOLLOW) => (None, Some(Timestamp::get_field(reader)?)),
        (0, _) => (None, None),
        (_, SIGN_NEWEST_AND_VALUE_FOLLOW) => return Err(reader.invalid("a sign of life")),
        _ => {
            let ts = Timestamp::get_field(reader)?;
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
