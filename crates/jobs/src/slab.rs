//! Records in numbered places that are used again, in chunks.
//!
//! Chunks because a growing `Vec` would copy millions of records at once and, while it does, hold
//! them twice. A handle is four bytes, also where it may be missing.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// Records that are allocated together. The list of chunks stays in the cache, and a chunk has 10
/// KiB at most. To one of more than 14 KiB jemalloc adds a page of 4 KiB.
const CHUNK_RECORDS: usize = 128;
/// Handles leave the highest bit free for whoever stores them.
const HANDLES_MAX: u32 = u32::MAX >> 1;
const LIVE: &str = "a handle is dropped with the record it leads to";

/// Where a record is. Dropped before the record is taken out, so that it never leads to another.
pub(crate) struct Handle<T>(NonZeroU32, PhantomData<fn() -> T>);

impl<T> Handle<T> {
    fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().filter(|number| *number <= HANDLES_MAX);
        let number = number.and_then(NonZeroU32::new).expect("a partition holds fewer than 2^31 jobs");
        Self(number, PhantomData)
    }

    /// The handle as a number below 2^31 that is not 0.
    pub(crate) fn number(self) -> NonZeroU32 {
        self.0
    }

    /// The handle of that [`Handle::number`].
    pub(crate) fn from_number(number: NonZeroU32) -> Self {
        Self(number, PhantomData)
    }

    fn place(self) -> (usize, usize) {
        let index = self.0.get() as usize - 1;
        (index / CHUNK_RECORDS, index % CHUNK_RECORDS)
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Handle<T> {}

impl<T> PartialOrd for Handle<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Handle<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

/// The records.
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<Handle<T>>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle<T>, &T)> {
        let places = self.chunks.iter().flatten().enumerate();
        places.filter_map(|(place, record)| Some((Handle::at(place), record.as_ref()?)))
    }

    pub(crate) fn insert(&mut self, record: T) -> Handle<T> {
        self.len += 1;
        if let Some(handle) = self.free.pop() {
            let (chunk, place) = handle.place();
            self.chunks[chunk][place] = Some(record);
            return handle;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_RECORDS) {
            self.chunks.push(Vec::with_capacity(CHUNK_RECORDS));
        }
        let full = (self.chunks.len() - 1) * CHUNK_RECORDS;
        let chunk = self.chunks.last_mut().expect("one was pushed above");
        chunk.push(Some(record));
        Handle::at(full + chunk.len() - 1)
    }

    pub(crate) fn remove(&mut self, handle: Handle<T>) -> T {
        let (chunk, place) = handle.place();
        let record = self.chunks[chunk][place].take().expect(LIVE);
        self.len -= 1;
        if self.len == 0 {
            self.give_back();
        } else {
            self.free.push(handle);
        }
        record
    }

    /// Whoever holds nothing keeps one chunk, not the memory of the highest tide.
    fn give_back(&mut self) {
        self.chunks.truncate(1);
        self.chunks.iter_mut().for_each(Vec::clear);
        self.free.clear();
        self.free.shrink_to(CHUNK_RECORDS);
    }
}

impl<T> Index<Handle<T>> for Slab<T> {
    type Output = T;

    fn index(&self, handle: Handle<T>) -> &T {
        let (chunk, place) = handle.place();
        self.chunks[chunk][place].as_ref().expect(LIVE)
    }
}

impl<T> IndexMut<Handle<T>> for Slab<T> {
    fn index_mut(&mut self, handle: Handle<T>) -> &mut T {
        let (chunk, place) = handle.place();
        self.chunks[chunk][place].as_mut().expect(LIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_given_back_when_empty() {
        let mut slab = Slab::default();
        let handles: Vec<_> = (0..2_000).map(|n| slab.insert(n)).collect();
        assert!(handles.iter().enumerate().all(|(n, handle)| slab[*handle] == n));
        assert_eq!(slab.remove(handles[700]), 700);
        let again = slab.insert(9_999);
        assert_eq!(again.number(), handles[700].number());
        assert_eq!((slab[again], slab.len()), (9_999, 2_000));
        for handle in handles {
            slab.remove(handle);
        }
        assert_eq!((slab.len(), slab.chunks.len(), slab.free.len()), (0, 1, 0));
        assert_eq!(slab.insert(1).number().get(), 1);
    }

    #[test]
    fn a_missing_handle_costs_nothing() {
        assert_eq!(size_of::<Option<Handle<u64>>>(), 4);
    }
}
