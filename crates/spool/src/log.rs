//! The records on disk: segments that are appended to, read from any place, and removed once
//! nothing in them waits.
//!
//! What [`SpoolWriter::commit`] accepted is durable when it returns. Whatever the files look like
//! when they are opened, opening succeeds as far as the disk can be read at all. Damaged places are
//! set aside and counted, and every record that is whole is there. Everything here blocks on the
//! disk; one thread commits, another tidies up.

mod commit;
mod open;
mod rewrite;

use std::io;
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{LogLimit, Timestamp};
use blocklog::Disk;

use crate::destination::Destination;
use crate::index::{DoneRecord, SegmentSummary, WaitingIndex};
use crate::record::{FollowPosition, SpoolRecord};
use crate::segment_reader::{SegmentReader, SegmentStep};
use crate::state::{CallInFlight, SpoolState, SpoolTotals, StateFiles};

pub(crate) use commit::{AppendError, SpoolWriter};

/// Ends the names of segments.
const SEGMENT_SUFFIX: &str = ".seg";
/// While a segment is written anew.
const REWRITE_FILE: &str = "rewrite.tmp";
const LOCK_FILE: &str = "lock";
/// Where there is a file of this name, the spool gets a new identity at its start, once.
const NEW_IDENTITY_FILE: &str = "new-identity";

/// Segments are a sixteenth of the whole, within these bounds, in bytes.
const SEGMENT_PART: u64 = 16;
const SEGMENT_BYTES_MIN: u64 = 16 * 1_024;
const SEGMENT_BYTES_MAX: u64 = 4 * 1_024 * 1_024;

/// What is done with a request that there is no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpoolFullChoice {
    /// It is refused.
    #[default]
    Reject,
    /// The oldest records are given up for it.
    DropOldest,
}

/// How a spool keeps its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpoolLogOptions {
    /// Most bytes of all segments.
    pub(crate) bytes_max: u64,
    /// When there are as many.
    pub(crate) when_full: SpoolFullChoice,
    /// Where this is: files that were copied elsewhere get another identity there.
    pub(crate) place: u64,
    /// The same, as the first two versions of the state have it.
    pub(crate) earlier_place: u64,
}

impl SpoolLogOptions {
    /// Whether a state is from here.
    fn is_place_of(&self, state: &SpoolState) -> bool {
        state.place == if state.has_earlier_place { self.earlier_place } else { self.place }
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        (self.bytes_max / SEGMENT_PART).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }
}

/// A spool's records; shared by all threads.
pub(crate) struct SpoolLog {
    disk: Arc<dyn Disk>,
    /// Damaged places are kept here.
    damaged: Arc<dyn Disk>,
    options: SpoolLogOptions,
    index: Mutex<WaitingIndex>,
    state: Mutex<Saved>,
    /// Held by whoever removes segments or writes them anew. It is taken before the other two, and
    /// the state before the index.
    upkeep: Mutex<()>,
    /// Lines of the log about segments that cannot be written anew.
    rewrite_noted: LogLimit<()>,
    _lock: Box<dyn Send + Sync>,
}

/// The files of the state, and what only they know.
struct Saved {
    files: StateFiles,
    identity: u64,
    numbers_end: u64,
}

/// A place to read on from: behind a record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadPlace {
    segment: u64,
    generation: u32,
    offset: u64,
}

/// Whether the batch is full, and whether a place was damaged.
fn read_segment(
    batch: &mut ReadBatch<'_>,
    (first, generation): (u64, u32),
    mut reader: SegmentReader,
) -> io::Result<(bool, bool)> {
    let mut is_damaged = false;
    while let Some(step) = reader.next()? {
        match step {
            SegmentStep::Damaged(..) => is_damaged = true,
            SegmentStep::Record(record, offset, bytes) => {
                let next = ReadPlace { segment: first, generation, offset: offset + bytes as u64 };
                if !batch.take(record, bytes, next) {
                    return Ok((true, is_damaged));
                }
            }
        }
    }
    Ok((false, is_damaged))
}

#[cfg(test)]
impl ReadPlace {
    pub(crate) const START: Self = Self { segment: 0, generation: 0, offset: 0 };
}

/// How much is read at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimits {
    /// Most records.
    pub(crate) records: usize,
    /// Most bytes of bodies; the first record is read in any case.
    pub(crate) bytes: usize,
}

/// A record that was read.
#[derive(Clone, Debug)]
pub(crate) struct StoredRecord {
    /// The record.
    pub(crate) record: SpoolRecord,
    /// Its length on disk.
    pub(crate) bytes: usize,
    /// The place behind it.
    pub(crate) next: ReadPlace,
}

/// What there is, at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpoolSummary {
    /// Items that wait.
    pub(crate) waiting: u64,
    /// Bytes of their records.
    pub(crate) bytes: u64,
    /// Bytes of all segments.
    pub(crate) disk_bytes: u64,
    /// Destinations with something waiting.
    pub(crate) destinations: u64,
    /// When the oldest of it was received.
    pub(crate) oldest_at: Option<Timestamp>,
    /// Counts since the spool was made.
    pub(crate) totals: SpoolTotals,
    /// Why something does not move.
    pub(crate) error: Option<String>,
}

impl SpoolLog {
    /// In the ids of what is accepted from now on.
    #[must_use]
    pub(crate) fn identity(&self) -> u64 {
        locked(&self.state).identity
    }

    /// What there is.
    #[must_use]
    pub(crate) fn summary(&self) -> SpoolSummary {
        let index = locked(&self.index);
        let waiting = index.waiting();
        let failing =
            index.lanes.iter().filter_map(|(destination, lane)| Some((destination, lane.error.as_ref()?)));
        SpoolSummary {
            waiting: waiting.items,
            bytes: waiting.bytes,
            disk_bytes: index.disk_bytes(),
            destinations: index.lanes.len() as u64,
            oldest_at: index.lanes.values().map(|lane| lane.oldest).min(),
            totals: index.totals,
            error: failing.min().map(|(destination, error)| format!("{destination}: {error}")),
        }
    }

    /// Destinations with something waiting.
    #[must_use]
    pub(crate) fn destinations(&self) -> Vec<Destination> {
        locked(&self.index).lanes.keys().cloned().collect()
    }

    /// Whether something of a destination waits.
    #[must_use]
    pub(crate) fn waits(&self, destination: &Destination) -> bool {
        locked(&self.index).lanes.contains_key(destination)
    }

    /// How far a file was followed.
    #[must_use]
    pub(crate) fn followed(&self) -> Option<FollowPosition> {
        locked(&self.index).follow
    }

    /// A hash of the path that was followed; 0 where it is not known.
    #[must_use]
    pub(crate) fn followed_path(&self) -> u64 {
        locked(&self.index).followed_path
    }

    /// The file of a path with this hash is followed from here on.
    ///
    /// # Errors
    /// When that cannot be saved.
    pub(crate) fn follow_from(&self, path: u64, position: FollowPosition) -> io::Result<()> {
        {
            let mut index = locked(&self.index);
            (index.followed_path, index.follow) = (path, Some(position));
        }
        self.save()
    }

    /// A line of a followed file was refused; it goes on behind it.
    ///
    /// # Errors
    /// When that cannot be saved; then the line is refused again.
    pub(crate) fn follow_past_refused(&self, position: FollowPosition) -> io::Result<()> {
        {
            let mut index = locked(&self.index);
            index.totals.refused += 1;
            index.follow = Some(position);
        }
        let saved = self.save();
        if saved.is_err() {
            locked(&self.index).totals.refused -= 1;
        }
        saved
    }

    /// When the newest of all records was received.
    #[must_use]
    pub(crate) fn newest_received(&self) -> Timestamp {
        locked(&self.index).newest_received
    }

    /// Most bytes of all segments.
    #[must_use]
    pub(crate) fn bytes_max(&self) -> u64 {
        self.options.bytes_max
    }

    /// The call whose outcome is not known, also from before the spool was stopped.
    #[must_use]
    pub(crate) fn in_flight(&self, destination: &Destination) -> Option<CallInFlight> {
        locked(&self.index).lanes.get(destination)?.in_flight
    }

    /// A call begins whose records are those from `first` on: once this is saved, it is made again
    /// with the very same ones. `false` where some of them were given up since they were read.
    #[must_use]
    pub(crate) fn begin_call(&self, destination: &Destination, first: u64, call: CallInFlight) -> bool {
        match locked(&self.index).lanes.get_mut(destination) {
            Some(lane) if lane.cursor < first => {
                lane.in_flight = Some(call);
                true
            }
            _ => false,
        }
    }

    /// It is certain that the call under way had no effect: it need not be made again.
    pub(crate) fn forget_call(&self, destination: &Destination) {
        if let Some(lane) = locked(&self.index).lanes.get_mut(destination) {
            lane.in_flight = None;
        }
    }

    /// Why a destination does not move; `None` when it does.
    pub(crate) fn set_error(&self, destination: &Destination, error: Option<String>) {
        if let Some(lane) = locked(&self.index).lanes.get_mut(destination) {
            lane.error = error;
        }
    }

    /// These records, in order and with none left out, need no more: `refused` of their items were
    /// refused for good, the server has the others.
    pub(crate) fn done(&self, destination: &Destination, records: &[StoredRecord], refused: u64) {
        let mut index = locked(&self.index);
        let items = index.done(destination, &done_records(records));
        index.totals.refused += refused;
        index.totals.forwarded += items.saturating_sub(refused);
    }

    /// These records, in order and with none left out, are not forwarded any more; the items that
    /// waited until now.
    pub(crate) fn give_up(&self, destination: &Destination, records: &[StoredRecord]) -> u64 {
        let mut index = locked(&self.index);
        let items = index.done(destination, &done_records(records));
        index.totals.dropped += items;
        items
    }

    /// So many messages have another one in their place at the server.
    pub(crate) fn count_conflicts(&self, conflicts: u64) {
        locked(&self.index).totals.conflicts += conflicts;
    }

    /// The oldest records of a destination that wait, in order; none where nothing does. `place` is
    /// where the last one that is done ended.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub(crate) fn read(
        &self,
        destination: &Destination,
        place: Option<ReadPlace>,
        limits: ReadLimits,
    ) -> io::Result<Vec<StoredRecord>> {
        loop {
            if let Some(records) = self.read_once(destination, place, limits)? {
                return Ok(records);
            }
        }
    }

    /// `None` where a segment was written anew meanwhile: its places are others now.
    fn read_once(
        &self,
        destination: &Destination,
        place: Option<ReadPlace>,
        limits: ReadLimits,
    ) -> io::Result<Option<Vec<StoredRecord>>> {
        let (lane, cursor, segments) = {
            let index = locked(&self.index);
            let Some(lane) = index.lanes.get(destination) else { return Ok(Some(Vec::new())) };
            let holding = index.segments.iter().filter(|(_, segment)| segment.waiting.contains_key(&lane.id));
            let known =
                |(first, segment): (&u64, &SegmentSummary)| (*first, segment.generation, segment.length);
            (lane.id, lane.cursor, holding.map(known).collect::<Vec<_>>())
        };
        let mut batch = ReadBatch { destination, cursor, limits, records: Vec::new(), bytes: 0 };
        for (first, generation, length) in segments {
            let from = place.filter(|place| (place.segment, place.generation) == (first, generation));
            let from = from.map_or(0, |place| place.offset);
            let file = self.disk.open(&segment_name(first), false);
            if locked(&self.index).segments.get(&first).map(|segment| segment.generation) != Some(generation)
            {
                return Ok(None);
            }
            let (ended, is_damaged) =
                read_segment(&mut batch, (first, generation), SegmentReader::new(file?, from, length))?;
            if is_damaged {
                self.repair(first, generation)?;
            }
            // Behind a damaged place it goes on: a call is repeated with all that is left of it.
            if ended {
                break;
            }
        }
        if let Some(oldest) = batch.records.first().map(|stored| stored.record.received)
            && let Some(there) =
                locked(&self.index).lanes.get_mut(destination).filter(|there| there.id == lane)
        {
            there.oldest = oldest;
        }
        Ok(Some(batch.records))
    }

    /// Writes the state, and removes segments that nothing waits in.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub(crate) fn save(&self) -> io::Result<()> {
        let _upkeep = locked(&self.upkeep);
        self.save_now()
    }

    /// The same, for whoever is at the upkeep.
    fn save_now(&self) -> io::Result<()> {
        let emptied = self.save_with(&mut locked(&self.state))?;
        for first in emptied {
            self.remove_segment(first);
        }
        Ok(())
    }

    /// Writes the state; the segments that nothing waits in any more.
    fn save_with(&self, saved: &mut Saved) -> io::Result<Vec<u64>> {
        let (mut state, emptied) = {
            let mut index = locked(&self.index);
            let enough = self.options.segment_bytes() / 4;
            let mut emptied = Vec::new();
            for (first, segment) in &mut index.segments {
                let is_used_up = segment.is_closed || segment.length >= enough;
                if segment.waiting.is_empty() && !segment.is_written && is_used_up {
                    segment.is_closed = true;
                    emptied.push(*first);
                }
            }
            (index.state(), emptied)
        };
        state.identity = saved.identity;
        state.numbers_end = saved.numbers_end;
        state.place = self.options.place;
        saved.files.write(state)?;
        Ok(emptied)
    }

    /// A segment that nothing waits in goes; one that cannot be removed is tried again.
    fn remove_segment(&self, first: u64) {
        match self.disk.remove(&segment_name(first)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "a segment that is done cannot be removed; it is tried again");
            }
            _ => drop(locked(&self.index).segments.remove(&first)),
        }
    }
}

fn done_records(records: &[StoredRecord]) -> Vec<DoneRecord> {
    let done = |stored: &StoredRecord| DoneRecord {
        number: stored.record.number,
        items: stored.record.entry.items,
        bytes: stored.bytes,
    };
    records.iter().map(done).collect()
}

/// Records of one destination that are being read.
struct ReadBatch<'a> {
    destination: &'a Destination,
    /// Only what is behind it waits.
    cursor: u64,
    limits: ReadLimits,
    records: Vec<StoredRecord>,
    bytes: usize,
}

impl ReadBatch<'_> {
    /// Whether there may be room for more.
    fn take(&mut self, record: SpoolRecord, bytes: usize, next: ReadPlace) -> bool {
        if record.number <= self.cursor || record.entry.destination != *self.destination {
            return true;
        }
        let total = self.bytes + record.entry.body.len();
        if !self.records.is_empty() && total > self.limits.bytes {
            return false;
        }
        self.bytes = total;
        self.cursor = record.number;
        self.records.push(StoredRecord { record, bytes, next });
        self.records.len() < self.limits.records
    }
}

fn segment_name(first: u64) -> String {
    format!("{first:020}{SEGMENT_SUFFIX}")
}

fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
