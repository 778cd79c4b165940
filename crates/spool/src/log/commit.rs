//! Appending: many requests are made durable with one sync.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use base::Timestamp;
use base::locks::locked;
use blocklog::DiskFile;

use super::{SpoolFullChoice, SpoolLog, segment_name};
use crate::destination::Destination;
use crate::index::{DESTINATIONS_MAX, SegmentSummary, WaitingCount};
use crate::record::{SpoolEntry, SpoolRecord};

/// Numbers are used up in these steps: one that was reserved and not used is left out after a
/// restart.
const NUMBERS_RESERVED: u64 = 1 << 20;
/// What a record takes beside its body, at most about, in bytes.
const RECORD_REST_BYTES: u64 = 160;

/// Why nothing of a request was accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AppendError {
    /// There is no room.
    #[error("the spool is full")]
    Full,
    /// So many destinations have something waiting that there is no room for another one.
    #[error("{DESTINATIONS_MAX} destinations have something waiting; there is no room for another one")]
    TooManyDestinations,
    /// The disk fails.
    #[error("the spool's disk: {0}")]
    Disk(String),
    /// The spool ends.
    #[error("the spool is stopping")]
    Stopping,
}

/// The one that appends.
pub(crate) struct SpoolWriter {
    log: Arc<SpoolLog>,
    open: Option<OpenSegment>,
    next_number: u64,
    /// As it is saved.
    numbers_end: u64,
    newest_received: Timestamp,
    buffer: Vec<u8>,
}

struct OpenSegment {
    first: u64,
    file: Arc<dyn DiskFile>,
    length: u64,
}

impl SpoolWriter {
    pub(super) fn new(log: Arc<SpoolLog>, next_number: u64, numbers_end: u64) -> Self {
        let newest_received = locked(&log.index).newest_received;
        Self { log, open: None, next_number, numbers_end, newest_received, buffer: Vec::new() }
    }

    /// What it appends to.
    #[must_use]
    pub(crate) fn log(&self) -> &SpoolLog {
        &self.log
    }

    /// Makes requests durable, each of them whole or not at all: for each how many items it was.
    /// `now` is when they were received; a clock that was set back does not count.
    pub(crate) fn commit(
        &mut self,
        requests: Vec<Vec<SpoolEntry>>,
        now: Timestamp,
    ) -> Vec<Result<u64, AppendError>> {
        let mut admission = AppendAdmission { bytes: 0, destinations: HashSet::new() };
        let mut results: Vec<_> =
            requests.iter().map(|request| self.admit(request, &mut admission)).collect();
        self.newest_received = self.newest_received.max(now);
        let accepted = requests.into_iter().zip(&results).filter(|(_, result)| result.is_ok());
        let entries: Vec<_> = accepted.flat_map(|(request, _)| request).collect();
        if entries.is_empty() {
            return results;
        }
        if let Err(error) = self.append(entries) {
            tracing::warn!(%error, "nothing can be written");
            for result in results.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(AppendError::Disk(error.to_string()));
            }
        }
        results
    }

    fn admit(&self, request: &[SpoolEntry], admission: &mut AppendAdmission) -> Result<u64, AppendError> {
        let bytes: u64 = request.iter().map(|entry| entry.body.len() as u64 + RECORD_REST_BYTES).sum();
        let is_new = {
            let index = locked(&self.log.index);
            let new = request.iter().map(|entry| &entry.destination);
            let new: HashSet<_> = new
                .filter(|new| !index.lanes.contains_key(new) && !admission.destinations.contains(*new))
                .cloned()
                .collect();
            if index.lanes.len() + admission.destinations.len() + new.len() > DESTINATIONS_MAX {
                return Err(AppendError::TooManyDestinations);
            }
            new
        };
        self.make_room(admission.bytes + bytes)?;
        admission.destinations.extend(is_new);
        admission.bytes += bytes;
        Ok(request.iter().map(|entry| u64::from(entry.items)).sum())
    }

    /// Sees to it that so many bytes fit.
    fn make_room(&self, bytes: u64) -> Result<(), AppendError> {
        let options = &self.log.options;
        let has_room = || locked(&self.log.index).disk_bytes() + bytes <= options.bytes_max;
        if has_room() {
            return Ok(());
        }
        let disk = |error: io::Error| AppendError::Disk(error.to_string());
        // Little is not worth being written anew for.
        let worth = options.segment_bytes() / 4;
        if bytes <= options.bytes_max && self.log.reclaimable_bytes() >= worth {
            self.log.tidy_up(true).map_err(disk)?;
            if has_room() {
                return Ok(());
            }
        }
        if options.when_full == SpoolFullChoice::Reject || bytes > options.bytes_max {
            return Err(AppendError::Full);
        }
        while !has_room() {
            if !self.log.drop_oldest().map_err(disk)? {
                return Err(AppendError::Full);
            }
        }
        Ok(())
    }

    /// Writes and syncs.
    fn append(&mut self, entries: Vec<SpoolEntry>) -> io::Result<()> {
        self.reserve(entries.len() as u64)?;
        let identity = locked(&self.log.state).identity;
        self.buffer.clear();
        let mut placed = Vec::with_capacity(entries.len());
        let first = self.next_number;
        for entry in entries {
            let record =
                SpoolRecord { identity, number: self.next_number, received: self.newest_received, entry };
            self.next_number += 1;
            let before = self.buffer.len();
            record.encode(&mut self.buffer);
            let SpoolEntry { destination, items, follow, .. } = record.entry;
            placed.push((destination, WaitingCount::of(items, self.buffer.len() - before), follow));
        }
        let segment = self.segment_for(first)?;
        let written = self.write(segment);
        let mut index = locked(&self.log.index);
        if let Some(segment) = index.segments.get_mut(&segment) {
            segment.is_written = false;
            segment.is_closed |= written.is_err();
            segment.length += if written.is_ok() { self.buffer.len() as u64 } else { 0 };
        }
        if let Err(error) = written {
            self.open = None;
            return Err(error);
        }
        for (number, (destination, waiting, follow)) in (first..).zip(placed) {
            index.wait(segment, &destination, (number, self.newest_received), waiting);
            index.follow = follow.or(index.follow);
        }
        index.newest = self.next_number - 1;
        index.newest_received = self.newest_received;
        drop(index);
        if self.buffer.capacity() > 4 * 1_024 * 1_024 {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Writes the buffer behind what is durable. What a failed write leaves is cut off. If that
    /// fails too, it is found damaged or whole at the next start, under numbers of its own.
    fn write(&mut self, first: u64) -> io::Result<()> {
        let Some(open) = self.open.as_mut().filter(|open| open.first == first) else {
            return Err(io::Error::other("the segment is gone"));
        };
        let written = open.file.write_at(open.length, &self.buffer).and_then(|()| open.file.sync());
        match &written {
            Ok(()) => open.length += self.buffer.len() as u64,
            Err(_) => {
                if let Err(error) = open.file.set_len(open.length).and_then(|()| open.file.sync()) {
                    tracing::debug!(%error, "what a failed write left cannot be cut off");
                }
            }
        }
        written
    }

    /// The segment that the next numbers go to, marked as being written.
    fn segment_for(&mut self, number: u64) -> io::Result<u64> {
        if let Some(open) = &self.open {
            let fits = open.length == 0
                || open.length + self.buffer.len() as u64 <= self.log.options.segment_bytes();
            let mut index = locked(&self.log.index);
            if let Some(segment) = index.segments.get_mut(&open.first).filter(|segment| !segment.is_closed) {
                segment.is_written = fits;
                segment.is_closed = !fits;
                if fits {
                    return Ok(open.first);
                }
            }
        }
        self.open = None;
        let file = self.log.disk.open(&segment_name(number), true)?;
        file.set_len(0)?;
        self.log.disk.sync_directory()?;
        let segment = SegmentSummary { is_written: true, ..SegmentSummary::default() };
        locked(&self.log.index).segments.insert(number, segment);
        self.open = Some(OpenSegment { first: number, file, length: 0 });
        Ok(number)
    }

    /// Numbers are saved as used before any of them is: one is never given twice.
    fn reserve(&mut self, count: u64) -> io::Result<()> {
        if self.next_number + count <= self.numbers_end {
            return Ok(());
        }
        let end = self.next_number + count + NUMBERS_RESERVED;
        let mut saved = locked(&self.log.state);
        let before = std::mem::replace(&mut saved.numbers_end, end);
        if let Err(error) = self.log.save_with(&mut saved) {
            saved.numbers_end = before;
            return Err(error);
        }
        self.numbers_end = end;
        Ok(())
    }
}

/// What was admitted of the requests at hand.
struct AppendAdmission {
    bytes: u64,
    destinations: HashSet<Destination>,
}
