//! What a log promises, checked on the simulated disk and, where no crash is needed, on the real
//! one too.

mod behaviour;
mod damage;
mod durability;
mod faults;
mod recycling;

use std::sync::Arc;

use crate::{Disk, Log, LogError, LogId, LogOptions, OpenedLog, Position, RealDisk, SimulatedDisk};

const ID: LogId = LogId(0xfee1_600d_0000_0001);
/// Small enough for a handful of frames.
const OPTIONS: LogOptions = LogOptions { segment_bytes: 640, zeros_ahead_bytes: 256, spare_segments_max: 2 };

type Frames = Vec<(Position, Vec<u8>)>;

/// A payload that tells its number.
fn payload(number: u64) -> Vec<u8> {
    let length = 1 + (number * 37 % 150) as usize;
    (0..length).map(|at| (number as u8).wrapping_mul(31).wrapping_add(at as u8) | 1).collect()
}

fn open_after(
    disk: &Arc<dyn Disk>,
    recorded: Position,
    replay_after: Position,
) -> Result<(OpenedLog, Frames), LogError> {
    let mut frames = Vec::new();
    let opened = Log::open(disk.clone(), OPTIONS, recorded, replay_after, &mut |frame| {
        assert!(frame.synced_through < frame.position);
        frames.push((frame.position, frame.payload.to_vec()));
        Ok(())
    })?;
    Ok((opened, frames))
}

fn open(disk: &Arc<dyn Disk>) -> Result<(OpenedLog, Frames), LogError> {
    open_after(disk, Position::ZERO, Position::ZERO)
}

fn create(disk: &Arc<dyn Disk>) -> Log {
    Log::create(disk.clone(), OPTIONS, ID).unwrap()
}

/// Runs `check` with an empty directory of each kind.
fn check_on_every_disk(check: impl Fn(Arc<dyn Disk>)) {
    check(Arc::new(SimulatedDisk::new(1)));
    let directory = tempfile::tempdir().unwrap();
    check(Arc::new(RealDisk::open_dir(directory.path().join("new/log"), true).unwrap()));
}

fn segment_files(disk: &Arc<dyn Disk>) -> Vec<String> {
    let mut names: Vec<String> =
        disk.list().unwrap().into_iter().filter(|name| name.ends_with(".seg")).collect();
    names.sort();
    names
}
