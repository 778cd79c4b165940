//! Instructions of the frame path: appending frames and syncing them, on a disk that takes
//! everything and keeps nothing.
//!
//! `make bench-counts` holds these against `benches/counts`. Counts, not times: they are the same
//! on a busy machine.
#![allow(missing_docs, reason = "the harness makes items of its own")]

use std::hint::black_box;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use blocklog::{Disk, DiskFile, Log, LogId, LogOptions};
use gungraun::{library_benchmark, library_benchmark_group, main};

const FRAMES: usize = 64;

/// Takes everything.
struct Nothing;

impl Disk for Nothing {
    fn open(&self, _: &str, _: bool) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(Self))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &str) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/nothing")
    }
}

impl DiskFile for Nothing {
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn write_at(&self, _: u64, data: &[u8]) -> io::Result<()> {
        black_box(data);
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A log that has written before, and a payload of so many bytes.
fn log_and_payload(bytes: usize) -> (Log, Vec<u8>) {
    let mut log = Log::create(Arc::new(Nothing), LogOptions::default(), LogId(1)).expect("a new log");
    let payload = vec![0x5a; bytes];
    append_and_sync(&mut log, &payload);
    (log, payload)
}

fn append_and_sync(log: &mut Log, payload: &[u8]) {
    for _ in 0..FRAMES {
        log.append(payload).expect("room");
    }
    log.sync().expect("a disk that takes everything");
}

#[library_benchmark]
#[bench::of_100_bytes(args = (100), setup = log_and_payload)]
#[bench::of_4_kib(args = (4_096), setup = log_and_payload)]
fn append_64_frames_and_sync((mut log, payload): (Log, Vec<u8>)) -> Log {
    append_and_sync(black_box(&mut log), &payload);
    log
}

library_benchmark_group!(name = frames, benchmarks = [append_64_frames_and_sync]);
main!(library_benchmark_groups = frames);
