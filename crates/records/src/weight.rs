//! What changes weigh: about how many bytes they take when they are written.

use base::{ClientId, DeviceId, EntityId, Incarnation, Timestamp, Value};

use crate::{
    AnswerKey, CommandKey, CountsKey, DeliveryKey, DevicePlace, DeviceSlot, JobId, MemberStatus, NoticeKey,
    QuarantineKey, QueueKey,
};

/// What any change takes: a record without its texts and values, or all by which one is found.
pub(crate) const CHANGE_BYTES: usize = 128;
/// What a record of many fields takes besides that.
pub(crate) const RECORD_BYTES: usize = 128;

/// A part of a change.
pub(crate) trait Weighs {
    /// About how many bytes it takes besides the [`CHANGE_BYTES`] of its change.
    fn weight(&self) -> usize;
}

/// What records weigh, each beside its struct.
macro_rules! weighs {
    ($part:ty: |$this:pat_param| $bytes:expr) => {
        impl $crate::weight::Weighs for $part {
            fn weight(&self) -> usize {
                let $this = self;
                $bytes
            }
        }
    };
}
pub(crate) use weighs;

/// Keys and numbers, which the bytes of every change have room for.
macro_rules! weigh_nothing {
    ($($part:ty),+ $(,)?) => {
        $(weighs!($part: |_| 0);)+
    };
}

weigh_nothing!(
    u32,
    u64,
    Timestamp,
    Incarnation,
    EntityId,
    AnswerKey,
    CommandKey,
    CountsKey,
    DeliveryKey,
    DevicePlace,
    DeviceSlot,
    JobId,
    MemberStatus,
    NoticeKey,
    QuarantineKey,
    QueueKey,
);

weighs!(str: |text| text.len());
weighs!([u8]: |bytes| bytes.len());
weighs!(DeviceId: |id| id.as_str().len());
weighs!(ClientId: |id| id.as_str().len());

/// Bytes of a value's text.
pub(crate) fn text_of(value: Option<&Value>) -> usize {
    match value {
        Some(Value::Text(text)) => text.len(),
        Some(Value::Number(_)) | None => 0,
    }
}

/// Bytes of a text, if there is one.
pub(crate) fn bytes_of(text: &Option<Box<str>>) -> usize {
    text.as_ref().map_or(0, |text| text.len())
}
