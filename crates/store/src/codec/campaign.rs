//! Stored forms of campaigns, and of how far they have come.

use std::borrow::Cow;

use records::{CampaignPace, CampaignRecord, CampaignState, MissedSlots};

use super::field::{choices, stored, variants};
use super::key;
use crate::record::record;

stored!(
    CampaignRecord, "a campaign", version 1:
    id, incarnation, created_at, name, terms, pace, phase_ms, is_phase_fixed, from, until, missed, is_panel
);

stored!(
    CampaignState, "how far a campaign has come", version 1:
    id, is_paused, passed, panel
);

choices! {
    MissedSlots, "what becomes of missed slots": Skip = 0, CatchUp = 1;
}

variants! {
    CampaignPace, "how slots lie": Every { 0: interval_ms } = 0, Over { 0: period_ms } = 1;
}

record!(
    CampaignRecord: Campaigns by Box<str>,
    key: |id| key::campaign(id),
    place: |campaign| Cow::Borrowed(&campaign.id),
);

record!(
    CampaignState: CampaignStates by Box<str>,
    key: |id| key::campaign(id),
    place: |state| Cow::Borrowed(&state.id),
);
