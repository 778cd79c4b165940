//! What records and changes consist of, each type with its one stored form. A record whose form is
//! its fields in order is declared by `stored!`.

use std::sync::Arc;

use base::{
    Attended, ClientId, DeviceId, EntityId, Incarnation, Kind, Lineage, PartitionId, Timestamp, Value, WayIn,
};
use compact_str::CompactString;
use records::{
    AliasKey, AnswerKey, Attempt, CountsKey, DeadReason, DeliveryKey, DeliveryStatus, DeviceSlot,
    DeviceState, EventKind, Flight, GatheredReport, GroupKey, JobClock, JobId, PaceOverride, PendingDelivery,
    PickMinute, PreviousSecret, QuarantineKey, QueueKey, RolloutEntry, RolloutStage, StoredElsewhere,
    StreamMove, StreamOrigin, TokenDigest, TokenPicks, WorkState,
};

use super::bytes::{ByteReader, put_bytes, put_i64, put_u64};
use super::counts::{get_counts_key, put_counts_key};
use super::value::{get_value, put_value};
use super::{CodecError, Stored};

/// A field of a record, or a part of a change.
pub(super) trait Field: Sized {
    fn put_field(&self, out: &mut Vec<u8>);
    fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError>;
}

/// A record whose stored form is its fields in order. Fields that it has `since` a version stand
/// last; read from an earlier one they are their defaults. Within another it has its version too.
macro_rules! stored {
    (
        $(#[$doc:meta])* $record:ty, $name:literal, version $version:literal:
        $($field:ident),+ $(; since $since:literal: $($later:ident),+)? $(,)?
    ) => {
        $(#[$doc])*
        impl $crate::codec::Stored for $record {
            const VERSION: u8 = $version;
            const NAME: &'static str = $name;

            fn put(&self, out: &mut Vec<u8>) {
                $($crate::codec::field::Field::put_field(&self.$field, out);)+
                $($($crate::codec::field::Field::put_field(&self.$later, out);)+)?
            }

            fn get(
                reader: &mut $crate::codec::ByteReader<'_>,
                version: u8,
            ) -> Result<Self, $crate::codec::CodecError> {
                debug_assert!(version <= <Self as $crate::codec::Stored>::VERSION);
                Ok(Self {
                    $($field: $crate::codec::field::Field::get_field(reader)?,)+
                    $($($later: if version >= $since {
                        $crate::codec::field::Field::get_field(reader)?
                    } else {
                        Default::default()
                    },)+)?
                })
            }
        }

        impl $crate::codec::field::Field for $record {
            fn put_field(&self, out: &mut Vec<u8>) {
                $crate::codec::Stored::write(self, out);
            }

            fn get_field(
                reader: &mut $crate::codec::ByteReader<'_>,
            ) -> Result<Self, $crate::codec::CodecError> {
                $crate::codec::Stored::read(reader)
            }
        }
    };
}
pub(super) use stored;

/// Parts of records, whose stored form is their fields in order.
macro_rules! fields {
    ($($part:ty: $($field:ident),+;)*) => {$(
        impl $crate::codec::field::Field for $part {
            fn put_field(&self, out: &mut Vec<u8>) {
                $($crate::codec::field::Field::put_field(&self.$field, out);)+
            }

            fn get_field(
                reader: &mut $crate::codec::ByteReader<'_>,
            ) -> Result<Self, $crate::codec::CodecError> {
                Ok(Self { $($field: $crate::codec::field::Field::get_field(reader)?),+ })
            }
        }
    )*};
}
pub(super) use fields;

fields! {
    DeliveryKey: at, number;
    QuarantineKey: at, number;
    PendingDelivery: delivery, attempts;
    Flight: delivery, attempts, since, tells, skipped, value;
    PreviousSecret: secret, until;
    PaceOverride: in_flight, gap_ms;
}

impl<R: Stored> Field for Box<R> {
    fn put_field(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        R::read(reader).map(Self::new)
    }
}

/// Whether there is one, and it.
impl<F: Field> Field for Option<F> {
    fn put_field(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        self.iter().for_each(|field| field.put_field(out));
    }

    fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        if reader.bool("whether there is one")? { F::get_field(reader).map(Some) } else { Ok(None) }
    }
}

/// Fields by how they are written and read.
macro_rules! forms {
    ($($field:ty: $put:expr, $get:expr;)*) => {$(
        impl Field for $field {
            fn put_field(&self, out: &mut Vec<u8>) {
                let put: fn(&Self, &mut Vec<u8>) = $put;
                put(self, out);
            }

            fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
                let get: fn(&mut ByteReader<'_>) -> Result<Self, CodecError> = $get;
                get(reader)
            }
        }
    )*};
}

forms! {
    bool: |flag, out| out.push(u8::from(*flag)), |reader| reader.bool("a flag");
    u8: |count, out| out.push(*count), |reader| reader.u8("a count");
    i8: |number, out| out.push(number.cast_unsigned()), |reader| reader.u8("a number").map(u8::cast_signed);
    u32: |number, out| put_u64(out, u64::from(*number)), |reader| reader.u32("a number");
    u64: |number, out| put_u64(out, *number), |reader| reader.u64("a number");
    u128: |hash, out| out.extend_from_slice(&hash.to_le_bytes()),
        |reader| reader.array("a hash").map(Self::from_le_bytes);
    Vec<u8>: |bytes, out| put_bytes(out, bytes), |reader| reader.bytes("bytes").map(Self::from);
    Box<[u8]>: |bytes, out| put_bytes(out, bytes), |reader| reader.bytes("bytes").map(Self::from);
    Box<str>: |text, out| put_bytes(out, text.as_bytes()), |reader| reader.text("a text").map(Self::from);
    Arc<[u8]>: |bytes, out| put_bytes(out, bytes), |reader| reader.bytes("bytes").map(Self::from);
    Arc<str>: |text, out| put_bytes(out, text.as_bytes()), |reader| reader.text("a text").map(Self::from);
    String: |text, out| put_bytes(out, text.as_bytes()), |reader| reader.text("a text").map(Self::from);
    CompactString: |text, out| put_bytes(out, text.as_bytes()),
        |reader| reader.text("a text").map(Self::from);
    Value: |value, out| put_value(out, value), get_value;
    Timestamp: |at, out| put_i64(out, at.0), |reader| reader.i64("a time").map(Self);
    Attended: |at, out| put_i64(out, at.0), |reader| reader.i64("an attended time").map(Self);
    DeviceId: |id, out| put_bytes(out, id.as_str().as_bytes()),
        |reader| reader.text_as("a device id", Self::new);
    ClientId: |id, out| put_bytes(out, id.as_str().as_bytes()),
        |reader| reader.text_as("a client id", Self::new);
    Kind: |kind, out| put_bytes(out, kind.as_str().as_bytes()),
        |reader| reader.text_as("a kind", Self::new);
    EntityId: |id, out| out.extend_from_slice(&id.to_bytes()),
        |reader| Ok(Self::from_bytes(&reader.array("an id")?));
    PartitionId: |partition, out| out.extend_from_slice(&partition.0.to_le_bytes()),
        |reader| reader.array("a partition").map(|partition| Self(u16::from_le_bytes(partition)));
    DeviceSlot: |slot, out| put_u64(out, u64::from(slot.0)), |reader| reader.u32("a slot").map(Self);
    Incarnation: |of, out| put_u64(out, of.0), |reader| reader.u64("an incarnation").map(Self);
    Lineage: |of, out| out.extend_from_slice(&of.0.to_le_bytes()),
        |reader| reader.array("a lineage").map(|of| Self(u64::from_le_bytes(of)));
    QueueKey: |queue, out| put_u64(out, queue.0), |reader| reader.u64("a queue").map(Self);
    JobId: |id, out| out.extend_from_slice(&id.0), |reader| reader.array("a job id").map(Self);
    GroupKey: |group, out| out.extend_from_slice(&group.0.to_le_bytes()),
        |reader| reader.array("a group").map(|group| Self(u64::from_le_bytes(group)));
    AliasKey: |alias, out| out.extend_from_slice(&alias.0.to_le_bytes()),
        |reader| reader.array("an alias").map(|alias| Self(u128::from_le_bytes(alias)));
    AnswerKey: |key, out| out.extend_from_slice(&key.0.to_le_bytes()),
        |reader| reader.array("the key of an answer").map(|key| Self(u128::from_le_bytes(key)));
    TokenDigest: |digest, out| out.extend_from_slice(&digest.0),
        |reader| reader.array("a digest").map(Self);
    CountsKey: |key, out| put_counts_key(out, *key), get_counts_key;
    DeviceState: Stored::write, Stored::read;
    Attempt: Stored::write, Stored::read;
}

/// Choices, each written as its number.
macro_rules! choices {
    ($($choice:ident, $name:literal: $($one:ident = $number:literal),+;)*) => {$(
        impl $crate::codec::field::Field for $choice {
            fn put_field(&self, out: &mut Vec<u8>) {
                out.push(match self { $(Self::$one => $number),+ });
            }

            fn get_field(
                reader: &mut $crate::codec::ByteReader<'_>,
            ) -> Result<Self, $crate::codec::CodecError> {
                match reader.u8($name)? {
                    $($number => Ok(Self::$one),)+
                    _ => Err(reader.invalid($name)),
                }
            }
        }
    )*};
}
pub(super) use choices;

/// Choices that carry fields, each written as its number and its fields in order.
macro_rules! variants {
    ($($choice:ident, $name:literal:
        $($one:ident { $($field:tt: $part:ident),* } = $number:literal),+;)*) => {$(
        impl $crate::codec::field::Field for $choice {
            fn put_field(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$one { $($field: $part),* } => {
                        out.push($number);
                        $($crate::codec::field::Field::put_field($part, out);)*
                    })+
                }
            }

            fn get_field(
                reader: &mut $crate::codec::ByteReader<'_>,
            ) -> Result<Self, $crate::codec::CodecError> {
                match reader.u8($name)? {
                    $($number => Ok(Self::$one {
                        $($field: $crate::codec::field::Field::get_field(reader)?),*
                    }),)+
                    _ => Err(reader.invalid($name)),
                }
            }
        }
    )*};
}
pub(super) use variants;

choices! {
    EventKind, "a kind of event": Changed = 0, Lost = 1, Restored = 2;
    DeliveryStatus, "a status": Pending = 0, Delivered = 1, Failed = 2, Superseded = 3, Cancelled = 4;
    DeadReason, "a reason": Released = 0, TimedOut = 1;
    JobClock, "a clock": Engine = 0, Wall = 1;
    WorkState, "a state": Run = 0, Drain = 1, Stop = 2;
}

impl Field for WayIn {
    fn put_field(&self, out: &mut Vec<u8>) {
        out.push(self.index() as u8);
    }

    fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        reader.choice("a way in", &Self::ALL)
    }
}

/// Lists behind their length.
macro_rules! lists {
    ($($item:ty),+) => {$(
        impl Field for Vec<$item> {
            fn put_field(&self, out: &mut Vec<u8>) {
                put_u64(out, self.len() as u64);
                self.iter().for_each(|item| item.put_field(out));
            }

            fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
                reader.list("a list", Field::get_field)
            }
        }
    )+};
}

lists!(
    Box<str>,
    DeviceId,
    EventKind,
    GatheredReport,
    Incarnation,
    PickMinute,
    RolloutStage,
    RolloutEntry,
    StoredElsewhere,
    StreamMove,
    StreamOrigin,
    TokenPicks,
    u64,
    (String, String)
);

impl<A: Field, B: Field> Field for (A, B) {
    fn put_field(&self, out: &mut Vec<u8>) {
        self.0.put_field(out);
        self.1.put_field(out);
    }

    fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        Ok((Field::get_field(reader)?, Field::get_field(reader)?))
    }
}
