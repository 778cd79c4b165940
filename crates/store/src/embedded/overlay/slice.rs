//! Signs of life and readings of one slice of devices, since the last checkpoint began.

use records::{DeviceSlot, LastSeen, Reading};

use super::Versions;
use crate::history::{Chunk, ChunkReadings, ReadingSpan};

/// What became of a device's sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SeenChange {
    /// What lies below counts.
    #[default]
    Untouched,
    /// The device was deleted.
    Gone,
    Seen(LastSeen),
}

/// One slice.
#[derive(Debug)]
pub(crate) struct SliceOverlay {
    seen: Box<[SeenChange; DeviceSlot::SLICE_DEVICES as usize]>,
    /// What open views still read, oldest first.
    seen_before: Vec<SeenBefore>,
    chunks: Vec<ChunkVersions>,
}

#[derive(Debug)]
struct SeenBefore {
    /// The batch that overwrote it.
    until: u64,
    within: u8,
    change: SeenChange,
}

/// A chunk, and how long it was when views were opened that still read it.
#[derive(Debug)]
struct ChunkVersions {
    chunk: Chunk,
    marks: Vec<ChunkMark>,
}

/// As of batch `seq` the chunk had `bytes` bytes.
#[derive(Clone, Copy, Debug)]
struct ChunkMark {
    seq: u64,
    bytes: usize,
}

impl Default for SliceOverlay {
    fn default() -> Self {
        let seen = Box::new([SeenChange::Untouched; DeviceSlot::SLICE_DEVICES as usize]);
        Self { seen, seen_before: Vec::new(), chunks: Vec::new() }
    }
}

impl SliceOverlay {
    /// Bytes of memory without any reading.
    pub(super) const EMPTY_BYTES: usize =
        size_of::<Self>() + size_of::<[SeenChange; DeviceSlot::SLICE_DEVICES as usize]>();

    pub(super) fn see(&mut self, within: u8, change: SeenChange, versions: &Versions) {
        self.seen_before.retain(|before| versions.needs_before(before.until));
        let current = &mut self.seen[usize::from(within)];
        let serves_all = |before: &SeenBefore| before.within == within && !versions.needs(before.until);
        if versions.any_view() && !self.seen_before.iter().any(serves_all) {
            self.seen_before.push(SeenBefore { until: versions.seq, within, change: *current });
        }
        *current = change;
    }

    /// A device's sign of life as of batch `seq`.
    pub(crate) fn seen(&self, within: u8, seq: u64) -> SeenChange {
        let before = self.seen_before.iter().find(|before| before.within == within && before.until > seq);
        before.map_or(self.seen[usize::from(within)], |before| before.change)
    }

    /// Every device's, as it is at the end.
    pub(crate) fn all_seen(&self) -> &[SeenChange; DeviceSlot::SLICE_DEVICES as usize] {
        &self.seen
    }

    /// Adds a reading; the bytes of memory that it took.
    pub(super) fn read(&mut self, within: u8, reading: &Reading, versions: &Versions) -> usize {
        let mut taken = 0;
        if self.chunks.last().is_none_or(|last| last.chunk.is_full()) {
            self.chunks.push(ChunkVersions { chunk: Chunk::new(), marks: Vec::new() });
            taken += size_of::<ChunkVersions>();
        }
        if let Some(last) = self.chunks.last_mut() {
            last.mark(versions);
            let before = last.chunk.memory_bytes();
            last.chunk.push(within, reading);
            taken += last.chunk.memory_bytes() - before;
        }
        taken
    }

    /// The chunks that a device may have readings in, as of batch `seq`, with their numbers.
    pub(crate) fn chunks(&self, within: u8, seq: u64) -> impl Iterator<Item = (usize, ChunkPart<'_>)> {
        let parts = self.chunks.iter().map(move |chunk| chunk.part(seq)).enumerate();
        parts.filter(move |(_, part)| part.bytes > 0 && part.chunk.devices().contains(within))
    }

    /// A chunk by its number, as of batch `seq`.
    pub(crate) fn chunk(&self, number: usize, seq: u64) -> Option<ChunkPart<'_>> {
        self.chunks.get(number).map(|chunk| chunk.part(seq))
    }

    /// Every chunk, as it is at the end.
    pub(crate) fn all_chunks(&self) -> impl Iterator<Item = ChunkPart<'_>> {
        self.chunks.iter().map(|chunk| chunk.part(u64::MAX))
    }

    pub(crate) fn readings_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.chunk.memory_bytes()).sum()
    }
}

impl ChunkVersions {
    /// Notes the length before the first reading that open views must not see.
    fn mark(&mut self, versions: &Versions) {
        self.marks.retain(|mark| versions.needs_before(mark.seq + 1));
        let serves_all = self.marks.last().is_some_and(|mark| !versions.needs(mark.seq + 1));
        if versions.any_view() && !serves_all {
            self.marks.push(ChunkMark { seq: versions.seq - 1, bytes: self.chunk.len() });
        }
    }

    fn part(&self, seq: u64) -> ChunkPart<'_> {
        let mark = self.marks.iter().find(|mark| mark.seq >= seq);
        ChunkPart { chunk: &self.chunk, bytes: mark.map_or(self.chunk.len(), |mark| mark.bytes) }
    }
}

/// A chunk as of some batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkPart<'a> {
    chunk: &'a Chunk,
    bytes: usize,
}

impl<'a> ChunkPart<'a> {
    /// Times of its readings, and perhaps of some later ones.
    pub(crate) fn span(&self) -> ReadingSpan {
        self.chunk.span()
    }

    /// Its readings, of one device or of all.
    pub(crate) fn readings(&self, only: Option<u8>) -> ChunkReadings<'a> {
        self.chunk.readings(self.bytes, only)
    }
}
