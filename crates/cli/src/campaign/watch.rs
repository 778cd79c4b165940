//! `fieldpost campaign watch`: the newest slots live.
//!
//! It asks again and again, from this side. A server that goes away is waited for.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::of;
use super::view::SlotView;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::polling::{interval, patiently};
use crate::screen::Screen;

/// So many slots may change yet: one goes on for a minute at most, and is a second long at least.
const SLOTS_WATCHED: usize = 100;

#[derive(Args, Debug)]
pub struct WatchCampaign {
    /// The campaign.
    #[arg(value_name = "CAMPAIGN")]
    id: String,
    /// How long to wait between two looks.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    every: Duration,
}

#[derive(Deserialize)]
struct Slots {
    items: Vec<Box<RawValue>>,
}

impl WatchCampaign {
    /// Ends only by a failure: the campaign is gone, or nobody reads any more.
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = of(&self.id).and(&["slots"]).with("limit", &SLOTS_WATCHED);
        let mut shown: BTreeMap<u64, Box<RawValue>> = BTreeMap::new();
        // A server that cannot even be reached for the first time is not waited for.
        let mut slots = api.get(&path)?;
        loop {
            shown = show_new(&shown, api.read::<Slots>(&slots)?.items, api, screen)?;
            screen.flush()?;
            sleep(self.every);
            slots = patiently(screen, || api.get(&path))?;
        }
    }
}

/// Shows what is new of some slots, the oldest first; what is shown of these from now on.
fn show_new(
    shown: &BTreeMap<u64, Box<RawValue>>,
    newest_first: Vec<Box<RawValue>>,
    api: &ServerApi,
    screen: &mut Screen,
) -> Result<BTreeMap<u64, Box<RawValue>>, CommandFailure> {
    let mut now = BTreeMap::new();
    for document in newest_first.into_iter().rev() {
        let slot: SlotView = api.read(&document)?;
        if shown.get(&slot.slot).is_none_or(|before| before.get() != document.get()) {
            screen.show(&document, || Ok(slot.line()))?;
        }
        now.insert(slot.slot, document);
    }
    Ok(now)
}
