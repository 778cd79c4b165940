//! The machine that is measured: its name for the file of the run, and what its disk takes for a
//! sync.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::time::{Duration, Instant};

use super::Failure;
use super::report::Report;

const SYNCS: usize = 200;
const SYNC_BYTES: usize = 4_096;

/// A few words that tell this kind of machine from others: cores and processor.
pub(crate) fn name() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(std::env::consts::ARCH);
    let kept = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let words: String = model.chars().map(kept).collect();
    let words: Vec<_> =
        words.split_whitespace().filter(|word| !["r", "tm", "cpu"].contains(word)).take(4).collect();
    format!("{cores}x-{}", words.join("-"))
}

/// Notes what the figures rest on: cores, memory, and how fast a durable write can be at all.
pub(crate) fn describe(report: &mut Report) -> Result<(), Failure> {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().next().unwrap_or_default().split_whitespace().nth(1).unwrap_or("?");
    report.note(&format!("machine {}, memory {total} kB", name()))?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    report.note(&format!("load before the run: {load}; figures of a busy machine are worth little"))?;
    let mut took = sync_times()?;
    took.sort();
    let [median, worst] = [took[SYNCS / 2], took[SYNCS - SYNCS / 100]];
    report.note(&format!(
        "fdatasync of {SYNC_BYTES} bytes where the data lies: p50 {median:?}, p99 {worst:?}"
    ))?;
    report.figure("fdatasync_4kib p50 / p99", format!("{:.2} / {:.2} ms", ms(median), ms(worst)));
    Ok(())
}

fn sync_times() -> Result<Vec<Duration>, Failure> {
    let folder = tempfile::tempdir()?;
    let mut file = File::create(folder.path().join("sync"))?;
    let block = [7_u8; SYNC_BYTES];
    // The file has its size from the start, as the log's segments do.
    file.write_all(&block)?;
    file.sync_all()?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.rewind()?;
        file.write_all(&block)?;
        file.sync_data()?;
        took.push(start.elapsed());
    }
    Ok(took)
}

/// Milliseconds with their fraction.
pub(crate) fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Ticks of `/proc/PID/stat` in a second: `USER_HZ`, the same on every Linux that this runs on.
const TICKS_PER_SECOND: u32 = 100;

/// CPU time that a process has used so far, in user mode and in the kernel.
pub(crate) fn cpu_time(process: u32) -> Result<Duration, Failure> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the program, in brackets, may hold spaces; `utime` and `stime` are the 14th and
    // 15th field.
    let (_, fields) = stat.rsplit_once(')').ok_or("no program name")?;
    let ticks: Vec<u32> = fields.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
    let [user, system] = ticks[..] else { return Err("no CPU times".into()) };
    Ok(Duration::from_secs((user + system).into()) / TICKS_PER_SECOND)
}

/// Memory that a process has in use now, in MiB.
pub(crate) fn resident_mib(process: u32) -> Result<u64, Failure> {
    status_mib(process, "VmRSS:")
}

/// The most memory that a process had in use, in MiB.
pub(crate) fn peak_resident_mib(process: u32) -> Result<u64, Failure> {
    status_mib(process, "VmHWM:")
}

/// Finer: where little is measured.
pub(crate) fn peak_resident_kib(process: u32) -> Result<u64, Failure> {
    status_kib(process, "VmHWM:")
}

/// Finer: where little is measured.
pub(crate) fn resident_kib(process: u32) -> Result<u64, Failure> {
    status_kib(process, "VmRSS:")
}

/// What of it is the process's own: without pages of the program's file, which the system takes
/// back where memory is short.
pub(crate) fn own_resident_kib(process: u32) -> Result<u64, Failure> {
    status_kib(process, "RssAnon:")
}

fn status_mib(process: u32, field: &str) -> Result<u64, Failure> {
    Ok(status_kib(process, field)? / 1_024)
}

fn status_kib(process: u32, field: &str) -> Result<u64, Failure> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or("no such field")?;
    Ok(line.split_whitespace().next().ok_or("an empty field")?.parse()?)
}
