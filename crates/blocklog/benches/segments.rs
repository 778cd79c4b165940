//! What a sync costs while segments follow each other: with freed segments used again, and with
//! freed ones removed.
//!
//! `cargo bench -p blocklog --bench segments`. Both logs are written in turn in the directory
//! `target` of the workspace, or below the one that is named as the argument. It must be on the
//! disk that is meant. A log of some segments is kept as long as it is, as behind checkpoints:
//! every full segment frees the oldest.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use blocklog::{Log, LogId, LogOptions, Position, RealDisk, SPARE_SEGMENTS_MAX};

type Failure = Box<dyn Error>;

/// What one sync takes with it: some hundred reports.
const FRAME_BYTES: usize = 16 << 10;
/// Segments written in each round.
const SEGMENTS: u64 = 16;
/// Segments that are kept, as checkpoints that begin at 64 MiB leave them.
const KEPT_SEGMENTS: u64 = 4;
const ROUNDS: usize = 3;
/// Syncs after a segment was freed that are looked at apart.
const AFTER_FREEING: usize = 50;

/// How long things took.
#[derive(Default)]
struct Times {
    /// Syncs within a segment.
    within: Vec<Duration>,
    /// Syncs that began a segment.
    changing: Vec<Duration>,
    /// Syncs soon after a segment was freed.
    after_freeing: Vec<Duration>,
    freeing: Vec<Duration>,
}

fn main() -> Result<(), Failure> {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let directory = named.map_or(target, PathBuf::from).join("bench-segments");
    let mut out = std::io::stdout().lock();
    let (mut removed, mut used_again) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        measure(&directory, 0, &mut removed)?;
        measure(&directory, SPARE_SEGMENTS_MAX, &mut used_again)?;
    }
    writeln!(out, "{ROUNDS} rounds of {SEGMENTS} segments, a sync for every {FRAME_BYTES} bytes")?;
    for (name, times) in [("freed segments removed", removed), ("freed segments used again", used_again)] {
        writeln!(out, "{name}")?;
        let rows = [
            ("sync within a segment", times.within),
            ("sync that begins a segment", times.changing),
            ("sync soon after freeing", times.after_freeing),
            ("freeing a segment", times.freeing),
        ];
        for (what, mut times) in rows {
            times.sort_unstable();
            let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
            let (p50, p99, most) = (at(0.5), at(0.99), times.last().copied().unwrap_or_default());
            writeln!(
                out,
                "  {what:<28} p50 {p50:>10.1?}  p99 {p99:>10.1?}  most {most:>10.1?}  of {}",
                times.len()
            )?;
        }
    }
    Ok(())
}

fn measure(directory: &Path, spare_segments_max: usize, times: &mut Times) -> Result<(), Failure> {
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    let disk = Arc::new(RealDisk::open_dir(directory, true)?);
    let options = LogOptions { spare_segments_max, ..LogOptions::default() };
    let mut log = Log::create(disk, options, LogId(1))?;
    let payload = vec![0x5a; FRAME_BYTES];
    // what a header takes of the segment, and of a frame
    let per_segment = (options.segment_bytes - 64) / (FRAME_BYTES as u64 + 40);
    let mut since_freeing = usize::MAX;
    for number in 0..(KEPT_SEGMENTS + 2 + SEGMENTS) * per_segment {
        let began = Instant::now();
        let position = log.append(&payload)?;
        log.sync()?;
        let took = began.elapsed();
        let is_settled = number >= (KEPT_SEGMENTS + 2) * per_segment;
        let row = match number % per_segment {
            _ if !is_settled => None,
            0 => Some(&mut times.changing),
            _ if since_freeing < AFTER_FREEING => Some(&mut times.after_freeing),
            _ => Some(&mut times.within),
        };
        row.into_iter().for_each(|row| row.push(took));
        since_freeing = since_freeing.saturating_add(1);
        if number % per_segment == per_segment / 2 {
            let began = Instant::now();
            log.free_through(Position(position.0.saturating_sub(KEPT_SEGMENTS * per_segment)))?;
            times.freeing.push(began.elapsed());
            since_freeing = 0;
        }
    }
    drop(log);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
