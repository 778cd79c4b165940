//! Opening a log: what of it is good, what is a torn tail, and what is damage.
//!
//! Only the last segment can have a tail, since a segment is durable before the next one exists,
//! which says where its frames end. A frame that does not verify is damage when anything knows it
//! to have been durable. That is a later segment, the caller's recorded position, or a later frame
//! whose `synced_through` reaches it. Otherwise all from it on was never confirmed, and is cut.
//! Nothing here writes, but for the cut and for the frames above the last claim. These are written
//! and synced again, since an earlier process may have failed to sync them. Then they are only in
//! the memory of the operating system, where they look durable.

mod survey;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::distance::Distance;
use crate::error::{LogError, VisitError, file_of};
use crate::format::{
    FRAME_ALIGNMENT, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, Verified, traces_of_frame,
    verify_frame,
};
use crate::log::SealedSegment;
use crate::position::{LogId, Position};
use crate::segment::ActiveSegment;
use survey::Segment;

/// One frame, as an opening hands it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its place in the log.
    pub position: Position,
    /// What was known durable when it was appended.
    pub synced_through: Position,
    /// What was appended.
    pub payload: &'a [u8],
}

/// A torn tail that was cut: bytes of frames that were never confirmed. For the server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// From the first bad frame to the last byte that can be told to have been written after it.
    pub cut_bytes: u64,
    /// The segment file.
    pub file: String,
    /// Where it was cut, in bytes.
    pub offset: u64,
}

/// What the caller knows of the log that is opened, and what it wants from it.
pub(crate) struct RecoveryRequest<'v> {
    /// A position that is known to be durable.
    pub recorded: Position,
    /// Frames after this one are handed out.
    pub replay_after: Position,
    pub visit: &'v mut dyn FnMut(Frame<'_>) -> Result<(), VisitError>,
}

/// A log that was found good.
pub(crate) struct Recovered {
    pub id: LogId,
    pub sealed: VecDeque<SealedSegment>,
    pub active: ActiveSegment,
    /// The last frame.
    pub end: Position,
    /// Whether the last frame claims all others.
    pub ends_with_claim: bool,
    pub distance: Distance,
    pub tail: Option<Tail>,
}

impl Recovered {
    /// A log that was just made.
    pub(crate) fn empty(id: LogId, active: ActiveSegment) -> Recovered {
        Recovered {
            id,
            sealed: VecDeque::new(),
            active,
            end: Position::ZERO,
            ends_with_claim: false,
            distance: Distance::default(),
            tail: None,
        }
    }
}

/// Verifies every frame, hands out those that are asked for, cuts a torn tail, and makes what is
/// left durable.
pub(crate) fn recover<'a>(disk: &'a dyn Disk, request: RecoveryRequest<'a>) -> Result<Recovered, LogError> {
    let (segments, last) = survey::segments(disk, request.replay_after)?;
    let first = segments.first().unwrap_or(&last).header.first;
    let recorded = request.recorded;
    let mut replay = Replay::new(disk, first, request);
    let mut sealed = VecDeque::new();
    for (segment, next) in segments.iter().zip(segments.iter().skip(1).chain([&last])) {
        let sealed_segment = replay.sealed(segment, next)?;
        sealed.push_back(sealed_segment);
    }
    let (file, bytes) = survey::read(disk, &last.name)?;
    let end = replay.frames(&last, &bytes)?;
    let tail = judge_rest(disk, &last, &bytes, end, replay.next, recorded)?;
    if replay.end() < recorded {
        return Err(LogError::EndsBelow { file: file_of(disk, &last.name), end: replay.end(), recorded });
    }
    let length = if tail.is_some() { end } else { bytes.len() };
    settle(disk, &last, &file, &bytes[..end], tail.as_ref(), replay.claimed)?;
    Ok(Recovered {
        id: last.header.place.log,
        sealed,
        active: ActiveSegment {
            sequence: last.header.place.sequence,
            written: end as u64,
            length: length as u64,
            file,
        },
        end: replay.end(),
        ends_with_claim: replay.ends_with_claim,
        distance: replay.distance,
        tail,
    })
}

/// Goes through the frames in order.
struct Replay<'v> {
    disk: &'v dyn Disk,
    request: RecoveryRequest<'v>,
    /// The position that the next frame must have.
    next: Position,
    /// The highest `synced_through` so far; a segment claims all that is before it.
    claimed: Position,
    ends_with_claim: bool,
    distance: Distance,
}

impl<'v> Replay<'v> {
    fn new(disk: &'v dyn Disk, first: Position, request: RecoveryRequest<'v>) -> Replay<'v> {
        Replay {
            disk,
            request,
            next: first,
            claimed: first.previous(),
            ends_with_claim: false,
            distance: Distance::default(),
        }
    }

    fn end(&self) -> Position {
        self.next.previous()
    }

    /// A segment that another follows: every frame of it must be right.
    fn sealed(&mut self, segment: &Segment, next: &Segment) -> Result<SealedSegment, LogError> {
        let (_, bytes) = survey::read(self.disk, &segment.name)?;
        let end = self.frames(segment, &bytes)?;
        let follows = segment.header.place.sequence.checked_add(1) == Some(next.header.place.sequence);
        let is_whole = !follows || end as u64 == next.header.previous_bytes;
        if !is_whole || next.header.first < self.next {
            return Err(corrupt(self.disk, segment, end, self.next));
        }
        if next.header.first > self.next {
            return Err(LogError::Missing {
                from: self.next,
                to: next.header.first.previous(),
                file: file_of(self.disk, &next.name),
            });
        }
        let sequence = segment.header.place.sequence;
        Ok(SealedSegment { sequence, last: self.end(), bytes: bytes.len() as u64 })
    }

    /// Takes frames as long as they are the expected ones; answers where the last of them ends.
    fn frames(&mut self, segment: &Segment, bytes: &[u8]) -> Result<usize, LogError> {
        self.claimed = self.claimed.max(segment.header.first.previous());
        let mut at = SEGMENT_HEADER_BYTES;
        while let Some(frame) = verify_frame(&bytes[at..], segment.header.place) {
            if frame.position != self.next || frame.synced_through >= frame.position {
                break;
            }
            self.take(frame)?;
            at += frame.bytes();
        }
        Ok(at)
    }

    fn take(&mut self, frame: Verified<'_>) -> Result<(), LogError> {
        let Verified { position, synced_through, payload } = frame;
        self.distance.add(position, frame.bytes() as u64);
        self.claimed = self.claimed.max(synced_through);
        self.ends_with_claim = frame.is_claim();
        self.next = position.next();
        if position > self.request.replay_after && !frame.is_claim() {
            (self.request.visit)(Frame { position, synced_through, payload })
                .map_err(|source| LogError::Visit { position, source })?;
        }
        Ok(())
    }
}

/// Decides what the bytes of the last segment from `end` on are, where the frame at `next` should
/// be: nothing, a torn tail, or damage.
fn judge_rest(
    disk: &dyn Disk,
    last: &Segment,
    bytes: &[u8],
    end: usize,
    next: Position,
    recorded: Position,
) -> Result<Option<Tail>, LogError> {
    let Some(used) = used_through(bytes, end, &last.header, next) else {
        return Ok(None);
    };
    if next <= recorded || is_claimed(&bytes[end..], &last.header, next) {
        return Err(corrupt(disk, last, end, next));
    }
    let cut_bytes = (used - end) as u64;
    Ok(Some(Tail { cut_bytes, file: file_of(disk, &last.name), offset: end as u64 }))
}

/// Up to where something of this segment was written behind `end`. What is left of an earlier
/// segment in the same file is none of it, and stays. Nothing in it can be taken for a frame of
/// this one.
fn used_through(bytes: &[u8], end: usize, header: &SegmentHeader, next: Position) -> Option<usize> {
    let fresh = usize::try_from(header.earlier_bytes).unwrap_or(usize::MAX).clamp(end, bytes.len());
    let last_used = bytes[fresh..].iter().rposition(|byte| *byte != 0).map(|last| fresh + last + 1);
    let positions = next.0..=next.0.saturating_add((bytes.len() / FRAME_HEADER_BYTES) as u64);
    let traces = (end..fresh).step_by(FRAME_ALIGNMENT).filter_map(|at| {
        traces_of_frame(&bytes[at..], header.place, &positions).map(|trace_bytes| at + trace_bytes)
    });
    traces.chain(last_used).max()
}

/// Whether any frame in `bytes` knows the one at `position` to have been durable.
fn is_claimed(bytes: &[u8], header: &SegmentHeader, position: Position) -> bool {
    (0..bytes.len())
        .step_by(FRAME_ALIGNMENT)
        .filter_map(|at| verify_frame(&bytes[at..], header.place))
        .any(|frame| frame.synced_through >= position)
}

/// Cuts the tail, writes again what is above the last claim, and makes the files and their names
/// durable.
fn settle(
    disk: &dyn Disk,
    last: &Segment,
    file: &Arc<dyn DiskFile>,
    good: &[u8],
    tail: Option<&Tail>,
    claimed: Position,
) -> Result<(), LogError> {
    if let Some(tail) = tail {
        file.set_len(tail.offset).map_err(LogError::io("cut the torn tail off", disk, &last.name))?;
    }
    let unclaimed = unclaimed_from(good, &last.header, claimed);
    if unclaimed < good.len() {
        file.write_at(unclaimed as u64, &good[unclaimed..])
            .map_err(LogError::io("write", disk, &last.name))?;
    }
    file.sync().map_err(LogError::io("sync", disk, &last.name))?;
    disk.sync_directory().map_err(LogError::io("sync the directory of", disk, &last.name))
}

/// Where the first frame after `claimed` begins; `good` holds nothing but verified frames.
fn unclaimed_from(good: &[u8], header: &SegmentHeader, claimed: Position) -> usize {
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(frame) = verify_frame(&good[at..], header.place) {
        if frame.position > claimed {
            break;
        }
        at += frame.bytes();
    }
    at
}

fn corrupt(disk: &dyn Disk, segment: &Segment, offset: usize, position: Position) -> LogError {
    LogError::Corrupt { file: file_of(disk, &segment.name), offset: offset as u64, position }
}
