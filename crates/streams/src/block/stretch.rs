//! A stretch: the least part of a block that is read by itself.

use std::ops::Range;

use base::Timestamp;

use crate::varint::{Unread, put_number, put_signed};

/// Most messages of a stretch.
pub(super) const STRETCH_MESSAGES_MAX: u64 = 64;
/// A stretch that has so many bytes ends, so that one message costs no more to read than that.
pub(super) const STRETCH_BYTES: u64 = 64 * 1_024;

/// Messages with consecutive ids, one behind the other in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageStretch {
    /// The first message's id.
    pub(super) first: u64,
    /// How many there are.
    pub(super) messages: u64,
    /// When the first was received.
    pub(super) at: Timestamp,
    /// Where they begin in the file.
    pub(super) offset: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// The checksum of these.
    pub(super) checksum: u32,
}

impl MessageStretch {
    /// The last message's id.
    pub(super) fn last(&self) -> u64 {
        self.first + (self.messages - 1)
    }

    /// Where its bytes are in the file.
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }
}

/// Appends the stretches of a block.
pub(super) fn write(out: &mut Vec<u8>, stretches: &[MessageStretch]) {
    put_number(out, stretches.len() as u64);
    let mut before: Option<&MessageStretch> = None;
    for stretch in stretches {
        put_number(out, stretch.messages - 1);
        match before {
            None => {
                put_number(out, 0);
                put_signed(out, stretch.at.0);
            }
            Some(before) => {
                put_number(out, stretch.first - before.last() - 1);
                put_signed(out, stretch.at.0.wrapping_sub(before.at.0));
            }
        }
        put_number(out, stretch.bytes);
        out.extend_from_slice(&stretch.checksum.to_le_bytes());
        before = Some(stretch);
    }
}

/// Reads the stretches of a block whose first message is `first`. There is at least one.
pub(super) fn read(unread: &mut Unread<'_>, first: u64) -> Option<Vec<MessageStretch>> {
    let mut stretches: Vec<MessageStretch> = Vec::new();
    for _ in 0..unread.number()? {
        let more = unread.number().filter(|more| *more < STRETCH_MESSAGES_MAX)?;
        let left_out = unread.number()?;
        let (next, at, offset) = match stretches.last() {
            None => (first, Timestamp(unread.signed()?), 0),
            Some(before) => {
                let at = before.at.0.wrapping_add(unread.signed()?);
                (before.last().checked_add(1)?, Timestamp(at), before.range().end)
            }
        };
        let first = next.checked_add(left_out)?;
        // There is an id behind the last message.
        first.checked_add(more + 1)?;
        let bytes = unread.number()?;
        offset.checked_add(bytes)?;
        let checksum = u32::from_le_bytes(unread.array()?);
        stretches.push(MessageStretch { first, messages: more + 1, at, offset, bytes, checksum });
    }
    let begins = stretches.first().is_some_and(|stretch| stretch.first == first);
    begins.then_some(stretches)
}
