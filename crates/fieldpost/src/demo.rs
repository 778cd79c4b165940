//! `fieldpost demo`: the main job on this machine in half a minute, and an account of it.
//!
//! It starts this same program as a server of its own on a temporary data directory. A few hundred
//! simulated locks report to it, and two receivers are told. It breaks what may break in the field:
//! a receiver, some locks, the server itself. Then it holds what the locks and the receivers
//! remember against the public API. A short part with commands follows: a terminal that is away is
//! told what waits for it when it comes back. Then two tasks ask half of a dozen probes each.
//! Afterwards the locks may go on, to be looked at in the console. Nothing here looks inside the
//! server.

mod played;
mod probes;
mod screen;
mod stage;
mod story;
mod summary;
mod terminal;

use std::error::Error;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use screen::DemoScreen;

/// Whatever stops the demo; it is told and that is the end.
type Failure = Box<dyn Error + Send + Sync>;

/// Plays the demo; success only if nothing is missing that the server vouched for. With `keep`, or
/// on a terminal, the locks then go on until Ctrl-C.
pub(crate) async fn run(keep: bool) -> ExitCode {
    let mut screen = DemoScreen::on_stdout();
    match play(&mut screen, keep || stdout().is_terminal()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("\nthe demo could not be played to its end: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn play(screen: &mut DemoScreen, keep: bool) -> Result<bool, Failure> {
    let mut played = tokio::select! {
        played = story::play(screen) => played?,
        interrupted = tokio::signal::ctrl_c() => {
            return Err(interrupted.map_or_else(Failure::from, |()| "interrupted".into()));
        }
    };
    if keep && played.is_complete {
        played.keep(screen).await?;
    }
    played.end().await
}
