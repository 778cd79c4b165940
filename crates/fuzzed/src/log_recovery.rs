//! The segment files of a log whose bytes were changed behind its back, as opening finds them.
//!
//! The input is a list of changes to a log that was written here: bytes overwritten, zeroed, copied
//! and cut, files removed, swapped and replaced. Opening answers with a refusal that names a file,
//! or with frames. The frames are never out of order or with a gap, and each was appended. What was
//! opened opens again as it is, and takes new frames.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use blocklog::{Disk, Log, LogError, LogId, LogOptions, Position, SimulatedDisk};

const OPTIONS: LogOptions =
    LogOptions { segment_bytes: 2_048, zeros_ahead_bytes: 512, spare_segments_max: 2 };
const FRAMES: u64 = 90;
/// A claim follows every so many frames, and a sync every few.
const CLAIM_EVERY: u64 = 30;
const SYNC_EVERY: u64 = 3;
/// Frames up to here were freed: their segments are gone, or wait to be used again.
const FREED: Position = Position(25);
/// Bytes of a change: what, in which file, where (2), how many, which byte.
const CHANGE_BYTES: usize = 6;
const CHANGES_MAX: usize = 24;

/// Position and payload of each frame that is handed out.
type Frames = Vec<(Position, Vec<u8>)>;

/// A log as it was closed.
struct ClosedLog {
    files: BTreeMap<String, Vec<u8>>,
    frames: Frames,
    durable: Position,
}

/// Changes the files and opens the log.
pub fn run(data: &[u8]) {
    static WRITTEN: OnceLock<ClosedLog> = OnceLock::new();
    let written = WRITTEN.get_or_init(write);
    let Some((choice, changes)) = data.split_first() else { return };
    let recorded = if choice & 1 == 0 { Position::ZERO } else { written.durable };
    let mut files = written.files.clone();
    change(&mut files, changes);
    let disk: Arc<dyn Disk> = Arc::new(disk_with(&files));
    match open(&disk, recorded) {
        Ok((frames, _)) => {
            assert!(written.frames.starts_with(&frames), "frames that were never appended: {frames:?}");
            let whole = frames.len() == written.frames.len();
            assert!(whole || recorded == Position::ZERO, "a log that lost what is recorded as durable");
            check_that_it_goes_on(&disk, &frames);
        }
        Err(error) => assert!(error.to_string().contains("/simulated"), "a refusal names a place: {error}"),
    }
}

fn write() -> ClosedLog {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let mut log = Log::create(disk.clone(), OPTIONS, LogId(7)).expect("an empty disk takes a log");
    let mut frames = Frames::new();
    for number in 0..FRAMES {
        let payload = vec![number as u8; 1 + (number * 37 % 150) as usize];
        frames.push((log.append(&payload).expect("the disk has room"), payload));
        if number % SYNC_EVERY == 0 {
            log.sync().expect("the disk has room");
        }
        if number % CLAIM_EVERY == CLAIM_EVERY - 1 {
            log.append_claim().expect("the disk has room");
        }
    }
    let durable = log.sync().expect("the disk has room");
    log.free_through(FREED).expect("segments can be removed");
    drop(log);
    frames.retain(|(position, _)| *position > FREED);
    let names = simulated.list().expect("a directory in memory can be read");
    let read = |name: String| {
        let bytes = simulated.durable(&name).unwrap_or_default();
        (name, bytes)
    };
    ClosedLog { files: names.into_iter().map(read).collect(), frames, durable }
}

fn disk_with(files: &BTreeMap<String, Vec<u8>>) -> SimulatedDisk {
    let disk = SimulatedDisk::new(2);
    for (name, bytes) in files {
        let file = disk.open(name, true).expect("a new file");
        file.write_at(0, bytes).expect("the disk has room");
        file.sync().expect("no fault is set");
    }
    disk.sync_directory().expect("no fault is set");
    disk
}

fn open(disk: &Arc<dyn Disk>, recorded: Position) -> Result<(Frames, Log), LogError> {
    let mut frames = Frames::new();
    let opened = Log::open(disk.clone(), OPTIONS, recorded, FREED, &mut |frame| {
        frames.push((frame.position, frame.payload.to_vec()));
        Ok(())
    })?;
    Ok((frames, opened.log))
}

/// What was handed out once is durable: it comes again, with what is appended behind it.
fn check_that_it_goes_on(disk: &Arc<dyn Disk>, frames: &Frames) {
    let (again, mut log) = open(disk, Position::ZERO).expect("what was opened opens again");
    assert_eq!(&again, frames, "the second opening agrees with the first");
    let mut expect = again;
    for number in 0..20_u8 {
        let payload = vec![number; 100];
        expect.push((log.append(&payload).expect("a good log takes frames"), payload));
    }
    let durable = log.sync().expect("no fault is set");
    drop(log);
    let (found, _) = open(disk, durable).expect("what was synced is there");
    assert_eq!(found, expect, "new frames follow the old ones");
}

fn change(files: &mut BTreeMap<String, Vec<u8>>, changes: &[u8]) {
    let mut rest = changes;
    for _ in 0..CHANGES_MAX {
        let Some((change, behind)) = rest.split_first_chunk::<CHANGE_BYTES>() else { return };
        rest = behind;
        let [what, which, at_low, at_high, length, byte] = *change;
        let names: Vec<_> = files.keys().cloned().collect();
        let Some(name) = names.get(usize::from(which) % names.len().max(1)) else { return };
        let other = &names[usize::from(byte) % names.len()];
        match what % 9 {
            0 => drop(files.remove(name)),
            1 => swap(files, name, other),
            2 => {
                // All that is left of the input is the file.
                files.insert(name.clone(), rest.to_vec());
                return;
            }
            what => {
                let bytes = files.get_mut(name).expect("a name of the list");
                let at = usize::from(u16::from_le_bytes([at_low, at_high])) % (bytes.len() + 1);
                change_bytes(bytes, what, at, usize::from(length), byte);
            }
        }
    }
}

fn swap(files: &mut BTreeMap<String, Vec<u8>>, one: &str, other: &str) {
    let (a, b) = (files[one].clone(), files[other].clone());
    files.insert(one.to_owned(), b);
    files.insert(other.to_owned(), a);
}

fn change_bytes(bytes: &mut Vec<u8>, what: u8, at: usize, length: usize, byte: u8) {
    let end = (at + length).min(bytes.len());
    match what {
        3 => bytes[at..end].fill(byte),
        4 => bytes[at..end].fill(0),
        5 => bytes.truncate(at),
        6 => bytes.iter_mut().skip(at).take(1).for_each(|old| *old ^= byte.max(1)),
        // What was written there moves, as when a disk mixes sectors up.
        7 => {
            let to = (usize::from(byte) * 8).min(bytes.len() - (end - at));
            bytes.copy_within(at..end, to);
        }
        _ => bytes.resize(bytes.len() + length, byte),
    }
}
