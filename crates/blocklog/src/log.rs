//! The log: appends, syncs, and frees what is no longer needed.
//!
//! Decides which segment a frame goes to and what it claims. The bytes are in `format`, the order
//! of writes and syncs around a new file in `segment`, and everything about opening in `recovery`.

mod pending;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::disk::Disk;
use crate::distance::Distance;
use crate::error::{LogError, VisitError, file_of};
use crate::format::{PAYLOAD_BYTES_MAX, SegmentId, frame_bytes};
use crate::position::{LogId, Position};
use crate::recovery::{self, Frame, Recovered, RecoveryRequest, Tail};
use crate::segment::{ActiveSegment, ZerosAhead, segment_name, sequence_of};
use crate::spare::Spares;
use pending::PendingFrames;

const FIRST_SEQUENCE: u32 = 1;

/// Segments that wait to be used again: as many as a log gives back when it shrinks from three
/// times 64 MiB to 64 MiB. At the first its caller lets nothing more in; the second is what it has
/// in between.
pub const SPARE_SEGMENTS_MAX: usize = 8;

/// How a log lays out its files.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// A segment is followed by another before it would be longer than this, in bytes. A frame that
    /// is longer alone gets a segment to itself.
    pub segment_bytes: u64,
    /// How many zeros are written ahead of the frames at most, in bytes. A sync that does not
    /// change the length of the file is about twice as fast.
    pub zeros_ahead_bytes: u64,
    /// Freed segments that are kept to be used again, at most; others are removed.
    pub spare_segments_max: usize,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 16 << 20,
            zeros_ahead_bytes: 256 << 10,
            spare_segments_max: SPARE_SEGMENTS_MAX,
        }
    }
}

/// A log that was opened.
#[derive(Debug)]
pub struct OpenedLog {
    /// Ready to append.
    pub log: Log,
    /// What was cut, if anything.
    pub tail: Option<Tail>,
}

/// An append-only sequence of frames in the segment files of one directory.
///
/// # What is durable
/// [`Log::append`] only takes a frame into memory. When [`Log::sync`] has returned `Ok(position)`,
/// every frame up to `position` survives the loss of power. Every later opening hands it out, in
/// order and bit for bit, or refuses. A frame that was appended and not synced may be there after a
/// crash or not. When it is there, all before it are too. Once an opening has handed it out it is
/// durable like any other. After an error of `sync` its frames are in that state: neither confirmed
/// nor taken back.
///
/// A caller may be content with less. When [`Log::write`] has returned `Ok(position)`, every frame
/// up to `position` survives the death of the process, but not yet that of the machine.
///
/// # After a failure
/// The first write or sync that fails poisons the log. Nothing that it does afterwards could be
/// trusted, since the operating system may have dropped what it failed to write. Every later call
/// that would write answers [`LogError::Poisoned`]; opening it again tells what is there.
///
/// # What an opening can tell apart
/// Every frame carries `synced_through`, the position that was durable when it was appended. A bad
/// frame that a later one knows to have been durable is damage, and the log is refused. One that
/// none knows is a torn tail, and is cut. [`Log::append_claim`] moves that border up to the end.
///
/// One process at a time may have a log open; the caller holds the lock of the directory
/// ([`Disk::lock`]).
pub struct Log {
    disk: Arc<dyn Disk>,
    options: LogOptions,
    id: LogId,
    sealed: VecDeque<SealedSegment>,
    active: ActiveSegment,
    spares: Spares,
    pending: PendingFrames,
    end: Position,
    /// The last frame that is in its file.
    written: Position,
    durable: Position,
    /// Whether the last frame claims all others.
    ends_with_claim: bool,
    distance: Distance,
    /// The text of the first failure.
    poison: Option<String>,
}

/// A segment that another follows; nothing is written to it any more.
#[derive(Debug)]
pub(crate) struct SealedSegment {
    pub sequence: u32,
    /// Its last frame.
    pub last: Position,
    /// The length of the file.
    pub bytes: u64,
}

impl Log {
    /// Makes an empty log with its first segment, durably. Refused where there is a log.
    pub fn create(disk: Arc<dyn Disk>, options: LogOptions, id: LogId) -> Result<Log, LogError> {
        let names = disk.list().map_err(LogError::io("list the files of", &*disk, ""))?;
        if let Some(name) = names.iter().find(|name| sequence_of(name).is_some()) {
            return Err(LogError::AlreadyExists { file: file_of(&*disk, name) });
        }
        let place = SegmentId { log: id, sequence: FIRST_SEQUENCE };
        let mut header = pending::header_bytes(place, Position::ZERO.next(), 0);
        let mut no_spares = Spares::none(0);
        let active =
            ActiveSegment::create(&*disk, FIRST_SEQUENCE, &mut header, options.zeros(), &mut no_spares)?;
        Ok(Log::new(disk, options, Recovered::empty(id, active)))
    }

    /// Opens the log of this directory. Verifies every frame, and calls `visit` with each one after
    /// `replay_after` in order. Cuts a torn tail, and makes what is left durable.
    ///
    /// `recorded` is a position that the caller knows to have been durable. A log that ends below
    /// it, or below `replay_after`, is refused: its new frames would get positions that are never
    /// handed out. When the answer is an error, what `visit` was given is void.
    /// [`LogError::NotFound`] says that there is no log and none was ever finished.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        recorded: Position,
        replay_after: Position,
        visit: &mut dyn FnMut(Frame<'_>) -> Result<(), VisitError>,
    ) -> Result<OpenedLog, LogError> {
        // Whoever needs no frame up to a position has kept what they said: they were durable.
        let recorded = recorded.max(replay_after);
        let mut recovered = recovery::recover(&*disk, RecoveryRequest { recorded, replay_after, visit })?;
        let tail = recovered.tail.take();
        Ok(OpenedLog { log: Log::new(disk, options, recovered), tail })
    }

    fn new(disk: Arc<dyn Disk>, options: LogOptions, recovered: Recovered) -> Log {
        let Recovered { id, sealed, active, end, ends_with_claim, distance, tail: _ } = recovered;
        let pending =
            PendingFrames::after(SegmentId { log: id, sequence: active.sequence }, active.written, end);
        Log {
            disk,
            options,
            id,
            sealed,
            active,
            spares: Spares::none(options.spare_segments_max),
            pending,
            end,
            written: end,
            durable: end,
            ends_with_claim,
            distance,
            poison: None,
        }
    }

    /// Takes a frame into memory, at the position in the answer. The payload has 1 to
    /// [`PAYLOAD_BYTES_MAX`] bytes; how much may wait for a [`Log::sync`] is the caller's to bound.
    pub fn append(&mut self, payload: &[u8]) -> Result<Position, LogError> {
        if payload.is_empty() {
            return Err(LogError::EmptyPayload);
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(LogError::PayloadTooLarge {
                bytes: payload.len() as u64,
                max: PAYLOAD_BYTES_MAX as u64,
            });
        }
        self.check_not_poisoned()?;
        self.push(payload);
        Ok(self.end)
    }

    fn push(&mut self, payload: &[u8]) {
        let position = self.end.next();
        self.pending.push(self.options.segment_bytes, position, self.durable, payload);
        self.distance.add(position, frame_bytes(payload.len()) as u64);
        self.end = position;
        self.ends_with_claim = payload.is_empty();
    }

    /// Makes every frame that was appended durable, and answers the last of them. That takes one
    /// write for each segment touched, and one sync. Where a segment is full, it takes two more
    /// syncs for each that follows.
    pub fn sync(&mut self) -> Result<Position, LogError> {
        self.write()?;
        if self.durable < self.written {
            let synced = self.active.sync(&*self.disk);
            self.poisoned_by(synced)?;
            self.durable = self.written;
        }
        Ok(self.durable)
    }

    /// Hands every frame that was appended to the operating system, and answers the last of them:
    /// one write for each segment touched. Where a segment is full it is synced too, and so is the
    /// next: no other may have a torn tail than the last.
    pub fn write(&mut self) -> Result<Position, LogError> {
        self.check_not_poisoned()?;
        if self.written < self.end {
            let written = self.write_pending();
            let is_new = self.poisoned_by(written)?;
            self.written = self.end;
            if is_new {
                self.durable = self.end;
            }
        }
        Ok(self.written)
    }

    /// Whether the last segment was just made: then all of it is durable already.
    fn write_pending(&mut self) -> Result<bool, LogError> {
        let zeros = self.options.zeros();
        while let Some(mut full) = self.pending.pop_full() {
            if !full.bytes.is_empty() {
                self.write_piece(full.place.sequence, &mut full.bytes, ZerosAhead { bytes: 0, ..zeros })?;
            }
            self.active.sync(&*self.disk)?;
            let (sequence, bytes) = (full.place.sequence, self.active.length);
            self.sealed.push_back(SealedSegment { sequence, last: full.last, bytes });
        }
        let (sequence, mut bytes) = self.pending.take_last();
        let is_new = sequence != self.active.sequence;
        self.write_piece(sequence, &mut bytes, zeros)?;
        self.pending.reuse(bytes);
        Ok(is_new)
    }

    fn write_piece(&mut self, sequence: u32, bytes: &mut Vec<u8>, zeros: ZerosAhead) -> Result<(), LogError> {
        if sequence == self.active.sequence {
            return self.active.write(&*self.disk, bytes, zeros);
        }
        self.active = ActiveSegment::create(&*self.disk, sequence, bytes, zeros, &mut self.spares)?;
        Ok(())
    }

    /// Writes and syncs an empty frame that claims all before it, after syncing these; for when the
    /// log is idle and at a clean stop. Without effect on an empty log and where the last frame is
    /// such a claim.
    ///
    /// From then on, damage to any frame before it is told from a torn tail.
    pub fn append_claim(&mut self) -> Result<(), LogError> {
        self.sync()?;
        if self.end == Position::ZERO || self.ends_with_claim {
            return Ok(());
        }
        self.push(&[]);
        self.sync().map(drop)
    }

    /// The last frame that is durable.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// The last frame that survives the death of the process.
    pub fn written(&self) -> Position {
        self.written
    }

    /// The last frame that was appended.
    pub fn end(&self) -> Position {
        self.end
    }

    /// The bytes of the frames after `position`, as far as these are kept; up to 64 KiB, or one
    /// frame, too many.
    pub fn bytes_since(&self, position: Position) -> u64 {
        self.distance.since(position)
    }

    /// The id that the log was created with.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Frames up to and with `position` are needed no more. Of the segments that hold no others
    /// some are kept to be used again; the rest are removed. The segment that is written to stays.
    ///
    /// From now on the log must be opened with a `replay_after` of at least `position`.
    pub fn free_through(&mut self, position: Position) -> Result<(), LogError> {
        self.check_not_poisoned()?;
        while self.sealed.front().is_some_and(|oldest| oldest.last <= position) {
            let Some(oldest) = self.sealed.pop_front() else { break };
            let freed = self.free(&oldest);
            self.poisoned_by(freed)?;
            self.distance.forget_through(oldest.last);
        }
        Ok(())
    }

    /// A segment that is longer than most would keep its length for ever.
    fn free(&mut self, segment: &SealedSegment) -> Result<(), LogError> {
        if self.spares.have_room() && segment.bytes <= self.options.segment_bytes {
            return self.spares.take(&*self.disk, segment.sequence, segment.bytes);
        }
        let name = segment_name(segment.sequence);
        self.disk.remove(&name).map_err(LogError::io("remove", &*self.disk, &name))
    }

    fn check_not_poisoned(&self) -> Result<(), LogError> {
        match &self.poison {
            Some(first) => Err(LogError::Poisoned { first: first.clone() }),
            None => Ok(()),
        }
    }

    fn poisoned_by<T>(&mut self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(error) = &outcome {
            self.poison = Some(error.in_full());
        }
        outcome
    }
}

impl LogOptions {
    fn zeros(self) -> ZerosAhead {
        ZerosAhead { bytes: self.zeros_ahead_bytes, segment_bytes: self.segment_bytes }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Log")
            .field("id", &self.id)
            .field("end", &self.end)
            .field("written", &self.written)
            .field("durable", &self.durable)
            .field("segment", &self.active.sequence)
            .field("poison", &self.poison)
            .finish_non_exhaustive()
    }
}
