//! `fieldpost rollout watch`: a rollout live until it has ended.
//!
//! It asks again and again, from this side. A server that goes away is waited for.

use std::time::Duration;

use clap::Args;

use super::of;
use super::view::RolloutView;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::max_failed::{MaxFailed, max_failed};
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

impl WatchRollout {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        self.until.watch(&self.id, api, screen)
    }
}

impl WatchUntil {
    /// Shows a rollout whenever anything about it is new, until nothing more comes of it by itself.
    pub(super) fn watch(&self, id: &str, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let rollout = watch(
            screen,
            self.every,
            || api.get(&of(id)),
            |screen, document, is_new| {
                let rollout: RolloutView = api.read(document)?;
                if is_new {
                    screen.show(document, || Ok(rollout.line()))?;
                }
                Ok(Some(rollout).filter(RolloutView::rests))
            },
        )?;
        rollout.verdict(self.max_failed)
    }
}
