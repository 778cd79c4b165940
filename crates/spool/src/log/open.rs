//! Opening: whatever the files look like, every record that is whole is found.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use base::locks::locked;
use blocklog::Disk;

use super::{
    LOCK_FILE, NEW_IDENTITY_FILE, REWRITE_FILE, Saved, SpoolLog, SpoolLogOptions, SpoolWriter, first_of,
    segment_name,
};
use crate::calls::name_of;
use crate::destination::Destination;
use crate::index::{SegmentSummary, WaitingCount, WaitingIndex};
use crate::record::SpoolRecord;
use crate::segment_reader::{SegmentReader, SegmentStep};
use crate::state::{LaneState, SpoolState, StateFiles};

impl SpoolLog {
    /// Opens the spool in a directory of its own; damaged places are set aside in another one.
    ///
    /// # Errors
    /// When another process has it open, the directory cannot be read, or its state is that of a
    /// later program.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        damaged: Arc<dyn Disk>,
        options: SpoolLogOptions,
    ) -> io::Result<(Arc<Self>, SpoolWriter)> {
        let lock = disk.lock(LOCK_FILE)?;
        let (files, state) = StateFiles::open(&*disk)?;
        let names = disk.list()?;
        if state.is_none() && names.iter().any(|name| first_of(name).is_some()) {
            tracing::warn!("no copy of the state can be read: what is still there is forwarded again");
        }
        let is_asked = names.iter().any(|name| name == NEW_IDENTITY_FILE);
        let identity = match &state {
            Some(state) if !is_asked && options.is_place_of(state) => state.identity,
            before => new_identity(is_asked, before.is_some())?,
        };
        let state = state.unwrap_or_default();
        let mut index = WaitingIndex::of(&state);
        let damage = survey(&*disk, &state, &mut index)?;
        let next_number = state.numbers_end.max(index.newest + 1);
        let saved = Saved { files, identity, numbers_end: next_number };
        let (index, state) = (Mutex::new(index), Mutex::new(saved));
        let upkeep = Mutex::new(());
        let log = Arc::new(Self {
            disk,
            damaged,
            options,
            index,
            state,
            upkeep,
            rewrite_noted: base::LogLimit::default(),
            _lock: lock,
        });
        log.clean(&damage, is_asked);
        Ok((Arc::clone(&log), SpoolWriter::new(log, next_number, next_number)))
    }

    /// Removes what is done, and sets damaged places aside. What the disk does not allow now, the
    /// next start does. Once the new identity that was asked for is saved, nobody asks any more.
    fn clean(&self, damage: &[u64], is_asked: bool) {
        if let Err(error) = self.disk.remove(REWRITE_FILE)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "an unfinished file cannot be removed");
        }
        for first in damage {
            let generation = locked(&self.index).segments.get(first).map_or(0, |segment| segment.generation);
            if let Err(error) = self.repair(*first, generation) {
                tracing::warn!(%error, "a damaged segment cannot be written anew");
            }
        }
        match self.save() {
            Err(error) => tracing::warn!(%error, "the state cannot be written"),
            Ok(()) if is_asked => {
                let removed = self.disk.remove(NEW_IDENTITY_FILE).and_then(|()| self.disk.sync_directory());
                if let Err(error) = removed {
                    tracing::warn!(
                        %error, "{NEW_IDENTITY_FILE} cannot be removed: the next start draws an identity again"
                    );
                }
            }
            Ok(()) => {}
        }
    }
}

/// What waits keeps the identity that it has: the server may know it under that one.
fn new_identity(is_asked: bool, had_one: bool) -> io::Result<u64> {
    let identity = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let why = match (is_asked, had_one) {
        (true, _) => "it was asked for",
        (false, true) => "this is another machine or folder",
        (false, false) => "it had none",
    };
    tracing::info!(identity = name_of(identity), why, "the spool has a new identity");
    Ok(identity)
}

/// Looks at every record of every segment; the segments that are damaged.
fn survey(disk: &dyn Disk, state: &SpoolState, index: &mut WaitingIndex) -> io::Result<Vec<u64>> {
    let known: HashMap<&Destination, &LaneState> =
        state.lanes.iter().map(|lane| (&lane.destination, lane)).collect();
    let mut firsts: Vec<u64> = disk.list()?.iter().filter_map(|name| first_of(name)).collect();
    firsts.sort_unstable();
    let mut damage = Vec::new();
    let mut newest = 0;
    for first in firsts {
        let file = disk.open(&segment_name(first), false)?;
        let length = file.len()?;
        index.segments.insert(first, SegmentSummary { length, is_closed: true, ..SegmentSummary::default() });
        let mut reader = SegmentReader::new(file, 0, length).lenient();
        while let Some(step) = reader.next()? {
            match step {
                SegmentStep::Damaged(..) => {
                    if damage.last() != Some(&first) {
                        damage.push(first);
                    }
                }
                // One that was written anew beside its old place is there twice.
                SegmentStep::Record(record, _, bytes) if record.number > newest => {
                    newest = record.number;
                    remember(index, first, &record, bytes, (state, &known));
                }
                SegmentStep::Record(..) => {}
            }
        }
    }
    index.newest = index.newest.max(newest);
    Ok(damage)
}

fn remember(
    index: &mut WaitingIndex,
    segment: u64,
    record: &SpoolRecord,
    bytes: usize,
    (state, known): (&SpoolState, &HashMap<&Destination, &LaneState>),
) {
    index.newest_received = index.newest_received.max(record.received);
    if record.number > state.floor && record.entry.follow.is_some() {
        index.follow = record.entry.follow;
    }
    let destination = &record.entry.destination;
    let lane = known.get(destination);
    if record.number <= lane.map_or(state.floor, |lane| lane.cursor) {
        return;
    }
    let at = (record.number, record.received);
    let is_new = index.wait(segment, destination, at, WaitingCount::of(record.entry.items, bytes));
    if is_new
        && let Some(remembered) = lane
        && let Some(lane) = index.lanes.get_mut(destination)
    {
        lane.cursor = remembered.cursor;
        lane.in_flight = remembered.in_flight;
    }
}
