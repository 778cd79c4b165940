//! Asking a server again and again: how often, and what becomes of one that goes away.

use std::thread::sleep;
use std::time::Duration;

use base::duration;
use serde_json::value::RawValue;

use super::failure::CommandFailure;
use super::screen::Screen;

/// Between two attempts to reach a server that went away.
const WAIT_FOR_SERVER: Duration = Duration::from_secs(1);
/// More often than this is not live, only load.
const EVERY_MIN: Duration = Duration::from_millis(50);

/// Asks until there is an answer: a server that goes away is waited for, and people are told so.
pub(super) fn patiently<T>(
    screen: &Screen,
    mut ask: impl FnMut() -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    let mut is_away = false;
    loop {
        match ask() {
            Err(failure) if failure.may_pass() => {
                if !std::mem::replace(&mut is_away, true) {
                    screen.note(&format!("{failure}; waiting for it"));
                }
                sleep(WAIT_FOR_SERVER);
            }
            answer => {
                if is_away {
                    screen.note("the server is back");
                }
                return answer;
            }
        }
    }
}

/// Fetches a document `every` so often until `look` says that it is over. `look` shows it where
/// anything about it is new; a server that goes away is waited for.
pub(super) fn watch<T>(
    screen: &mut Screen,
    every: Duration,
    fetch: impl Fn() -> Result<Box<RawValue>, CommandFailure>,
    look: impl Fn(&mut Screen, &RawValue, bool) -> Result<Option<T>, CommandFailure>,
) -> Result<T, CommandFailure> {
    let mut shown = String::new();
    loop {
        let document = patiently(screen, &fetch)?;
        let is_new = shown != document.get();
        let over = look(screen, &document, is_new)?;
        if is_new {
            document.get().clone_into(&mut shown);
            screen.flush()?;
        }
        match over {
            Some(over) => return Ok(over),
            None => sleep(every),
        }
    }
}

/// How long to wait between two looks, on the command line.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let span = duration::parse(text).map_err(|error| error.to_string())?;
    if span < EVERY_MIN { Err(format!("at least {}", duration::format(EVERY_MIN))) } else { Ok(span) }
}
