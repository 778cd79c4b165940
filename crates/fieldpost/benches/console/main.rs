//! `make bench`: what the console costs the browser and the server.
//!
//! Of the browser: how much is loaded, how soon a page can be used, and what a tab takes after
//! minutes of live data. Of the server: what fifty open consoles cost beside 50,000 reports a
//! second. Also how soon each list of each page answers over a large fleet. The browser is Debian's
//! chromium, on the same two cores.
//!
//! `cargo bench --bench console -- calls` runs that part alone. Sizes for smaller runs come from
//! the environment: see [`Sizes`].

#[path = "../commands/reporting.rs"]
mod reporting;
#[path = "../rig.rs"]
mod rig;

mod browser;
mod calls;
mod consoles;

use std::time::Duration;

use rig::parts::{self, Parts, size};
use rig::report::{self, Report};
use rig::{Failure, machine, raw, site};

/// Nothing that is awaited takes longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Devices whose lists are asked for: `CONSOLE_DEVICES`, or 1,000,000.
    devices: u32,
    /// Jobs that wait meanwhile: `CONSOLE_JOBS`, or 2,000,000.
    jobs: u32,
    /// Reports a second that open consoles are fed by: `CONSOLE_REPORTS`, or 50,000.
    reports_per_second: u32,
    /// How long a tab is open, in seconds: `CONSOLE_TAB_SECONDS`, or 600.
    tab_seconds: u32,
}

impl Sizes {
    fn of_environment() -> Result<Self, Failure> {
        Ok(Self {
            devices: size("CONSOLE_DEVICES", 1_000_000)?,
            jobs: size("CONSOLE_JOBS", 2_000_000)?,
            reports_per_second: size("CONSOLE_REPORTS", 50_000)?,
            tab_seconds: size("CONSOLE_TAB_SECONDS", 600)?,
        })
    }
}

fn main() -> Result<(), Failure> {
    const PARTS: [&str; 4] = ["first_load", "tab", "consoles", "calls"];
    parts::run(parts::two_threads(), &PARTS, measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    let sizes = Sizes::of_environment()?;
    if parts.has("first_load") {
        browser::first_load(report).await?;
    }
    if parts.has("tab") {
        browser::long_open(sizes, report).await?;
    }
    if parts.has("consoles") {
        consoles::fifty(sizes, report).await?;
    }
    if parts.has("calls") {
        calls::of_every_page(sizes, report).await?;
    }
    Ok(())
}
