//! `[campaigns]`, and the limits of picks in `[fleet]` and `[[auth.tokens]]`.

use std::num::NonZeroU32;

use access::Token;
use engine::CampaignSettings;

use super::reader::SettingsReader;
use super::shape::{DurationRange, Whole};
use super::{KEPT_FOR, MINUTE};

const RATE: Whole = Whole { least: 0, most: 1_000_000 };
const DEVICE_PICKS: Whole = Whole { least: 0, most: 1_000_000 };

/// Reads it. What is 0 is no limit.
pub(super) fn read(from: &mut SettingsReader, tokens: &[Token]) -> CampaignSettings {
    let limit = |most: u64| u32::try_from(most).ok().filter(|most| *most > 0);
    let of_token =
        |token: &Token| (token.name.as_str().into(), token.picks.picks_per_hour.map(NonZeroU32::get));
    CampaignSettings {
        rate: limit(from.read("campaigns.rate", &RATE).value),
        results: from.read("campaigns.results", &DurationRange(MINUTE, KEPT_FOR.1)).value,
        device_picks_per_hour: limit(from.read("fleet.picks_per_hour", &DEVICE_PICKS).value),
        token_picks_per_hour: tokens.iter().map(of_token).collect(),
    }
}
