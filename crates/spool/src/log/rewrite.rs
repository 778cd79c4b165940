//! Making room. Segments are written anew without what is done or damaged, and small ones become
//! one. Where that is asked for, the oldest is given up.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use base::locks::locked;
use blocklog::DiskFile;

use super::{REWRITE_FILE, SpoolLog, segment_name};
use crate::index::{LaneId, SegmentSummary, WaitingCount, WaitingIndex};
use crate::segment_reader::{SegmentReader, SegmentStep};

/// So many damaged places are kept, and so many bytes of each; of others only the count.
const SET_ASIDE_MAX: usize = 64;
const SET_ASIDE_BYTES_MAX: u64 = 1_024 * 1_024;
/// More segments than this are brought together, whatever room there is.
const SEGMENTS_MAX: usize = 256;
/// So many become one at a time.
const RUN_MAX: usize = 64;
const FLUSH_BYTES: usize = 256 * 1_024;

impl SpoolLog {
    /// Bytes of segments that hold nothing that waits.
    pub(super) fn reclaimable_bytes(&self) -> u64 {
        let index = locked(&self.index);
        let unused = index.segments.values().filter(|segment| !segment.is_written);
        unused.map(|segment| segment.length.saturating_sub(segment.waiting_bytes())).sum()
    }

    /// Saves the state, removes what is done, and where room is short writes segments anew that
    /// hold little. With `all` it also takes those that hold much, but not all, of their bytes.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub(crate) fn tidy_up(&self, all: bool) -> io::Result<()> {
        let _upkeep = locked(&self.upkeep);
        if all {
            for segment in locked(&self.index).segments.values_mut() {
                segment.is_closed |= !segment.is_written;
            }
        }
        self.save_now()?;
        while let Some(run) = self.next_run(all) {
            if let Err(error) = self.rewrite(&run) {
                // A full disk, mostly: what is forwarded makes room all the same.
                if let Some(left_out) = self.rewrite_noted.take((), Instant::now()) {
                    tracing::warn!(%error, left_out, "segments cannot be written anew");
                }
                break;
            }
        }
        Ok(())
    }

    /// Neighbours that are worth being written anew as one.
    fn next_run(&self, all: bool) -> Option<Vec<u64>> {
        let index = locked(&self.index);
        let is_short = index.disk_bytes() > self.options.bytes_max / 2;
        if !all && !is_short && index.segments.len() <= SEGMENTS_MAX {
            return None;
        }
        let segment_bytes = self.options.segment_bytes();
        let worth = |run: &[u64], length: u64, waiting: u64| {
            let gained = length.saturating_sub(waiting);
            let enough = if all { 4 * gained > waiting } else { gained > waiting.max(segment_bytes / 4) };
            !run.is_empty() && (enough || (run.len() >= RUN_MAX && index.segments.len() > SEGMENTS_MAX))
        };
        let (mut run, mut length, mut waiting) = (Vec::new(), 0, 0);
        for (first, segment) in &index.segments {
            let holds = segment.waiting_bytes();
            let fits = segment.is_closed && !segment.is_written && waiting + holds <= segment_bytes;
            if !fits || run.len() >= RUN_MAX {
                if worth(&run, length, waiting) {
                    return Some(run);
                }
                (run, length, waiting) = (Vec::new(), 0, 0);
            }
            if segment.is_closed && !segment.is_written {
                run.push(*first);
                length += segment.length;
                waiting += holds;
            }
        }
        worth(&run, length, waiting).then_some(run)
    }

    /// Gives up everything that waits in the oldest segment. Whether there was one.
    pub(super) fn drop_oldest(&self) -> io::Result<bool> {
        let _upkeep = locked(&self.upkeep);
        {
            let mut index = locked(&self.index);
            let oldest = index.segments.iter_mut().find(|(_, segment)| !segment.is_written);
            let Some((first, segment)) = oldest.map(|(first, segment)| (*first, segment)) else {
                return Ok(false);
            };
            segment.is_closed = true;
            let segment = segment.clone();
            let items = index.give_up(first);
            index.totals.dropped += items;
            // Until it is removed it takes room.
            index.segments.insert(first, SegmentSummary { waiting: HashMap::new(), ..segment });
            tracing::warn!(items, "the spool is full: the oldest items are dropped");
        }
        self.save_now()?;
        Ok(true)
    }

    /// Writes a damaged segment anew, unless that was done meanwhile.
    pub(super) fn repair(&self, first: u64, generation: u32) -> io::Result<()> {
        let _upkeep = locked(&self.upkeep);
        {
            let mut index = locked(&self.index);
            match index.segments.get_mut(&first) {
                Some(segment) if segment.generation == generation && !segment.is_written => {
                    segment.is_closed = true;
                }
                _ => return Ok(()),
            }
        }
        self.rewrite(&[first])
    }

    /// Writes what waits in these neighbours into the first of them.
    fn rewrite(&self, run: &[u64]) -> io::Result<()> {
        let Some(&into) = run.first() else { return Ok(()) };
        let file = self.disk.open(REWRITE_FILE, true)?;
        file.set_len(0)?;
        let mut anew =
            Rewritten { file, length: 0, buffer: Vec::new(), placed: Vec::new(), newest: 0, damaged: 0 };
        for first in run {
            self.copy_waiting(*first, &mut anew)?;
        }
        anew.flush()?;
        anew.file.sync()?;
        {
            // Whoever reads finds file and generation as they belong together.
            let mut index = locked(&self.index);
            self.disk.rename(REWRITE_FILE, &segment_name(into))?;
            swap(&mut index, run, into, &anew);
        }
        self.disk.sync_directory()?;
        // Before the others go: what they hold is in the first one now.
        for first in &run[1..] {
            self.disk.remove(&segment_name(*first))?;
        }
        if !locked(&self.index).segments.contains_key(&into) {
            self.disk.remove(&segment_name(into))?;
        }
        Ok(())
    }

    fn copy_waiting(&self, first: u64, anew: &mut Rewritten) -> io::Result<()> {
        let length = locked(&self.index).segments.get(&first).map_or(0, |segment| segment.length);
        let file = self.disk.open(&segment_name(first), false)?;
        let mut reader = SegmentReader::new(Arc::clone(&file), 0, length).lenient();
        while let Some(step) = reader.next()? {
            match step {
                SegmentStep::Damaged(from, to) => {
                    anew.damaged += 1;
                    self.set_aside(first, &*file, from, to);
                }
                SegmentStep::Record(record, _, bytes) if record.number > anew.newest => {
                    anew.newest = record.number;
                    let waits = {
                        let index = locked(&self.index);
                        let lane = index.lanes.get(&record.entry.destination);
                        lane.filter(|lane| lane.cursor < record.number).map(|lane| lane.id)
                    };
                    if let Some(lane) = waits {
                        anew.placed.push((lane, record.number, WaitingCount::of(record.entry.items, bytes)));
                        record.encode(&mut anew.buffer);
                        if anew.buffer.len() >= FLUSH_BYTES {
                            anew.flush()?;
                        }
                    }
                }
                SegmentStep::Record(..) => {}
            }
        }
        Ok(())
    }

    /// Keeps a damaged place for people; that this fails does not matter to anything else.
    fn set_aside(&self, first: u64, file: &dyn DiskFile, from: u64, to: u64) {
        let keep = || -> io::Result<()> {
            if self.damaged.list()?.len() >= SET_ASIDE_MAX {
                return Ok(());
            }
            let mut bytes = vec![0; (to - from).min(SET_ASIDE_BYTES_MAX) as usize];
            file.read_at(from, &mut bytes)?;
            let kept = self.damaged.open(&format!("{first:020}-{from}.bin"), true)?;
            kept.set_len(0)?;
            kept.write_at(0, &bytes)?;
            kept.sync()
        };
        if let Err(error) = keep() {
            tracing::warn!(%error, "a damaged place cannot be kept");
        }
    }
}

/// From now on the segments are as they were written anew.
fn swap(index: &mut WaitingIndex, run: &[u64], into: u64, anew: &Rewritten) {
    let generation = index.segments.get(&into).map_or(0, |segment| segment.generation) + 1;
    let mut found =
        SegmentSummary { generation, length: anew.length, is_closed: true, ..SegmentSummary::default() };
    let cursors: HashMap<LaneId, u64> = index.lanes.values().map(|lane| (lane.id, lane.cursor)).collect();
    for (lane, number, waiting) in &anew.placed {
        // Some of it may have been done meanwhile.
        if cursors.get(lane).is_some_and(|cursor| cursor < number) {
            found.waiting.entry(*lane).or_default().add(*waiting);
        }
    }
    let lost = index.correct(into, found, run);
    index.totals.damaged += anew.damaged;
    if anew.damaged > 0 {
        tracing::warn!(places = anew.damaged, items = lost, "damaged places were set aside");
    }
}

/// A segment in the making.
struct Rewritten {
    file: Arc<dyn DiskFile>,
    length: u64,
    buffer: Vec<u8>,
    placed: Vec<(LaneId, u64, WaitingCount)>,
    newest: u64,
    damaged: u64,
}

impl Rewritten {
    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.length, &self.buffer)?;
        self.length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
