//! `fieldpost rollout watch`: a rollout live until it has ended.
//!
//! It asks again and again, from this side. A server that goes away is waited for.

use std::time::Duration;

use clap::Args;

use super::of;
use super::view::SeenRollout;
use crate::api::Api;
use crate::failure::Failure;
use crate::polling::{interval, watch};
use crate::screen::Screen;

#[derive(Args, Debug)]
pub struct WatchRollout {
    /// The rollout.
    #[arg(value_name = "ROLLOUT")]
    id: String,
    #[command(flatten)]
    until: WatchUntil,
}

/// How a rollout is watched, and when it has gone well.
#[derive(Args, Debug)]
pub(super) struct WatchUntil {
    /// How long to wait between two looks.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = interval)]
    every: Duration,
    /// How many devices may fail: a number, or a share of those that have ended, such as 2%.
    #[arg(long, value_name = "N|SHARE%", default_value = "0", value_parser = max_failed)]
    max_failed: MaxFailed,
}

/// How many devices may fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MaxFailed {
    /// So many.
    Count(u64),
    /// This share of those that have ended, in percent.
    Percent(f64),
}

impl MaxFailed {
    /// Whether so many of all that have ended are too many.
    pub(super) fn is_exceeded(self, failed: u64, ended: u64) -> bool {
        match self {
            Self::Count(most) => failed > most,
            Self::Percent(most) => failed as f64 * 100.0 > most * ended as f64,
        }
    }
}

fn max_failed(text: &str) -> Result<MaxFailed, String> {
    let wrong = || "a number such as 3, or a share such as 2% or 0.5%".to_owned();
    match text.strip_suffix('%') {
        Some(share) => {
            let percent = share.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent));
            percent.map(MaxFailed::Percent).ok_or_else(wrong)
        }
        None => text.parse().map(MaxFailed::Count).map_err(|_| wrong()),
    }
}

impl WatchRollout {
    pub(super) fn run(&self, api: &Api, screen: &mut Screen) -> Result<(), Failure> {
        self.until.watch(&self.id, api, screen)
    }
}

impl WatchUntil {
    /// Shows a rollout whenever anything about it is new, until nothing more comes of it by itself.
    pub(super) fn watch(&self, id: &str, api: &Api, screen: &mut Screen) -> Result<(), Failure> {
        let seen = watch(
            screen,
            self.every,
            || api.get(&of(id)),
            |screen, document, is_new| {
                let seen: SeenRollout = api.read(document)?;
                if is_new {
                    screen.show(document, || Ok(seen.line()))?;
                }
                Ok(Some(seen).filter(SeenRollout::rests))
            },
        )?;
        seen.verdict(self.max_failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_those_that_have_ended() {
        for (text, failed, ended, expect) in [
            ("0", 0, 10, Ok(false)),
            ("0", 1, 10, Ok(true)),
            ("3", 3, 3, Ok(false)),
            ("2%", 2, 100, Ok(false)),
            ("2%", 3, 100, Ok(true)),
            ("0.5%", 1, 100, Ok(true)),
            ("2%", 0, 0, Ok(false)),
            ("101%", 0, 0, Err(())),
            ("many", 0, 0, Err(())),
            ("-1", 0, 0, Err(())),
        ] {
            let found = max_failed(text).map(|most| most.is_exceeded(failed, ended)).map_err(drop);
            assert_eq!(found, expect, "{text} {failed}/{ended}");
        }
    }
}
