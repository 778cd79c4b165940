//! Which segment files there are, and whether their headers make one log.
//!
//! Removes what a crash may leave behind: segments never finished, those that waited to be used
//! again, and freed ones that got their names back. Looks at no frame.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{LogError, file_of};
use crate::format::{FORMAT_VERSION, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentHeaderError};
use crate::position::Position;
use crate::segment::{is_left_over, sequence_of};

/// A segment file with a good header.
pub(crate) struct Segment {
    pub name: String,
    pub header: SegmentHeader,
}

/// All segments that a replay after `replay_after` may need, in order, the last one apart.
pub(crate) fn segments(disk: &dyn Disk, replay_after: Position) -> Result<(Vec<Segment>, Segment), LogError> {
    let mut segments = Vec::new();
    for (sequence, name) in names(disk)? {
        segments.push(read_header(disk, sequence, name)?);
    }
    check_one_log(disk, &segments)?;
    remove_freed(disk, &mut segments, replay_after)?;
    let Some(last) = segments.pop() else {
        return Err(LogError::NotFound { directory: disk.path().display().to_string() });
    };
    let begin = segments.first().unwrap_or(&last);
    if begin.header.first > replay_after.next() {
        return Err(LogError::Missing {
            from: replay_after.next(),
            to: begin.header.first.previous(),
            file: file_of(disk, &begin.name),
        });
    }
    Ok((segments, last))
}

/// The names of the segment files by sequence. What is no part of the log is removed: nothing in it
/// was confirmed, or it was freed.
fn names(disk: &dyn Disk) -> Result<Vec<(u32, String)>, LogError> {
    let mut names = Vec::new();
    for name in disk.list().map_err(LogError::io("list the files of", disk, ""))? {
        if is_left_over(&name) {
            disk.remove(&name).map_err(LogError::io("remove", disk, &name))?;
        } else if let Some(sequence) = sequence_of(&name) {
            names.push((sequence, name));
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn read_header(disk: &dyn Disk, sequence: u32, name: String) -> Result<Segment, LogError> {
    let file = disk.open(&name, false).map_err(LogError::io("open", disk, &name))?;
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    if file.len().map_err(LogError::io("read", disk, &name))? < SEGMENT_HEADER_BYTES as u64 {
        return Err(LogError::CorruptHeader { file: file_of(disk, &name) });
    }
    file.read_at(0, &mut bytes).map_err(LogError::io("read", disk, &name))?;
    match SegmentHeader::decode(&bytes) {
        Ok(header) if header.place.sequence == sequence => Ok(Segment { name, header }),
        Ok(_) | Err(SegmentHeaderError::Damaged) => {
            Err(LogError::CorruptHeader { file: file_of(disk, &name) })
        }
        Err(SegmentHeaderError::Version(found)) => {
            Err(LogError::UnsupportedVersion { file: file_of(disk, &name), found, supported: FORMAT_VERSION })
        }
    }
}

fn check_one_log(disk: &dyn Disk, segments: &[Segment]) -> Result<(), LogError> {
    let Some(expected) = segments.first().map(|segment| segment.header.place.log) else {
        return Ok(());
    };
    match segments.iter().find(|segment| segment.header.place.log != expected) {
        Some(foreign) => Err(LogError::ForeignSegment {
            file: file_of(disk, &foreign.name),
            expected,
            found: foreign.header.place.log,
        }),
        None => Ok(()),
    }
}

/// Freeing takes their names from the oldest segments, and a crash may undo this for some and not
/// for others. So what lies before a gap and is not needed for the replay goes too.
fn remove_freed(
    disk: &dyn Disk,
    segments: &mut Vec<Segment>,
    replay_after: Position,
) -> Result<(), LogError> {
    let after_gap = (1..segments.len()).rev().find(|&at| {
        let (before, after) = (&segments[at - 1].header, &segments[at].header);
        before.place.sequence.checked_add(1) != Some(after.place.sequence)
            && after.first <= replay_after.next()
    });
    for freed in segments.drain(..after_gap.unwrap_or(0)) {
        disk.remove(&freed.name).map_err(LogError::io("remove", disk, &freed.name))?;
    }
    Ok(())
}

/// The whole of a segment file.
pub(crate) fn read(disk: &dyn Disk, name: &str) -> Result<(Arc<dyn DiskFile>, Vec<u8>), LogError> {
    let file = disk.open(name, false).map_err(LogError::io("open", disk, name))?;
    let length = file.len().map_err(LogError::io("read", disk, name))?;
    let mut bytes = vec![0; length as usize];
    file.read_at(0, &mut bytes).map_err(LogError::io("read", disk, name))?;
    Ok((file, bytes))
}
