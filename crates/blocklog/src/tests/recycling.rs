//! Segment files that are used again: how many are kept, and that nothing of their earlier lives is
//! ever taken for the log.

use super::*;
use crate::Tail;

fn spare_files(disk: &Arc<dyn Disk>) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".spare")).collect()
}

/// Appends and syncs `frames` one by one; frees all but the last `kept`.
fn turn_over(log: &mut Log, numbers: std::ops::Range<u64>, kept: u64) {
    turn_over_with(log, numbers.map(payload), kept);
}

fn turn_over_with(log: &mut Log, payloads: impl Iterator<Item = Vec<u8>>, kept: u64) {
    for payload in payloads {
        let position = log.append(&payload).unwrap();
        log.sync().unwrap();
        log.free_through(Position(position.0.saturating_sub(kept))).unwrap();
    }
}

#[test]
fn freed_segments_wait_to_be_used_again_up_to_a_limit() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        for number in 0..60 {
            log.append(&payload(number)).unwrap();
        }
        log.sync().unwrap();
        let before = segment_files(&disk);
        assert!(before.len() > 5, "{before:?}");
        log.free_through(Position(60)).unwrap();
        assert_eq!((segment_files(&disk).len(), spare_files(&disk).len()), (1, OPTIONS.spare_segments_max));
        turn_over(&mut log, 60..80, 1_000);
        assert_eq!(spare_files(&disk), Vec::<String>::new(), "they were used");
    });
}

/// The files are those of the beginning, under other names: nothing is given back to the file
/// system or asked of it.
#[test]
fn a_log_that_stays_as_long_as_it_is_makes_and_removes_no_file() {
    let path = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_dir(path.path(), true).unwrap());
    let mut log = create(&disk);
    let numbers = |path: &std::path::Path| {
        let inode =
            |entry: std::fs::DirEntry| std::os::unix::fs::MetadataExt::ino(&entry.metadata().unwrap());
        path.read_dir().unwrap().map(|entry| inode(entry.unwrap())).collect::<std::collections::BTreeSet<_>>()
    };
    let of_one_size = |frames| std::iter::repeat_n(vec![7; 100], frames);
    turn_over_with(&mut log, of_one_size(30), 10);
    let before = numbers(path.path());
    turn_over_with(&mut log, of_one_size(270), 10);
    assert_eq!(numbers(path.path()), before);
    drop(log);
    let (opened, frames) = open_after(&disk, Position(300), Position(290)).unwrap();
    assert_eq!((opened.tail, frames.len()), (None, 10));
}

#[test]
fn a_segment_that_is_longer_than_most_is_not_kept() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let mut log = create(&disk);
    log.append(&vec![7; 3 * OPTIONS.segment_bytes as usize]).unwrap();
    turn_over(&mut log, 0..1, 0);
    assert_eq!((segment_files(&disk).len(), spare_files(&disk).len()), (1, 0));
}

#[test]
fn an_opening_removes_the_spares_that_it_finds() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        turn_over(&mut log, 0..40, 5);
        assert!(!spare_files(&disk).is_empty());
        drop(log);
        let (opened, _) = open_after(&disk, Position(40), Position(35)).unwrap();
        assert_eq!((spare_files(&disk), opened.log.end()), (Vec::new(), Position(40)));
    });
}

/// A log whose last segment was used before, with `kept` frames in it; nothing claims the last of
/// them.
fn used_again(kept: u64) -> (SimulatedDisk, Vec<Position>, u64) {
    let simulated = SimulatedDisk::new(7);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let mut log = create(&disk);
    turn_over(&mut log, 0..40, 5);
    let used_before = segment_files(&disk).last().unwrap().clone();
    let mut number = 40;
    while segment_files(&disk).last() == Some(&used_before) {
        turn_over(&mut log, number..number + 1, 5);
        number += 1;
    }
    let mut positions = vec![log.end()];
    let mut end = 64 + 40 + payload(number - 1).len().next_multiple_of(8) as u64;
    for _ in 1..kept {
        // 16 bytes, shorter than what was there before
        positions.push(log.append(&[0xab; 16]).unwrap());
        log.sync().unwrap();
        end += 56;
    }
    (simulated, positions, end)
}

#[test]
fn the_remains_of_an_earlier_segment_are_no_tail_and_stay() {
    let (simulated, positions, end) = used_again(3);
    let disk: Arc<dyn Disk> = Arc::new(simulated.copy_of_durable(1));
    let name = segment_files(&disk).pop().unwrap();
    let length = disk.open(&name, false).unwrap().len().unwrap();
    assert!(length > end, "something is left of the segment before");
    let last = *positions.last().unwrap();
    let (opened, _) = open_after(&disk, Position::ZERO, Position(last.0 - 3)).unwrap();
    assert_eq!((opened.tail, opened.log.end()), (None, last));
    assert_eq!(disk.open(&name, false).unwrap().len().unwrap(), length, "it need not grow again");
}

/// The last frame is claimed by nothing, all before it are: by it.
#[test]
fn every_changed_byte_of_a_file_used_again_is_refused_or_cut_and_told() {
    let (simulated, positions, end) = used_again(3);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let name = segment_files(&disk).pop().unwrap();
    let last = *positions.last().unwrap();
    for offset in 64..simulated.file_len(&name).unwrap() {
        let copy = simulated.copy_of_durable(1);
        copy.corrupt(&name, offset, 0xff);
        let disk: Arc<dyn Disk> = Arc::new(copy);
        let outcome = open_after(&disk, Position::ZERO, Position(last.0 - 3));
        if offset >= end {
            let (opened, _) = outcome.unwrap();
            assert_eq!((opened.tail, opened.log.end()), (None, last), "{offset}");
        } else if offset >= end - 56 {
            let (opened, frames) = outcome.unwrap();
            let file = disk.path().join(&name).display().to_string();
            let Some(Tail { file: found, offset: begin, cut_bytes }) = opened.tail else {
                panic!("{offset}")
            };
            assert_eq!((found, begin), (file, end - 56), "{offset}");
            assert!(cut_bytes >= 40, "{offset}: {cut_bytes}");
            assert_eq!((opened.log.end(), frames.len()), (last.previous(), 2), "{offset}");
        } else {
            assert!(matches!(outcome, Err(LogError::Corrupt { .. })), "{offset}");
        }
    }
}

/// What was torn off is gone from the file: the frames that follow it in the same place may be as
/// long as those before.
#[test]
fn a_frame_behind_a_torn_one_never_comes_back() {
    let (simulated, positions, end) = used_again(4);
    let name = segment_files(&(Arc::new(simulated.clone()) as Arc<dyn Disk>)).pop().unwrap();
    let last = *positions.last().unwrap();
    let after = Position(last.0 - 4);
    let disk: Arc<dyn Disk> = Arc::new(simulated.copy_of_durable(1));
    // the last frame but one is gone, and what claims it, but the last is not: as if written out of
    // order
    let bytes = simulated.durable(&name).unwrap();
    let file = disk.open(&name, false).unwrap();
    let torn = (end - 112) as usize;
    file.write_at(torn as u64 + 44, &[0; 4]).unwrap();
    let mut unclaiming = bytes[torn + 56..torn + 112].to_vec();
    unclaiming[24..32].copy_from_slice(&after.0.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&unclaiming[..36]), &unclaiming[40..]);
    unclaiming[36..40].copy_from_slice(&checksum.to_le_bytes());
    file.write_at(torn as u64 + 56, &unclaiming).unwrap();
    let (opened, _) = open_after(&disk, Position::ZERO, after).unwrap();
    assert_eq!(opened.tail.map(|tail| (tail.offset, tail.cut_bytes)), Some((torn as u64, 112)));
    let mut log = opened.log;
    assert_eq!(log.append(&[0xcd; 16]).unwrap(), last.previous());
    log.sync().unwrap();
    drop(log);
    let (opened, frames) = open_after(&disk, Position::ZERO, after).unwrap();
    assert_eq!(opened.log.end(), last.previous());
    assert_eq!(frames.last().unwrap(), &(last.previous(), vec![0xcd; 16]));
}

/// Every write and sync of a log that frees as fast as it can is the last before the crash. All
/// orders of what was not synced are tried: a segment's new name, its new header, and the name that
/// it goes by next.
#[test]
fn a_crash_at_any_moment_of_using_a_segment_again_loses_nothing() {
    let mut used_again = 0;
    for seed in 0..15 {
        for nth in 1..60 {
            for fail in [SimulatedDisk::fail_write, SimulatedDisk::fail_sync] {
                let simulated = SimulatedDisk::new(seed * 1_000 + nth);
                let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
                let mut log = create(&disk);
                fail(&simulated, nth);
                let (mut durable, mut freed) = (Position::ZERO, Position::ZERO);
                for number in 0..40 {
                    let (kept, spares) = (3 + number % 7, spare_files(&disk).len());
                    let Ok(position) = log.append(&payload(number)).and_then(|_| log.sync()) else { break };
                    durable = position;
                    used_again += usize::from(spare_files(&disk).len() < spares);
                    freed = Position(position.0.saturating_sub(kept)).max(freed);
                    if log.free_through(freed).is_err() {
                        break;
                    }
                }
                simulated.crash();
                check_reopens(&disk, durable, freed);
            }
        }
    }
    assert!(used_again > 1_000, "{used_again}");
}

/// Twice: also what the first opening leaves, and what is written after it, must be right.
fn check_reopens(disk: &Arc<dyn Disk>, durable: Position, freed: Position) {
    let (opened, frames) = open_after(disk, durable, freed).unwrap();
    let end = opened.log.end();
    let expected: Frames = (freed.0..end.0).map(|number| (Position(number + 1), payload(number))).collect();
    assert_eq!(frames, expected);
    let mut log = opened.log;
    turn_over(&mut log, end.0..end.0 + 20, 15);
    drop(log);
    let (_, frames) = open_after(disk, Position(end.0 + 20), Position(end.0 + 5)).unwrap();
    let expected: Frames =
        (end.0 + 5..end.0 + 20).map(|number| (Position(number + 1), payload(number))).collect();
    assert_eq!(frames, expected);
}
