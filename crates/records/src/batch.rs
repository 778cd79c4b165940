//! Everything that one step of a partition changes, kept whole or not at all.

use std::sync::Arc;

use base::{ClientId, DeviceId, EntityId, Incarnation, PartitionId, Timestamp, Value, WayIn};

use crate::weight::{CHANGE_BYTES, Weighs, text_of, weighs};
// The list of changes names types of every module.
use crate::*;

/// The changes of one step. Applied in order, atomically, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Whose step it was.
    pub partition: PartitionId,
    /// Counters and clocks after it; `head.seq` numbers the batch and `head.now` is the time of all
    /// its changes.
    pub head: PartitionHead,
    /// The changes.
    pub ops: Vec<Op>,
}

impl Batch {
    /// An empty batch; its head is filled in when it is sealed.
    #[must_use]
    pub fn new(partition: PartitionId) -> Self {
        Self { partition, head: PartitionHead::default(), ops: Vec::new() }
    }
}

/// Makes one enum of all changes.
macro_rules! op {
    ($($(#[$doc:meta])* $number:literal $change:ident($($part:ident: $type:ty),+) $does:tt)*) => {
        /// One change.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            /// A sign of life, with or without a reading: the hot one, and for an equal report the
            /// only one.
            Sign(Sign),
            $($(#[$doc])* $change($($type),+),)*
        }

        impl Op {
            /// About how many bytes it takes when it is written: what bounds a batch. Never much
            /// less than it really takes.
            #[must_use]
            pub fn weight(&self) -> usize {
                match self {
                    Self::Sign(sign) => sign.weight(),
                    $(Self::$change($($part),+) => CHANGE_BYTES $(+ $part.weight())+,)*
                }
            }
        }
    };
}

crate::all_changes!(op);

const _: () = assert!(size_of::<Op>() <= 80, "a step moves thousands of these; put larger ones in a box");

/// A sign of life of a device. Its time is the batch's, its attended reading the head's for `way`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sign {
    /// The device.
    pub slot: DeviceSlot,
    /// The way it came in.
    pub way: WayIn,
    /// Readings kept of the device after it; with `reading`, the number of that reading.
    pub readings: u32,
    /// The newest `ts` that any report of the device carried, this one included.
    pub newest_ts: Option<Timestamp>,
    /// What was reported; `None` for a heartbeat or a refused report.
    pub reading: Option<SignReading>,
}

/// The reading in a sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct SignReading {
    /// The report's own `ts`; `None` is the time of receipt.
    pub ts: Option<Timestamp>,
    /// What was reported.
    pub value: Value,
    /// Whether it changed the device's value.
    pub changed: bool,
}

weighs!(Sign: |sign| 32 + text_of(sign.reading.as_ref().map(|reading| &reading.value)));
