//! `fieldpost demo`: the main job on this machine in half a minute, and an account of it.
//!
//! It starts this same program as a server of its own on a temporary data directory. A few hundred
//! simulated locks report to it, and two receivers are told. It breaks what may break in the field:
//! a receiver, some locks, the server itself. Then it holds what the locks and the receivers
//! remember against the public API. A short part with commands follows: a terminal that is away is
//! told what waits for it when it comes back. Nothing here looks inside the server.

mod screen;
mod stage;
mod story;
mod summary;
mod terminal;

use std::error::Error;
use std::process::ExitCode;

use screen::Screen;

/// Whatever stops the demo; it is told and that is the end.
type Failure = Box<dyn Error + Send + Sync>;

/// Plays the demo; success only if nothing is missing that the server vouched for.
pub(crate) async fn run() -> ExitCode {
    let mut screen = Screen::on_stdout();
    let played = tokio::select! {
        played = story::play(&mut screen) => played,
        interrupted = tokio::signal::ctrl_c() => Err(interrupted.map_or_else(Failure::from, |()| "interrupted".into())),
    };
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("\nthe demo could not be played to its end: {failure}");
            ExitCode::FAILURE
        }
    }
}
