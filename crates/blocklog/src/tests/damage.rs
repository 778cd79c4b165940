//! Damage to the files: refused with file and offset where the bytes were known to be durable, else
//! cut.

use proptest::prelude::*;

use super::*;
use crate::Tail;

/// Where one frame is, as computed from the lengths of what was appended.
#[derive(Debug, Clone)]
struct Placed {
    file: String,
    begin: u64,
    end: u64,
    position: Position,
    /// Empty for a claim.
    payload: Vec<u8>,
}

/// A log of several segments; the frames of the last sync are claimed by nothing.
struct Sample {
    disk: SimulatedDisk,
    placed: Vec<Placed>,
    claimed: Position,
}

const HEADER_BYTES: u64 = 64;

/// Syncs 2 frames at a time, with a claim after every 10th.
fn sample(frames: u64) -> Sample {
    let simulated = SimulatedDisk::new(3);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let mut log = create(&disk);
    let mut placed = Vec::new();
    let mut claimed = Position::ZERO;
    for number in 0..frames {
        if number % 10 == 9 {
            log.append_claim().unwrap();
            place(&mut placed, Vec::new());
        }
        claimed = log.durable();
        log.append(&payload(number)).unwrap();
        place(&mut placed, payload(number));
        if number % 2 == 1 {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
    assert_eq!(placed.last().unwrap().position, log.durable());
    // A segment that follows claims too, and the last frames may be its first.
    let last_file = placed.last().unwrap().file.clone();
    let before =
        placed.iter().rfind(|frame| frame.file != last_file).map_or(Position::ZERO, |frame| frame.position);
    Sample { disk: simulated, placed, claimed: claimed.max(before) }
}

fn place(placed: &mut Vec<Placed>, payload: Vec<u8>) {
    let bytes = 40 + payload.len().next_multiple_of(8) as u64;
    let (mut segment, mut begin) = placed.last().map_or((1, HEADER_BYTES), |before| {
        let number: u32 = before.file[4..14].parse().unwrap();
        (number, before.end)
    });
    if begin + bytes > OPTIONS.segment_bytes && begin > HEADER_BYTES {
        (segment, begin) = (segment + 1, HEADER_BYTES);
    }
    let position = Position(placed.len() as u64 + 1);
    placed.push(Placed {
        file: format!("log-{segment:010}.seg"),
        begin,
        end: begin + bytes,
        position,
        payload,
    });
}

impl Sample {
    fn frames_below(&self, position: Position) -> Frames {
        let below = self.placed.iter().filter(|frame| frame.position < position && !frame.payload.is_empty());
        below.map(|frame| (frame.position, frame.payload.clone())).collect()
    }

    fn all(&self) -> Frames {
        self.frames_below(Position(u64::MAX))
    }

    fn frames_end_in(&self, file: &str) -> u64 {
        self.placed.iter().rfind(|frame| frame.file == file).unwrap().end
    }

    fn last(&self) -> &Placed {
        self.placed.last().unwrap()
    }

    fn copy(&self) -> (SimulatedDisk, Arc<dyn Disk>) {
        let copy = self.disk.copy_of_durable(5);
        (copy.clone(), Arc::new(copy))
    }
}

fn path_of(name: &str) -> String {
    format!("/simulated/{name}")
}

/// What must come of a change to the byte at `offset` of `name`.
fn check_changed_byte(
    sample: &Sample,
    name: &str,
    offset: u64,
    outcome: Result<(OpenedLog, Frames), LogError>,
) {
    let frame =
        sample.placed.iter().find(|frame| frame.file == name && (frame.begin..frame.end).contains(&offset));
    let what = format!("{name} at {offset} of {frame:?}");
    match frame {
        None if offset < HEADER_BYTES => {
            assert!(
                matches!(outcome, Err(LogError::CorruptHeader { file }) if file == path_of(name)),
                "{what}"
            );
        }
        None if name != sample.last().file => {
            let (opened, frames) = outcome.unwrap();
            assert_eq!(
                (opened.tail, frames),
                (None, sample.all()),
                "{what}: behind the frames of a full segment"
            );
        }
        None => {
            let (opened, frames) = outcome.unwrap();
            let begin = sample.last().end;
            let tail = Tail { cut_bytes: offset - begin + 1, file: path_of(name), offset: begin };
            assert_eq!((opened.tail, frames), (Some(tail), sample.all()), "{what}");
        }
        Some(bad) if bad.position <= sample.claimed => match outcome {
            Err(LogError::Corrupt { file, offset, position }) => {
                assert_eq!((file, offset, position), (path_of(name), bad.begin, bad.position), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        },
        Some(bad) => {
            let (opened, frames) = outcome.unwrap();
            let tail = opened.tail.unwrap();
            assert_eq!((tail.file, tail.offset), (path_of(name), bad.begin), "{what}");
            assert_eq!(frames, sample.frames_below(bad.position), "{what}");
            assert_eq!(opened.log.end(), bad.position.previous(), "{what}");
        }
    }
}

#[test]
fn every_changed_byte_is_refused_below_the_last_claim_and_cut_above() {
    for frames in [1, 4, 24, 25, 29] {
        let sample = sample(frames);
        for name in segment_files(&(Arc::new(sample.disk.clone()) as Arc<dyn Disk>)) {
            for offset in 0..sample.disk.file_len(&name).unwrap() {
                for xor in [0x01, 0x80, 0xff] {
                    let (copy, disk) = sample.copy();
                    copy.corrupt(&name, offset, xor);
                    check_changed_byte(&sample, &name, offset, open(&disk));
                }
            }
        }
    }
}

#[test]
fn after_a_clean_stop_every_changed_byte_of_a_frame_is_refused() {
    let sample = sample(12);
    let mut log = open(&(Arc::new(sample.disk.clone()) as Arc<dyn Disk>)).unwrap().0.log;
    log.append_claim().unwrap();
    drop(log);
    for frame in &sample.placed {
        for offset in frame.begin..frame.end {
            let (copy, disk) = sample.copy();
            copy.corrupt(&frame.file, offset, 0x10);
            let error = open(&disk).unwrap_err();
            let found = matches!(&error, LogError::Corrupt { file, offset, position }
                if *file == path_of(&frame.file) && *offset == frame.begin && *position == frame.position);
            assert!(found, "{frame:?}: {error}");
        }
    }
}

#[test]
fn damage_below_the_recorded_position_is_refused_though_no_frame_claims_it() {
    let sample = sample(2);
    let last = sample.last();
    let (copy, disk) = sample.copy();
    copy.corrupt(&last.file, last.begin + 44, 4);
    let error = open_after(&disk, last.position, Position::ZERO).unwrap_err();
    assert!(matches!(error, LogError::Corrupt { position: Position(2), .. }), "{error}");
    assert!(open_after(&disk, Position(1), Position::ZERO).is_ok());
}

#[test]
fn a_file_cut_at_any_length_is_refused_or_ends_the_log_there() {
    let sample = sample(25);
    let last_file = &sample.last().file;
    for name in segment_files(&(Arc::new(sample.disk.clone()) as Arc<dyn Disk>)) {
        for length in 0..sample.disk.file_len(&name).unwrap() {
            let (_, disk) = sample.copy();
            disk.open(&name, false).unwrap().set_len(length).unwrap();
            let outcome = open(&disk);
            if length < HEADER_BYTES {
                assert!(matches!(outcome, Err(LogError::CorruptHeader { .. })), "{name} {length}");
            } else if name == *last_file {
                let whole =
                    sample.placed.iter().filter(|frame| frame.file != name || frame.end <= length).count();
                let (opened, frames) = outcome.unwrap();
                assert_eq!(opened.log.end(), Position(whole as u64), "{name} {length}");
                assert_eq!(frames, sample.frames_below(Position(whole as u64 + 1)), "{name} {length}");
                check_refused_as_too_short(&sample, &disk);
            } else if length < sample.frames_end_in(&name) {
                assert!(matches!(outcome, Err(LogError::Corrupt { .. })), "{name} {length}");
            } else {
                assert_eq!(outcome.unwrap().1, sample.all(), "{name} {length}");
            }
        }
    }
}

/// A caller that recorded the end of the sample sees that this log ends below it.
fn check_refused_as_too_short(sample: &Sample, disk: &Arc<dyn Disk>) {
    let recorded = sample.last().position;
    match open_after(disk, recorded, Position::ZERO) {
        Ok((opened, _)) => assert_eq!(opened.log.end(), recorded),
        Err(LogError::EndsBelow { end, recorded: named, .. }) => assert!(end < recorded && named == recorded),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn zeros_over_any_range_never_lose_a_recorded_frame_silently() {
    let sample = sample(25);
    for name in segment_files(&(Arc::new(sample.disk.clone()) as Arc<dyn Disk>)) {
        let length = sample.disk.file_len(&name).unwrap();
        for begin in (0..length).step_by(16) {
            for zeros in [1, 16, 100, length - begin] {
                let (_, disk) = sample.copy();
                let zeros = zeros.min(length - begin) as usize;
                disk.open(&name, false).unwrap().write_at(begin, &vec![0; zeros]).unwrap();
                if let Ok((_, frames)) = open_after(&disk, sample.claimed, Position::ZERO) {
                    assert!(
                        frames.starts_with(&sample.frames_below(sample.claimed.next())),
                        "{name} {begin} {zeros}"
                    );
                    assert!(sample.all().starts_with(&frames), "{name} {begin} {zeros}");
                }
            }
        }
    }
}

#[test]
fn a_removed_segment_is_refused_unless_it_was_the_last() {
    let sample = sample(25);
    let names = segment_files(&(Arc::new(sample.disk.clone()) as Arc<dyn Disk>));
    for name in &names {
        let (_, disk) = sample.copy();
        disk.remove(name).unwrap();
        let lost: Vec<_> = sample.placed.iter().filter(|frame| frame.file == *name).collect();
        match open_after(&disk, sample.last().position, Position::ZERO).unwrap_err() {
            LogError::Missing { from, to, .. } => {
                assert_eq!((from, to), (lost[0].position, lost[lost.len() - 1].position));
            }
            LogError::EndsBelow { end, .. } => {
                assert_eq!((end, name), (lost[0].position.previous(), &sample.last().file));
            }
            other => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn a_removal_that_a_crash_half_undid_is_finished() {
    let sample = sample(25);
    let names = segment_files(&(Arc::new(sample.disk.clone()) as Arc<dyn Disk>));
    let (_, disk) = sample.copy();
    disk.remove(&names[1]).unwrap();
    let freed = sample.placed.iter().rfind(|frame| frame.file == names[1]).unwrap().position;
    let (_, frames) = open_after(&disk, sample.claimed, freed).unwrap();
    assert_eq!(frames.first().unwrap().0, freed.next());
    assert_eq!(segment_files(&disk), names[2..]);
}

#[test]
fn the_segment_of_another_log_is_refused() {
    let sample = sample(25);
    let foreign: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let mut log = Log::create(foreign.clone(), OPTIONS, LogId(77)).unwrap();
    for number in 0..25 {
        log.append(&payload(number)).unwrap();
    }
    log.sync().unwrap();
    let (_, disk) = sample.copy();
    copy_file(&foreign, "log-0000000002.seg", &disk, "log-0000000002.seg");
    let error = open(&disk).unwrap_err();
    assert!(matches!(error, LogError::ForeignSegment { expected: ID, found: LogId(77), .. }), "{error}");
}

#[test]
fn a_segment_under_the_name_of_another_is_refused() {
    let sample = sample(25);
    let (_, disk) = sample.copy();
    copy_file(&disk, "log-0000000001.seg", &disk, "log-0000000002.seg");
    let error = open(&disk).unwrap_err();
    assert!(matches!(error, LogError::CorruptHeader { file } if file.ends_with("log-0000000002.seg")));
}

#[test]
fn a_log_of_a_later_format_is_refused_with_both_versions() {
    let (_, disk) = sample(25).copy();
    let file = disk.open("log-0000000001.seg", false).unwrap();
    let mut header = [0; 64];
    file.read_at(0, &mut header).unwrap();
    header[8] = 2;
    let checksum = crc32c::crc32c(&header[..60]).to_le_bytes();
    header[60..].copy_from_slice(&checksum);
    file.write_at(0, &header).unwrap();
    let error = open(&disk).unwrap_err();
    assert!(
        matches!(&error, LogError::UnsupportedVersion { found: 2, supported: 1, file } if file.ends_with(".seg"))
    );
    assert!(error.to_string().contains("log-0000000001.seg has log format 2, this build reads format 1"));
}

fn copy_file(from: &Arc<dyn Disk>, name: &str, to: &Arc<dyn Disk>, new_name: &str) {
    let source = from.open(name, false).unwrap();
    let mut bytes = vec![0; source.len().unwrap() as usize];
    source.read_at(0, &mut bytes).unwrap();
    let target = to.open(new_name, true).unwrap();
    target.set_len(0).unwrap();
    target.write_at(0, &bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_damage_never_invents_a_frame(
        writes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(),
            prop::collection::vec(any::<u8>(), 1..80)), 1..4),
    ) {
        let sample = sample(25);
        let (copy, disk) = sample.copy();
        let names = segment_files(&disk);
        for (file, at, bytes) in &writes {
            let name = file.get(&names);
            let offset = at.index(copy.file_len(name).unwrap() as usize) as u64;
            disk.open(name, false).unwrap().write_at(offset, bytes).unwrap();
        }
        if let Ok((opened, frames)) = open_after(&disk, sample.claimed, Position::ZERO) {
            prop_assert!(sample.all().starts_with(&frames));
            prop_assert!(opened.log.end() >= sample.claimed);
        }
    }
}

#[test]
fn a_log_that_ends_below_what_is_not_replayed_is_refused() {
    let sample = sample(40);
    let (_, disk) = sample.copy();
    let names = segment_files(&disk);
    for name in &names[1..] {
        disk.remove(name).unwrap();
    }
    let (opened, _) = open(&disk).unwrap();
    let end = opened.log.end();
    drop(opened);
    let outcome = open_after(&disk, Position::ZERO, end.next());
    assert!(matches!(outcome, Err(LogError::EndsBelow { recorded, .. }) if recorded == end.next()));
    assert!(open_after(&disk, Position::ZERO, end).is_ok());
}
