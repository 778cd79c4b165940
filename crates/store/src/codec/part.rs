//! What the changes of a batch consist of in a frame: records with their versions, and the keys of
//! what is deleted.

use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, Timestamp};
use records::{
    AnswerKey, Attempt, CountsKey, DeliveryKey, DeliveryProgress, DeviceSlot, DeviceState, JobId,
    QuarantineKey, QueueCounts, QueueKey,
};

use super::bytes::{Reader, put_bytes, put_i64, put_u64};
use super::counts::{get_counts_key, put_counts_key};
use super::delivery::{get_delivery_key, put_delivery_key};
use super::{CodecError, Stored};

/// A part of a change.
pub(super) trait Part: Sized {
    fn put_part(&self, out: &mut Vec<u8>);
    fn get_part(reader: &mut Reader<'_>) -> Result<Self, CodecError>;
}

impl<R: Stored> Part for Box<R> {
    fn put_part(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    fn get_part(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        R::read(reader).map(Self::new)
    }
}

/// Parts by how they are written and read.
macro_rules! parts {
    ($($part:ty: $put:expr, $get:expr;)*) => {$(
        impl Part for $part {
            fn put_part(&self, out: &mut Vec<u8>) {
                let put: fn(&Self, &mut Vec<u8>) = $put;
                put(self, out);
            }

            fn get_part(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
                let get: fn(&mut Reader<'_>) -> Result<Self, CodecError> = $get;
                get(reader)
            }
        }
    )*};
}

parts! {
    DeviceState: Stored::write, Stored::read;
    DeliveryProgress: Stored::write, Stored::read;
    Attempt: Stored::write, Stored::read;
    QueueCounts: Stored::write, Stored::read;
    DeviceId: |id, out| put_bytes(out, id.as_str().as_bytes()), |reader| reader.text_as("a device id", Self::new);
    ClientId: |id, out| put_bytes(out, id.as_str().as_bytes()), |reader| reader.text_as("a client id", Self::new);
    DeviceSlot: |slot, out| put_u64(out, u64::from(slot.0)), |reader| reader.u32("a slot").map(Self);
    Incarnation: |of, out| put_u64(out, of.0), |reader| reader.u64("an incarnation").map(Self);
    QueueKey: |queue, out| put_u64(out, queue.0), |reader| reader.u64("a queue").map(Self);
    u64: |number, out| put_u64(out, *number), |reader| reader.u64("a number");
    Timestamp: |at, out| put_i64(out, at.0), |reader| reader.i64("a time").map(Self);
    JobId: |id, out| out.extend_from_slice(&id.0), |reader| reader.array("a job id").map(Self);
    Arc<[u8]>: |body, out| put_bytes(out, body), |reader| reader.bytes("a job's body").map(Self::from);
    AnswerKey: |key, out| out.extend_from_slice(&key.0.to_le_bytes()),
        |reader| Ok(Self(u128::from_le_bytes(reader.array("the key of an answer")?)));
    CountsKey: |key, out| put_counts_key(out, *key), get_counts_key;
    DeliveryKey: |key, out| put_delivery_key(out, *key), get_delivery_key;
    QuarantineKey: |key, out| {
        put_i64(out, key.at.0);
        put_u64(out, u64::from(key.number));
    }, |reader| Ok(Self { at: Timestamp::get_part(reader)?, number: reader.u32("a number")? });
}
