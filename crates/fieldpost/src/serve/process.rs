//! Metrics of the process itself, as the kernel has them when they are asked for, and of the build.
//!
//! Their names are those that every program's exporter uses, so that dashboards know them.

use std::fs;
use std::io;

use base::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tracing::debug;

/// Ticks of a second in `/proc`: the same on every machine that Linux still runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Adds both to what `/metrics` shows.
pub(super) fn register(registry: &mut Registry, built_at: Timestamp) {
    let build =
        Info::new([("version", env!("CARGO_PKG_VERSION").to_owned()), ("built_at", built_at.to_string())]);
    // The exporter adds "_info".
    registry.register("fieldpost_build", "The build that runs; always 1", build);
    registry.register_collector(Box::new(ProcessCollector { started_at: started_at() }));
}

#[derive(Debug)]
struct ProcessCollector {
    /// In seconds since 1970, by the wall clock as it was then; `None` where there is no `/proc`.
    started_at: Option<f64>,
}

/// What the kernel says of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessUsage {
    cpu_seconds: f64,
    resident_bytes: u64,
    threads: u64,
    open_files: u64,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let usage = match usage() {
            Ok(usage) => usage,
            Err(error) => {
                debug!(%error, "/proc says nothing of the process; /metrics leaves it out");
                return Ok(());
            }
        };
        let cpu = ConstCounter::new(usage.cpu_seconds);
        let (name, help) = ("fieldpost_process_cpu_seconds", "Time of processors that the process has used");
        cpu.encode(encoder.encode_descriptor(name, help, None, cpu.metric_type())?)?;
        let open_files_max = rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(0, |(soft, _)| soft);
        for (name, help, value) in [
            (
                "fieldpost_process_resident_memory_bytes",
                "Memory of the process that is in RAM",
                usage.resident_bytes as f64,
            ),
            ("fieldpost_process_threads", "Threads", usage.threads as f64),
            ("fieldpost_process_open_fds", "Open files, connections included", usage.open_files as f64),
            ("fieldpost_process_max_fds", "Open files that the process may have", open_files_max as f64),
            (
                "fieldpost_process_start_time_seconds",
                "When the process began, since 1970",
                self.started_at.unwrap_or(0.0),
            ),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// Memory of this process that is in RAM.
pub(super) fn resident_bytes() -> Option<u64> {
    number_of(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:").map(|kib| kib * 1_024)
}

fn usage() -> io::Result<ProcessUsage> {
    let (cpu_ticks, _) = ticks(&fs::read_to_string("/proc/self/stat")?).ok_or_else(unclear)?;
    let status = fs::read_to_string("/proc/self/status")?;
    let of_status = |key| number_of(&status, key).ok_or_else(unclear);
    Ok(ProcessUsage {
        cpu_seconds: cpu_ticks / TICKS_PER_SECOND,
        resident_bytes: of_status("VmRSS:")? * 1_024,
        threads: of_status("Threads:")?,
        open_files: open_files()?,
    })
}

/// Since Linux 6.2 the directory says how many there are; before, they are counted.
fn open_files() -> io::Result<u64> {
    match fs::metadata("/proc/self/fd")?.len() {
        0 => Ok(fs::read_dir("/proc/self/fd")?.count() as u64),
        known => Ok(known),
    }
}

fn started_at() -> Option<f64> {
    let (_, start_ticks) = ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(now.as_secs_f64() - (uptime - start_ticks / TICKS_PER_SECOND))
}

/// Ticks of processors used, and of the machine's life at which the process began, from
/// `/proc/self/stat`. The name of the program, in parentheses, may hold anything.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    let fields: Vec<f64> =
        stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(f64::NAN)).collect();
    // proc(5) counts from 1, and the name is its second
    let field = |number: usize| fields.get(number - 3).copied().filter(|value| value.is_finite());
    Some((field(14)? + field(15)?, field(22)?))
}

fn number_of(status: &str, key: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn unclear() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "/proc/self has another form than proc(5) says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_whatever_the_program_is_called() {
        let stat = "17 (a) b) R 1 17 17 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 1234 4096 77 1844";
        assert_eq!(ticks(stat), Some((300.0, 1_234.0)));
        assert_eq!(ticks("17 (a) R 1"), None);
        assert_eq!(number_of("Name:\tx\nVmRSS:\t  2048 kB\nThreads:\t9\n", "VmRSS:"), Some(2_048));
    }

    #[test]
    fn this_process_has_figures() {
        let mut registry = Registry::default();
        register(&mut registry, Timestamp(0));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("is text");
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} is missing in\n{text}")).parse::<f64>().expect("a number")
        };
        assert!(value("fieldpost_process_cpu_seconds_total") >= 0.0);
        assert!(value("fieldpost_process_resident_memory_bytes") > 1e6);
        assert!(value("fieldpost_process_threads") >= 1.0);
        assert!((3.0..=value("fieldpost_process_max_fds")).contains(&value("fieldpost_process_open_fds")));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("is past 1970");
        let age = now.as_secs_f64() - value("fieldpost_process_start_time_seconds");
        assert!((-1.0..3_600.0).contains(&age), "{age}");
        let build = format!("fieldpost_build_info{{version=\"{}\",", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&build), "{text}");
    }
}
