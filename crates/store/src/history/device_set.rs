//! Which devices of a slice: 256 bits in memory, a short list or the bits when stored.

use crate::codec::{ByteReader, CodecError};

/// A set of places within a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SliceDevices([u64; 4]);

/// Sets of up to this many are stored as a list.
const LISTED_MAX: u32 = 31;
/// In place of the length of a list: the bits follow.
const ALL_BITS: u8 = 0xff;

impl SliceDevices {
    pub(crate) fn insert(&mut self, within: u8) {
        self.0[usize::from(within / 64)] |= 1 << (within % 64);
    }

    pub(crate) fn contains(&self, within: u8) -> bool {
        self.0[usize::from(within / 64)] >> (within % 64) & 1 == 1
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }

    /// Every place, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(|within| self.contains(*within))
    }

    /// Adds what is in `other`.
    pub(crate) fn insert_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(bits, more)| *bits |= more);
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        if self.len() <= LISTED_MAX {
            out.push(self.len() as u8);
            out.extend(self.iter());
        } else {
            out.push(ALL_BITS);
            self.0.iter().for_each(|bits| out.extend_from_slice(&bits.to_le_bytes()));
        }
    }

    pub(crate) fn get(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        const WHAT: &str = "a set of devices";
        let mut set = Self::default();
        match reader.u8(WHAT)? {
            ALL_BITS => {
                for bits in &mut set.0 {
                    *bits = u64::from_le_bytes(reader.array(WHAT)?);
                }
            }
            length if u32::from(length) <= LISTED_MAX => {
                reader.take(usize::from(length), WHAT)?.iter().for_each(|within| set.insert(*within));
            }
            _ => return Err(reader.invalid(WHAT)),
        }
        Ok(set)
    }
}
