//! `fieldpost simulate`: a fleet of simulated devices against any server, with progress and an
//! account at the end.
//!
//! It speaks the public protocols only; the devices themselves are in the crate `simulator`. Here
//! are the flags, what is shown, and when it ends. It ends with the timetable, or at the first
//! signal, after waiting for the answers that are still on their way. At the second signal it ends
//! at once.

mod account;
mod commands;
mod flags;
mod run;
mod screen;
mod signals;

use std::error::Error;
use std::io::{self, Write, stdout};
use std::process::ExitCode;

use simulator::registration::{ImportTotals, import_devices};

use account::Account;
use commands::CommandOrder;
pub(crate) use flags::Flags;
use flags::SimulationPlan;
use run::SimulationRun;
use screen::ProgressScreen;
use signals::InterruptSignals;

/// What a mistake on the command line exits with, and a server that cannot be reached.
const EXIT_WRONG: u8 = 2;
const EXIT_UNREACHABLE: u8 = 3;

/// Files and sockets that are open besides the connections.
const OTHER_FILES: u64 = 64;

/// Why it did not come to an account.
#[derive(Debug)]
enum SimulateFailure {
    /// The plan cannot be carried out on this machine.
    Wrong(String),
    /// The server cannot be reached.
    Unreachable(io::Error),
    /// Anything else.
    Other(Box<dyn Error + Send + Sync>),
}

impl From<io::Error> for SimulateFailure {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}

/// Simulates what the flags say.
pub(crate) async fn run(flags: Flags) -> ExitCode {
    let played = match flags.settle() {
        Ok(plan) => play(&plan).await.and_then(|account| Ok(tell(&account, plan.json)?)),
        Err(mistake) => Err(SimulateFailure::Wrong(mistake)),
    };
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(SimulateFailure::Wrong(mistake)) => {
            eprintln!("{mistake}");
            ExitCode::from(EXIT_WRONG)
        }
        Err(SimulateFailure::Unreachable(error)) => {
            eprintln!("{error}\nIs the server running there? --url and --http say where it is.");
            ExitCode::from(EXIT_UNREACHABLE)
        }
        Err(SimulateFailure::Other(error)) => {
            eprintln!("the simulation could not be carried out: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the account; whether there is nothing wrong with it.
fn tell(account: &Account, json: bool) -> io::Result<bool> {
    let faults = account.faults();
    let mut out = stdout().lock();
    if json {
        writeln!(out, "{}", account.json())?;
    } else {
        for line in account.lines() {
            writeln!(out, "{line}")?;
        }
        for fault in &faults {
            writeln!(out, "WRONG {fault}")?;
        }
        if faults.is_empty() {
            writeln!(out, "\nEverything was answered as it should be.")?;
        }
    }
    out.flush()?;
    Ok(faults.is_empty())
}

async fn play(plan: &SimulationPlan) -> Result<Account, SimulateFailure> {
    make_room(plan.connections + CommandOrder::connections(plan))?;
    let mut screen = ProgressScreen::on_stderr();
    let mut signals = InterruptSignals::listen()?;
    let imported = tokio::select! {
        imported = register(plan, &mut screen) => imported?,
        () = signals.next() => return Err(SimulateFailure::Other("interrupted while registering".into())),
    };
    let mut run = SimulationRun::start(plan).await.map_err(SimulateFailure::Unreachable)?;
    screen.line(&format!(
        "{} devices report to {} over {} connections, seed {}",
        plan.devices.count(),
        plan.address,
        plan.connections,
        plan.profile.seed
    ))?;
    if let Some(commands) = &plan.commands {
        screen.line(&match commands.per_second {
            Some(rate) => format!("{rate} commands a second are sent to {}", commands.http),
            None => "devices take commands and answer them".to_owned(),
        })?;
    }
    run.watch(plan, &mut screen, &mut signals).await?;
    screen.clear()?;
    Ok(run.account(plan, imported).await)
}

/// Each connection takes a file handle; too few are better told now than by thousands that cannot
/// be opened.
fn make_room(connections: u32) -> Result<(), SimulateFailure> {
    let wanted = u64::from(connections) + OTHER_FILES;
    let allowed = rlimit::increase_nofile_limit(wanted)?;
    if allowed >= wanted {
        return Ok(());
    }
    Err(SimulateFailure::Wrong(format!(
        "{connections} connections need {wanted} open files, this machine allows {allowed}; \
         allow more (ulimit -n) or share connections (--connections)"
    )))
}

async fn register(
    plan: &SimulationPlan,
    screen: &mut ProgressScreen,
) -> Result<Option<ImportTotals>, SimulateFailure> {
    let Some((address, registration)) = &plan.registering else { return Ok(None) };
    let access = plan.access.clone();
    let endpoint = address.reach(access, plan.ca.as_deref()).await.map_err(SimulateFailure::Unreachable)?;
    let all = u64::from(plan.devices.count());
    let advanced = |done: u32| screen.step("devices registered", done.into(), all);
    let imported = import_devices(&endpoint, &plan.devices, registration, advanced).await;
    let told =
        |error: io::Error| SimulateFailure::Other(format!("{address} registers no devices: {error}").into());
    let imported = imported.map_err(told)?;
    let ImportTotals { created, updated, rejected, first_rejection } = &imported;
    if *rejected == all {
        let why = first_rejection.as_deref().unwrap_or("no reason was given");
        return Err(SimulateFailure::Other(
            format!("no device was registered, the first because of {why}").into(),
        ));
    }
    screen.line(&format!("devices: {created} registered, {updated} known before, {rejected} rejected"))?;
    Ok(Some(imported))
}
