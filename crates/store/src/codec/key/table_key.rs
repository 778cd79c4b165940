//! The key of a row, which compares quickly.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Bytes of a key that need no allocation.
const INLINE_MAX: usize = 30;

/// A key. Keys are in the order of their bytes, as slices are.
///
/// A change compares some sixty keys on its way to the end of a tree of changed rows. Those of up
/// to 30 bytes compare as three numbers and the rest.
#[derive(Clone, PartialEq, Eq)]
pub struct TableKey(KeyBytes);

/// A key is `Long` only if it is too long to be `Inline`.
#[derive(Clone, PartialEq, Eq)]
enum KeyBytes {
    /// Bytes beyond the length are 0.
    Inline {
        bytes: [u8; INLINE_MAX],
        length: u8,
    },
    Long(Vec<u8>),
}

const _: () = assert!(size_of::<TableKey>() == 32, "millions of these are in overlays");

impl TableKey {
    /// The key that is before all others.
    pub(crate) const fn new() -> Self {
        Self(KeyBytes::Inline { bytes: [0; INLINE_MAX], length: 0 })
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Self {
        let mut key = Self::new();
        key.extend_from_slice(bytes);
        key
    }

    pub(crate) fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    /// Most callers pass a constant length: then the copy is a few moves.
    #[inline]
    pub(crate) fn extend_from_slice(&mut self, more: &[u8]) {
        if let KeyBytes::Inline { bytes, length } = &mut self.0
            && let filled = usize::from(*length)
            && let Some(room) = bytes.get_mut(filled..filled + more.len())
        {
            room.copy_from_slice(more);
            *length += more.len() as u8;
        } else {
            self.extend_long(more);
        }
    }

    #[cold]
    fn extend_long(&mut self, more: &[u8]) {
        match &mut self.0 {
            KeyBytes::Inline { bytes, length } => {
                self.0 = KeyBytes::Long([&bytes[..usize::from(*length)], more].concat());
            }
            KeyBytes::Long(bytes) => bytes.extend_from_slice(more),
        }
    }
}

impl Deref for TableKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            KeyBytes::Inline { bytes, length } => &bytes[..usize::from(*length)],
            KeyBytes::Long(bytes) => bytes,
        }
    }
}

impl DerefMut for TableKey {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            KeyBytes::Inline { bytes, length } => &mut bytes[..usize::from(*length)],
            KeyBytes::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for TableKey {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Ord for TableKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (KeyBytes::Inline { bytes, length }, KeyBytes::Inline { bytes: others, length: other_length }) =
            (&self.0, &other.0)
        else {
            return self[..].cmp(&other[..]);
        };
        let ((words, rest), (other_words, other_rest)) = (bytes.as_chunks::<8>(), others.as_chunks::<8>());
        for (word, other) in words.iter().zip(other_words) {
            let order = u64::from_be_bytes(*word).cmp(&u64::from_be_bytes(*other));
            if order.is_ne() {
                return order;
            }
        }
        // Equal up to the padding: the shorter is the beginning of the longer.
        rest.cmp(other_rest).then(length.cmp(other_length))
    }
}

impl PartialOrd for TableKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Default for TableKey {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many begin alike or are the beginning of others, also where they become long.
    fn keys() -> impl Iterator<Item = Vec<u8>> {
        let filled = |length: usize, last: u8| [vec![0; length], vec![last]].concat();
        let lengths =
            (0..INLINE_MAX + 9).flat_map(move |length| [0, 1, u8::MAX].map(|last| filled(length, last)));
        std::iter::once(Vec::new()).chain(lengths)
    }

    #[test]
    fn keys_are_in_the_order_of_their_bytes() {
        for one in keys() {
            for other in keys() {
                let (key, other_key) = (TableKey::from_slice(&one), TableKey::from_slice(&other));
                assert_eq!(key.cmp(&other_key), one.cmp(&other), "{one:?} and {other:?}");
                assert_eq!(key == other_key, one == other, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_key_holds_what_it_was_made_of() {
        for bytes in keys() {
            let mut key = TableKey::new();
            for (place, byte) in bytes.iter().enumerate() {
                assert_eq!(key[..], bytes[..place]);
                key.push(*byte);
            }
            assert_eq!(key, TableKey::from_slice(&bytes));
            assert_eq!(key[..], bytes[..]);
        }
    }
}
