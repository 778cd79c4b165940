//! What is known of the past: how far each destination is forwarded, which numbers are used up, and
//! how far a file was followed.
//!
//! Two files hold the same, each twice, each copy with a checksum: one damaged place in each file
//! loses nothing. They are written one after the other, so that one is whole at any moment. Where
//! no copy can be read, everything that is still in segments is forwarded again, under its own
//! numbers, and new records get another identity.
//!
//! To change the format, raise [`VERSION`] and read the earlier ones too. The first does not say
//! when a call under way began. The first two know neither conflicts nor which path was followed,
//! and their place is another hash. The first three do not say how many records a call has. In
//! every version the generation comes first: a state of a later one is recognised by it.

use std::io;
use std::sync::Arc;

use base::Timestamp;
use blocklog::{Disk, DiskFile};

use crate::destination::Destination;
use crate::record::{ContentReader, FollowPosition, put_text};

/// The files, in the order of writing.
pub(crate) const STATE_FILES: [&str; 2] = ["state.a", "state.b"];

/// The version follows as a digit.
const MAGIC: [u8; 7] = *b"fpspool";
const VERSION: u8 = 4;
/// Magic and version, length of the content, its checksum.
const HEAD_BYTES: usize = 16;
/// A copy takes a multiple of this, in bytes, so that writing it again needs no room on a full
/// disk.
const PAGE_BYTES: usize = 4_096;
/// A larger file is none of ours.
const FILE_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

/// Everything that is known of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpoolState {
    /// Rises with every write.
    pub(crate) generation: u64,
    /// In the ids of what is forwarded.
    pub(crate) identity: u64,
    /// Where the identity was made: a copy of the files elsewhere must not use it.
    pub(crate) place: u64,
    /// The place is the hash that the first two versions made.
    pub(crate) has_earlier_place: bool,
    /// Numbers below it may be used.
    pub(crate) numbers_end: u64,
    /// A destination that is not listed has nothing waiting up to this number.
    pub(crate) floor: u64,
    pub(crate) newest_received: Timestamp,
    pub(crate) totals: SpoolTotals,
    pub(crate) follow: Option<FollowPosition>,
    /// A hash of the path that was followed; 0 where it is not known.
    pub(crate) followed_path: u64,
    /// Destinations that have something waiting.
    pub(crate) lanes: Vec<LaneState>,
}

/// Items since the spool was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpoolTotals {
    /// Taken by the server, duplicates included.
    pub(crate) forwarded: u64,
    /// Refused by the server for good.
    pub(crate) refused: u64,
    /// Given up: too old, or there was no room.
    pub(crate) dropped: u64,
    /// Damaged places that were set aside.
    pub(crate) damaged: u64,
    /// Of the forwarded messages those in whose place the server has another one.
    pub(crate) conflicts: u64,
}

/// How far a destination is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneState {
    pub(crate) destination: Destination,
    /// Everything up to this number is done.
    pub(crate) cursor: u64,
    /// The call that is under way.
    pub(crate) in_flight: Option<CallInFlight>,
}

/// A call of jobs whose outcome is not known: it is made again, the very same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallInFlight {
    /// The number of its last record.
    pub(crate) end: u64,
    /// When it was first made, by the spool's clock: its jobs count their delays from then.
    pub(crate) begun: Timestamp,
    /// How many records it has; 0 where that is not known. With fewer it would be another call.
    pub(crate) records: u32,
}

impl CallInFlight {
    /// Stands for none in the stored form: no record has the number 0.
    const NONE: Self = Self { end: 0, begun: Timestamp(0), records: 0 };
    /// The records of a call that has lost some, where it is not known how many it had: more than
    /// there can be.
    const RECORDS_WITH_LOST: u32 = u32::MAX;
}

/// A whole copy that a later version wrote: its generation first, then its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaterStateCopy {
    generation: u64,
    version: u8,
}

impl SpoolState {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD_BYTES];
        let totals = &self.totals;
        for number in [
            self.generation,
            self.identity,
            self.place,
            self.numbers_end,
            self.floor,
            self.newest_received.0.cast_unsigned(),
            totals.forwarded,
            totals.refused,
            totals.dropped,
            totals.damaged,
            totals.conflicts,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(u8::from(self.follow.is_some()));
        self.follow.unwrap_or_default().encode(&mut out);
        out.extend_from_slice(&self.followed_path.to_le_bytes());
        out.extend_from_slice(&(self.lanes.len() as u32).to_le_bytes());
        for lane in &self.lanes {
            put_text(&mut out, lane.destination.as_str());
            out.extend_from_slice(&lane.cursor.to_le_bytes());
            let CallInFlight { end, begun, records } = lane.in_flight.unwrap_or(CallInFlight::NONE);
            out.extend_from_slice(&end.to_le_bytes());
            out.extend_from_slice(&begun.0.to_le_bytes());
            out.extend_from_slice(&records.to_le_bytes());
        }
        let length = (out.len() - HEAD_BYTES) as u32;
        let checksum = crc32c::crc32c(&out[HEAD_BYTES..]);
        out[..7].copy_from_slice(&MAGIC);
        out[7] = b'0' + VERSION;
        out[8..12].copy_from_slice(&length.to_le_bytes());
        out[12..16].copy_from_slice(&checksum.to_le_bytes());
        out.resize(out.len().next_multiple_of(PAGE_BYTES), 0);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, content) = Self::content_of(bytes)?;
        if !(1..=VERSION).contains(&version) {
            return None;
        }
        let mut fields = ContentReader(content);
        let state = Self::read(&mut fields, version)?;
        // With bytes left, it was written by another version than its digit says.
        fields.0.is_empty().then_some(state)
    }

    /// The version and the content of a copy, as far as its checksum is right.
    fn content_of(bytes: &[u8]) -> Option<(u8, &[u8])> {
        let mut fields = ContentReader(bytes);
        if fields.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let version = fields.take(1)?[0].checked_sub(b'0')?;
        let (length, checksum) = (fields.u32()?, fields.u32()?);
        let content = fields.take(length as usize)?;
        (crc32c::crc32c(content) == checksum).then_some((version, content))
    }

    fn read(fields: &mut ContentReader<'_>, version: u8) -> Option<Self> {
        let (has_times, has_conflicts_and_path) = (version >= 2, version >= 3);
        let (has_cuts, has_counts) = (version == 3, version >= 4);
        let mut state = Self {
            generation: fields.u64()?,
            identity: fields.u64()?,
            place: fields.u64()?,
            has_earlier_place: version < 3,
            numbers_end: fields.u64()?,
            floor: fields.u64()?,
            newest_received: Timestamp(fields.u64()?.cast_signed()),
            totals: SpoolTotals {
                forwarded: fields.u64()?,
                refused: fields.u64()?,
                dropped: fields.u64()?,
                damaged: fields.u64()?,
                conflicts: if has_conflicts_and_path { fields.u64()? } else { 0 },
            },
            follow: None,
            followed_path: 0,
            lanes: Vec::new(),
        };
        let follows = fields.take(1)? == [1];
        let follow = FollowPosition::decode(fields)?;
        state.follow = follows.then_some(follow);
        state.followed_path = if has_conflicts_and_path { fields.u64()? } else { 0 };
        for _ in 0..fields.u32()? {
            let destination = Destination::parse(fields.text()?)?;
            let cursor = fields.u64()?;
            let end = fields.u64()?;
            let begun = if has_times { Timestamp(fields.u64()?.cast_signed()) } else { Timestamp(0) };
            let is_cut = has_cuts && fields.take(1)? == [1];
            let records = if is_cut {
                CallInFlight::RECORDS_WITH_LOST
            } else if has_counts {
                fields.u32()?
            } else {
                0
            };
            let in_flight = Some(CallInFlight { end, begun, records }).filter(|call| call.end != 0);
            state.lanes.push(LaneState { destination, cursor, in_flight });
        }
        Some(state)
    }

    /// The newest copy of a file: at the start of any page.
    fn newest_in(bytes: &[u8]) -> Option<Self> {
        (0..bytes.len())
            .step_by(PAGE_BYTES)
            .filter_map(|at| Self::decode(&bytes[at..]))
            .max_by_key(|state| state.generation)
    }

    /// The newest copy of a file that a later version wrote.
    fn later_in(bytes: &[u8]) -> Option<LaterStateCopy> {
        (0..bytes.len())
            .step_by(PAGE_BYTES)
            .filter_map(|at| {
                let (version, content) = Self::content_of(&bytes[at..])?;
                let generation = ContentReader(content).u64()?;
                (version > VERSION).then_some(LaterStateCopy { generation, version })
            })
            .max()
    }
}

/// The files of the state.
pub(crate) struct StateFiles {
    files: [Arc<dyn DiskFile>; 2],
    pub(crate) generation: u64,
}

impl StateFiles {
    /// Opens the files, and makes those that are missing. `None` where no copy can be read.
    ///
    /// # Errors
    /// When the disk fails, or the newest copy is of a later version: nothing may be guessed then.
    pub(crate) fn open(disk: &dyn Disk) -> io::Result<(Self, Option<SpoolState>)> {
        let files = [disk.open(STATE_FILES[0], true)?, disk.open(STATE_FILES[1], true)?];
        disk.sync_directory()?;
        let (mut newest, mut later) = (None::<SpoolState>, None::<LaterStateCopy>);
        for file in &files {
            let length = file.len()?;
            if length > FILE_BYTES_MAX {
                continue;
            }
            let mut bytes = vec![0; length as usize];
            // A place that the disk cannot read is as good as damaged.
            if file.read_at(0, &mut bytes).is_err() {
                continue;
            }
            later = later.max(SpoolState::later_in(&bytes));
            let found = SpoolState::newest_in(&bytes);
            if found.as_ref().map(|state| state.generation) > newest.as_ref().map(|state| state.generation) {
                newest = found;
            }
        }
        // One that is no newer than a readable one is a readable one with a damaged digit.
        if let Some(LaterStateCopy { generation, version }) = later
            && newest.as_ref().is_none_or(|state| state.generation < generation)
        {
            let text = format!(
                "its state has version {version}, and this program reads versions up to {VERSION}: use the \
                 program that wrote it, or a later one"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let generation = newest.as_ref().map_or(0, |state| state.generation);
        Ok((Self { files, generation }, newest))
    }

    /// Writes the state, durably.
    pub(crate) fn write(&mut self, mut state: SpoolState) -> io::Result<()> {
        self.generation += 1;
        state.generation = self.generation;
        let copy = state.encode();
        let twice = [&copy[..], &copy].concat();
        for file in &self.files {
            file.write_at(0, &twice)?;
            // An old copy behind the new ones could be taken for the state when both are damaged.
            if file.len()? > twice.len() as u64 {
                file.set_len(twice.len() as u64)?;
            }
            file.sync()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use blocklog::SimulatedDisk;

    use super::*;

    fn state(lanes: usize) -> SpoolState {
        let lane = |number: usize| LaneState {
            destination: Destination::queue("ns", &format!("q{number}")).expect("right names"),
            cursor: number as u64,
            in_flight: number.is_multiple_of(2).then_some(CallInFlight {
                end: number as u64 + 1,
                begun: Timestamp(7),
                records: number as u32 + 1,
            }),
        };
        SpoolState {
            identity: 1,
            place: 2,
            numbers_end: 3,
            floor: 4,
            newest_received: Timestamp(-5),
            totals: SpoolTotals { forwarded: 6, refused: 7, dropped: 8, damaged: 9, conflicts: 10 },
            follow: Some(FollowPosition { file: 1, offset: 2, head_bytes: 3, head_checksum: 4 }),
            followed_path: 5,
            lanes: (0..lanes).map(lane).collect(),
            ..SpoolState::default()
        }
    }

    fn read(disk: &SimulatedDisk) -> Option<SpoolState> {
        StateFiles::open(disk).expect("it opens").1
    }

    #[test]
    fn the_state_is_read_back_whatever_its_length_was_before() {
        let disk = SimulatedDisk::new(1);
        let (mut files, none) = StateFiles::open(&disk).expect("it opens");
        assert_eq!(none, None);
        for (generation, lanes) in [(1, 0), (2, 500), (3, 3), (4, 300)] {
            files.write(state(lanes)).expect("written");
            assert_eq!(read(&disk), Some(SpoolState { generation, ..state(lanes) }));
        }
    }

    /// The state of one destination as an earlier version wrote it.
    fn written_by(version: u8, has_lost_some: bool) -> Vec<u8> {
        let bytes = SpoolState { generation: 3, ..state(1) }.encode();
        let length = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        let mut content = bytes[HEAD_BYTES..HEAD_BYTES + length].to_vec();
        // From behind: how many records the call has, with the first version when it began, the
        // path, the conflicts.
        content.truncate(length - if version == 1 { 12 } else { 4 });
        if version < 3 {
            content.drain(113..121);
            content.drain(80..88);
        } else {
            content.push(u8::from(has_lost_some));
        }
        let mut written = [&MAGIC[..], &[b'0' + version]].concat();
        written.extend_from_slice(&(content.len() as u32).to_le_bytes());
        written.extend_from_slice(&crc32c::crc32c(&content).to_le_bytes());
        written.append(&mut content);
        written
    }

    #[test]
    fn the_states_of_earlier_versions_are_read() {
        for (version, has_lost_some, begun, records) in [
            (1, false, Timestamp(0), 0),
            (2, false, Timestamp(7), 0),
            (3, false, Timestamp(7), 0),
            (3, true, Timestamp(7), CallInFlight::RECORDS_WITH_LOST),
        ] {
            let read = SpoolState::decode(&written_by(version, has_lost_some)).expect("it is read");
            let call = CallInFlight { end: 1, begun, records };
            let lane = LaneState { in_flight: Some(call), ..state(1).lanes.remove(0) };
            let mut expected = SpoolState { generation: 3, lanes: vec![lane], ..state(1) };
            if version < 3 {
                (expected.totals.conflicts, expected.followed_path) = (0, 0);
                expected.has_earlier_place = true;
            }
            assert_eq!(read, expected, "{version}");
        }
    }

    #[test]
    fn a_state_with_the_digit_of_another_version_is_not_read() {
        for version in [VERSION - 1, VERSION + 1] {
            let mut bytes = state(1).encode();
            bytes[7] = b'0' + version;
            assert_eq!(SpoolState::decode(&bytes), None, "{version}");
        }
    }

    #[test]
    fn a_state_of_a_later_version_is_refused_and_a_damaged_digit_is_not() {
        let disk = SimulatedDisk::new(1);
        let (mut files, _) = StateFiles::open(&disk).expect("it opens");
        files.write(state(2)).expect("written");
        let make_later = |name: &str, at: u64| {
            disk.corrupt(name, at + 7, (b'0' + VERSION) ^ (b'0' + VERSION + 1));
        };
        make_later(STATE_FILES[0], 0);
        assert_eq!(read(&disk), Some(SpoolState { generation: 1, ..state(2) }), "three others are whole");
        let page = PAGE_BYTES as u64;
        for (name, at) in [(STATE_FILES[0], page), (STATE_FILES[1], 0), (STATE_FILES[1], page)] {
            make_later(name, at);
        }
        let refused = StateFiles::open(&disk).map(|_| ()).expect_err("nothing is guessed");
        assert!(refused.to_string().contains("version"), "{refused}");
    }

    #[test]
    fn a_damaged_place_in_each_file_loses_nothing() {
        for at in [0, 9, 13, 40, 4_100] {
            let disk = SimulatedDisk::new(1);
            let (mut files, _) = StateFiles::open(&disk).expect("it opens");
            files.write(state(2)).expect("written");
            for name in STATE_FILES {
                disk.corrupt(name, at, 4);
            }
            assert_eq!(read(&disk), Some(SpoolState { generation: 1, ..state(2) }), "{at}");
        }
    }

    #[test]
    fn a_crash_while_it_is_written_leaves_this_state_or_the_one_before() {
        for seed in 0..50 {
            for failing in [1, 2] {
                let disk = SimulatedDisk::new(seed);
                let (mut files, _) = StateFiles::open(&disk).expect("it opens");
                files.write(state(1)).expect("written");
                disk.fail_sync(failing);
                files.write(state(200)).expect_err("the sync fails");
                disk.crash();
                let generation = read(&disk).map(|state| state.generation);
                assert!(matches!(generation, Some(1 | 2)), "{generation:?} with seed {seed}");
            }
        }
    }
}
