//! `make bench`: what this machine does with tasks and campaigns.
//!
//! What the labels of a million devices cost: counts, imports, starts. How soon a task has its
//! devices and these have their commands, and how many picks a second are made, among a million
//! connected devices. How late the slots of hundreds of campaigns are for a fleet of devices with a
//! connection each.
//!
//! Everything is measured from outside, on the built binary with `durability.sync = "always"`; the
//! devices and the callers share the machine with it. A command is published only once it is
//! durable, so what is measured until a device has it is more than what is asked for.
//!
//! A device is connected while a session subscribes to its topic by name, and a session may do so
//! for 64 devices. So a million devices are connected over 15,625 live MQTT sessions. Where open
//! files allow fewer, there are fewer devices, and the names of the figures say how many.
//!
//! `cargo bench --bench tasks -- pick` runs that part alone. Sizes for smaller runs come from the
//! environment: see [`Sizes`].

#[path = "../rig.rs"]
mod rig;

mod campaigns;
mod labels;
mod pick;
mod stage;

use std::time::Duration;

use rig::parts::{self, Parts, size};
use rig::report::{self, Report};
use rig::{Failure, machine, percentiles, site};
use simulator::commands::DEVICES_PER_CONNECTION_MAX;

/// Rounds of each rate; the median of them is the figure.
const ROUNDS: u64 = 3;

/// Nothing that is awaited takes longer.
const PATIENCE: Duration = Duration::from_secs(600);
/// Files that are open besides the devices' connections.
const OTHER_FILES: u64 = 1_000;
/// More connected devices than this are not asked for.
const DEVICES_MAX: u64 = 1_000_000;
/// More devices with a connection each than this are not asked for.
const LIVE_MAX: u64 = 19_000;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Devices that have labels, and no connection: `TASKS_REGISTERED`, or 1,000,000.
    registered: u32,
    /// Devices that tasks pick from, 64 to a connection: `TASKS_DEVICES`, or as many as open files
    /// allow, up to 1,000,000.
    devices: u32,
    /// Tasks whose latency is measured, one after the other: `TASKS_ROUNDS`, or 300.
    rounds: u64,
    /// Tasks that are begun as fast as they go: `TASKS_TASKS`, or 1,000. All their picks are open
    /// at once, and there may be 200,000.
    tasks: u64,
    /// Devices of a task or a slot: `TASKS_COUNT`, or 100.
    count: u32,
    /// Devices with a connection each, for campaigns: `TASKS_LIVE`, or as many as open files allow,
    /// up to 19,000.
    live: u32,
    /// Campaigns with a slot each minute: `TASKS_CAMPAIGNS`, or 200.
    campaigns: u32,
    /// Their minutes: `TASKS_MINUTES`, or 3.
    minutes: u64,
}

impl Sizes {
    fn of_environment() -> Result<Self, Failure> {
        let open_files = rlimit::increase_nofile_limit(u64::MAX)?;
        let connections = open_files.saturating_sub(OTHER_FILES);
        let devices = connections.saturating_mul(DEVICES_PER_CONNECTION_MAX.into()).min(DEVICES_MAX);
        Ok(Self {
            registered: size("TASKS_REGISTERED", DEVICES_MAX as u32)?,
            devices: size("TASKS_DEVICES", devices as u32)?,
            rounds: size("TASKS_ROUNDS", 300)?,
            tasks: size("TASKS_TASKS", 1_000)?,
            count: size("TASKS_COUNT", 100)?,
            live: size("TASKS_LIVE", connections.min(LIVE_MAX) as u32)?,
            campaigns: size("TASKS_CAMPAIGNS", 200)?,
            minutes: size("TASKS_MINUTES", 3)?,
        })
    }
}

fn main() -> Result<(), Failure> {
    parts::run(parts::two_threads(), &["labels", "pick", "campaigns"], measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    let sizes = Sizes::of_environment()?;
    if parts.has("labels") {
        labels::of_a_million(sizes, report).await?;
    }
    if parts.has("pick") {
        pick::among_many(sizes, report).await?;
    }
    if parts.has("campaigns") {
        campaigns::on_time(sizes, report).await?;
    }
    Ok(())
}
