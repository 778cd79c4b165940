//! The stored form of the latest signs of life of one slice of devices: one row. So reports of many
//! devices dirty the same few rows. With a million reporting devices a checkpoint writes four
//! thousand of them.

use base::{Attended, Timestamp, WayIn};
use records::{DeviceSlot, LastSeen};

use super::CodecError;
use super::bytes::{ByteReader, put_i64, put_option, put_u64};
use crate::port::SeenSlice;

const VERSION: u8 = 1;
const WHAT: &str = "signs of life";
/// The mark of a device that was never seen; the other marks are the index of the way.
const NEVER: u8 = 3;
const MARKS_PER_BYTE: usize = 4;

/// Version 1: a version byte; a mark of two bits for each device; then the devices that were seen.
/// Of each there are its time and attended time, as differences from those of the device before
/// that was seen the same way. Its readings follow, then the newest `ts` of its reports, if any
/// carried one, as a difference from its time.
///
/// To change it: see the module above.
pub(crate) fn encode_seen_slice(slice: &SeenSlice) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + slice.len() / MARKS_PER_BYTE + slice.len() * 8);
    out.push(VERSION);
    for group in slice.chunks_exact(MARKS_PER_BYTE) {
        let marks = group.iter().map(|seen| seen.map_or(NEVER, |seen| seen.way.index() as u8));
        out.push(marks.rev().fold(0, |byte, mark| byte << 2 | mark));
    }
    let mut before = [Before::default(); WayIn::ALL.len()];
    for seen in slice.iter().flatten() {
        let before = &mut before[seen.way.index()];
        put_i64(&mut out, seen.at.0.wrapping_sub(before.at));
        put_i64(&mut out, seen.attended.0.wrapping_sub(before.attended));
        put_u64(&mut out, u64::from(seen.readings));
        let ahead = seen.newest_ts.map(|ts| ts.0.wrapping_sub(seen.at.0));
        put_option(&mut out, ahead.as_ref(), |out, ahead| put_i64(out, *ahead));
        *before = Before { at: seen.at.0, attended: seen.attended.0 };
    }
    out
}

#[derive(Clone, Copy, Default)]
struct Before {
    at: i64,
    attended: i64,
}

/// Reads what [`encode_seen_slice`] wrote.
pub(crate) fn decode_seen_slice(bytes: &[u8]) -> Result<Box<SeenSlice>, CodecError> {
    let mut reader = ByteReader::new(bytes);
    let found = reader.u8(WHAT)?;
    if found != VERSION {
        return Err(CodecError::Version { what: WHAT, at: 0, found, known: VERSION });
    }
    let mut slice = Box::new([None; DeviceSlot::SLICE_DEVICES as usize]);
    let marks = reader.take(slice.len() / MARKS_PER_BYTE, WHAT)?;
    let mut before = [Before::default(); WayIn::ALL.len()];
    for (within, seen) in slice.iter_mut().enumerate() {
        let mark = marks[within / MARKS_PER_BYTE] >> (2 * (within % MARKS_PER_BYTE)) & 3;
        let Some(way) = WayIn::ALL.get(usize::from(mark)).copied() else { continue };
        let before = &mut before[way.index()];
        before.at = before.at.wrapping_add(reader.i64("a time")?);
        before.attended = before.attended.wrapping_add(reader.i64("an attended time")?);
        let readings = reader.u32("a number of readings")?;
        let ahead = reader.option("a newest ts", |reader| reader.i64("a newest ts"))?;
        let newest_ts = ahead.map(|ahead| Timestamp(before.at.wrapping_add(ahead)));
        let (at, attended) = (Timestamp(before.at), Attended(before.attended));
        *seen = Some(LastSeen { at, way, attended, readings, newest_ts });
    }
    reader.end()?;
    Ok(slice)
}
