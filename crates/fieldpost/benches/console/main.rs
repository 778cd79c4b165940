//! `make bench`: what the console costs the browser and the server.
//!
//! Of the browser: how much is loaded, how soon a page can be used, and what a tab takes after
//! minutes of live data. Of the server: what fifty open consoles cost beside 50,000 reports a
//! second, and how soon each list of each page answers over a large fleet. The browser is Debian's
//! chromium, on the same two cores.
//!
//! `cargo bench --bench console -- calls` runs that part alone. Sizes for smaller runs come from
//! the environment: see [`Sizes`].

#[path = "../main_job/machine.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod machine;
#[path = "../../tests/black_box/overload/raw.rs"]
#[allow(dead_code, reason = "shared with the test of overload")]
mod raw;
#[path = "../main_job/report.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod report;
#[path = "../commands/reporting.rs"]
mod reporting;
#[path = "../main_job/site.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod site;

mod browser;
mod calls;
mod consoles;

use std::error::Error;
use std::time::Duration;

use report::Report;

/// What can go wrong in a benchmark: anything, and then there is no table.
type Failure = Box<dyn Error + Send + Sync>;

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

fn size(variable: &str, usual: u32) -> Result<u32, Failure> {
    match std::env::var(variable) {
        Ok(text) => text.parse().map_err(|_| format!("{variable} is a number, not {text:?}").into()),
        Err(_) => Ok(usual),
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` runs this too, and only wants to know that it starts.
    if arguments.iter().any(|argument| argument == "--test") {
        return Ok(());
    }
    let named: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&named))
}

/// Runs the named parts, or all.
async fn run(named: &[&str]) -> Result<(), Failure> {
    const PARTS: [&str; 4] = ["first_load", "tab", "consoles", "calls"];
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(name)) {
        return Err(format!("no part is called {unknown}; there are {}", PARTS.join(", ")).into());
    }
    let wanted = |part: &str| named.contains(&part) || named.is_empty();
    let sizes = Sizes::of_environment()?;
    let mut report = Report::open()?;
    machine::describe(&mut report)?;
    if wanted("first_load") {
        browser::first_load(&mut report).await?;
    }
    if wanted("tab") {
        browser::long_open(sizes, &mut report).await?;
    }
    if wanted("consoles") {
        consoles::fifty(sizes, &mut report).await?;
    }
    if wanted("calls") {
        calls::of_every_page(sizes, &mut report).await?;
    }
    report.finish()
}
