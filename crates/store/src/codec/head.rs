//! The stored form of a partition's head.

use base::{Attended, Timestamp};
use records::{AttendedReadings, KeptFrom, PartitionHead};

use super::bytes::{ByteReader, put_i64, put_option, put_u64};
use super::{CodecError, Stored};

/// What has no beginning takes one byte.
const EVER: Timestamp = Timestamp(i64::MIN);

/// Version 4: the fields in order, but the numbers of dead letters, commands, entries of timelines
/// and holders of locks last. Version 3 has none of the last, version 2 none of the last three,
/// version 1 none of the four.
impl Stored for PartitionHead {
    const VERSION: u8 = 4;
    const NAME: &'static str = "a partition's head";

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.seq);
        put_i64(out, self.now.0);
        put_i64(out, self.stamp.0.wrapping_sub(self.now.0));
        self.attended.ways.iter().for_each(|way| put_i64(out, way.0));
        put_i64(out, self.attended.every.0);
        put_u64(out, u64::from(self.next_slot));
        put_u64(out, self.next_incarnation);
        put_u64(out, u64::from(self.next_event));
        put_u64(out, u64::from(self.next_delivery));
        put_u64(out, self.next_job);
        put_u64(out, self.next_lease);
        put_u64(out, u64::from(self.next_quarantined));
        for from in [self.kept_from.readings, self.kept_from.events, self.kept_from.deliveries] {
            put_option(out, (from != EVER).then_some(&from), |out, from| put_i64(out, from.0));
        }
        put_u64(out, self.next_dead);
        put_u64(out, u64::from(self.next_command));
        put_u64(out, u64::from(self.next_timeline));
        put_u64(out, self.next_fence);
    }

    fn get(reader: &mut ByteReader<'_>, version: u8) -> Result<Self, CodecError> {
        let seq = reader.u64("a batch number")?;
        let now = Timestamp(reader.i64("a time")?);
        let stamp = Timestamp(now.0.wrapping_add(reader.i64("a stamp")?));
        let mut attended = AttendedReadings::default();
        for way in &mut attended.ways {
            *way = Attended(reader.i64("an attended time")?);
        }
        attended.every = Attended(reader.i64("an attended time")?);
        Ok(Self {
            seq,
            now,
            stamp,
            attended,
            next_slot: reader.u32("a slot")?,
            next_incarnation: reader.u64("an incarnation")?,
            next_event: reader.u32("a number")?,
            next_delivery: reader.u32("a number")?,
            next_job: reader.u64("a number")?,
            next_lease: reader.u64("a number")?,
            next_quarantined: reader.u32("a number")?,
            kept_from: KeptFrom {
                readings: get_from(reader)?,
                events: get_from(reader)?,
                deliveries: get_from(reader)?,
            },
            next_dead: if version < 2 { 0 } else { reader.u64("a number")? },
            next_command: if version < 3 { 0 } else { reader.u32("a number")? },
            next_timeline: if version < 3 { 0 } else { reader.u32("a number")? },
            next_fence: if version < 4 { 0 } else { reader.u64("a number")? },
        })
    }
}

fn get_from(reader: &mut ByteReader<'_>) -> Result<Timestamp, CodecError> {
    let from = reader.option("a time", |reader| reader.i64("a time"))?;
    Ok(from.map_or(EVER, Timestamp))
}
