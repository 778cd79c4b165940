//! A slice: the least part of a block that is read by itself.

use std::ops::Range;

use base::Timestamp;

use crate::varint::{Unread, put_number, put_signed};

/// Most messages of a slice.
pub(super) const SLICE_MESSAGES_MAX: u64 = 64;
/// A slice that has so many bytes ends, so that one message costs no more to read than that.
pub(super) const SLICE_BYTES: u64 = 64 * 1_024;

/// Messages with consecutive ids, one behind the other in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageSlice {
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

impl MessageSlice {
    /// The last message's id.
    pub(super) fn last(&self) -> u64 {
        self.first + (self.messages - 1)
    }

    /// Where its bytes are in the file.
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }
}

/// Appends the slices of a block.
pub(super) fn write(out: &mut Vec<u8>, slices: &[MessageSlice]) {
    put_number(out, slices.len() as u64);
    let mut before: Option<&MessageSlice> = None;
    for slice in slices {
        put_number(out, slice.messages - 1);
        match before {
            None => {
                put_number(out, 0);
                put_signed(out, slice.at.0);
            }
            Some(before) => {
                put_number(out, slice.first - before.last() - 1);
                put_signed(out, slice.at.0.wrapping_sub(before.at.0));
            }
        }
        put_number(out, slice.bytes);
        out.extend_from_slice(&slice.checksum.to_le_bytes());
        before = Some(slice);
    }
}

/// Reads the slices of a block whose first message is `first`. There is at least one.
pub(super) fn read(unread: &mut Unread<'_>, first: u64) -> Option<Vec<MessageSlice>> {
    let mut slices: Vec<MessageSlice> = Vec::new();
    for _ in 0..unread.number()? {
        let more = unread.number().filter(|more| *more < SLICE_MESSAGES_MAX)?;
        let left_out = unread.number()?;
        let (next, at, offset) = match slices.last() {
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
        slices.push(MessageSlice { first, messages: more + 1, at, offset, bytes, checksum });
    }
    let begins = slices.first().is_some_and(|slice| slice.first == first);
    begins.then_some(slices)
}
