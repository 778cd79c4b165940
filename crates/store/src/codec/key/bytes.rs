//! The bytes of a key, which compare quickly.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

/// A key; most fit without an allocation. Keys are in the order of their bytes, as slices are.
///
/// A change looks at some sixty keys on its way to the end of a tree of changed rows. Almost all
/// differ in their first eight bytes, so these are compared as numbers, without a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(SmallVec<[u8; 24]>);

impl Key {
    /// The key that is before all others.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    pub(crate) fn push(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Key {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.as_chunks::<8>().0, other.as_chunks::<8>().0);
        for (our, their) in ours.iter().zip(theirs) {
            let order = u64::from_be_bytes(*our).cmp(&u64::from_be_bytes(*their));
            if order.is_ne() {
                return order;
            }
        }
        let alike = 8 * ours.len().min(theirs.len());
        self[alike..].cmp(&other[alike..])
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up to 17 bytes of two kinds: many begin alike or are the beginning of others.
    fn keys() -> impl Iterator<Item = Vec<u8>> {
        let filled = |length: usize, last: u8| [vec![1; length], vec![last]].concat();
        let lengths = (0..17).flat_map(move |length| [0, 1, u8::MAX].map(|last| filled(length, last)));
        std::iter::once(Vec::new()).chain(lengths)
    }

    #[test]
    fn keys_are_in_the_order_of_their_bytes() {
        for one in keys() {
            for other in keys() {
                let order = Key::from_slice(&one).cmp(&Key::from_slice(&other));
                assert_eq!(order, one.cmp(&other), "{one:?} and {other:?}");
            }
        }
    }
}
