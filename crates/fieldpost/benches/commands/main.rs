//! `make bench`: what this machine does with commands to devices.
//!
//! How many a second are answered, and how soon, also beside reports. What a million commands for
//! absent devices cost. How soon a storm of devices is told what waits for it. What a rollout costs
//! while the devices that it waits for are away.
//!
//! Everything is measured from outside, on the built binary with `durability.sync = "always"`; the
//! devices and the senders share the machine with it. `cargo bench --bench commands -- storm` runs
//! that part alone. Sizes for smaller runs come from the environment: see [`Sizes`].

#[path = "../rig.rs"]
mod rig;

mod absent;
mod beside_reports;
mod end_to_end;
mod reporting;
mod rollout;
mod stage;
mod storm;

use std::time::Duration;

use rig::parts::{self, Parts, size};
use rig::report::{self, Report};
use rig::{Failure, machine, percentiles, raw, site};

/// Nothing that is awaited takes longer.
const PATIENCE: Duration = Duration::from_secs(300);
/// Files that are open besides the devices' connections.
const OTHER_FILES: u64 = 1_000;
/// More devices than this are not asked for.
const DEVICES_MAX: u64 = 19_000;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Connected devices, each with a connection: `COMMANDS_DEVICES`, or as many as open files
    /// allow, up to 19,000.
    devices: u32,
    /// Commands for absent devices: `COMMANDS_WAITING`, or 1,000,000.
    waiting: u64,
    /// The absent devices: `COMMANDS_ABSENT`, or 100,000.
    absent: u32,
    /// How long each rate is kept, in seconds: `COMMANDS_SECONDS`, or 10.
    seconds: u64,
    /// Reports a second that commands are sent beside: `COMMANDS_REPORTS`, or 50,000.
    reports_per_second: u32,
}

impl Sizes {
    fn of_environment() -> Result<Self, Failure> {
        let open_files = rlimit::increase_nofile_limit(u64::MAX)?;
        let devices = open_files.saturating_sub(OTHER_FILES).min(DEVICES_MAX);
        Ok(Self {
            devices: size("COMMANDS_DEVICES", devices as u32)?,
            waiting: size("COMMANDS_WAITING", 1_000_000)?,
            absent: size("COMMANDS_ABSENT", 100_000)?,
            seconds: size("COMMANDS_SECONDS", 10)?,
            reports_per_second: size("COMMANDS_REPORTS", 50_000)?,
        })
    }
}

fn main() -> Result<(), Failure> {
    const PARTS: [&str; 6] = ["end_to_end", "latency", "reports", "absent", "storm", "rollout"];
    parts::run(parts::two_threads(), &PARTS, measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    let sizes = Sizes::of_environment()?;
    if parts.has("end_to_end") {
        end_to_end::one_command_each(sizes, report).await?;
    }
    if parts.has("latency") {
        end_to_end::at_a_thousand_a_second(sizes, report).await?;
    }
    if parts.has("reports") {
        beside_reports::commands(sizes, report).await?;
        beside_reports::reports(sizes, report).await?;
    }
    if parts.has("absent") {
        absent::many_waiting(sizes, report).await?;
    }
    if parts.has("storm") {
        storm::all_come_back(sizes, report).await?;
    }
    if parts.has("rollout") {
        rollout::at_rest(sizes, report).await?;
    }
    Ok(())
}
