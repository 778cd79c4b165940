//! How many devices a token may have picked in an hour. A token that is gone has nobody picked.

use std::time::Duration;

use base::{Incarnation, Timestamp};

use super::CampaignMachine;
use crate::settings::EngineSettings;

/// How often it is warned of tokens that are gone.
const WARNED_EVERY: Duration = Duration::from_secs(60);

impl CampaignMachine {
    /// How many more devices a token may have picked in this hour, if it has a limit. None at all
    /// for a token that is no longer configured.
    pub(super) fn left_of_token(&self, token: &str, now: Timestamp) -> Option<u64> {
        if self.is_gone(token) {
            return Some(0);
        }
        let per_hour = per_hour(&self.settings, token)?;
        Some(self.tokens.left(token, u64::from(per_hour), now))
    }

    /// Whether there are tokens, and this one is not among them.
    fn is_gone(&self, token: &str) -> bool {
        let tokens = &self.settings.campaigns.token_picks_per_hour;
        !tokens.is_empty() && !tokens.contains_key(token)
    }

    /// Warns that a task picks nobody since its token is gone; once in a while.
    pub(super) fn warn_of_token(&mut self, task: Incarnation, now: Timestamp) {
        let Some(running) = self.running.get(&task) else { return };
        let Some(token) = running.terms.token.as_deref().filter(|token| self.is_gone(token)) else { return };
        if self.warned_of_token.is_none_or(|warned| now.since(warned) >= WARNED_EVERY) {
            let campaign = running.campaign.as_deref();
            tracing::warn!(token, campaign, "nobody is picked: the token is not configured any more");
            self.warned_of_token = Some(now);
        }
    }
}

/// How many devices a token may have picked in an hour, if it has a limit.
pub(super) fn per_hour(settings: &EngineSettings, token: &str) -> Option<u32> {
    settings.campaigns.token_picks_per_hour.get(token).copied().flatten()
}
