//! Readings on disk: what one takes of the disk and of its writes, and how long the latest 1,000 of
//! a device take to read.
//!
//! Two fleets of 20 million readings each are stored batch by batch, through the embedded store, on
//! a real disk below `target/`. Steps, syncs, checkpoints and merges are as in a server; time is
//! made to pass quickly. Reads are made after a restart, without anything of the store in memory.
//! Nothing is compared with another program here.

use std::error::Error;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base::random::Random;
use base::{PartitionId, Timestamp, Value, WayIn};
use blocklog::RealDisk;
use records::{Batch, DeviceSlot, Op, PartitionHead, Sign, SignReading};
use store::port::{CommitOutcome, Page, Store};
use store::{EmbeddedOptions, EmbeddedStore, StepOutcome};

type Failure = Box<dyn Error>;

/// Midnight.
const START: i64 = 1_800_057_600_000;
const DAY_MS: i64 = 86_400_000;
/// What is stored at once: as in a server that was busy for so long.
const ROUND_MS: i64 = 300_000;
const QUERIES: u64 = 2_000;
const PAGE: usize = 1_000;

/// Devices that report steadily, each at its own moment of the interval.
struct Fleet {
    name: &'static str,
    devices: u32,
    readings_each: u32,
    interval_ms: i64,
    jitter_ms: u64,
}

const FLEETS: [Fleet; 2] = [
    Fleet {
        name: "100,000 devices, hourly",
        devices: 100_000,
        readings_each: 200,
        interval_ms: 3_600_000,
        jitter_ms: 4_000,
    },
    Fleet {
        name: "1,000 devices, every 36 s",
        devices: 1_000,
        readings_each: 20_000,
        interval_ms: 36_000,
        jitter_ms: 1_000,
    },
];

impl Fleet {
    /// Spread evenly by the golden ratio.
    fn first_report(&self, device: u32) -> i64 {
        START + ((i64::from(device.wrapping_mul(2_654_435_769)) * self.interval_ms) >> 32)
    }
}

fn main() -> Result<(), Failure> {
    let mut rows = Vec::new();
    for fleet in &FLEETS {
        measure(fleet, &mut rows)?;
    }
    let width =
        |of: fn(&(String, String, String)) -> &str| rows.iter().map(|row| of(row).len()).max().unwrap_or(0);
    let (names, figures) = (width(|row| &row.0), width(|row| &row.1));
    let mut out = io::stdout().lock();
    for (name, figure, beside) in &rows {
        writeln!(out, "{}", format!("{name:<names$}  {figure:>figures$}  {beside}").trim_end())?;
    }
    Ok(())
}

fn measure(fleet: &Fleet, rows: &mut Vec<(String, String, String)>) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let before = written_bytes()?;
    let began = Instant::now();
    let mut filling = Filling::new(fleet, folder.path())?;
    filling.run()?;
    let (took, written) = (began.elapsed(), written_bytes()? - before);
    note(&format!("{}: stored in {:.1} s", fleet.name, took.as_secs_f64()))?;
    for figure in
        filling.store.metrics().iter().filter(|figure| figure.counter || figure.name.contains("blobs"))
    {
        note(&format!("  {} {}", figure.name, figure.value))?;
    }
    let (by_checkpoints, by_merges) = (filling.checkpoint_bytes, filling.merge_bytes);
    drop(filling);
    let readings = f64::from(fleet.devices) * f64::from(fleet.readings_each);
    let (tables, all) = sizes(folder.path())?;
    let mut row = |what: &str, figure: String, beside: String| {
        rows.push((format!("{}: {what}", fleet.name), figure, beside));
    };
    let each = |bytes: u64| bytes as f64 / readings;
    row("stored", format!("{:.0} k readings/s", readings / took.as_secs_f64() / 1e3), String::new());
    let beside = format!("{:.2} B without the log", each(tables));
    row("disk for a reading", format!("{:.2} B", each(all)), beside);
    let beside = format!("{:.1} B by checkpoints, {:.1} B by merges", each(by_checkpoints), each(by_merges));
    row("written for a reading", format!("{:.1} B", each(written)), beside);
    let times = queries(fleet, folder.path())?;
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    let count = PAGE.min(fleet.readings_each as usize);
    let beside = format!("p50 {:.2} ms, longest {:.2} ms", at(0.5), at(1.0));
    row(&format!("latest {count} of a device, p99"), format!("{:.2} ms", at(0.99)), beside);
    Ok(())
}

fn note(line: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{line}")
}

/// Bytes that this process gave to the disk.
fn written_bytes() -> Result<u64, Failure> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("the kernel counts no bytes")?.trim().parse()?)
}

/// Bytes that the files of a directory take on the disk: the tables, and all files.
fn sizes(folder: &Path) -> io::Result<(u64, u64)> {
    let (mut tables, mut all) = (0, 0);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // not the length: the tables' library makes its file longer than it needs, with a hole at
        // the end
        let bytes = entry.metadata()?.blocks() * 512;
        note(&format!("  {}: {bytes} bytes, {} long", entry.file_name().display(), entry.metadata()?.len()))?;
        all += bytes;
        tables += if entry.file_name() == "tables" { bytes } else { 0 };
    }
    Ok((tables, all))
}

/// As a server with this much memory for pages; changes grow old in a quarter of an hour, so that
/// the days pass quickly.
fn options() -> EmbeddedOptions {
    EmbeddedOptions { checkpoint_age: Duration::from_secs(900), ..EmbeddedOptions::default() }
}

fn open(folder: &Path) -> Result<EmbeddedStore, Failure> {
    Ok(EmbeddedStore::open(Arc::new(RealDisk::open_dir(folder, true)?), options())?)
}

struct Filling<'a> {
    fleet: &'a Fleet,
    store: EmbeddedStore,
    heads: Vec<PartitionHead>,
    /// By the number of the device.
    counts: Vec<u32>,
    values: Vec<bool>,
    random: Random,
    /// What the disk was given by checkpoints, and by merges.
    checkpoint_bytes: u64,
    merge_bytes: u64,
}

fn merges(store: &EmbeddedStore) -> f64 {
    let metrics = store.metrics();
    metrics
        .iter()
        .find(|figure| figure.name == "fieldpost_store_merges_total")
        .map_or(0.0, |figure| figure.value)
}

impl<'a> Filling<'a> {
    fn new(fleet: &'a Fleet, folder: &Path) -> Result<Self, Failure> {
        let store = open(folder)?;
        let partitions = u32::from(store.partitions());
        let next_slot = fleet.devices.div_ceil(partitions);
        let head = PartitionHead { next_slot, now: Timestamp(START), ..PartitionHead::default() };
        Ok(Self {
            fleet,
            heads: vec![head; partitions as usize],
            counts: vec![0; fleet.devices as usize],
            values: vec![false; fleet.devices as usize],
            store,
            random: Random::new(1),
            checkpoint_bytes: 0,
            merge_bytes: 0,
        })
    }

    /// Until nothing is left to merge, two days after the last reading.
    fn run(&mut self) -> Result<(), Failure> {
        let end = START + i64::from(self.fleet.readings_each) * self.fleet.interval_ms;
        for from in (START..end).step_by(ROUND_MS as usize) {
            let until = from + ROUND_MS;
            self.round(from, until)?;
            self.checkpoints(Timestamp(until))?;
        }
        self.checkpoints(Timestamp(end + 2 * DAY_MS))
    }

    /// Everything that is reported from one time until another, in order; all partitions share a
    /// sync.
    fn round(&mut self, from: i64, until: i64) -> Result<(), Failure> {
        let mut due: Vec<Vec<(i64, u32)>> = vec![Vec::new(); self.heads.len()];
        for device in 0..self.fleet.devices {
            let first = self.fleet.first_report(device);
            let partition = device as usize % self.heads.len();
            let intervals = ((from - first).max(0) + self.fleet.interval_ms - 1) / self.fleet.interval_ms;
            let times = (intervals..i64::from(self.fleet.readings_each))
                .map(|number| first + number * self.fleet.interval_ms)
                .take_while(|at| *at < until);
            for at in times {
                let jitter = self.random.below(self.fleet.jitter_ms) as i64;
                due[partition].push((at + jitter, device));
            }
        }
        let outcomes: Vec<_> = due
            .into_iter()
            .enumerate()
            .map(|(partition, mut due)| {
                due.sort_unstable();
                self.give(partition, Timestamp(until), &due)
            })
            .collect();
        while self.store.commit_step() == StepOutcome::Full {
            self.store.checkpoint_step(Timestamp(until));
        }
        outcomes.into_iter().try_for_each(|outcome| match outcome.try_recv()? {
            CommitOutcome::Durable => Ok(()),
            other => Err(other.to_string().into()),
        })
    }

    fn give(&mut self, partition: usize, now: Timestamp, due: &[(i64, u32)]) -> Receiver<CommitOutcome> {
        let ops = due.iter().map(|(ts, device)| self.sign(Timestamp(*ts), *device)).collect();
        let head = &mut self.heads[partition];
        head.seq += 1;
        head.now = now;
        let batch = Batch { partition: PartitionId(partition as u16), head: head.clone(), ops };
        let (sender, outcome) = channel();
        // the receiver is asked when the batch was stepped
        self.store.commit(batch, Box::new(move |outcome| drop(sender.send(outcome))));
        outcome
    }

    fn sign(&mut self, ts: Timestamp, device: u32) -> Op {
        let changed = self.random.below(20) == 0;
        let (count, value) = (&mut self.counts[device as usize], &mut self.values[device as usize]);
        *count += 1;
        *value ^= changed;
        let reading =
            SignReading { ts: Some(ts), value: Value::Number(f64::from(u8::from(*value))), changed };
        Op::Sign(Sign {
            slot: DeviceSlot(device / self.heads.len() as u32),
            way: WayIn::Mqtt,
            readings: *count,
            newest_ts: Some(ts),
            reading: Some(reading),
        })
    }

    fn checkpoints(&mut self, now: Timestamp) -> Result<(), Failure> {
        loop {
            let (written, merged) = (written_bytes()?, merges(&self.store));
            let progress = self.store.checkpoint_step(now);
            let bytes = written_bytes()? - written;
            if merges(&self.store) > merged {
                self.merge_bytes += bytes;
            } else {
                self.checkpoint_bytes += bytes;
            }
            if progress != StepOutcome::Worked {
                break;
            }
        }
        self.store.failure().map_or(Ok(()), |failure| Err(failure.to_string().into()))
    }
}

/// How long each query took, sorted.
fn queries(fleet: &Fleet, folder: &Path) -> Result<Vec<Duration>, Failure> {
    let store = open(folder)?;
    let partitions = u32::from(store.partitions());
    let mut random = Random::new(2);
    let mut times = Vec::new();
    for _ in 0..QUERIES {
        let device = random.below(u64::from(fleet.devices)) as u32;
        let (partition, slot) = (PartitionId((device % partitions) as u16), DeviceSlot(device / partitions));
        let page =
            Page { from: Timestamp(0), to: Timestamp::MAX, ascending: false, after: None, limit: PAGE };
        let began = Instant::now();
        let found = store.view(partition)?.readings(slot, page)?;
        times.push(began.elapsed());
        let numbers = (1..=fleet.readings_each).rev().take(PAGE);
        if !found.iter().map(|reading| reading.number).eq(numbers) {
            return Err(format!("device {device} has other readings than were stored").into());
        }
    }
    times.sort_unstable();
    Ok(times)
}
